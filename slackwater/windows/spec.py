"""Window specs and pane arithmetic, in ticks; windows lie as Spark's `window()` lays them (S5 section 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from slackwater.errors import QueryError
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.sources import Ints
from slackwater.progress.time import LONGEST_SPAN, Span, TimeDomain


@dataclass(frozen=True)
class WindowSpec:
    """Window k covers [offset + k*slide, offset + k*slide + range); pane p covers [offset + p*pane, ...).

    A pane is the greatest common divisor of range and slide, so every window is a whole number of panes and
    a row belongs to one pane however many windows it counts for.

    >>> w = WindowSpec(range=7, slide=3)
    >>> w.pane, w.panes_per_window, w.panes_per_slide
    (1, 7, 3)
    >>> w.bounds(-1)
    (-3, 4)
    """

    range: int
    slide: int
    offset: int = 0

    @staticmethod
    def of(domain: TimeDomain, range: Span, slide: Span, offset: Span | None) -> WindowSpec:
        """Read and check what a user wrote; a slide of the range itself means a tumbling window."""
        length = domain.span(range, "size")
        if length <= 0:
            raise QueryError(f"size={range!r} must be positive, as in window('30 minutes')")
        if length > LONGEST_SPAN:
            raise QueryError(f"size={range!r} is too long; the longest is {domain.show_span(LONGEST_SPAN)}")
        step = domain.span(slide, "slide")
        if step <= 0:
            raise QueryError(f"slide={slide!r} must be positive; windows tumble without a slide")
        if step > length:
            raise QueryError(
                f"slide={slide!r} is longer than size={range!r}: rows between the windows would be in none; "
                "make the slide at most the size"
            )
        start = 0 if offset is None else domain.span(offset, "offset")
        return WindowSpec(length, step, start % step)

    @property
    def pane(self) -> int:
        """Length of a pane in ticks."""
        return gcd(self.range, self.slide)

    @property
    def panes_per_window(self) -> int:
        """How many panes make a window."""
        return self.range // self.pane

    @property
    def panes_per_slide(self) -> int:
        """By how many panes a window lies behind its predecessor."""
        return self.slide // self.pane

    def pane_of(self, tick: int) -> int:
        """The pane of a timestamp."""
        return (tick - self.offset) // self.pane

    def bounds(self, window: int) -> tuple[int, int]:
        """Start (inclusive) and end (exclusive) of a window in ticks."""
        start = self.offset + window * self.slide
        return start, start + self.range

    def panes(self, window: int) -> tuple[int, int]:
        """First pane and one past the last pane of a window."""
        first = window * self.panes_per_slide
        return first, first + self.panes_per_window

    def first_window(self, pane: int) -> int:
        """The earliest window that covers a pane.

        >>> WindowSpec(range=30, slide=10).first_window(5)
        3
        """
        return -((self.panes_per_window - 1 - pane) // self.panes_per_slide)

    def last_window(self, pane: int) -> int:
        """The latest window that covers a pane.

        >>> WindowSpec(range=30, slide=10).last_window(5)
        5
        """
        return pane // self.panes_per_slide

    def windows_of(self, panes: Ints) -> tuple[Ints, Ints]:
        """The earliest and the latest window that covers each pane.

        >>> first, last = WindowSpec(range=30, slide=10).windows_of(np.array([0, 5]))
        >>> first.tolist(), last.tolist()
        ([-2, 3], [0, 5])
        """
        first = -((self.panes_per_window - 1 - panes) // self.panes_per_slide)
        return first, panes // self.panes_per_slide

    def last_closed(self, heartbeat: Heartbeat) -> int:
        """The latest window that a heartbeat closes.

        >>> w = WindowSpec(range=30, slide=10)
        >>> w.last_closed(Heartbeat(28)), w.last_closed(Heartbeat(29)), w.last_closed(Heartbeat(39))
        (-1, 0, 1)
        """
        return (heartbeat.tick + 1 - self.range - self.offset) // self.slide

    def last_tick_from(self, tick: int) -> int:
        """The least last tick of a window that is not below this one.

        >>> w = WindowSpec(range=30, slide=10)
        >>> w.last_tick_from(29), w.last_tick_from(30)
        (29, 39)
        """
        return self.bounds(self.last_closed(Heartbeat(tick - 1)) + 1)[1] - 1

    def rows_by_window(self, panes: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """Of panes with so many rows each: the last ticks of all windows that cover one, and the rows of each.

        >>> last_ticks, pairs = WindowSpec(range=20, slide=10).rows_by_window(np.array([0, 1]), np.array([3, 5]))
        >>> last_ticks.tolist(), pairs.tolist()
        ([9, 19, 29], [3, 8, 5])
        """
        most = -(-self.panes_per_window // self.panes_per_slide)
        first, last = self.windows_of(panes)
        windows = (last[:, None] - np.arange(most)).ravel()
        inside = windows >= np.repeat(first, most)
        found, place = np.unique(windows[inside], return_inverse=True)
        pairs = np.bincount(place, weights=np.repeat(rows, most)[inside], minlength=len(found))
        return found * self.slide + (self.offset + self.range - 1), pairs.astype(np.int64)
