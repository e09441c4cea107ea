"""Rows and runs a second, over the last seconds: from what has been published, now and some seconds ago."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

#: Rates are means over this many seconds.
SPAN = 10.0
#: Counts are kept at most once in this many seconds.
_APART = 1.0
_COUNTS = ("rows_in", "rows_out", "runs", "run_seconds")

Counts = dict[str, tuple[float, ...]]


class Rates:
    """Keeps the counts of the last seconds.

    >>> rates = Rates()
    >>> figures = {"rows_in": 0, "rows_out": 0, "runs": 0, "run_seconds": 0.0}
    >>> rates.look(0.0, {"where": figures})
    >>> rates.look(2.0, {"where": {**figures, "rows_in": 100, "run_seconds": 0.5}})
    >>> rates.of("where")["rows_in"], rates.of("where")["run_seconds"]
    (50.0, 0.25)
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[float, Counts]] = deque()
        self._now: tuple[float, Counts] = (0.0, {})

    def look(self, seconds: float, operators: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the counts at this many seconds of the machine's clock."""
        counts = {label: tuple(float(figures.get(n, 0)) for n in _COUNTS) for label, figures in operators.items()}
        self._now = (seconds, counts)
        if self._kept and seconds - self._kept[-1][0] > SPAN:
            self._kept.clear()  # nobody has looked for a while
        if not self._kept or seconds - self._kept[-1][0] >= _APART:
            self._kept.append(self._now)
        while len(self._kept) > 1 and seconds - self._kept[1][0] >= SPAN:
            self._kept.popleft()

    def of(self, label: str) -> dict[str, float]:
        """The rates of an operator, a second; `run_seconds` is the share of the time for which it ran."""
        then, before = self._kept[0] if self._kept else (0.0, {})
        now, counts = self._now
        # An operator that was not there began from nothing.
        old, new = before.get(label, (0.0,) * len(_COUNTS)), counts.get(label, (0.0,) * len(_COUNTS))
        passed = now - then
        return {n: max(0.0, b - a) / passed if passed else 0.0 for n, a, b in zip(_COUNTS, old, new, strict=True)}
