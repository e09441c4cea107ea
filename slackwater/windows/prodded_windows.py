"""Which windows have been prodded (S5 section 6.2): what is left of their rows may be set aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from slackwater.progress.intervals import Intervals, united
from slackwater.progress.time import MIN_TICK
from slackwater.windows.spec import WindowSpec


def ends(specs: Sequence[WindowSpec], low: int, high: int) -> tuple[int, int]:
    """Where the first and the last window end that rows between two times belong to.

    The windows are those of the last aggregate that they go through; a result is a row at its window's last tick.

    >>> ends([WindowSpec(range=20, slide=10), WindowSpec(range=10, slide=10)], 5, 5)
    (10, 20)
    """
    for spec in specs:
        first, last = spec.first_window(spec.pane_of(low)), spec.last_window(spec.pane_of(high))
        low, high = spec.bounds(first)[1] - 1, spec.bounds(last)[1] - 1
    return low + 1, high + 1


#: What a journal keeps: the ends; what is still to be cut; up to where pages were taken; the highest time.
ProddedValues: TypeAlias = "tuple[list[tuple[int, int]], list[tuple[int, int, int]], int, int | None]"


class ProddedWindows:
    """Windows by their ends. A prod speaks of those that have rows: of the pages that had come when it passed.

    Some of these may still wait then, and their times be unknown; so a prod is cut to them when they are taken.

    >>> prodded = ProddedWindows([WindowSpec(range=10, slide=10)])
    >>> prodded.note(None, 1000, waiting=1)
    >>> prodded.covers(21, 25)
    True
    >>> prodded.took(21)
    >>> prodded.covers(21, 29), prodded.covers(21, 35)
    (True, False)
    """

    def __init__(self, specs: Sequence[WindowSpec]) -> None:
        self._specs = specs
        """Of the aggregates that rows go through; the windows are those of the last, the topmost."""
        self._ends: Intervals = ()
        """Windows that end in one of these, (after, until], have been prodded: in order, apart."""
        self._uncut: list[tuple[int, int, int]] = []
        """The same of prods that overtook something, each behind the number of elements that had come by then."""
        self._taken = 0
        self._highest: int | None = None

    def __bool__(self) -> bool:
        return bool(self._ends or self._uncut)

    def ends(self, low: int, high: int) -> tuple[int, int]:
        """Where the first and the last window end that rows between two times belong to."""
        return ends(self._specs, low, high)

    def note(self, after: int | None, until: int, waiting: int) -> None:
        """A prod passes this many elements that wait."""
        self._uncut.append((self._taken + waiting, MIN_TICK if after is None else after, until))
        self._cut()

    def took(self, highest: int | None) -> None:
        """The element that waited longest has been taken; this is the highest time in it, if it has one."""
        self._taken += 1
        if highest is not None:
            self._highest = highest if self._highest is None else max(self._highest, highest)
        self._cut()

    def _cut(self) -> None:
        while self._uncut and self._uncut[0][0] <= self._taken:
            _, after, until = self._uncut.pop(0)
            if self._highest is not None:
                until = min(until, self.ends(self._highest, self._highest)[1])
                if after < until:
                    self._ends = united([*self._ends, (after, until)])

    def covers(self, low: int, high: int) -> bool:
        """Whether all windows have been prodded that rows between two times belong to."""
        first, last = self.ends(low, high)
        uncut = [(after, until) for _, after, until in self._uncut if after < until]
        return any(after < first and last <= until for after, until in united([*self._ends, *uncut]))

    def state(self) -> ProddedValues:
        """As JSON values."""
        return list(self._ends), self._uncut, self._taken, self._highest

    def restore(self, state: ProddedValues) -> None:
        """Continue from an earlier `state()`."""
        ends, uncut, self._taken, self._highest = state
        self._ends = tuple((after, until) for after, until in ends)
        self._uncut = [(come, after, until) for come, after, until in uncut]
