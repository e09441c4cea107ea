"""The ring of panes in the driver (S5 section 2.3): partials come in, windows are merges of their panes.

State is proportional to open panes x groups: pages are merged into it, closed panes leave it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.columns import PANE, ROWS, WINDOW
from slackwater.windows.closed import Closed
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.sliding import slide, united

_BEFORE, _AFTER = "__before", "__after"

#: Appended partials are merged into the base once there are this many pieces, or more rows than the base has.
_MOST_PIECES = 64
_SMALL = 20_000
#: Panes further apart than this many windows are merged apart: polars visits every window between two panes.
_LONG_GAP = 1_000_000


class RingSize(NamedTuple):
    """How much a ring holds."""

    panes: int
    partials: int
    """Partials by pane and group."""
    bytes: int


class PaneRing:
    """Resident partials of the open panes, as a merged base and the pieces that came since."""

    def __init__(self, kernel: PaneKernel) -> None:
        self._kernel = kernel
        self._base: pl.DataFrame | None = None
        self._pieces: list[pl.DataFrame] = []
        self._fresh: list[pl.DataFrame] = []
        self._size: RingSize | None = None
        self._untyped: set[str] = set()
        """Partials that a journal did not have: nothing has come for them yet."""

    def add(self, partials: pl.DataFrame, closed: Closed) -> None:
        """Take partials of a page; those that count only for emitted windows are passed over."""
        partials = closed.taken(partials, self._kernel.spec, PANE, self._kernel.source_of)
        if partials.height == 0:
            return
        if self._untyped:
            self._type(partials.schema)
        self._size = None
        self._pieces.append(partials)
        self._fresh.append(partials)
        pending = sum(p.height for p in self._pieces)
        resident = 0 if self._base is None else self._base.height
        if len(self._pieces) >= _MOST_PIECES or pending > max(resident, _SMALL):
            self._compact()

    def _type(self, schema: pl.Schema) -> None:
        """Partials that began after a restart have a type now: what was there has nulls of it."""
        nulls = [pl.lit(None, schema[name]).alias(name) for name in self._untyped]
        self._base = None if self._base is None else self._base.with_columns(nulls)
        self._pieces = [piece.with_columns(nulls) for piece in self._pieces]
        self._untyped = set()

    def span(self) -> tuple[int, int] | None:
        """Smallest and largest pane held."""
        panes = [p[PANE].to_numpy() for p in self._parts()]
        if not panes:
            return None
        return int(min(p.min() for p in panes)), int(max(p.max() for p in panes))

    @property
    def empty(self) -> bool:
        """Whether no pane is held."""
        return self._base is None and not self._pieces

    def groups(self) -> int:
        """How many groups have partials."""
        return (
            pl.concat([part.select(self._kernel.keys) for part in self._parts()]).n_unique()
            if self._kernel.keys
            else 1
        )

    def windows(self, before: Closed, after: Closed) -> pl.DataFrame | None:
        """Merged partials of the windows that `after` has closed and `before` had not, by window and group.

        Where `before` tells which windows have been given, also of those that it had closed and not given.
        """
        span = self.span()
        if span is None:
            return None
        spec = self._kernel.spec
        if before.named is not None or after.named is not None or before.given is not None:
            return self._windows_by_source(before, after)
        assert after.emitted_through is not None
        first, last = spec.first_window(span[0]), min(after.emitted_through, spec.last_window(span[1]))
        if before.emitted_through is not None:
            first = max(first, before.emitted_through + 1)
        if first > last:
            return None
        low, high = spec.panes(first)[0], spec.panes(last)[1]
        panes = pl.concat(self._parts(), how="vertical", rechunk=False)
        if span[0] < low or span[1] >= high:
            panes = panes.filter(pl.col(PANE).is_between(low, high, closed="left"))
        if first == last:
            single = panes.with_columns(pl.lit(first, pl.Int64).alias(WINDOW))
            return self._kernel.merge(single.group_by([WINDOW, *self._kernel.keys]))
        return self._laid(panes, first, last).filter(pl.col(WINDOW).is_between(first, last))

    def _windows_by_source(self, before: Closed, after: Closed) -> pl.DataFrame | None:
        spec, source = self._kernel.spec, self._kernel.source_of
        low, high = spec.first_pane(pl.col(_BEFORE) + 1), spec.end_pane(pl.col(_AFTER))
        panes = after.beside(before.beside(pl.concat(self._parts()), source, _BEFORE), source, _AFTER)
        inside = panes.filter(pl.col(PANE) < high)
        if before.given is None:
            rises = pl.col(_BEFORE).is_null() | (pl.col(_AFTER) > pl.col(_BEFORE))
            inside = inside.filter(rises & (low.is_null() | (pl.col(PANE) >= low)))
        if inside.height == 0:
            return None
        lowest, highest, some, most = inside.select(
            pl.col(PANE).min(),
            pl.col(PANE).max().alias("highest"),
            pl.when(pl.col(_BEFORE).null_count() == 0).then(pl.col(_BEFORE).min()),
            pl.col(_AFTER).max(),
        ).row(0)
        first, last = spec.first_window(lowest), min(most, spec.last_window(highest))
        first = first if some is None or before.given is not None else max(first, some + 1)
        windows = self._laid(inside.drop(_BEFORE, _AFTER), first, last)
        windows = after.beside(before.beside(windows, source, _BEFORE), source, _AFTER)
        windows = windows.filter(pl.col(WINDOW) <= pl.col(_AFTER))
        newly = (pl.col(_BEFORE).is_null() | (pl.col(WINDOW) > pl.col(_BEFORE))).alias(_AFTER)
        return self._not_given(windows.with_columns(newly), before).drop(_BEFORE, _AFTER)

    def _not_given(self, windows: pl.DataFrame, before: Closed) -> pl.DataFrame:
        """The windows that were not closed before (_AFTER), and those that were but have not been given."""
        if before.given is None or windows[_AFTER].all():
            return windows.filter(_AFTER)
        passed = windows.filter(~pl.col(_AFTER))
        number = passed[WINDOW].to_numpy()
        lost = before.given.count(passed.select(self._kernel.source_of).to_series().to_list(), number, number)
        return pl.concat([windows.filter(_AFTER), passed.filter(pl.Series(lost == 0))])

    def _laid(self, panes: pl.DataFrame, first: int, last: int) -> pl.DataFrame:
        """Windows over some panes, from the first to the last at the least.

        Where they are few or cannot be made from each other, polars lays all of them over the sorted panes, without
        copying their partials.
        """
        if not self._kernel.spec.alike:
            return self._laid_each(panes)
        slid = slide(self._kernel, panes, first, last)
        return slid if slid is not None else pl.concat(self._laid_near(part) for part in self._stretches(panes))

    def _laid_each(self, panes: pl.DataFrame) -> pl.DataFrame:
        """Each pane copied for all its windows."""
        first, last = self._kernel.spec.windows_of(panes[PANE].to_numpy())
        windows = pl.int_ranges(pl.Series(first), pl.Series(last) + 1).alias(WINDOW)
        laid = panes.with_columns(windows).explode(WINDOW)
        return self._kernel.merge(laid.group_by([WINDOW, *self._kernel.keys]))

    def _stretches(self, panes: pl.DataFrame) -> list[pl.DataFrame]:
        """The panes in order, cut where a long gap is between them."""
        spec, panes = self._kernel.spec, panes.sort(PANE)
        gaps = np.diff(panes[PANE].to_numpy()) > spec.panes_per_window + _LONG_GAP * spec.panes_per_slide
        ends = [0, *(np.flatnonzero(gaps) + 1).tolist(), panes.height]
        return [panes.slice(start, end - start) for start, end in pairwise(ends)]

    def _laid_near(self, panes: pl.DataFrame) -> pl.DataFrame:
        """Windows over panes in order, none of them far from the next."""
        keys, span, step = self._kernel.keys, self._kernel.spec.panes_per_window, self._kernel.spec.panes_per_slide
        windows = panes.group_by_dynamic(
            PANE,
            every=f"{step}i",
            period=f"{span}i",
            offset=f"{-(-(1 - span) // step) * step}i",
            closed="left",
            start_by="window",
            group_by=keys or None,
        )
        return self._kernel.merge(windows).select((pl.col(PANE) // step).alias(WINDOW), pl.exclude(PANE))

    def partials_between(self, low: int, high: int) -> Iterator[pl.DataFrame]:
        """The partials of the panes from `low` to below `high`."""
        for part in self._parts():
            yield part.filter(pl.col(PANE).is_between(low, high, closed="left"))

    def closed_partials(self, closed: Closed) -> pl.DataFrame | None:
        """The partials that `purge` will drop, each pane and group once; None if there are none."""
        dropped = []
        for part in self._parts():
            numbered = part.with_row_index(_BEFORE)
            left = closed.open_panes(numbered, self._kernel.spec, PANE, self._kernel.source_of)
            if left.height < part.height:
                dropped.append(numbered.join(left.select(_BEFORE), on=_BEFORE, how="anti").drop(_BEFORE))
        if not dropped:
            return None
        return united(self._kernel, pl.concat(dropped), in_several([part[PANE] for part in dropped]))

    def purge(self, closed: Closed) -> None:
        """Drop the panes that count for no open window."""

        def left(panes: pl.DataFrame) -> pl.DataFrame:
            return closed.open_panes(panes, self._kernel.spec, PANE, self._kernel.source_of)

        self._size = None
        if closed.named is not None and len(self._pieces) > 1:
            self._compact()  # each piece would have to be looked up by source
        self._pieces = [piece for piece in map(left, self._pieces) if piece.height]
        if self._base is not None:
            self._base = left(self._base)
            if self._base.height == 0:
                self._base = None

    @property
    def size(self) -> RingSize:
        """How much is held. It is found when somebody asks, once for each change: it is published more often."""
        if self._size is None:
            parts = self._parts()
            # Columns, not frames: a query of polars for each part would cost more than all else that is published.
            panes = pl.concat([p.get_column(PANE) for p in parts]).n_unique() if parts else 0
            self._size = RingSize(panes, sum(p.height for p in parts), int(sum(p.estimated_size() for p in parts)))
        return self._size

    def take_fresh(self) -> pa.Table | None:
        """The partials that came since this was last asked: what the journal has not yet got."""
        fresh, self._fresh = self._fresh, []
        return pl.concat(fresh).to_arrow() if fresh else None

    def all(self) -> pa.Table | None:
        """The whole state, merged."""
        self._compact()
        self._fresh = []
        if self._base is None:
            return None
        return self._base.with_columns(pl.lit(None).alias(name) for name in self._untyped).to_arrow()

    def restore(self, tables: list[pa.Table], closed: Closed) -> None:
        """Continue from the tables that a journal kept."""
        for table in tables:
            frame = frame_of(table)
            untyped = {name for name, kind in frame.schema.items() if kind == pl.Null} - set(self._kernel.keys)
            if untyped:
                # Merged as a whole: what a merge makes of such nulls may be of another type.
                frame = frame.with_columns(pl.lit(None, pl.Int64).alias(name) for name in untyped)
                frame = self._kernel.merge(frame.group_by([PANE, *self._kernel.keys])).select(frame.columns)
            else:
                frame = united(self._kernel, frame, frame[PANE])  # of many pages
            self.add(frame, closed)
            self._untyped |= untyped
        self._fresh = []

    def _parts(self) -> list[pl.DataFrame]:
        return ([] if self._base is None else [self._base]) + self._pieces

    def _compact(self) -> None:
        parts, self._size = self._parts(), None
        if len(parts) > 1:
            # Most panes come with one page only.
            self._base = united(self._kernel, pl.concat(parts), in_several([part[PANE] for part in parts]))
        elif parts:
            self._base = parts[0]
        self._pieces = []


def in_several(parts: Sequence[pl.Series]) -> pl.Series:
    """The panes that more than one part has.

    >>> in_several([pl.Series([1, 2, 2]), pl.Series([2, 3, None]), pl.Series([], dtype=pl.Int64)]).to_list()
    [2, 2]
    """
    panes = pl.concat([_distinct(part.drop_nulls()) for part in parts])
    return panes.filter(panes.is_duplicated())


def rows_by_pane(partials: pl.DataFrame) -> pl.DataFrame:
    """The rows (ROWS) of each pane that has some.

    Panes that lie close together are counted by place: of 400,000 partials in a fifth of the time of a `group_by`.

    >>> partials = pl.DataFrame({PANE: [7, 5, 7], "k": ["a", "a", "b"], ROWS: [2, 1, 3]})
    >>> rows_by_pane(partials).rows()
    [(5, 1), (7, 5)]
    """
    panes = partials[PANE].to_numpy()
    low, high = (int(panes.min()), int(panes.max())) if len(panes) else (0, 1)
    if high - low > len(panes):
        return partials.group_by(PANE).agg(pl.col(ROWS).sum())
    # As floating-point numbers, which are exact for as many rows as a page can have.
    rows = np.bincount(panes - low, weights=partials[ROWS].to_numpy()).astype(np.int64)
    there = np.flatnonzero(rows)
    return pl.DataFrame({PANE: there + low, ROWS: rows[there]})


def _distinct(panes: pl.Series) -> pl.Series:
    """Each pane once; panes that lie close together are counted, which is cheaper than to hash them."""
    values = panes.to_numpy()
    if not len(values):
        return panes
    low, high = int(values.min()), int(values.max())
    if high - low > len(values):
        return panes.unique()
    return pl.Series(np.flatnonzero(np.bincount(values - low)) + low)
