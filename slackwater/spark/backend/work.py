"""Work on one page: the jobs behind the verbs. One Spark job folds a page and brings its arrival statistics along.

The plan of that job is the same for every page of a query (D2), so Spark compiles it once. A row that a filter
drops stays in it, marked, for its arrival still moves time; to observe rows before the filter would be slower.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import polars as pl
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as F

from slackwater.columns import CELL, PANE, PUNCTUATION, ROW_ORDER, ROWS, SOURCE, TIME
from slackwater.events import decision
from slackwater.operators.backend import Folded, LateTimes, PartialsTooLarge
from slackwater.operators.page import CachedRows, DriverRows, Page, SavedRows
from slackwater.operators.payload import MaterializedRows, Recipe, Staged, payload_rows
from slackwater.plan.step import Step
from slackwater.plan.steps import JoinTable, Map
from slackwater.spark.backend.arrival_statistics import ALL, MISSING, page_statistics
from slackwater.spark.backend.compile import KEEP, mapped, named
from slackwater.spark.backend.fold import folded, kernel_columns, spread_of
from slackwater.spark.backend.late_rows import late_rows, rows_behind
from slackwater.spark.backend.layout import Layout, TaskLayout
from slackwater.spark.backend.locations.batch_plan import same_at_any_time
from slackwater.spark.backend.memory_budget import hold
from slackwater.spark.backend.one_task import Rows, cut
from slackwater.spark.backend.page_rows import PageRows
from slackwater.spark.backend.scan import of_payload
from slackwater.spark.backend.staging import few, stage, too_large
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.spark.storage.types import arrow_of
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.per_row.rolling import RollingKernel
from slackwater.windows.spec import floor_division

_LEFT = "__left"


class PageJobs(PageRows):
    """The jobs on a page."""

    # --- folds

    def fold(self, kernel: PaneKernel) -> Folded:
        """One job, or one for each part of the files: partials by pane and group, to the driver as Arrow."""
        started, way = time.perf_counter(), self.shape.way(self.files)
        unknown = self.unknown
        asked = self.asked if unknown else None
        # Rows that a filter dropped have no group any more, but still a source.
        by_source = self.many_sources and (kernel.source is None or self.marked)
        spread = spread_of(kernel.spec.pane)
        keys, made = kernel_columns(kernel, by_source, self.marked, asked, spread)

        def job(rows: Rows) -> tuple[pl.DataFrame, Observation | None]:
            frame, sketch = self.sketched(rows())
            partials = frame_of(frame.groupBy(*keys).agg(*made).toArrow())
            return partials.with_columns(pl.col(PANE) // spread), sketch

        try:
            with cut(self, way) as parts:
                done = self.backend.side_by_side.run([partial(job, rows) for rows in parts])
        except (PySparkException, Py4JJavaError) as error:
            if not too_large(error):
                raise
            raise PartialsTooLarge("more partials than spark.driver.maxResultSize") from error
        seconds = time.perf_counter() - started
        self.ran(seconds, len(done))
        tables, sketches = [table for table, _ in done], [sketch for _, sketch in done]
        partials = pl.concat(tables)
        self.shape.folded(self.rows.files, partials.estimated_size())
        if self.many_sources and not by_source:
            partials = partials.with_columns(kernel.source_of.alias(SOURCE))
        if unknown:
            everything = pl.col(ALL if self.marked else ROWS)
            missing = pl.when(pl.col(PANE).is_null()).then(everything).otherwise(0)
            self.arrived(partials.with_columns(everything.alias(ALL), missing.alias(MISSING)), *sketches)
        assert self.arrival is not None
        self.shape.ran(way, self.files, self.arrival.rows, seconds)
        return folded(partials, kernel, by_source, self.marked, [table[PANE] for table in tables])

    # --- rows to the driver

    def collect(self, columns: Mapping[str, str] | None, limit: int | None) -> pa.Table:
        """One job. A sample leaves the arrival to the job that does the page's work."""
        if limit is not None:
            return self.compiled.passed().limit(limit).toArrow()
        with self.rows_passed() as frame:
            made = frame if columns is None else frame.select(*(named(sql, name) for name, sql in columns.items()))
            try:
                return made.toArrow()
            except (PySparkException, Py4JJavaError) as error:
                if not too_large(error):
                    raise
                raise PartialsTooLarge("more rows than spark.driver.maxResultSize") from error

    def payload(self, about: int | None) -> MaterializedRows:
        """One job: to the driver if the rows are few enough, else to files."""
        location, arrival = self.page.location, self.arrival
        if isinstance(location, DriverRows) and not self.steps:
            return location.table.drop_columns([c for c in self.rows.hidden if c in location.table.schema.names])
        if isinstance(location, SavedRows) and location.staged and not self.steps and arrival is not None:
            return Staged(location.folder, arrival.rows)
        large, started = self.shape.large if about is None else about > TaskLayout.SMALL, time.perf_counter()
        with self.rows_passed() as frame:
            payload = (stage if large else few)(frame.drop(*self.rows.hidden), self.backend)
        rows = self.page.count if self.arrival is None else self.arrival.rows
        if rows is not None:
            self.shape.ran(Layout.MANY, self.files, rows, time.perf_counter() - started)
        return payload

    def late(self, times: LateTimes) -> Page | None:
        """The late rows; to the driver if they are few enough. Runs only for pages that have some."""
        started = time.perf_counter()
        known = self.many_sources or all(group.sql != SOURCE for group in times.groups)
        rows = late_rows(self.compiled.passed(), times if known else replace(times, by_group=None))
        payload = few(rows.drop(*self.rows.hidden), self.backend)
        self.backend.spent(time.perf_counter() - started)
        return of_payload(self.page.origin.part("late"), payload, self.page.at) if payload_rows(payload) else None

    def behind(self, heartbeat: int, by_source: pl.DataFrame | None) -> int:
        """Rows at or below a heartbeat. Runs only for pages that have some."""
        started = time.perf_counter()
        count = rows_behind(self.source, heartbeat, by_source if self.many_sources else None).count()
        self.backend.spent(time.perf_counter() - started)
        return count

    # --- rows that stay

    def materialize(self) -> Page:
        """One job; the rows stay in Spark's memory if there is room, else they go to files."""
        room, page, (*before, last) = self.backend.room, self.page, self.steps
        if isinstance(last, Map):
            self.steps = tuple(before)
            with self.rows_passed() as frame:
                rows = mapped(frame, last, self.rows.hidden).localCheckpoint()
            return replace(page, location=CachedRows(rows, self.rows.hidden), steps=())
        if not room.has_memory(page.size or 0):
            decision("page.saved", page=page.number, bytes=page.size, held=room.held)
            return self.write()
        with self.rows_passed() as frame:
            rows, count, size = hold(frame)
        location = CachedRows(rows, self.rows.hidden)
        self.backend.hold(location, rows, size)
        decision("page.held", page=page.number, rows=count, bytes=size)
        return replace(page, location=location, steps=(), count=count, size=size)

    def write(self, place: StorageDir | None = None) -> Page:
        """Write the rows to the session's storage; those of the driver without Spark."""
        backend, page, location = self.backend, self.page, self.page.location
        place = place or backend.new("pages")
        folder = place.path.removeprefix(backend.root.path + "/")
        if isinstance(location, DriverRows) and not self.steps:
            backend.write_table(location.table, place, "rows.parquet")
            self.measure()
            return replace(page, location=SavedRows(folder, location.hidden), arrival=self.arrival)
        with self.rows_passed() as frame, backend.writing(place):
            frame.write.mode("overwrite").parquet(place.address)
        saved, size = SavedRows(folder), place.size()
        if page.held and not self.steps:
            return replace(page, copy=saved, arrival=self.arrival)
        return replace(page, location=saved, steps=(), arrival=self.arrival, count=None, size=size)

    def spill_rows(self, kernel: RollingKernel, width: int, place: StorageDir) -> pa.Schema:
        """One job: the rows of a kernel, of those with a time, as Parquet files in a folder for each `width`."""
        made = [named(sql, name) for name, sql in kernel.row_sql().items()]
        with self.rows_with_time() as frame:
            rows = frame.select(*made)
            cell = F.expr(floor_division(TIME, width)).alias(CELL)
            numbered = rows.select("*", cell, F.monotonically_increasing_id().alias(ROW_ORDER))
            with self.backend.writing(place):
                numbered.write.mode("overwrite").partitionBy(CELL).parquet(place.address)
        return pa.schema([(f.name, arrow_of(f.dataType)) for f in rows.schema.fields])

    def spill(self, kernel: PaneKernel, place: StorageDir) -> None:
        """One job: partials by pane and group, as Parquet files in a folder a pane."""
        keys, made = kernel_columns(kernel, False, False, None)
        with self.rows_with_time() as frame:
            partials = frame.groupBy(*keys).agg(*made)
            with self.backend.writing(place):
                partials.write.mode("overwrite").partitionBy(PANE).parquet(place.address)

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

    # --- rows that can be made again

    def recipe(self) -> Recipe | None:
        """How the rows are made; None if they may not come out the same again. At most one job, to count them.

        The page lies where a source has it, and nothing that is done to its rows depends on the day. How far time
        has come, and how many rows there are, must be known before: the job reads only the columns for that.
        """
        if self.rows.reference is None or not same_at_any_time(self.frame):
            return None
        steps = [self._repeatable(step) for step in self.steps]
        if any(step is None for step in steps):
            return None
        return Recipe(
            replace(self.page, steps=tuple(step for step in steps if step is not None)), self._rows_left()
        )

    def _repeatable(self, step: Step) -> Step | None:
        """A step as a journal keeps it; None if it may not give the same again."""
        if not isinstance(step, JoinTable):
            return step
        copy = self.backend.copy_of(step)
        return None if copy is None else replace(step, copy=copy)

    def _rows_left(self) -> int:
        """How many rows the steps leave; at most one job, which brings the arrival statistics along."""
        if self.unknown:
            return self._counted()
        assert self.arrival is not None
        if PUNCTUATION not in self.rows.hidden and not any(step.drops_rows for step in self.steps):
            return self.arrival.rows
        with self.rows_passed() as rows:
            return rows.count()

    def _counted(self) -> int:
        """One job, or one for each part of the rows: their statistics, and how many the filters leave."""
        started = time.perf_counter()
        way, keys = self.shape.way(self.files), [SOURCE] if self.many_sources else []
        left = F.count_if(F.col(KEEP)) if self.marked else F.count(F.lit(1))

        def job(rows: Rows) -> tuple[pl.DataFrame, Observation | None]:
            frame, sketch = self.sketched(rows())
            found = frame.groupBy(*keys).agg(*page_statistics(*self.asked), left.alias(_LEFT))
            return frame_of(found.toArrow()), sketch

        with cut(self, way) as parts:
            done = self.backend.side_by_side.run([partial(job, rows) for rows in parts])
        seconds = time.perf_counter() - started
        self.ran(seconds, len(done))
        found = pl.concat([table for table, _ in done])
        self.arrived(found, *(sketch for _, sketch in done))
        assert self.arrival is not None
        self.shape.ran(way, self.files, self.arrival.rows, seconds)
        return int(found[_LEFT].sum())
