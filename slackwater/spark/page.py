"""SparkPage: a page over a Spark DataFrame. One Spark job folds it and brings its arrival statistics along.

The plan of that job is the same for every page of a query (D2), so Spark compiles it once. A row that a filter
drops stays in it, marked, for its arrival still moves time; to observe rows before the filter would be slower.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type

from slackwater.columns import BEFORE, CELL, NO_SOURCE, PANE, PLACE, PUNCTUATION, ROWS, SOURCE, TIME
from slackwater.operators.element import Payload, Staged
from slackwater.operators.page import Folded, PartialsTooLarge
from slackwater.plan.nodes import MapNode, StreamNode
from slackwater.progress.arrival import Arrival
from slackwater.spark.analysis import simple_name
from slackwater.spark.function import arrow_function
from slackwater.spark.shape import Shape
from slackwater.spark.statistics import (
    ALL,
    COLUMNS,
    MISSING,
    page_statistics,
    read_arrival,
    sketch_column,
    time_statistics,
)
from slackwater.spark.store import Place, SparkPages
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.per_row.rolling import RollingKernel

#: Hidden column that says whether the filters so far have let a row pass.
KEEP = "__keep"
_MADE = "__made"


@dataclass
class _Origin:
    """What all pages made from one arrival share."""

    source: DataFrame
    number: int
    at: int
    shape: Shape
    pages: SparkPages
    hidden: tuple[str, ...]
    """Hidden columns of every row."""
    needs: frozenset[str] = frozenset()
    arrival: Arrival | None = None

    @property
    def many_sources(self) -> bool:
        return SOURCE in self.hidden

    @property
    def asked(self) -> tuple[bool, bool]:
        """Whether the sum of times, and punctuations, are wanted."""
        return "total" in self.needs, PUNCTUATION in self.hidden

    def measure(self) -> None:
        """Take the arrival statistics by a job of their own."""
        started, (frame, sketch) = time.perf_counter(), self.sketched(self.source)
        keys = [SOURCE] if self.many_sources else []
        table = frame.groupBy(*keys).agg(*page_statistics(*self.asked)).toArrow()
        self.pages.spent(time.perf_counter() - started)
        self.arrived(frame_of(table), sketch)

    def sketched(self, frame: DataFrame) -> tuple[DataFrame, Observation | None]:
        """The frame, with the sketch of times observed on the way if it is wanted and not known yet."""
        if "sketch" not in self.needs or self.arrival is not None:
            return frame, None
        sketch = Observation()
        return frame.observe(sketch, sketch_column()), sketch

    def arrived(self, statistics: pl.DataFrame, sketch: Observation | None) -> None:
        """Take the statistics that a job has brought along."""
        seen = None if sketch is None else sketch.get["sketch"]
        self.arrival = read_arrival(statistics, self.at, None if seen is None else bytes(seen))


@dataclass
class SparkPage:
    """A lazy DataFrame with hidden columns."""

    frame: DataFrame
    origin: _Origin
    marked: bool = False
    """Whether filters have only marked the rows (KEEP)."""

    @staticmethod
    def arrive(
        frame: DataFrame, node: StreamNode, number: int, at: int, shape: Shape, pages: SparkPages
    ) -> SparkPage:
        """A page as it comes from a source."""
        hidden = {TIME: node.time}
        if node.source is not None:
            hidden[SOURCE] = f"coalesce(CAST({node.source} AS STRING), '{NO_SOURCE}')"
        if node.punctuation is not None:
            hidden[PUNCTUATION] = node.punctuation
        timed = frame.select("*", *(_column(sql).alias(name) for name, sql in hidden.items()))
        return SparkPage(timed, _Origin(timed, number, at, shape, pages, tuple(hidden)))

    @staticmethod
    def load(pages: SparkPages, saved: dict[str, Any]) -> SparkPage:
        """A page from what `save` gave."""
        place = pages.root.child(saved["folder"])
        arrival = Arrival.load(saved["arrival"])
        frame = pages.spark.read.parquet(place.address)
        hidden = tuple(c for c in (TIME, SOURCE, PUNCTUATION) if c in frame.columns)
        origin = _Origin(frame, saved["number"], arrival.at, Shape(), pages, hidden, arrival=arrival)
        return SparkPage(frame, origin)

    @property
    def number(self) -> int:
        """Place in the stream: the batch id."""
        return self.origin.number

    @property
    def rows(self) -> int | None:
        """Rows on arrival, once known."""
        return None if self.origin.arrival is None else self.origin.arrival.rows

    def expect(self, needs: frozenset[str]) -> None:
        """Remember what will be asked for."""
        self.origin.needs = needs

    def where(self, condition: str) -> SparkPage:
        """Filter; as long as the arrival is not known, rows are only marked."""
        if self.origin.arrival is not None:
            return SparkPage(self._kept().where(_column(condition)), self.origin)
        keep = f"coalesce(({condition}), false)"
        if self.marked:
            keep = f"CASE WHEN {KEEP} THEN {keep} ELSE false END"
        return SparkPage(self.frame.withColumn(KEEP, _column(keep)), self.origin, marked=True)

    def select(self, columns: Mapping[str, str]) -> SparkPage:
        """Project, and keep what is hidden."""
        made = [_column(self._given(sql)).alias(name) for name, sql in columns.items()]
        hidden = [*self.origin.hidden, *([KEEP] if self.marked else [])]
        return SparkPage(self.frame.select(*made, *hidden), self.origin, self.marked)

    def fold(self, kernel: PaneKernel) -> Folded:
        """One job: partials by pane and group, to the driver as Arrow."""
        started, one_task = time.perf_counter(), self.origin.shape.one_task()
        unknown = self.origin.arrival is None
        frame, sketch = self.origin.sketched(self.frame.coalesce(1) if one_task else self.frame)
        asked = self.origin.asked if unknown else None
        # Rows that a filter dropped have no group any more, but still a source.
        by_source = self.origin.many_sources and (kernel.source is None or self.marked)
        keys, made = _kernel_columns(kernel, by_source, self.marked, asked)
        try:
            table = frame.groupBy(*keys).agg(*made).toArrow()
        except (PySparkException, Py4JJavaError) as error:
            if not too_large(error):
                raise
            if unknown:
                self.origin.measure()
            raise PartialsTooLarge("more partials than spark.driver.maxResultSize") from error
        seconds = time.perf_counter() - started
        self.origin.pages.spent(seconds)
        partials = frame_of(table)
        if self.origin.many_sources and not by_source:
            partials = partials.with_columns(kernel.source_of.alias(SOURCE))
        if unknown:
            everything = pl.col(ALL if self.marked else ROWS)
            missing = pl.when(pl.col(PANE).is_null()).then(everything).otherwise(0)
            self.origin.arrived(partials.with_columns(everything.alias(ALL), missing.alias(MISSING)), sketch)
        assert self.origin.arrival is not None
        self.origin.shape.ran(one_task, self.origin.arrival.rows, seconds)
        return _folded(partials, kernel, by_source, self.marked)

    def rows_of(self, kernel: RollingKernel) -> pl.DataFrame:
        """One job: the time, groups and arguments of each row, to the driver as Arrow."""
        frame, statistics = self._observed()
        made = [_column(sql).alias(name) for name, sql in kernel.row_sql().items()]
        started = time.perf_counter()
        try:
            table = frame.select(*made).toArrow()
        except (PySparkException, Py4JJavaError) as error:
            if not too_large(error):
                raise
            if self.origin.arrival is None:
                self.origin.measure()
            raise PartialsTooLarge("more rows than spark.driver.maxResultSize") from error
        self._ran(started, statistics)
        return frame_of(table)

    def time_spread(self) -> tuple[int, int]:
        """One job: how many rows there are, and over how many ticks the middle nine tenths of them lie."""
        row = self._kept().agg(F.count(TIME), F.percentile_approx(TIME, [0.05, 0.95])).first()
        assert row is not None
        return row[0], row[1][1] - row[1][0] + 1 if row[1] else 1

    def cells_of(self, width: int) -> int:
        """One job: into about how many cells of this width the rows fall."""
        row = self._kept().agg(F.approx_count_distinct(F.expr(_cell_sql(width)))).first()
        assert row is not None
        return int(row[0])

    def spill_rows(self, kernel: RollingKernel, width: int, place: Place) -> pa.Schema:
        """One job: the same rows, of those with a time, as Parquet files in a folder for each `width` of time."""
        frame, statistics = self._observed()
        made = [_column(sql).alias(name) for name, sql in kernel.row_sql().items()]
        started = time.perf_counter()
        rows = frame.where(f"{TIME} IS NOT NULL").select(*made)
        cell = F.expr(_cell_sql(width)).alias(CELL)
        numbered = rows.select("*", cell, F.monotonically_increasing_id().alias(PLACE))
        numbered.write.mode("overwrite").partitionBy(CELL).parquet(place.address)
        self._ran(started, statistics)
        zone = rows.sparkSession.conf.get("spark.sql.session.timeZone")
        return pa.schema([(f.name, to_arrow_type(f.dataType, timezone=zone)) for f in rows.schema.fields])

    def spill(self, kernel: PaneKernel, place: Place) -> None:
        """One job: partials by pane and group, as Parquet files in a folder a pane."""
        frame, statistics = self._observed()
        keys, made = _kernel_columns(kernel, False, False, None)
        started = time.perf_counter()
        partials = frame.where(f"{TIME} IS NOT NULL").groupBy(*keys).agg(*made)
        partials.write.mode("overwrite").partitionBy(PANE).parquet(place.address)
        self._ran(started, statistics)

    def arrival(self) -> Arrival | None:
        """Statistics before any filter, once a job has run."""
        return self.origin.arrival

    def map(self, node: MapNode) -> SparkPage:
        """One job, in Spark's Python workers; the rows stay where they were made."""
        frame, statistics = self._observed()
        started = time.perf_counter()
        visible = [F.col(f"`{c}`") for c in frame.columns if c not in self.origin.hidden]
        made = frame.select(arrow_function(node)(F.struct(*visible)).alias(_MADE), *self.origin.hidden)
        names = [F.col(f"{_MADE}.`{name}`").alias(name) for name in node.schema.names]
        mapped = made.select(*names, *self.origin.hidden).localCheckpoint()
        self._ran(started, statistics)
        return SparkPage(mapped, self.origin)

    def measure(self) -> Arrival:
        """Statistics before any filter, by a job of their own if none has run."""
        if self.origin.arrival is None:
            self.origin.measure()
        assert self.origin.arrival is not None
        return self.origin.arrival

    def late(
        self, before: int, by_source: pl.DataFrame | None = None, within: Sequence[tuple[int, int]] = ()
    ) -> Payload:
        """The late rows; to the driver if they are few enough. Runs only for pages that have some."""
        started, limited = time.perf_counter(), self._limited(self._kept(), before, by_source)
        missed = [f"{TIME} IS NULL OR {TIME} < {BEFORE}"]
        missed += [f"({TIME} >= {low}L AND {TIME} < {high}L)" for low, high in within]
        rows = limited.where(" OR ".join(missed)).drop(BEFORE, *self.origin.hidden)
        try:
            return rows.toArrow()
        except (PySparkException, Py4JJavaError) as error:
            if not too_large(error):
                raise
            return stage(rows, self.origin.pages)
        finally:
            self.origin.pages.spent(time.perf_counter() - started)

    def behind(self, heartbeat: int, by_source: pl.DataFrame | None = None) -> int:
        """Rows at or below a heartbeat. Runs only for pages that have some."""
        started = time.perf_counter()
        count = self._limited(self.origin.source, heartbeat, by_source).where(f"{TIME} <= {BEFORE}").count()
        self.origin.pages.spent(time.perf_counter() - started)
        return count

    def save(self, place: Place | None = None) -> dict[str, Any]:
        """Write the rows to the journal's file system."""
        place = place or self.origin.pages.new("pages")
        frame, statistics = self._observed()
        started = time.perf_counter()
        frame.write.mode("overwrite").parquet(place.address)
        self._ran(started, statistics)
        assert self.origin.arrival is not None
        return {
            "number": self.number,
            "folder": place.path.removeprefix(self.origin.pages.root.path + "/"),
            "arrival": self.origin.arrival.saved(),
        }

    def _kept(self, frame: DataFrame | None = None) -> DataFrame:
        """The rows that the filters have let pass."""
        frame = self.frame if frame is None else frame
        return frame.where(KEEP).drop(KEEP) if self.marked else frame

    def _given(self, sql: str) -> str:
        """An expression that is not evaluated for rows that a filter has dropped."""
        if not self.marked or simple_name(sql.strip("`")):
            return sql
        return f"CASE WHEN {KEEP} THEN {sql} END"

    def _limited(self, frame: DataFrame, everyone: int, by_source: pl.DataFrame | None) -> DataFrame:
        limit = F.lit(everyone)
        if by_source is None or not self.origin.many_sources:
            return frame.withColumn(BEFORE, limit)
        limits = frame.sparkSession.createDataFrame(by_source.to_arrow())
        joined = frame.join(F.broadcast(limits), on=SOURCE, how="left")
        return joined.withColumn(BEFORE, F.coalesce(F.col(BEFORE), limit))

    def _observed(self) -> tuple[DataFrame, Observation | None]:
        """The rows that passed, for a job on them; arrival statistics are taken on the way if that can be."""
        if self.origin.arrival is not None:
            return self._kept(), None
        if self.origin.many_sources:
            self.origin.measure()
            return self._kept(), None
        statistics = Observation()
        wanted = [
            *page_statistics(*self.origin.asked),
            *([sketch_column()] if "sketch" in self.origin.needs else []),
        ]
        return self._kept(self.frame.observe(statistics, *wanted)), statistics

    def _ran(self, started: float, statistics: Observation | None) -> None:
        self.origin.pages.spent(time.perf_counter() - started)
        if statistics is None:
            return
        try:
            seen = statistics.get
        except Py4JJavaError:
            # Spark saw that no row can pass the filter and left out the scan, statistics and all.
            self.origin.measure()
            return
        row = pl.DataFrame([{c: seen[c] for c in COLUMNS if c in seen}])
        self.origin.arrived(row, statistics if "sketch" in seen else None)


def stage(rows: DataFrame, pages: SparkPages) -> Staged:
    """Write rows to the journal's file system, for a sink to take from there."""
    place = pages.new("staged")
    seen = Observation()
    rows.observe(seen, F.count(F.lit(1)).alias("rows")).write.parquet(place.address)
    return Staged(place.path.removeprefix(pages.root.path + "/"), int(seen.get["rows"]))


def _cell_sql(width: int) -> str:
    return f"({TIME} - pmod({TIME}, {width}L)) div {width}L"


def too_large(error: Exception) -> bool:
    """Whether Spark refused to bring a result to the driver for its size."""
    return "spark.driver.maxResultSize" in str(error)


@lru_cache(maxsize=4096)
def _column(sql: str) -> Column:
    return F.expr(sql)


@lru_cache(maxsize=256)
def _kernel_columns(
    kernel: PaneKernel, by_source: bool, marked: bool, asked: tuple[bool, bool] | None
) -> tuple[list[Column], list[Column]]:
    """Keys and aggregates of the job that folds a page."""
    groups = {g.name: f"CASE WHEN {KEEP} THEN {g.sql} END" if marked else g.sql for g in kernel.groups}
    keys = [F.expr(kernel.pane_sql()).alias(PANE), *(F.expr(sql).alias(name) for name, sql in groups.items())]
    if by_source:
        keys.append(F.col(SOURCE))
    made = [F.expr(sql).alias(name) for name, sql in kernel.make_sql(KEEP if marked else None).items()]
    if asked is not None:
        made += [*time_statistics(*asked), *([F.count(F.lit(1)).alias(ALL)] if marked else [])]
    return keys, made


def _folded(partials: pl.DataFrame, kernel: PaneKernel, by_source: bool, marked: bool) -> Folded:
    """Partials without what was there for the statistics only."""
    partials = partials.drop([c for c in COLUMNS if c in partials.columns])
    partials = partials.filter(pl.col(PANE).is_not_null()) if partials[PANE].null_count() else partials
    if marked:
        partials = partials.filter(pl.col(ROWS) > 0)
    sources = [SOURCE] if SOURCE in partials.columns else []
    counts = partials.group_by([PANE, *sources]).agg(pl.col(ROWS).sum())
    partials = partials.drop(sources)
    if by_source and partials.height:
        columns = partials.columns
        partials = kernel.merge(partials.group_by([PANE, *kernel.keys])).select(columns)
    return Folded(partials, counts)
