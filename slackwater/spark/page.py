"""SparkPage: a page over a Spark DataFrame. One Spark job folds it and brings its arrival statistics along.

The plan of that job is the same for every page of a query (D2), so Spark compiles it once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
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

from slackwater.operators.element import Payload, Staged
from slackwater.operators.page import PartialsTooLarge
from slackwater.progress.arrival import Arrival
from slackwater.spark.shape import Shape
from slackwater.spark.store import Place, SparkPages
from slackwater.windows.kernel import PANE, ROWS, PaneKernel
from slackwater.windows.partials import TIME
from slackwater.windows.rolling import CELL, PLACE, RollingKernel

_LOW, _HIGH = "__low", "__high"


@dataclass
class _Origin:
    """What all pages made from one arrival share."""

    source: DataFrame
    number: int
    at: int
    shape: Shape
    pages: SparkPages
    arrival: Arrival | None = None
    observation: Observation | None = None

    def take_observed(self) -> None:
        """Take the arrival statistics that the job has brought along."""
        assert self.observation is not None
        try:
            self._arrived(self.observation.get)
        except Py4JJavaError:
            # Spark saw that no row can pass the filter and left out the scan, statistics and all.
            self.measure()

    def measure(self) -> None:
        """Take the arrival statistics by a job of their own: the job that should have brought them did not."""
        row = self.source.agg(*_statistics()).first()
        assert row is not None
        self._arrived(row.asDict())

    def _arrived(self, seen: dict[str, Any]) -> None:
        self.arrival = Arrival(seen["rows"], seen["missing"], seen["lowest"], seen["highest"], self.at)


@dataclass
class SparkPage:
    """A lazy DataFrame with a hidden time column."""

    frame: DataFrame
    origin: _Origin

    @staticmethod
    def arrive(frame: DataFrame, time_sql: str, number: int, at: int, shape: Shape, pages: SparkPages) -> SparkPage:
        """A page as it comes from a source."""
        timed = frame.select("*", _column(time_sql).alias(TIME))
        return SparkPage(timed, _Origin(timed, number, at, shape, pages))

    @staticmethod
    def load(pages: SparkPages, saved: dict[str, Any]) -> SparkPage:
        """A page from what `save` gave."""
        place = pages.root.child(saved["folder"])
        arrival = Arrival(*saved["arrival"])
        frame = pages.spark.read.parquet(place.address)
        return SparkPage(frame, _Origin(frame, saved["number"], arrival.at, Shape(), pages, arrival))

    @property
    def number(self) -> int:
        """Place in the stream: the batch id."""
        return self.origin.number

    @property
    def rows(self) -> int | None:
        """Rows on arrival, once known."""
        return None if self.origin.arrival is None else self.origin.arrival.rows

    def where(self, condition: str) -> SparkPage:
        """Filter; arrival statistics are taken before it."""
        return SparkPage(self._observed().where(_column(condition)), self.origin)

    def select(self, columns: Mapping[str, str]) -> SparkPage:
        """Project, and keep the time."""
        made = [_column(sql).alias(name) for name, sql in columns.items()]
        return SparkPage(self.frame.select(*made, TIME), self.origin)

    def fold(self, kernel: PaneKernel) -> pl.DataFrame:
        """One job: partials by pane and group, to the driver as Arrow."""
        started, one_task = time.perf_counter(), self.origin.shape.one_task()
        # Statistics are cheaper as two more aggregates than by `observe`, which cuts the generated code in two;
        # they are complete only if no row was filtered out before.
        counts_all = self.origin.observation is None and self.origin.arrival is None
        frame = self.frame.coalesce(1) if one_task else self.frame
        try:
            table = _partials(frame, kernel, counts_all).toArrow()
        except (PySparkException, Py4JJavaError) as error:
            if not _too_large(error):
                raise
            self.origin.measure()
            raise PartialsTooLarge("more partials than spark.driver.maxResultSize") from error
        seconds = time.perf_counter() - started
        partials = pl.from_arrow(table)
        assert isinstance(partials, pl.DataFrame)
        self._ran(seconds)
        if counts_all:
            self.origin.arrival = _arrival(partials, self.origin.at)
            partials = partials.drop(_LOW, _HIGH)
        if self.origin.arrival is not None:
            self.origin.shape.ran(one_task, self.origin.arrival.rows, seconds)
        return partials.filter(pl.col(PANE).is_not_null()) if partials[PANE].null_count() else partials

    def rows_of(self, kernel: RollingKernel) -> pl.DataFrame:
        """One job: the time, groups and arguments of each row, to the driver as Arrow."""
        started = time.perf_counter()
        made = [_column(sql).alias(name) for name, sql in kernel.row_sql().items()]
        try:
            table = self._observed().select(*made).toArrow()
        except (PySparkException, Py4JJavaError) as error:
            if not _too_large(error):
                raise
            self.origin.measure()
            raise PartialsTooLarge("more rows than spark.driver.maxResultSize") from error
        self._ran(time.perf_counter() - started)
        rows = pl.from_arrow(table)
        assert isinstance(rows, pl.DataFrame)
        return rows

    def time_spread(self) -> tuple[int, int]:
        """One job: how many rows there are, and over how many ticks the middle nine tenths of them lie."""
        row = self.frame.agg(F.count(TIME), F.percentile_approx(TIME, [0.05, 0.95])).first()
        assert row is not None
        return row[0], row[1][1] - row[1][0] + 1 if row[1] else 1

    def cells_of(self, width: int) -> int:
        """One job: into about how many cells of this width the rows fall."""
        row = self.frame.agg(F.approx_count_distinct(F.expr(_cell_sql(width)))).first()
        assert row is not None
        return int(row[0])

    def spill_rows(self, kernel: RollingKernel, width: int, place: Place) -> pa.Schema:
        """One job: the same rows, of those with a time, as Parquet files in a folder for each `width` of time."""
        started = time.perf_counter()
        made = [_column(sql).alias(name) for name, sql in kernel.row_sql().items()]
        rows = self._observed().where(f"{TIME} IS NOT NULL").select(*made)
        cell = F.expr(_cell_sql(width)).alias(CELL)
        numbered = rows.select("*", cell, F.monotonically_increasing_id().alias(PLACE))
        numbered.write.mode("overwrite").partitionBy(CELL).parquet(place.address)
        self._ran(time.perf_counter() - started)
        zone = rows.sparkSession.conf.get("spark.sql.session.timeZone")
        return pa.schema([(f.name, to_arrow_type(f.dataType, timezone=zone)) for f in rows.schema.fields])

    def spill(self, kernel: PaneKernel, place: Place) -> None:
        """One job: partials by pane and group, as Parquet files in a folder a pane."""
        started = time.perf_counter()
        partials = _partials(self._observed().where(f"{TIME} IS NOT NULL"), kernel, False)
        partials.write.mode("overwrite").partitionBy(PANE).parquet(place.address)
        self._ran(time.perf_counter() - started)

    def arrival(self) -> Arrival | None:
        """Statistics before any filter, once a job has run."""
        return self.origin.arrival

    def late(self, before: int) -> Payload:
        """The late rows; to the driver if they are few enough. Runs only for pages that have some."""
        started = time.perf_counter()
        rows = self.frame.where((F.col(TIME).isNull()) | (F.col(TIME) < F.lit(before))).drop(TIME)
        try:
            return rows.toArrow()
        except (PySparkException, Py4JJavaError) as error:
            if not _too_large(error):
                raise
            return stage(rows, self.origin.pages)
        finally:
            self._ran(time.perf_counter() - started)

    def save(self) -> dict[str, Any]:
        """Write the rows to the journal's file system."""
        place = self.origin.pages.new("pages")
        started = time.perf_counter()
        self._observed().write.parquet(place.address)
        self._ran(time.perf_counter() - started)
        arrival = self.origin.arrival
        assert arrival is not None
        return {
            "number": self.number,
            "folder": place.path.removeprefix(self.origin.pages.root.path + "/"),
            "arrival": [arrival.rows, arrival.missing, arrival.lowest, arrival.highest, arrival.at],
        }

    def _observed(self) -> DataFrame:
        """The frame, with arrival statistics taken at this point unless they were taken before."""
        if self.origin.arrival is not None or self.origin.observation is not None:
            return self.frame
        self.origin.observation = Observation()
        return self.frame.observe(self.origin.observation, *_statistics())

    def _ran(self, seconds: float) -> None:
        self.origin.pages.spent(seconds)
        if self.origin.arrival is None and self.origin.observation is not None:
            self.origin.take_observed()


def stage(rows: DataFrame, pages: SparkPages) -> Staged:
    """Write rows to the journal's file system, for a sink to take from there."""
    place = pages.new("staged")
    seen = Observation()
    rows.observe(seen, F.count(F.lit(1)).alias("rows")).write.parquet(place.address)
    return Staged(place.path.removeprefix(pages.root.path + "/"), int(seen.get["rows"]))


def _cell_sql(width: int) -> str:
    return f"({TIME} - pmod({TIME}, {width}L)) div {width}L"


def _too_large(error: Exception) -> bool:
    """Whether Spark refused to bring a result to the driver for its size."""
    return "spark.driver.maxResultSize" in str(error)


@lru_cache(maxsize=4096)
def _column(sql: str) -> Column:
    return F.expr(sql)


@lru_cache(maxsize=1)
def _statistics() -> tuple[Column, ...]:
    return (
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col(TIME).isNull()).alias("missing"),
        F.min(TIME).alias("lowest"),
        F.max(TIME).alias("highest"),
    )


@lru_cache(maxsize=256)
def _kernel_columns(kernel: PaneKernel, statistics: bool) -> tuple[list[Column], list[Column]]:
    keys = [F.expr(kernel.pane_sql()).alias(PANE), *(F.expr(g.sql).alias(g.name) for g in kernel.groups)]
    made = [F.expr(sql).alias(name) for name, sql in kernel.make_sql().items()]
    if statistics:
        made += [F.min(TIME).alias(_LOW), F.max(TIME).alias(_HIGH)]
    return keys, made


def _partials(frame: DataFrame, kernel: PaneKernel, statistics: bool) -> DataFrame:
    keys, made = _kernel_columns(kernel, statistics)
    return frame.groupBy(*keys).agg(*made)


def _arrival(partials: pl.DataFrame, at: int) -> Arrival:
    rows, missing, low, high = partials.select(
        pl.col(ROWS).sum(),
        pl.col(ROWS).filter(pl.col(PANE).is_null()).sum().alias("missing"),
        pl.col(_LOW).min(),
        pl.col(_HIGH).max(),
    ).row(0)
    return Arrival(rows, missing, low, high, at)
