"""Window specs and pane arithmetic, in ticks; windows lie as Spark's `window()` lays them (S5 section 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TypeVar

import numpy as np
import polars as pl

from slackwater.errors import QueryError
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import LONGEST_SPAN, Span, TimeDomain

#: In how many windows a row can be. One row that is in a million of them gives a million results, which took 5 s
#: of processor and 800 MB.
MOST_WINDOWS = 1_000_000

#: A whole number, some, or an expression of polars.
Number = TypeVar("Number", int, Ints, pl.Expr, pl.Series)


def floor_division(dividend: str, divisor: int) -> str:
    """Spark SQL of a whole-number division that rounds down, exact to 64 bits.

    `div` rounds toward zero, so the remainder goes first; `/` would go by floating-point numbers.

    >>> floor_division("x", 10)
    '(x - pmod(x, 10L)) div 10L'
    """
    return f"({dividend} - pmod({dividend}, {divisor}L)) div {divisor}L"


def union_of_runs(first: Ints, last: Ints) -> Ints:
    """The whole numbers, in order, that are in at least one of the runs, each from a first to a last number.

    >>> union_of_runs(np.array([5, 0, 1]), np.array([6, 2, 2])).tolist()
    [0, 1, 2, 5, 6]
    """
    if not len(first):
        return first
    order = np.argsort(first)
    begins, ends = first[order], np.maximum.accumulate(last[order])
    apart = begins[1:] > ends[:-1]
    begins, ends = begins[np.append(True, apart)], ends[np.append(apart, True)]
    lengths = ends - begins + 1
    return np.repeat(begins - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())


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
        if length // step > MOST_WINDOWS:
            raise QueryError(
                f"slide={slide!r}: each row would be in {length // step:,} windows of size={range!r}; at most "
                f"{MOST_WINDOWS:,} can be, so write a longer slide"
            )
        start = 0 if offset is None else domain.span(offset, "offset")
        return WindowSpec(length, step, start % step)

    @property
    def pane(self) -> int:
        """Length of a pane in ticks; of windows with gaps between them, that of a slide, whose gap has no rows."""
        return gcd(self.range, self.slide) if self.slide <= self.range else self.slide

    @property
    def panes_per_window(self) -> int:
        """How many panes make a window."""
        return max(self.range // self.pane, 1)

    @property
    def panes_per_slide(self) -> int:
        """How many panes lie between the starts of two windows."""
        return self.slide // self.pane

    def pane_of(self, tick: int) -> int:
        """The pane of a timestamp."""
        return (tick - self.offset) // self.pane

    @property
    def first_end(self) -> int:
        """The end of window 0, without the offset; later windows end a slide after one another."""
        return self.range

    @property
    def last_part(self) -> int:
        """The last part of a window, which no earlier window has."""
        return min(self.slide, self.first_end)

    @property
    def alike(self) -> bool:
        """Whether all windows are equally long and each row is in some: then one tells of another."""
        return self.slide <= self.range

    def bounds(self, window: int) -> tuple[int, int]:
        """Start (inclusive) and end (exclusive) of a window in ticks."""
        return self.offset + self.first_pane(window) * self.pane, self.offset + window * self.slide + self.first_end

    def first_pane(self, window: Number) -> Number:
        """The first pane of a window."""
        return window * self.panes_per_slide

    def end_pane(self, window: Number) -> Number:
        """One past the last pane of a window."""
        return window * self.panes_per_slide + self._end_pane

    @property
    def _end_pane(self) -> int:
        return max(self.first_end // self.pane, 1)

    def panes(self, window: int) -> tuple[int, int]:
        """First pane and one past the last pane of a window."""
        return self.first_pane(window), self.end_pane(window)

    def first_window(self, pane: int) -> int:
        """The earliest window that covers a pane.

        >>> WindowSpec(range=30, slide=10).first_window(5)
        3
        """
        return -((self._end_pane - 1 - pane) // self.panes_per_slide)

    def last_window(self, pane: Number) -> Number:
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
        first = -((self._end_pane - 1 - panes) // self.panes_per_slide)
        return first, self.last_window(panes)

    def windows_sql(self, pane: str) -> tuple[str, str]:
        """The same as Spark SQL."""
        first = f"-({floor_division(f'({self._end_pane - 1}L - {pane})', self.panes_per_slide)})"
        return first, floor_division(pane, self.panes_per_slide)

    def bounds_sql(self, window: str) -> tuple[str, str]:
        """`bounds` as Spark SQL."""
        start = f"({window} * {self.slide}L + {self.offset}L)"
        return start, f"({start} + {self.range}L)"

    def next_begin(self, tick: int) -> int:
        """The first window that begins after a tick."""
        return (tick - self.offset) // self.slide + 1

    def last_closed(self, heartbeat: Heartbeat) -> int:
        """The latest window that a heartbeat closes.

        >>> w = WindowSpec(range=30, slide=10)
        >>> w.last_closed(Heartbeat(28)), w.last_closed(Heartbeat(29)), w.last_closed(Heartbeat(39))
        (-1, 0, 1)
        """
        return (heartbeat.tick + 1 - self.first_end - self.offset) // self.slide

    def last_tick_from(self, tick: int) -> int:
        """The least last tick of a window that is not below this one.

        >>> w = WindowSpec(range=30, slide=10)
        >>> w.last_tick_from(29), w.last_tick_from(30)
        (29, 39)
        """
        return self.bounds(self.last_closed(Heartbeat(tick - 1)) + 1)[1] - 1

    def rows_by_window(self, panes: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """For panes and the rows of each: the last ticks of the windows that cover one, and the rows of each.

        >>> last_ticks, pairs = WindowSpec(range=20, slide=10).rows_by_window(np.array([0, 1]), np.array([3, 5]))
        >>> last_ticks.tolist(), pairs.tolist()
        ([9, 19, 29], [3, 8, 5])
        """
        first, last = self.windows_of(panes)
        found = union_of_runs(first, last)
        from_here = np.bincount(np.searchsorted(found, first), weights=rows, minlength=len(found) + 1)
        no_more = np.bincount(np.searchsorted(found, last) + 1, weights=rows, minlength=len(found) + 1)
        pairs = np.cumsum(from_here - no_more)[:-1]
        return found * self.slide + (self.offset + self.first_end - 1), pairs.astype(np.int64)


@dataclass(frozen=True)
class CumulateSpec(WindowSpec):
    """Windows that grow by `slide` until they are `range` long, and begin anew: Flink's CUMULATE.

    >>> w = CumulateSpec(range=30, slide=10)
    >>> [w.bounds(k) for k in range(-1, 4)]
    [(-30, 0), (0, 10), (0, 20), (0, 30), (30, 40)]
    >>> w.first_window(4), w.last_window(4), w.last_closed(Heartbeat(28)), w.last_closed(Heartbeat(29))
    (4, 5, 1, 2)
    """

    @staticmethod
    def of_steps(domain: TimeDomain, step: Span, size: Span, offset: Span | None) -> CumulateSpec:
        """Read and check what a user wrote."""
        plain = WindowSpec.of(domain, size, step, offset)
        if plain.range % plain.slide:
            raise QueryError(f"size={size!r} is no multiple of step={step!r}; write one that is")
        return CumulateSpec(
            plain.range, plain.slide, 0 if offset is None else domain.span(offset, "offset") % plain.range
        )

    @property
    def first_end(self) -> int:
        """A step."""
        return self.slide

    @property
    def alike(self) -> bool:
        """They have different lengths."""
        return False

    def first_pane(self, window: Number) -> Number:
        """That of the first step."""
        return window // self.panes_per_window * self.panes_per_window

    def last_window(self, pane: Number) -> Number:
        """The one with all steps."""
        return self.first_pane(pane) + (self.panes_per_window - 1)

    def windows_sql(self, pane: str) -> tuple[str, str]:
        """The same as Spark SQL."""
        steps = self.panes_per_window
        return pane, f"({floor_division(pane, steps)}) * {steps}L + {steps - 1}L"

    def bounds_sql(self, window: str) -> tuple[str, str]:
        """`bounds` as Spark SQL."""
        start = f"(({floor_division(window, self.panes_per_window)}) * {self.range}L + {self.offset}L)"
        return start, f"(({window} + 1L) * {self.slide}L + {self.offset}L)"

    def next_begin(self, tick: int) -> int:
        """The first window that begins after a tick."""
        return ((tick - self.offset) // self.range + 1) * self.panes_per_window
