"""SparkPage: a page over a Spark DataFrame. One Spark job folds it and brings its arrival statistics along.

The plan of that job is the same for every page of a query (D2), so Spark compiles it once. A row that a filter
drops stays in it, marked, for its arrival still moves time; to observe rows before the filter would be slower.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from slackwater.columns import CELL, PANE, PLACE, ROWS, SOURCE, TIME
from slackwater.events import decision
from slackwater.operators.page import Folded, Page, PartialsTooLarge
from slackwater.operators.payload import MaterializedRows, Recipe, Staged, payload_rows
from slackwater.operators.prod import Prod
from slackwater.plan.steps import Map, Step
from slackwater.progress.arrival import Arrival
from slackwater.spark.backend.compile import Compiled, Compiler, mapped, named
from slackwater.spark.backend.fold import folded, kernel_columns, spread_of
from slackwater.spark.backend.late_rows import late_rows, rows_behind
from slackwater.spark.backend.layout import Layout, TaskLayout
from slackwater.spark.backend.locations.location import source_errors_explained
from slackwater.spark.backend.memory_budget import hold
from slackwater.spark.backend.one_task import Rows, cut
from slackwater.spark.backend.origin import Origin
from slackwater.spark.backend.repeatable import recipe_of
from slackwater.spark.backend.staging import few, stage, too_large
from slackwater.spark.backend.statistics import ALL, COLUMNS, MISSING, observed_sketch, page_statistics
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.spark.storage.types import arrow_of
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import PaneKernel, floor_division
from slackwater.windows.per_row.rolling import RollingKernel

#: Fewer kernels than this have jobs of their own.
FEW_KERNELS = 4


@dataclass(eq=False)
class SparkPage:
    """Rows that lie somewhere (`origin`), and the steps to be done to them, which Spark plans when it must."""

    origin: Origin
    steps: tuple[Step, ...] = ()

    @property
    def compiled(self) -> Compiled:
        """The rows after all steps, lazily; planned once for all pages of the origin that have these steps."""
        plans = self.origin.plans
        if self.steps not in plans:
            if any(not step.fuses for step in self.steps):
                self.measure()
            plans[self.steps] = self._planned()
        return plans[self.steps]

    def _planned(self) -> Compiled:
        if not self.steps:
            return Compiled(self.origin.source)
        before = SparkPage(self.origin, self.steps[:-1]).compiled
        return self._compiler(self.origin.arrival is None).step(before, self.steps[-1])

    def part(self, rows: DataFrame) -> DataFrame:
        """Some of the rows after the same steps."""
        return self._compiler(self.marked).all(rows, self.steps).frame

    def _compiler(self, mark: bool) -> Compiler:
        return Compiler(self.origin.hidden, mark, self.origin.pages.stored)

    @property
    def frame(self) -> DataFrame:
        """The rows, lazily; those that a filter has dropped may only be marked."""
        return self.compiled.frame

    @property
    def marked(self) -> bool:
        """Whether they are."""
        return self.compiled.marked

    def with_step(self, step: Step) -> SparkPage:
        """The page with one more step."""
        return SparkPage(self.origin, (*self.steps, step))

    @property
    def number(self) -> int:
        """Place in the stream: the batch id."""
        return self.origin.number

    @property
    def rows(self) -> int | None:
        """Rows on arrival, once known."""
        if self.origin.count is not None:
            return self.origin.count
        return None if self.origin.arrival is None else self.origin.arrival.rows

    @property
    def prod(self) -> Prod | None:
        """The prod that early rows belong to."""
        return self.origin.prod

    @property
    def bytes(self) -> int | None:
        """The room of the rows as they came, or are kept: what is only to be done to them frees none."""
        return self.origin.bytes

    @property
    def kept(self) -> bool:
        """Whether Spark's memory has them."""
        return self.origin.count is not None

    def held(self) -> SparkPage:
        """One job; the rows stay in Spark's memory if there is room, else they go to files."""
        pages = self.origin.pages
        if not self.steps:
            return self
        if not pages.room.has_memory(self.bytes or 0):
            decision("page.saved", page=self.number, bytes=self.bytes, held=pages.room.held)
            kept: SparkPage = pages.load(self.save())
            return kept
        with self.rows_passed() as frame:
            rows, count, size = hold(frame)
        origin = self.origin.held(rows, count, size)
        pages.room.hold(rows, size, origin)
        decision("page.held", page=self.number, rows=count, bytes=size)
        return SparkPage(origin)

    @property
    def saved(self) -> dict[str, Any] | None:
        """Where its rows are durable; what has been done to them since is not."""
        return None if self.steps else self.origin.saved

    def recipe(self) -> Recipe | None:
        """At most one job, of the columns that it takes to count the rows."""
        return recipe_of(self)

    def payload(self, about: int | None = None) -> MaterializedRows:
        """One job: to the driver if the rows are few enough, else to files."""
        saved = self.saved
        if self.origin.table is not None and not self.steps:
            return self.origin.table
        if saved is not None and "staged" in saved:
            return Staged(saved["folder"], saved["staged"])
        large, started = self.origin.shape.large if about is None else about > TaskLayout.SMALL, time.perf_counter()
        with self.rows_passed() as frame:
            payload = (stage if large else few)(frame.drop(*self.origin.hidden), self.origin.pages)
        if self.rows is not None:
            self.origin.shape.ran(Layout.MANY, self.files, self.rows, time.perf_counter() - started)
        return payload

    def sample(self, rows: int) -> SparkPage:
        """One job: some of its rows, as a page of their own in the driver."""
        pages, kept = self.origin.pages, self.compiled.passed()
        table = kept.limit(rows).toArrow()
        frame = pages.spark.createDataFrame(table, kept.schema)
        arrival, hidden = Arrival(table.num_rows, 0, None, None, self.origin.at), self.origin.hidden
        return SparkPage(
            Origin(frame, self.number, arrival.at, TaskLayout(), pages, hidden, arrival=arrival, prod=self.prod)
        )

    def expect(self, needs: frozenset[str], at: int | None = None) -> None:
        """Remember what will be asked for."""
        self.origin.expect(needs, at)

    def stamped(self, at: int) -> SparkPage:
        """The rows with a time: no step reads it, so they get it before all others."""
        return SparkPage(self.origin.stamped(at), self.steps)

    @property
    def files(self) -> int:
        """Of how many files, or pieces, the rows are, if a part of these can be worked on like all of them."""
        return self.origin.files if all(step.fuses for step in self.steps) else 1

    def fold(self, kernel: PaneKernel) -> Folded:
        """One job, or one for each part of the files: partials by pane and group, to the driver as Arrow."""
        started, way = time.perf_counter(), self.origin.shape.way(self.files)
        unknown = self.origin.arrival is None
        asked = self.origin.asked if unknown else None
        # Rows that a filter dropped have no group any more, but still a source.
        by_source = self.origin.many_sources and (kernel.source is None or self.marked)
        spread = spread_of(kernel.spec.pane)
        keys, made = kernel_columns(kernel, by_source, self.marked, asked, spread)

        def job(rows: Rows) -> tuple[pl.DataFrame, Observation | None]:
            frame, sketch = self.origin.sketched(rows())
            partials = frame_of(frame.groupBy(*keys).agg(*made).toArrow())
            return partials.with_columns(pl.col(PANE) // spread), sketch

        try:
            with cut(self, way) as parts:
                done = self.origin.pages.side_by_side.run([partial(job, rows) for rows in parts])
        except (PySparkException, Py4JJavaError) as error:
            if not too_large(error):
                raise
            if unknown:
                self.origin.measure()
            raise PartialsTooLarge("more partials than spark.driver.maxResultSize") from error
        seconds = time.perf_counter() - started
        self.origin.ran(seconds, len(done))
        tables, sketches = [table for table, _ in done], [sketch for _, sketch in done]
        partials = pl.concat(tables)
        self.origin.shape.folded(self.origin.files, partials.estimated_size())
        if self.origin.many_sources and not by_source:
            partials = partials.with_columns(kernel.source_of.alias(SOURCE))
        if unknown:
            everything = pl.col(ALL if self.marked else ROWS)
            missing = pl.when(pl.col(PANE).is_null()).then(everything).otherwise(0)
            self.origin.arrived(partials.with_columns(everything.alias(ALL), missing.alias(MISSING)), *sketches)
        assert self.origin.arrival is not None
        self.origin.shape.ran(way, self.files, self.origin.arrival.rows, seconds)
        return folded(partials, kernel, by_source, self.marked, [table[PANE] for table in tables])

    def fold_all(self, kernels: Sequence[PaneKernel]) -> dict[PaneKernel, Folded]:
        """One job for all kernels that can share it; the others are left out.

        A wide job pays only for many kernels (measured: for six, not for two, on pages of 1,000 and of 1 M rows).
        """
        if len(kernels) < FEW_KERNELS:
            return {}
        like = tuple(self.frame.dtypes), self.marked
        return self.origin.pages.wide(tuple(kernels), like).fold(self)

    def rows_of(self, kernel: RollingKernel) -> pl.DataFrame:
        """One job: the time, groups and arguments of each row, to the driver as Arrow."""
        made = [named(sql, name) for name, sql in kernel.row_sql().items()]
        with self.rows_passed() as frame:
            try:
                table = frame.select(*made).toArrow()
            except (PySparkException, Py4JJavaError) as error:
                if not too_large(error):
                    raise
                if self.origin.arrival is None:
                    self.origin.measure()
                raise PartialsTooLarge("more rows than spark.driver.maxResultSize") from error
        return frame_of(table)

    def time_spread(self) -> tuple[int, int]:
        """One job: how many rows there are, and over how many ticks the middle nine tenths of them lie."""
        row = self.compiled.passed().agg(F.count(TIME), F.percentile_approx(TIME, [0.05, 0.95])).first()
        assert row is not None
        return row[0], row[1][1] - row[1][0] + 1 if row[1] else 1

    def cells_of(self, width: int) -> int:
        """One job: into about how many cells of this width the rows fall."""
        row = self.compiled.passed().agg(F.approx_count_distinct(F.expr(floor_division(TIME, width)))).first()
        assert row is not None
        return int(row[0])

    def spill_rows(self, kernel: RollingKernel, width: int, place: StorageDir) -> pa.Schema:
        """One job: the same rows, of those with a time, as Parquet files in a folder for each `width` of time."""
        made = [named(sql, name) for name, sql in kernel.row_sql().items()]
        with self.rows_passed() as frame:
            rows = frame.where(f"{TIME} IS NOT NULL").select(*made)
            cell = F.expr(floor_division(TIME, width)).alias(CELL)
            numbered = rows.select("*", cell, F.monotonically_increasing_id().alias(PLACE))
            with self.origin.pages.writing(place):
                numbered.write.mode("overwrite").partitionBy(CELL).parquet(place.address)
        return pa.schema([(f.name, arrow_of(f.dataType)) for f in rows.schema.fields])

    def spill(self, kernel: PaneKernel, place: StorageDir) -> None:
        """One job: partials by pane and group, as Parquet files in a folder a pane."""
        keys, made = kernel_columns(kernel, False, False, None)
        with self.rows_passed() as frame:
            partials = frame.where(f"{TIME} IS NOT NULL").groupBy(*keys).agg(*made)
            with self.origin.pages.writing(place):
                partials.write.mode("overwrite").partitionBy(PANE).parquet(place.address)

    def arrival(self) -> Arrival | None:
        """Statistics before any filter, once a job has run."""
        return self.origin.arrival

    def map(self, step: Map) -> SparkPage:
        """One job; the rows stay where they were made."""
        with self.rows_passed() as frame:
            rows = mapped(frame, step, self.origin.hidden).localCheckpoint()
        return SparkPage(self.origin.held(rows, None, self.bytes))

    @contextmanager
    def rows_with_time(self) -> Iterator[DataFrame]:
        """For one job: the rows that have a time, with what is hidden; the arrival is known when it is over."""
        with self.rows_passed() as frame:
            yield frame.where(f"{TIME} IS NOT NULL")

    def measure(self) -> Arrival:
        """Statistics before any filter, by a job of their own if none has run."""
        if self.origin.arrival is None:
            self.origin.measure()
        assert self.origin.arrival is not None
        return self.origin.arrival

    def late(
        self, before: int, within: Sequence[tuple[int, int]] = (), by_source: pl.DataFrame | None = None
    ) -> Page | None:
        """The late rows; to the driver if they are few enough. Runs only for pages that have some."""
        started = time.perf_counter()
        by = by_source if self.origin.many_sources else None
        payload = few(
            late_rows(self.compiled.passed(), before, within, by).drop(*self.origin.hidden), self.origin.pages
        )
        self.origin.pages.spent(time.perf_counter() - started)
        return self.origin.pages.of_rows(payload, self.number, self.origin.at) if payload_rows(payload) else None

    def behind(self, heartbeat: int, by_source: pl.DataFrame | None = None) -> int:
        """Rows at or below a heartbeat. Runs only for pages that have some."""
        started = time.perf_counter()
        count = rows_behind(self.origin.source, heartbeat, by_source if self.origin.many_sources else None).count()
        self.origin.pages.spent(time.perf_counter() - started)
        return count

    def save(self, place: StorageDir | None = None) -> dict[str, Any]:
        """Write the rows to the journal's file system; those of the driver without Spark."""
        pages, table = self.origin.pages, self.origin.table
        place = place or pages.new("pages")
        if table is not None and not self.steps:
            pages.write_table(table, place, "rows.parquet")
            return pages.note(place, self.number, self.measure(), self.origin.hidden_sql, self.prod, self.bytes)
        with self.rows_passed() as frame, self.origin.pages.writing(place):
            frame.write.mode("overwrite").parquet(place.address)
        assert self.origin.arrival is not None
        saved = self.origin.pages.note(place, self.number, self.origin.arrival, {}, self.prod, place.size())
        if self.kept and not self.steps:
            self.origin.saved = saved
        return saved

    @contextmanager
    def rows_passed(self) -> Iterator[DataFrame]:
        """The rows that passed, for one job on them; the arrival is known when it is over. The source is read once.

        If there is more than the driver takes, kept rows stay for the job that comes instead.
        """
        try:
            with source_errors_explained(self.origin.reference):
                frame, statistics = self._observed()
                started = time.perf_counter()
                yield frame
                self._ran(started, statistics)
        except PartialsTooLarge:
            raise
        except BaseException:
            self.origin.release()
            raise
        self.origin.release()

    def _observed(self) -> tuple[DataFrame, Observation | None]:
        """The rows that passed; arrival statistics are taken on the way if that can be.

        By source that cannot be: what Spark observes has no groups. They have a job of their own, which keeps the
        rows for the next one.
        """
        if self.origin.arrival is not None:
            return self.compiled.passed(), None
        if self.origin.many_sources:
            # Filters must mark rows here: a filter over kept rows loses batches of NaN alone, a fault of Spark.
            compiled = self.compiled
            self.origin.keep()
            self.origin.measure()
            return compiled.passed(), None
        statistics = Observation()
        wanted = [
            *page_statistics(*self.origin.asked),
            *([observed_sketch()] if self.origin.observes_sketch else []),
        ]
        return Compiled(self.frame.observe(statistics, *wanted), self.marked).passed(), statistics

    def _ran(self, started: float, statistics: Observation | None) -> None:
        self.origin.ran(time.perf_counter() - started)
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
