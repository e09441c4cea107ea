"""How many tasks a page's job gets: one task spares the shuffle, many use all cores; the stream learns which."""

from __future__ import annotations


class Shape:
    """Small pages go through one task. Large ones try both ways and keep the faster, looking again now and then.

    >>> shape = Shape()
    >>> for seconds in (0.90, 0.50):                      # the first page's size is not known: one task; then many
    ...     shape.ran(shape.one_task(), 4_000_000, seconds)
    >>> shape.one_task()
    False
    """

    SMALL = 100_000
    LOOK_AGAIN = 32

    def __init__(self) -> None:
        self._pages = 0
        self._rows = 0
        self._cost: dict[bool, float] = {}

    @property
    def large(self) -> bool:
        """Whether the next page, taken to be like the last, is a large one."""
        return self._rows > self.SMALL

    def one_task(self) -> bool:
        """Whether the next page, taken to be like the last, should run in a single task."""
        if not self.large:
            return True
        if len(self._cost) < 2:
            return True not in self._cost
        best = self._cost[True] <= self._cost[False]
        return best != (self._pages % self.LOOK_AGAIN == 0)

    def ran(self, one_task: bool, rows: int, seconds: float) -> None:
        """Learn from a page."""
        self._rows = rows
        if rows > self.SMALL:
            self._pages += 1
            known = self._cost.get(one_task, float("inf"))
            # The best so far, forgotten slowly: noise, and compiling the first time, only make a page slower.
            self._cost[one_task] = min(seconds / rows, 1.05 * known)


class ManyTasks(Shape):
    """For pages whose rows nobody has counted, such as pairs of a join: they may be many."""

    def one_task(self) -> bool:
        """Never."""
        return False

    def ran(self, one_task: bool, rows: int, seconds: float) -> None:
        """There is nothing to learn."""
