"""Totals: aggregates of each group since the beginning of the stream, without a window.

The time between two answers is a pane, and the number of the next answer is the number of the pane. So the groups
that have changed since the last answer are those with partials in the latest pane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa

from slackwater.aggregates.min_max import MaxOf
from slackwater.columns import CLOSED, PANE, TIME, WINDOW
from slackwater.errors import QueryError
from slackwater.progress.time import LONGEST_SPAN, Span, TimeDomain
from slackwater.windows.closed import Closed
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.spec import WindowSpec

#: The largest time of a group's rows, where groups are forgotten.
LAST = "__last"
_LATEST = "__latest"
#: Length of a cell in ticks. Times lie between -2^62 and 2^62, so there are two cells.
_HALF = 2**62
#: Pieces are merged into the base when there are this many of them, or when they have more rows than the base.
_MOST_PIECES = 64
#: Rows: smaller pieces are not merged only because the base is small, too.
_SMALL = 20_000


@dataclass(frozen=True)
class EndlessSpec(WindowSpec):
    """No window: rows fall into one of two cells, whatever their time."""

    range: int = _HALF
    slide: int = _HALF

    @property
    def alike(self) -> bool:
        """Whether one window predicts another: no, there is only one total."""
        return False


def read_forget(written: Span | None, groups: Sequence[Group], domain: TimeDomain) -> int | None:
    """For how long after its last row a group is kept, in ticks; None: for ever.

    >>> read_forget("1 hour", [Group("user", "user")], TimeDomain.TIMESTAMP)
    3600000000
    """
    if written is None:
        return None
    if not groups:
        raise QueryError(f"forget={written!r}: one total of all rows has no groups to forget; leave forget= out")
    length = domain.span(written, "forget")
    if not 0 < length <= LONGEST_SPAN:
        raise QueryError(
            f"forget={written!r} must be positive and at most {domain.show_span(LONGEST_SPAN)}, as in "
            "totals(forget='1 day')"
        )
    return length


def with_last(kernel: PaneKernel) -> PaneKernel:
    """The kernel that folds pages: partials have the largest time of their rows too."""
    return replace(kernel, aggregates=(*kernel.aggregates, MaxOf(LAST, "last", TIME, pa.int64())))


def last_of(kernel: PaneKernel) -> str:
    """The column of that time among the partials of `with_last`."""
    (partial,) = kernel.aggregates[-1].partials()
    return kernel.columns[partial][0]


class Totals:
    """The partials of all groups, in the driver: a merged base, and the pieces that came since."""

    def __init__(self, kernel: PaneKernel) -> None:
        """`kernel` is one of `with_last`."""
        self.kernel = kernel
        self._last = last_of(kernel)
        self._base: pl.DataFrame | None = None
        self._pieces: list[pl.DataFrame] = []
        self._fresh: list[pl.DataFrame] = []
        self._gone: list[pl.DataFrame] = []
        """The groups forgotten since the last record of the journal, with the last answer that had them (PANE)."""
        self.answers = 0

    def add(self, partials: pl.DataFrame) -> None:
        """Take the partials of a page."""
        if partials.height == 0:
            return
        partials = partials.with_columns(pl.lit(self.answers, pl.Int64).alias(PANE))
        self._pieces.append(partials)
        self._fresh.append(partials)
        self._tidy()

    def _tidy(self) -> None:
        pending = sum(piece.height for piece in self._pieces)
        resident = 0 if self._base is None else self._base.height
        if len(self._pieces) >= _MOST_PIECES or pending > max(resident, _SMALL):
            self._compact()

    def _compact(self) -> None:
        """Merge the partials from before the last answer into one for each group, and so those from after it."""
        parts = self.frame
        if parts is not None:
            # All earlier answers become one pane.
            parts = parts.with_columns(pl.max_horizontal(PANE, pl.lit(self.answers - 1, pl.Int64)))
            merged = self.kernel.panes.merge(parts.group_by([PANE, *self._keys]))
            self._base, self._pieces = merged.select(parts.columns), []

    @property
    def _keys(self) -> list[str]:
        return self.kernel.panes.keys

    @property
    def frame(self) -> pl.DataFrame | None:
        """All partials; None if there are none."""
        parts = [*([] if self._base is None else [self._base]), *self._pieces]
        return pl.concat(parts, how="vertical_relaxed") if parts else None

    def merged(self, changed: bool) -> pl.DataFrame | None:
        """Merged partials of all groups, or of those that have changed, as those of window 0."""
        parts = self.frame
        if parts is not None and changed:
            parts = self._changed(parts)
        if parts is None or parts.height == 0:
            return None
        one = parts.with_columns(pl.lit(0, pl.Int64).alias(WINDOW))
        return self.kernel.panes.merge(one.group_by([WINDOW, *self._keys]))

    def _changed(self, parts: pl.DataFrame) -> pl.DataFrame:
        latest, keys = pl.col(PANE) == self.answers, self.kernel.keys
        fresh = parts.filter(latest)
        if fresh.height == 0:
            return fresh
        if not keys:
            return parts
        groups = fresh.select(keys).unique()
        return parts.join(groups, on=keys, how="semi", nulls_equal=True)

    def forget(self, closed: Closed, length: int) -> None:
        """After an answer, drop the groups whose heartbeat is at least `length` ticks past their last row."""
        parts, highest = self.frame, closed.highest_closed()
        if parts is None or highest is None or parts[self._last].min() + length > highest:  # type: ignore[operator]
            return
        last = parts.group_by(self.kernel.keys).agg(pl.col(self._last).max())
        beside = closed.beside(last, self.kernel.source_of)
        due = beside.filter((pl.col(self._last) + length <= pl.col(CLOSED)).fill_null(False))
        if due.height:
            gone = due.select(*self.kernel.keys, pl.lit(self.answers - 1, pl.Int64).alias(PANE))
            self._gone.append(gone)
            self._drop(gone)

    def _drop(self, gone: pl.DataFrame) -> None:
        """Drop the partials of these groups up to the given answer (PANE)."""
        parts = self.frame
        if parts is None:
            return
        groups = gone.group_by(self.kernel.keys).agg(pl.col(PANE).max().alias(_LATEST))
        beside = parts.join(groups, on=self.kernel.keys, how="left", nulls_equal=True)
        left = beside.filter(pl.col(_LATEST).is_null() | (pl.col(PANE) > pl.col(_LATEST))).drop(_LATEST)
        self._base, self._pieces = (left if left.height else None), []

    def tables(self, whole: bool) -> dict[str, pa.Table]:
        """The changes since the last call, or all partials."""
        if whole:
            self._compact()
        fresh = ([] if self._base is None else [self._base]) if whole else self._fresh
        gone = [] if whole else self._gone
        self.settle()
        found = {"totals": fresh, "forgotten": gone}
        return {name: pl.concat(parts, how="vertical_relaxed").to_arrow() for name, parts in found.items() if parts}

    def load(self, tables: Sequence[dict[str, pa.Table]], answers: int) -> None:
        """Continue from the results of `tables`, in order. `answers` is the number of answers so far."""
        for given in tables:
            if "totals" in given:
                self._pieces.append(frame_of(given["totals"]))
            if "forgotten" in given:
                self._drop(frame_of(given["forgotten"]))
        self.answers = answers
        self._compact()

    def settle(self) -> None:
        """Forget the changes: the journal, if there is one, has them."""
        self._fresh, self._gone = [], []

    @property
    def size(self) -> dict[str, int]:
        """Partials and bytes held."""
        parts = [*([] if self._base is None else [self._base]), *self._pieces]
        return {
            "partials": sum(part.height for part in parts),
            "state_bytes": int(sum(part.estimated_size() for part in parts)),
        }
