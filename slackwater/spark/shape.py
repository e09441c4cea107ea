"""How many tasks a page's job gets: one task spares the shuffle, many use all cores; the stream learns which."""

from __future__ import annotations


class Shape:
    """Small pages go through one task. Large ones try both ways and keep the faster, looking again now and then.

    >>> shape = Shape()
    >>> for seconds in (0.50, 0.90, 0.44, 0.75):          # many tasks, one, many, one
    ...     shape.ran(shape.one_task(4_000_000), 4_000_000, seconds)
    >>> shape.one_task(4_000_000), shape.one_task(1_000)
    (False, True)
    """

    SMALL = 100_000
    TRIALS = 4
    """Each way twice: the first time pays for compiling."""
    LOOK_AGAIN = 32

    def __init__(self) -> None:
        self._pages = 0
        self._last = 0
        self._cost: dict[bool, float] = {}

    def one_task(self, rows: int | None = None) -> bool:
        """Whether a page should run in a single task; how many rows it has is guessed from the one before."""
        if (self._last if rows is None else rows) <= self.SMALL:
            return True
        if self._pages < self.TRIALS:
            return self._pages % 2 == 1
        best = self._cost[True] <= self._cost[False]
        return best != (self._pages % self.LOOK_AGAIN == 0)

    def ran(self, one_task: bool, rows: int, seconds: float) -> None:
        """Learn from a page."""
        self._last = rows
        if rows > self.SMALL:
            self._pages += 1
            known = self._cost.get(one_task, float("inf"))
            # The best so far, forgotten slowly: noise only ever makes a page slower.
            self._cost[one_task] = min(seconds / rows, 1.05 * known)
