"""The back end in process: the verbs over polars, for whole scenarios in milliseconds.

Conditions and expressions are Spark SQL text; what polars' own SQL reads of that works here, the rest is Spark's.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.aggregates.kept import Kept
from slackwater.columns import BEFORE, PANE, PUNCTUATION, ROWS, SINCE, SOURCE, TIME, UNTIL
from slackwater.operators.backend import Done, Folded, LateTimes
from slackwater.operators.page import CachedRows, DriverRows, JoinOutput, Location, Origin, Page, SavedRows
from slackwater.operators.payload import MaterializedRows, Payload, Recipe
from slackwater.operators.prod import Prod
from slackwater.plan.function import checked
from slackwater.plan.nodes import AggregateNode
from slackwater.plan.step import Step
from slackwater.plan.steps import (
    Credible,
    Explode,
    InWindows,
    JoinTable,
    Map,
    Over,
    Select,
    Slice,
    Sort,
    Stamp,
    Where,
)
from slackwater.progress.arrival import Arrival, SourceArrivals, sketch_of
from slackwater.progress.time import FIRST_TIME, LAST_TIME, MIN_TICK
from slackwater.testing.aggregates import partials_of
from slackwater.testing.explode import exploded, in_windows
from slackwater.testing.expression import expression
from slackwater.testing.kept_aggregates import kept_values
from slackwater.testing.pairs import with_stored
from slackwater.testing.types import matching_rows
from slackwater.windows.kernel import PaneKernel, source_text
from slackwater.windows.results import WINDOW_END, WINDOW_START

_HIDDEN = (TIME, UNTIL, SOURCE, PUNCTUATION)


@dataclass(frozen=True, eq=False)
class ProcessRows:
    """Rows in this process."""

    frame: pl.DataFrame
    """With the hidden columns."""
    table: pa.Table | None = None
    """The rows for a sink, where they came as a table."""


def arrow_page(
    rows: pl.DataFrame,
    number: int,
    at: int,
    time: str | None = None,
    source: str | None = None,
    punctuation: str | None = None,
    prod: Prod | None = None,
) -> Page:
    """A page in this process; like a Spark page it knows its arrival only once something has run."""
    hidden = []
    if time is not None:
        ticks = expression(time).cast(pl.Int64, strict=False)  # what is no time is null, as on Spark
        hidden.append(pl.when(ticks.is_between(FIRST_TIME, LAST_TIME)).then(ticks).alias(TIME))
    if source is not None:
        hidden.append(source_text(expression(source)).alias(SOURCE))
    if punctuation is not None:
        hidden.append(expression(punctuation).cast(pl.Int64).alias(PUNCTUATION))
    return page_of_rows(rows.with_columns(hidden) if hidden else rows, Origin("", number), at, prod)


def page_of_rows(
    frame: pl.DataFrame, origin: Origin, at: int, prod: Prod | None = None, table: pa.Table | None = None
) -> Page:
    """A page of rows that have their hidden columns."""
    return Page(origin, CachedRows(ProcessRows(frame, table)), prod=prod, at=at, size=int(frame.estimated_size()))


class ArrowBackend:
    """Runs on rows in this process. What steps give is kept until the rows are released."""

    def __init__(self, tables: Mapping[str, pl.DataFrame] | None = None) -> None:
        self.cores = 1
        self._tables = dict(tables or {})
        self._frames: dict[Location, dict[tuple[Step, ...], pl.DataFrame]] = {}

    def frame(self, page: Page) -> pl.DataFrame:
        """The rows after all steps, with the hidden columns."""
        frames = self._frames.setdefault(page.location, {})
        if page.steps not in frames:
            if page.steps:
                frames[page.steps] = self._after(self.frame(replace(page, steps=page.steps[:-1])), page.steps[-1])
            else:
                frames[()] = self.rows_at(page.location)
        return frames[page.steps]

    def rows_at(self, location: Location) -> pl.DataFrame:
        """The rows of a location."""
        if isinstance(location, DriverRows):
            return pl.DataFrame(location.table)
        if isinstance(location, SavedRows):
            return pl.read_ipc_stream(io.BytesIO(base64.b64decode(location.folder)))
        assert isinstance(location, (CachedRows, JoinOutput)) and isinstance(location.rows, ProcessRows)
        return location.rows.frame

    def _after(self, frame: pl.DataFrame, step: Step) -> pl.DataFrame:
        return _STEPS[type(step)](self, frame, step)

    def where(self, frame: pl.DataFrame, step: Where) -> pl.DataFrame:
        """The rows that meet the condition."""
        return frame.filter(expression(step.condition))

    def select(self, frame: pl.DataFrame, step: Select) -> pl.DataFrame:
        """Other columns."""
        return frame.select(*(expression(sql).alias(name) for name, sql in step.columns), *hidden_of(frame))

    def sort(self, frame: pl.DataFrame, step: Sort) -> pl.DataFrame:
        """In the order of windows, then in that of the step; lists have no order here."""
        windows = [pl.col(WINDOW_START), pl.col(WINDOW_END)]
        keys = [(expression(sql), down, last) for sql, down, last in step.order]
        keys = [key for key in keys if not isinstance(frame.select(key[0]).dtypes[0], pl.List)]
        by, descending, last = zip(*[*((w, False, False) for w in windows), *keys], strict=True)
        rows = frame.sort(*by, descending=list(descending), nulls_last=list(last), maintain_order=True)
        if step.limit is None:
            return rows
        return rows.filter(pl.int_range(pl.len()).over(windows) < step.limit)

    def stamp(self, frame: pl.DataFrame, step: Stamp) -> pl.DataFrame:
        """Another time."""
        at = pl.lit(step.at, pl.Int64)
        return frame.with_columns(pl.when(pl.col(TIME).is_not_null()).then(at).alias(TIME))

    def credible(self, frame: pl.DataFrame, step: Credible) -> pl.DataFrame:
        """No time, and no punctuation, for rows beyond the limit."""
        believed = pl.col(TIME).is_null() | (pl.col(TIME) <= step.limit)
        hidden = [c for c in (TIME, PUNCTUATION) if c in frame.columns]
        return frame.with_columns(pl.when(believed).then(pl.col(c)).alias(c) for c in hidden)

    def join(self, frame: pl.DataFrame, step: JoinTable) -> pl.DataFrame:
        """The pairs with the rows of a table; every pair is tried."""
        return with_stored(frame, self._tables[step.table], step)

    def explode(self, frame: pl.DataFrame, step: Explode) -> pl.DataFrame:
        """One row to many."""
        return exploded(frame, step.call)[0]

    def slice(self, frame: pl.DataFrame, step: Slice) -> pl.DataFrame:
        """Rows that follow each other."""
        first, last = (frame.height * share // step.OF for share in (step.first, step.last))
        return frame.slice(first, last - first)

    def windows(self, frame: pl.DataFrame, step: InWindows) -> pl.DataFrame:
        """A row for each window."""
        return in_windows(frame, step)

    def map(self, frame: pl.DataFrame, step: Map) -> pl.DataFrame:
        """A function on the visible columns."""
        batches = frame.drop(hidden_of(frame)).to_arrow().combine_chunks().to_batches()
        mapped = [checked(step.function, step.schema)(batch) for batch in batches if batch.num_rows]
        made = pl.DataFrame(pa.Table.from_batches(mapped, step.schema))
        return made.hstack(frame.select(hidden_of(frame)))

    def timed(self, page: Page) -> pl.DataFrame:
        """The rows that have a time."""
        frame = self.frame(page)
        # A query of polars takes longer than all else that is done to a few rows.
        return frame.filter(pl.col(TIME).is_not_null()) if frame[TIME].null_count() else frame

    def arrival(self, page: Page) -> Arrival | None:
        """The statistics, if they are not known."""
        return _measured(self._arrived(page), page) if page.arrival is None else None

    def _arrived(self, page: Page) -> pl.DataFrame:
        """The rows before any filter."""
        return self.frame(replace(page, steps=tuple(step for step in page.steps if step.sets_time)))

    # --- the verbs

    def fold(self, page: Page, kernels: Sequence[PaneKernel]) -> Done[Mapping[PaneKernel, Folded]]:
        """One kernel after another."""
        return Done({kernel: self._folded(page, kernel) for kernel in kernels}, self.arrival(page))

    def _folded(self, page: Page, kernel: PaneKernel) -> Folded:
        groups = [expression(g.sql).alias(g.name) for g in kernel.groups]
        pane = ((pl.col(TIME) - kernel.spec.offset) // kernel.spec.pane).alias(PANE)
        timed = self.timed(page)
        return Folded(partials_of(timed, [pane, *groups], kernel.columns), _rows_by_pane(timed, pane, kernel))

    def collect(
        self, page: Page, columns: Mapping[str, str] | None = None, limit: int | None = None
    ) -> Done[pa.Table]:
        """The rows as a table. A sample leaves the arrival to the work on the whole page."""
        frame = self.frame(page)
        if columns is not None:
            frame = frame.select(expression(sql).alias(name) for name, sql in columns.items())
        return Done(frame[:limit].to_arrow(), self.arrival(page) if limit is None else None)

    def payload(self, page: Page, about: int | None = None) -> Done[MaterializedRows]:
        """The visible columns, in the types that results have."""
        frame, rows = self.frame(page), page.location.rows if isinstance(page.location, CachedRows) else None
        if isinstance(rows, ProcessRows) and rows.table is not None and not page.steps:
            return Done(rows.table, self.arrival(page))
        return Done(frame.to_arrow().drop_columns(hidden_of(frame)), self.arrival(page))

    def repeatable(self, page: Page) -> Done[Recipe | None]:
        """Its rows are there already."""
        return Done(None)

    def count(self, page: Page, heartbeat: int, by_source: pl.DataFrame | None = None) -> Done[int]:
        """Rows at or below a heartbeat."""
        limited = _limited(self._arrived(page), heartbeat, by_source)
        return Done(limited.filter(pl.col(TIME) <= pl.col(BEFORE)).height)

    def late(self, page: Page, times: LateTimes) -> Done[Page | None]:
        """Rows below a time, or in a stretch of time, or without a time."""
        frame = self.frame(page)
        missed = pl.col(TIME).is_null() | (pl.col(TIME) < times.before)
        for low, high in times.within:
            missed |= pl.col(TIME).is_between(low, high, closed="left")
        of_group = [expression(group.sql) for group in times.groups]
        if times.by_group is not None and (SOURCE in frame.columns or [g.sql for g in times.groups] != [SOURCE]):
            names = [group.name for group in times.groups]
            for *group, low, high in times.by_group.select(*names, SINCE, BEFORE).iter_rows():
                within = pl.col(TIME).is_between(low, high, closed="left")
                for column, value in zip(of_group, group, strict=True):
                    within &= column.eq_missing(pl.lit(value))
                missed |= within
        late = frame.filter(missed)
        found = page_of_rows(late, page.origin.part("late"), page.at) if late.height else None
        return Done(found, self.arrival(page))

    def measure(self, page: Page) -> Done[None]:
        """The statistics."""
        return Done(None, self.arrival(page))

    def materialize(self, page: Page) -> Done[Page]:
        """The rows after the steps, in memory."""
        frame = self.frame(page)
        done = replace(page, location=CachedRows(ProcessRows(frame)), steps=(), size=int(frame.estimated_size()))
        return Done(done, self.arrival(page))

    def write(self, page: Page) -> Done[Page]:
        """The rows as text in the page itself; enough for a test."""
        frame, rows, arrival = self.frame(page), io.BytesIO(), self.arrival(page)
        frame.write_ipc_stream(rows)
        saved = SavedRows(base64.b64encode(rows.getvalue()).decode())
        known = page.arrival if arrival is None else arrival
        return Done(replace(page, location=saved, steps=(), arrival=known), arrival)

    def merge(self, pages: Sequence[Page]) -> Page | None:
        """Pages that are as they came, with the same columns."""
        if any(page.steps or page.prod is not None or page.arrival is not None for page in pages):
            return None
        frames = [self.frame(page) for page in pages]
        if any(frame.schema != frames[0].schema for frame in frames):
            return None
        merged = page_of_rows(pl.concat(frames), pages[-1].origin, pages[-1].at)
        return replace(merged, needs=frozenset().union(*(page.needs for page in pages)))

    def results(self, origin: Origin, payload: Payload, node: AggregateNode, at: int, prod: Prod | None) -> Page:
        """Results of windows; the time of a row is the last tick of its window, or that of its own row."""
        assert isinstance(payload, pa.Table)
        rows, source = pl.DataFrame(payload), node.kernel.source
        ends = rows[WINDOW_END].to_physical().cast(pl.Int64)
        rows = rows.hstack([(ends - node.end_lag).alias(TIME)])
        if source is not None:
            rows = rows.with_columns(source_text(pl.col(source)).alias(SOURCE))
        page = page_of_rows(rows, origin, at, prod, payload)
        return replace(page, arrival=_measured(rows, page))

    def matching(self, groups: pl.DataFrame, where: str) -> pl.Series:
        """As polars answers it; a cast that fails gives null, as in Spark."""
        return matching_rows(groups, where)

    def close(self, rows: pl.DataFrame, kernel: PaneKernel, aggregates: Sequence[Kept]) -> pl.DataFrame:
        """As polars computes it."""
        return kept_values(rows, kernel, aggregates)

    def check(self, page: Page) -> None:
        """They are in the page."""

    def release(self, location: Location) -> None:
        """Forget what steps have given."""
        self._frames.pop(location, None)

    def delete(self, folder: str) -> None:
        """It goes with the record."""

    def sweep(self, live: Collection[str], taken: Mapping[str, int]) -> None:
        """There is nothing outside the records."""


#: What does each kind of step.
_STEPS: dict[type[Step], Callable[..., pl.DataFrame]] = {
    Where: ArrowBackend.where,
    Select: ArrowBackend.select,
    Over: ArrowBackend.select,
    Sort: ArrowBackend.sort,
    Stamp: ArrowBackend.stamp,
    Credible: ArrowBackend.credible,
    JoinTable: ArrowBackend.join,
    Explode: ArrowBackend.explode,
    InWindows: ArrowBackend.windows,
    Map: ArrowBackend.map,
    Slice: ArrowBackend.slice,
}


def hidden_of(frame: pl.DataFrame) -> list[str]:
    """The hidden columns of rows."""
    return [c for c in _HIDDEN if c in frame.columns]


def _rows_by_pane(timed: pl.DataFrame, pane: pl.Expr, kernel: PaneKernel) -> pl.DataFrame:
    """Rows by pane, and by source where rows tell it."""
    if SOURCE in timed.columns:
        return timed.group_by([pane, SOURCE]).agg(pl.len().cast(pl.Int64).alias(ROWS))
    # Columns, not a query of polars: that takes ten times as long for a few rows.
    panes = (timed[TIME].to_numpy() - kernel.spec.offset) // kernel.spec.pane
    found, rows = np.unique(panes, return_counts=True)
    return pl.DataFrame([pl.Series(PANE, found, pl.Int64), pl.Series(ROWS, rows, pl.Int64)])


def _limited(frame: pl.DataFrame, everyone: int, by_source: pl.DataFrame | None) -> pl.DataFrame:
    if by_source is None or SOURCE not in frame.columns:
        return frame.with_columns(pl.lit(everyone).alias(BEFORE))
    limited = frame.join(by_source, on=SOURCE, how="left", maintain_order="left")
    return limited.with_columns(pl.col(BEFORE).fill_null(everyone))


def _measured(frame: pl.DataFrame, page: Page) -> Arrival:
    times = frame[TIME]
    low, high = times.min(), times.max()
    assert low is None or isinstance(low, int)
    assert high is None or isinstance(high, int)
    said, only = None, 0
    if PUNCTUATION in frame.columns:
        said = frame[PUNCTUATION].max()
        only = frame.filter(pl.col(TIME).is_null() & pl.col(PUNCTUATION).is_not_null()).height
    assert said is None or isinstance(said, int)
    return Arrival(
        len(times) - only,
        times.null_count() - only,
        low,
        high,
        page.at,
        sum(times.drop_nulls().to_list()) if "total" in page.needs else None,
        sketch_of(times.drop_nulls().to_numpy()) if page.needs & {"sketch", "glance"} else None,
        said,
        _by_source(frame) if SOURCE in frame.columns else None,
    )


def _by_source(frame: pl.DataFrame) -> SourceArrivals:
    has = PUNCTUATION in frame.columns
    stats = [
        pl.col(TIME).count().cast(pl.Int64).alias("rows"),
        pl.col(TIME).min().alias("low"),
        pl.col(TIME).max().alias("high"),
        (pl.col(PUNCTUATION).max() if has else pl.lit(None, pl.Int64)).alias("said"),
    ]
    by = frame.group_by(SOURCE).agg(stats).filter((pl.col("rows") > 0) | pl.col("said").is_not_null()).sort(SOURCE)
    rows, low, high, said = (by[c].fill_null(MIN_TICK).to_numpy().astype(np.int64) for c in by.columns[1:])
    return SourceArrivals(by[SOURCE].to_list(), rows, low, high, said if has else None)
