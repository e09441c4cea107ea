"""ArrowPage: a page over polars, for whole scenarios in milliseconds.

Conditions and expressions are Spark SQL text; what polars' own SQL reads of that works here, the rest is Spark's.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.columns import BEFORE, CELL, PANE, PLACE, PUNCTUATION, ROWS, SINCE, SOURCE, TIME, UNTIL
from slackwater.operators.page import Folded, ResultsOf
from slackwater.operators.payload import MaterializedRows, Recipe
from slackwater.operators.prod import Prod
from slackwater.plan.function import checked
from slackwater.plan.steps import JoinTable, Map, Select, Step, Where
from slackwater.progress.arrival import Arrival, SourceArrivals, sketch_of
from slackwater.progress.time import FIRST_TIME, LAST_TIME, MIN_TICK
from slackwater.testing.aggregates import partials_of
from slackwater.testing.expression import expression
from slackwater.testing.pairs import with_stored
from slackwater.windows.kernel import PaneKernel, source_text
from slackwater.windows.per_row.rolling import RollingKernel
from slackwater.windows.results import WINDOW_END


@dataclass
class _Origin:
    """What all pages made from one arrival share."""

    frame: pl.DataFrame
    at: int
    needs: frozenset[str] = frozenset()
    arrival: list[Arrival] = field(default_factory=list)
    unstamped: _Origin | None = None
    """That of the same rows before they got their time."""


class ArrowPage:
    """A page in this process; like a Spark page it is lazy, and knows its arrival only once something ran."""

    def __init__(
        self,
        rows: pl.DataFrame,
        number: int,
        at: int,
        time: str | None = None,
        source: str | None = None,
        punctuation: str | None = None,
        prod: Prod | None = None,
    ) -> None:
        hidden = []
        if time is not None:
            ticks = expression(time).cast(pl.Int64)
            hidden.append(pl.when(ticks.is_between(FIRST_TIME, LAST_TIME)).then(ticks).alias(TIME))
        if source is not None:
            hidden.append(source_text(expression(source)).alias(SOURCE))
        if punctuation is not None:
            hidden.append(expression(punctuation).cast(pl.Int64).alias(PUNCTUATION))
        self._frame = rows.with_columns(hidden) if hidden else rows
        self.number = number
        self.prod = prod
        self._table: pa.Table | None = None
        self._origin = _Origin(self._frame, at)

    @staticmethod
    def of_results(table: pa.Table, node: ResultsOf, number: int, at: int, prod: Prod | None) -> ArrowPage:
        """Results of windows; the time of a row is the last tick of its window, or that of its own row."""
        rows, source = pl.DataFrame(table), node.kernel.source
        ends = rows[WINDOW_END].to_physical().cast(pl.Int64)
        rows = rows.hstack([(ends - node.end_lag).alias(TIME)])
        if source is not None:
            rows = rows.with_columns(source_text(pl.col(source)).alias(SOURCE))
        page = ArrowPage(rows, number, at, prod=prod)
        page._table = table
        page._execute()  # of results all is known
        return page

    def joins(self, following: ArrowPage) -> bool:
        """Whether both are as they came, and have not got their time from us."""
        fresh = all(
            not p._origin.arrival and p._origin.unstamped is None and p.prod is None for p in (self, following)
        )
        return fresh and self._frame.schema == following._frame.schema

    @staticmethod
    def together(pages: Sequence[ArrowPage]) -> ArrowPage:
        """The rows of pages that follow each other, as one that stands where the last of them stood."""
        last, rows = pages[-1], pl.concat([page._frame for page in pages])
        page = ArrowPage(rows, last.number, last._origin.at)
        page.expect(frozenset().union(*(p._origin.needs for p in pages)))
        return page

    @property
    def rows(self) -> int | None:
        """Rows on arrival, once known."""
        return self._origin.arrival[0].rows if self._origin.arrival else None

    @property
    def bytes(self) -> int | None:
        """Size in memory."""
        return int(self._frame.estimated_size())

    def sample(self, rows: int) -> ArrowPage:
        """The first ones."""
        return ArrowPage(self._frame.head(rows), self.number, self._origin.at, prod=self.prod)

    def expect(self, needs: frozenset[str], at: int | None = None) -> None:
        """Remember what will be asked for."""
        self._origin.needs = needs
        self._origin.at = self._origin.at if at is None else at

    def with_step(self, step: Step) -> ArrowPage:
        """The rows after one more step."""
        if isinstance(step, Where):
            return self._next(self._frame.filter(expression(step.condition)))
        if isinstance(step, Select):
            made = [expression(sql).alias(name) for name, sql in step.columns]
            return self._next(self._frame.select(*made, *self._hidden()))
        raise AssertionError(f"a page has no step {step.kind}")

    def joined(self, step: JoinTable, table: pl.DataFrame) -> ArrowPage:
        """The pairs with the rows of a table; every pair is tried."""
        return self._next(with_stored(self._frame, table, step))

    def stamped(self, at: int) -> ArrowPage:
        """The rows with a time."""
        stamp, origin = pl.when(pl.col(TIME).is_not_null()).then(pl.lit(at, pl.Int64)).alias(TIME), self._origin
        page = self._next(self._frame.with_columns(stamp))
        arrival = [known.stamped(at) for known in origin.arrival]
        page._origin = _Origin(origin.frame.with_columns(stamp), origin.at, origin.needs, arrival, origin)
        return page

    def fold(self, kernel: PaneKernel) -> Folded:
        """Partials by pane and group."""
        self._execute()
        groups = [expression(g.sql).alias(g.name) for g in kernel.groups]
        pane = ((pl.col(TIME) - kernel.spec.offset) // kernel.spec.pane).alias(PANE)
        timed = self.with_time()
        return Folded(partials_of(timed, [pane, *groups], kernel.columns), self._rows_by_pane(timed, pane, kernel))

    @staticmethod
    def _rows_by_pane(timed: pl.DataFrame, pane: pl.Expr, kernel: PaneKernel) -> pl.DataFrame:
        """Rows by pane, and by source where rows tell it."""
        if SOURCE in timed.columns:
            return timed.group_by([pane, SOURCE]).agg(pl.len().cast(pl.Int64).alias(ROWS))
        # Columns, not a query of polars: that takes ten times as long for a few rows.
        panes = (timed[TIME].to_numpy() - kernel.spec.offset) // kernel.spec.pane
        found, rows = np.unique(panes, return_counts=True)
        return pl.DataFrame([pl.Series(PANE, found, pl.Int64), pl.Series(ROWS, rows, pl.Int64)])

    def fold_all(self, kernels: Sequence[PaneKernel]) -> dict[PaneKernel, Folded]:
        """One kernel after another."""
        return {kernel: self.fold(kernel) for kernel in kernels}

    def rows_of(self, kernel: RollingKernel) -> pl.DataFrame:
        """Time, groups and arguments of each row."""
        self._execute()
        return self._frame.select(expression(sql).alias(name) for name, sql in kernel.row_sql().items())

    def time_spread(self) -> tuple[int, int]:
        """How many rows there are, and over how many ticks the middle nine tenths of them lie."""
        times = self._frame[TIME].drop_nulls().sort().to_list()
        few = len(times) // 20
        return len(times), times[-1 - few] - times[few] + 1 if times else 1

    def cells_of(self, width: int) -> int:
        """Into how many cells of this width the rows fall."""
        return (self._frame[TIME].drop_nulls() // width).n_unique()

    def spill_rows(self, kernel: RollingKernel, width: int, place: Any) -> pa.Schema:
        """The rows that have a time as Parquet files, in a folder for each `width` of it."""
        rows = self.rows_of(kernel).filter(pl.col(TIME).is_not_null())
        numbered = rows.with_row_index(PLACE).with_columns((pl.col(TIME) // width).alias(CELL))
        place.files.create_dir(place.path, recursive=True)
        for (cell,), part in numbered.group_by(CELL):
            place.files.create_dir(f"{place.path}/{CELL}={cell}")
            pq.write_table(
                part.drop(CELL).to_arrow(), f"{place.path}/{CELL}={cell}/0.parquet", filesystem=place.files
            )
        return rows.to_arrow().schema

    def arrival(self) -> Arrival | None:
        """Statistics before any filter, once something ran."""
        return self._origin.arrival[0] if self._origin.arrival else None

    def map(self, node: Map) -> ArrowPage:
        """Apply a function to the visible columns."""
        self._execute()
        batches = self._frame.drop(self._hidden()).to_arrow().combine_chunks().to_batches()
        mapped = [checked(node.function, node.schema)(batch) for batch in batches if batch.num_rows]
        made = pl.DataFrame(pa.Table.from_batches(mapped, node.schema))
        return self._next(made.hstack(self._frame.select(self._hidden())))

    def with_time(self) -> pl.DataFrame:
        """All columns, those of a join too, of the rows that have a time."""
        self._execute()
        # A query of polars takes longer than all else that is done to a few rows.
        return self._frame.filter(pl.col(TIME).is_not_null()) if self._frame[TIME].null_count() else self._frame

    def measure(self) -> Arrival:
        """The arrival statistics, taken now if nothing has run."""
        self._execute()
        return self._origin.arrival[0]

    def late(
        self, before: int, within: Sequence[tuple[int, int]] = (), by_source: pl.DataFrame | None = None
    ) -> ArrowPage | None:
        """Rows below `before`, or in a stretch of time, or without a time."""
        self._execute()
        missed = pl.col(TIME).is_null() | (pl.col(TIME) < before)
        for low, high in within:
            missed |= pl.col(TIME).is_between(low, high, closed="left")
        if by_source is not None and SOURCE in self._frame.columns:
            for source, low, high in by_source.select(SOURCE, SINCE, BEFORE).iter_rows():
                missed |= (pl.col(SOURCE) == source) & pl.col(TIME).is_between(low, high, closed="left")
        late = self._frame.filter(missed)
        return self._next(late) if late.height else None

    def behind(self, heartbeat: int, by_source: pl.DataFrame | None = None) -> int:
        """Rows at or below a heartbeat."""
        limited = _limited(self._origin.frame, heartbeat, by_source)
        return limited.filter(pl.col(TIME) <= pl.col(BEFORE)).height

    def recipe(self) -> Recipe | None:
        """Its rows are there already."""
        return None

    def payload(self, about: int | None = None) -> MaterializedRows:
        """The visible columns, in the types that results have."""
        self._execute()
        if self._table is not None:
            return self._table
        return self._frame.to_arrow().drop_columns(self._hidden())

    @property
    def saved(self) -> dict[str, Any] | None:
        """It lives in this process."""
        return None

    def held(self) -> ArrowPage:
        """Its rows are what they are."""
        return self

    @property
    def kept(self) -> bool:
        """It need not be: what is saved is found again."""
        return False

    def save(self) -> dict[str, Any]:
        """The rows as text in the record itself; enough for a test."""
        self._execute()
        rows = io.BytesIO()
        self._frame.write_ipc_stream(rows)
        return {
            "number": self.number,
            "rows": base64.b64encode(rows.getvalue()).decode(),
            "arrival": self._origin.arrival[0].saved(),
            "prod": None if self.prod is None else self.prod.saved(),
        }

    @staticmethod
    def load(saved: dict[str, Any]) -> ArrowPage:
        """A page from what `save` gave."""
        frame = pl.read_ipc_stream(io.BytesIO(base64.b64decode(saved["rows"])))
        arrival = Arrival.load(saved["arrival"])
        prod = None if saved["prod"] is None else Prod.load(saved["prod"])
        page = ArrowPage(frame, saved["number"], arrival.at, prod=prod)
        page._origin.arrival.append(arrival)
        return page

    def _hidden(self) -> list[str]:
        return [c for c in (TIME, UNTIL, SOURCE, PUNCTUATION) if c in self._frame.columns]

    def _execute(self) -> None:
        origin = self._origin
        if not origin.arrival:
            origin.arrival.append(_measured(origin))
        if origin.unstamped is not None and not origin.unstamped.arrival:
            origin.unstamped.arrival.append(origin.arrival[0])

    def _next(self, frame: pl.DataFrame) -> ArrowPage:
        page = ArrowPage(frame, self.number, self._origin.at, prod=self.prod)
        page._origin = self._origin
        return page


def _limited(frame: pl.DataFrame, everyone: int, by_source: pl.DataFrame | None) -> pl.DataFrame:
    if by_source is None or SOURCE not in frame.columns:
        return frame.with_columns(pl.lit(everyone).alias(BEFORE))
    limited = frame.join(by_source, on=SOURCE, how="left", maintain_order="left")
    return limited.with_columns(pl.col(BEFORE).fill_null(everyone))


def _measured(origin: _Origin) -> Arrival:
    frame, needs = origin.frame, origin.needs
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
        origin.at,
        sum(times.drop_nulls().to_list()) if "total" in needs else None,
        sketch_of(times.drop_nulls().to_numpy()) if needs & {"sketch", "glance"} else None,
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
