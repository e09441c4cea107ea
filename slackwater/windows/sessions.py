"""Session windows: a session of a group goes on while its rows are at most a gap apart.

A page is folded like any other, into cells that are as long as the gap: rows of a group in one cell are always in
one session. Each partial also has the first and the last time of its rows. Sessions are merges of such partials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.aggregates.min_max import MaxOf, MinOf
from slackwater.columns import CLOSED, PANE, TIME
from slackwater.errors import QueryError
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import LONGEST_SPAN, Span, TimeDomain
from slackwater.windows.closed import Closed
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.spec import WindowSpec

#: Windows of one tick: a heartbeat closes all windows up to its own tick.
TICKS = WindowSpec(1, 1)
#: The first and the last time of a session's rows, and when it was last changed.
FIRST, LAST, CHANGED = "__first", "__last", "__changed"
_NUMBER, _NEW = "__number", "__new"


@dataclass(frozen=True)
class SessionSpec(WindowSpec):
    """The cells of sessions: `range` and `slide` are the gap."""

    @staticmethod
    def of_gap(domain: TimeDomain, gap: Span) -> SessionSpec:
        """Read and check what a user wrote.

        >>> SessionSpec.of_gap(TimeDomain.TIMESTAMP, "5 minutes").gap
        300000000
        """
        length = domain.span(gap, "gap")
        if not 0 < length <= LONGEST_SPAN:
            raise QueryError(
                f"gap={gap!r} must be positive and at most {domain.show_span(LONGEST_SPAN)}, as in "
                "sessions(gap='5 minutes')"
            )
        return SessionSpec(length, length)

    @property
    def gap(self) -> int:
        """Rows that are further apart than this are in different sessions."""
        return self.range

    def rows_by_window(self, panes: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """A session that ends with a row of a cell ends a gap after the cell at the latest.

        >>> last_ticks, pairs = SessionSpec(10, 10).rows_by_window(np.array([0, 1]), np.array([3, 5]))
        >>> last_ticks.tolist(), pairs.tolist()
        ([19, 29], [3, 5])
        """
        last_ticks, pairs = super().rows_by_window(panes, rows)
        return last_ticks + self.gap, pairs


def cells(kernel: PaneKernel) -> PaneKernel:
    """The kernel that folds a page into cells: its partials have the first and the last time too."""
    times = (MinOf(FIRST, "first", TIME, pa.int64()), MaxOf(LAST, "last", TIME, pa.int64()))
    return replace(kernel, aggregates=(*kernel.aggregates, *times))


class OpenSessions:
    """The open sessions of all groups: one partial each, in the driver.

    A session is over when time has passed its last row by the gap: then no row can join it any more.
    """

    def __init__(self, kernel: PaneKernel) -> None:
        assert isinstance(kernel.spec, SessionSpec)
        self._gap = kernel.spec.gap
        self._keys, self._source_of = kernel.keys, kernel.source_of
        changed = MaxOf(CHANGED, "changed", CHANGED, pa.int64())
        self._kernel = replace(cells(kernel), aggregates=(*cells(kernel).aggregates, changed))
        (self._first,), (self._last,), (self._changed,) = list(self._kernel.columns.values())[-3:]
        self.frame: pl.DataFrame | None = None
        self._ends: Ints | None = None
        """Ends of the sessions in order, once somebody has asked."""

    def add(self, partials: pl.DataFrame, change: int, closed: Closed) -> pl.DataFrame:
        """Take the partials of a page. Gives the sessions that are over as they come: their rows are too late."""
        sessions = self.with_parts([partials], change)
        assert sessions is not None
        self._keep(sessions)
        return self.over(closed)

    def with_parts(self, partials: Sequence[pl.DataFrame], change: int = 0) -> pl.DataFrame | None:
        """The open sessions together with partials of pages, which are not kept. None if there is nothing."""
        if not partials:
            return self.frame
        changed = pl.lit(change, pl.Int64).alias(self._changed)
        fresh = [part.drop(PANE).with_columns(changed) for part in partials]
        parts = fresh if self.frame is None else [self.frame, *fresh]
        return self._merged(pl.concat([part.select(parts[0].columns) for part in parts], how="vertical_relaxed"))

    def over(self, closed: Closed) -> pl.DataFrame:
        """Take out the sessions that are over."""
        assert self.frame is not None
        highest, earliest = closed.highest_closed(), self.frame[self._last].min()
        if highest is None or earliest is None or earliest + self._gap > highest:  # type: ignore[operator]
            return self.frame.clear()
        beside = closed.beside(self.frame, self._source_of)
        done = beside.select((pl.col(self._last) + self._gap <= pl.col(CLOSED)).fill_null(False)).to_series()
        over = beside.filter(done).drop(CLOSED)
        if over.height:
            self._keep(beside.filter(~done).drop(CLOSED))
        return over

    def _keep(self, frame: pl.DataFrame) -> None:
        self.frame, self._ends = frame, None

    def _merged(self, parts: pl.DataFrame) -> pl.DataFrame:
        """Parts of a group that are at most a gap apart become one."""
        numbered = self._numbered(parts, self._gap)
        grouped = numbered.group_by([_NUMBER, *self._keys], maintain_order=True)
        return self._kernel.merge(grouped).select(parts.columns)

    def _numbered(self, parts: pl.DataFrame, gap: int) -> pl.DataFrame:
        """With a number (_NUMBER) that parts of a group have in common if they follow each other within a gap."""
        before = pl.col(self._last).cum_max().shift()
        begins = (pl.col(self._first) > (before.over(self._keys) if self._keys else before) + gap).fill_null(True)
        parts = parts.sort(self._first).with_columns(begins.cast(pl.Int64).alias(_NUMBER))
        number = pl.col(_NUMBER).cum_sum()
        return parts.with_columns(number.over(self._keys) if self._keys else number)

    def values(self, sessions: pl.DataFrame) -> pl.DataFrame:
        """Groups and values, with FIRST, LAST and CHANGED; in the order of their ends."""
        return self._kernel.values(sessions.sort(self._last, self._first))

    @property
    def ends(self) -> Ints:
        """When each open session ends if no more rows join it, in order."""
        if self._ends is None:
            last = np.zeros(0, np.int64) if self.frame is None else self.frame[self._last].to_numpy()
            self._ends = np.sort(last) + self._gap
        return self._ends

    def changed_since(self, change: int) -> pl.DataFrame | None:
        """The open sessions that later pages than this one have changed."""
        return None if self.frame is None else self.frame.filter(pl.col(self._changed) > change)

    def load(self, changed: pl.DataFrame, closed: Closed) -> None:
        """Continue from what `changed_since` gave, and what was closed then. All sessions come first."""
        if self.frame is None:
            self._keep(changed)
        else:
            self.over(closed)
            self._replace(changed)

    def _replace(self, newer: pl.DataFrame) -> None:
        """A session takes the place of those that it has been made of."""
        assert self.frame is not None
        new = pl.lit(value=True).alias(_NEW)
        both = pl.concat([self.frame.with_columns(~new), newer.select(self.frame.columns).with_columns(new)])
        among = [_NUMBER, *self._keys]
        left = self._numbered(both, 0).filter(pl.col(_NEW) | ~pl.col(_NEW).any().over(among))
        self._keep(left.drop(_NEW, _NUMBER))

    @property
    def size(self) -> dict[str, int]:
        """How many there are, and what they take."""
        frame = self.frame
        return {
            "partials": 0 if frame is None else frame.height,
            "state_bytes": 0 if frame is None else int(frame.estimated_size()),
        }
