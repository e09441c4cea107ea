"""How many tasks a page's job gets: one task spares the shuffle, many use all cores; the stream learns which."""

from __future__ import annotations


class Shape:
    """Small pages go through one task. Large ones try both ways and keep the faster, looking again now and then.

    >>> shape = Shape()
    >>> shape.one_task()
    True
    """

    SMALL = 100_000
    LOOK_AGAIN = 32

    def __init__(self) -> None:
        self._rows = 0
        self._pages = 0
        self._cost: dict[bool, float] = {}

    def one_task(self) -> bool:
        """Whether the next page should run in a single task."""
        if self._rows <= self.SMALL:
            return True
        if len(self._cost) < 2:
            return True not in self._cost
        best = self._cost[True] <= self._cost[False]
        return (not best) if self._pages % self.LOOK_AGAIN == 0 else best

    def ran(self, one_task: bool, rows: int, seconds: float) -> None:
        """Learn from a page."""
        self._pages += 1
        self._rows = rows
        if rows > self.SMALL:
            cost = seconds / rows
            known = self._cost.get(one_task)
            # The first page of a way pays for compiling, so it counts for little.
            self._cost[one_task] = cost if known is None else min(cost, 0.7 * known + 0.3 * cost)
