"""How a page's job is cut into tasks; the stream learns what is best.

One task spares the shuffle, many use all cores. A page of several files can have both: jobs of one task each, side
by side.
"""

from __future__ import annotations

from enum import Enum


class Layout(Enum):
    """How a page is worked on."""

    ONE = "one task"
    MANY = "many tasks"
    PARTS = "some of its files by one task, others by another, and no shuffle"


class TaskLayout:
    """Small pages go through one task. Large ones try another way and keep the faster, looking again now and then.

    >>> shape = TaskLayout()
    >>> for seconds in (0.90, 0.50):                      # the first page's size is not known: one task; then many
    ...     shape.ran(shape.way(), 1, 4_000_000, seconds)
    >>> shape.way()
    <Layout.MANY: 'many tasks'>
    """

    SMALL = 100_000
    LOOK_AGAIN = 32
    PATIENCE = 8
    """How many pages are read in parts before another way is tried: on few cores none is better."""

    def __init__(self) -> None:
        self._pages = 0
        self._rows = 0
        self._cost: dict[tuple[bool, Layout], float] = {}
        """Seconds a row, by whether a page had several files."""
        self.partials_a_file = 0
        """Bytes that a file of the last pages came down to at the most; older ones count ever less."""

    @property
    def large(self) -> bool:
        """Whether the next page, taken to be like the last, is a large one."""
        return self._rows > self.SMALL

    def way(self, files: int = 1) -> Layout:
        """How to work on the next page, if it is like the last one and can be cut into this many files."""
        if not self.large:
            return Layout.ONE
        several = files > 1
        first = Layout.PARTS if several else Layout.ONE
        mine, many = self._cost.get((several, first)), self._cost.get((several, Layout.MANY))
        if mine is None:
            return first
        if many is None:
            return first if several and self._pages < self.PATIENCE else Layout.MANY
        best, other = (first, Layout.MANY) if mine <= many else (Layout.MANY, first)
        return other if self._pages % self.LOOK_AGAIN == 0 else best

    def ran(self, way: Layout, files: int, rows: int, seconds: float) -> None:
        """Learn from a page."""
        self._rows = rows
        if rows > self.SMALL:
            self._pages += 1
            key = files > 1, way
            # The best so far, forgotten slowly: noise, and compiling the first time, only make a page slower.
            self._cost[key] = min(seconds / rows, 1.05 * self._cost.get(key, float("inf")))

    def folded(self, files: int, size: float) -> None:
        """Learn how many bytes a page of this many files came down to."""
        self.partials_a_file = max(round(size / files), self.partials_a_file * 9 // 10)


class ManyTasks(TaskLayout):
    """For pages whose rows nobody has counted, such as pairs of a join: they may be many."""

    def way(self, files: int = 1) -> Layout:
        """Always the same."""
        return Layout.MANY

    def ran(self, way: Layout, files: int, rows: int, seconds: float) -> None:
        """There is nothing to learn."""
