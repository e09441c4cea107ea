"""What share of a window's rows has arrived at an age: learned from the windows that have become final.

An age is counted in slides from the window's end, below 0 before it. S5 section 3.4 names this share as what
decides how accurate an early result is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.sources import Ints

Floats = NDArray[np.float64]

_FINE = np.arange(33) / 16
_COARSE = 2 * 1.15 ** np.arange(1, 56)
_SIDE = np.concatenate([_FINE, _COARSE])
#: Ages at which shares are known: each sixteenth of a slide around the end, rarer further away.
KNOTS: Floats = np.concatenate([-_SIDE[:0:-1], _SIDE])
#: What a window counts for when one more has become final.
FADE = 0.95
#: So many open windows are followed.
MOST_OPEN = 1_024
#: A window counts for at most so many times the usual number of rows: one burst is not the rule.
BURST = 2.0


class Curve:
    """Completeness by age, over all groups.

    >>> curve = Curve(range=10, slide=10)
    >>> curve.page(8, np.array([9]), np.array([1]))
    >>> curve.page(15, np.array([19]), np.array([30]))
    >>> curve.page(22, np.array([19, 29]), np.array([10, 20]))
    >>> curve.at(np.array([-0.5, 0.2]))
    array([nan, nan])
    >>> curve.close(19)
    >>> curve.at(np.array([-0.5, 0.0, 0.25]))
    array([0.75, 0.75, 1.  ])
    """

    def __init__(self, range: int, slide: int) -> None:
        self._range = range
        self._slide = slide
        self._begin: int | None = None
        """Windows with last ticks below this had begun before the stream did: they are not like others."""
        self._open: dict[int, dict[int, int]] = {}
        """Rows by knot, by the window's last tick."""
        self._through: int | None = None
        """Windows that end here or before count no more."""
        self._arrived = np.zeros(len(KNOTS))
        self._all = 0.0
        self._usual = 0.0

    def page(self, time: int, lasts: Ints, pairs: Ints) -> None:
        """So many rows have come by this time for windows with these last ticks."""
        if self._begin is None:
            self._begin = int(lasts.min()) + self._range
        places = np.searchsorted(KNOTS, (time - 1 - lasts) / self._slide).clip(max=len(KNOTS) - 1)
        for last, place, rows in zip(lasts.tolist(), places.tolist(), pairs.tolist(), strict=True):
            if self._through is not None and last <= self._through:
                continue
            by_knot = self._open.setdefault(last, {})
            by_knot[place] = by_knot.get(place, 0) + rows
        while len(self._open) > MOST_OPEN:
            del self._open[min(self._open)]

    def close(self, through: int) -> None:
        """Windows up to this last tick are final."""
        for last in sorted(w for w in self._open if w <= through):
            by_knot = self._open.pop(last)
            if self.whole(last):
                self._learn(by_knot)
        self._through = through if self._through is None else max(self._through, through)

    def whole(self, last: int) -> bool:
        """Whether the stream was there when the window with this last tick began."""
        return self._begin is not None and last >= self._begin

    def _learn(self, by_knot: dict[int, int]) -> None:
        rows = np.zeros(len(KNOTS))
        rows[list(by_knot)] = list(by_knot.values())
        total = float(rows.sum())
        if not total:
            return
        self._usual = total if not self._all else FADE * self._usual + (1 - FADE) * min(total, BURST * self._usual)
        weight = min(1.0, BURST * self._usual / total)
        self._arrived = FADE * self._arrived + weight * np.cumsum(rows)
        self._all = FADE * self._all + weight * total

    def at(self, ages: Floats) -> Floats:
        """The share of rows that are in at these ages; not a number while no window has become final."""
        if not self._all:
            return np.full(len(ages), np.nan)
        return np.interp(ages, KNOTS, self._arrived / self._all)

    def state(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "open": [
                [last, *(n for pair in by_knot.items() for n in pair)] for last, by_knot in self._open.items()
            ],
            "through": self._through,
            "begin": self._begin,
            "arrived": [] if not self._all else self._arrived.tolist(),
            "all": [self._all, self._usual],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self._open = {last: dict(zip(rest[::2], rest[1::2], strict=True)) for last, *rest in state["open"]}
        self._through, self._begin = state["through"], state["begin"]
        self._all, self._usual = state["all"]
        if self._all:
            self._arrived = np.array(state["arrived"])
