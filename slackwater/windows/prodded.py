"""Which windows have been prodded (S5 section 6.2): what is left of their rows may be set aside."""

from __future__ import annotations

from typing import Any

from slackwater.progress.time import MIN_TICK
from slackwater.windows.spec import WindowSpec


class ProddedWindows:
    """Windows by their ends.

    >>> prodded = ProddedWindows(WindowSpec(range=10, slide=10))
    >>> prodded.note(None, 30)
    >>> prodded.covers(21, 29), prodded.covers(21, 35)
    (True, False)
    """

    def __init__(self, spec: WindowSpec) -> None:
        self._spec = spec
        self._ends: list[tuple[int, int]] = []
        """Windows that end in one of these, (after, until], have been prodded: in order, apart."""

    def __bool__(self) -> bool:
        return bool(self._ends)

    def ends(self, low: int, high: int) -> tuple[int, int]:
        """Where the first and the last window end that rows between two times belong to."""
        spec = self._spec
        first, last = spec.first_window(spec.pane_of(low)), spec.last_window(spec.pane_of(high))
        return spec.bounds(first)[1], spec.bounds(last)[1]

    def note(self, after: int | None, until: int) -> None:
        """A prod speaks of the windows that end in (after, until]."""
        self._ends = _joined([*self._ends, (MIN_TICK if after is None else after, until)])

    def covers(self, low: int, high: int) -> bool:
        """Whether all windows have been prodded that rows between two times belong to."""
        first, last = self.ends(low, high)
        return any(after < first and last <= until for after, until in self._ends)

    def state(self) -> list[Any]:
        """As JSON values."""
        return [list(interval) for interval in self._ends]

    def restore(self, state: list[Any]) -> None:
        """Continue from an earlier `state()`."""
        self._ends = [(after, until) for after, until in state]


def _joined(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for after, until in sorted(i for i in intervals if i[0] < i[1]):
        if joined and after <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], until))
        else:
            joined.append((after, until))
    return joined
