"""SparkPage: a page over a Spark DataFrame. One Spark job folds it and brings its arrival statistics along.

The plan of that job is the same for every page of a query (D2), so Spark compiles it once. A row that a filter
drops stays in it, marked, for its arrival still moves time; to observe rows before the filter would be slower.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from slackwater.columns import CELL, PANE, PLACE, ROWS, SOURCE, TIME
from slackwater.operators.page import Folded, Page, PartialsTooLarge
from slackwater.operators.payload import Made, Recipe, Staged, payload_rows
from slackwater.operators.prod import Prod
from slackwater.plan.steps import JoinTable, Map, Select, Step, Where
from slackwater.progress.arrival import Arrival
from slackwater.spark.pages.expressions import column, named
from slackwater.spark.pages.fold import KEEP, folded, kernel_columns, spread_of
from slackwater.spark.pages.function import arrow_function
from slackwater.spark.pages.holding import hold
from slackwater.spark.pages.late_rows import late_rows, rows_behind
from slackwater.spark.pages.origin import Origin, stamp
from slackwater.spark.pages.parts import Change, Rows, cut
from slackwater.spark.pages.recipes import Said, recipe_of
from slackwater.spark.pages.shape import Shape, Way
from slackwater.spark.pages.staging import few, stage, too_large
from slackwater.spark.pages.statistics import ALL, COLUMNS, MISSING, observed_sketch, page_statistics
from slackwater.spark.pages.stored import with_stored
from slackwater.spark.references.reference import told
from slackwater.spark.storage.place import Place
from slackwater.spark.types import arrow_of
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import PaneKernel, floor_division
from slackwater.windows.per_row.rolling import RollingKernel

#: Fewer kernels than this have jobs of their own.
FEW_KERNELS = 4
_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MADE = "__made"


@dataclass(eq=False)
class SparkPage:
    """A lazy DataFrame with hidden columns."""

    made: DataFrame | None
    """What has been made of the rows; None as long as they are as they came."""
    origin: Origin
    marked: bool = False
    """Whether filters have only marked the rows (KEEP)."""
    steps: tuple[Change, ...] | None = ()
    """What was done to the rows, to be done to a part of them; None if that is not the same."""
    said: tuple[Said, ...] | None = ()
    """The same in words that a journal can keep; None if they do not say all of it."""

    @property
    def frame(self) -> DataFrame:
        """The rows, lazily."""
        return self.origin.source if self.made is None else self.made

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
        if self.made is None:
            return self
        if not pages.room.has_memory(self.bytes or 0):
            kept: SparkPage = pages.load(self.save())
            return kept
        with self.rows_passed() as frame:
            rows, count, size = hold(frame)
        origin = self.origin.held(rows, count, size)
        pages.room.hold(rows, size, origin)
        return SparkPage(None, origin)

    @property
    def saved(self) -> dict[str, Any] | None:
        """Where its rows are durable; what has been done to them since is not."""
        return self.origin.saved if self.made is None else None

    def recipe(self) -> Recipe | None:
        """At most one job, of the columns that it takes to count the rows."""
        return recipe_of(self)

    def payload(self, about: int | None = None) -> Made:
        """One job: to the driver if the rows are few enough, else to files."""
        saved = self.saved
        if saved is not None and "staged" in saved:
            return Staged(saved["folder"], saved["staged"])
        large, started = self.origin.shape.large if about is None else about > Shape.SMALL, time.perf_counter()
        with self.rows_passed() as frame:
            payload = (stage if large else few)(frame.drop(*self.origin.hidden), self.origin.pages)
        if self.rows is not None:
            self.origin.shape.ran(Way.MANY, self.files, self.rows, time.perf_counter() - started)
        return payload

    def sample(self, rows: int) -> SparkPage:
        """One job: some of its rows, as a page of their own in the driver."""
        pages, kept = self.origin.pages, self._kept()
        table = kept.limit(rows).toArrow()
        frame = pages.spark.createDataFrame(table, kept.schema)
        arrival, hidden = Arrival(table.num_rows, 0, None, None, self.origin.at), self.origin.hidden
        return SparkPage(
            None, Origin(frame, self.number, arrival.at, Shape(), pages, hidden, arrival=arrival, prod=self.prod)
        )

    def expect(self, needs: frozenset[str], at: int | None = None) -> None:
        """Remember what will be asked for."""
        self.origin.expect(needs, at)

    def with_step(self, step: Step) -> SparkPage:
        """The page after one more step."""
        if isinstance(step, Where):
            return self.where(step.condition)
        if isinstance(step, Select):
            return self.select(dict(step.columns))
        assert isinstance(step, JoinTable)
        return self.join_stored(step)

    def where(self, condition: str) -> SparkPage:
        """Filter; as long as the arrival is not known, rows are only marked."""
        if self.origin.arrival is not None:
            return self._then(lambda rows: self._kept(rows).where(column(condition)), False, ("where", condition))
        keep = f"coalesce(({condition}), false)"
        if self.marked:
            keep = f"CASE WHEN {KEEP} THEN {keep} ELSE false END"
        return self._then(lambda rows: rows.withColumn(KEEP, column(keep)), True, ("where", condition))

    def select(self, columns: Mapping[str, str]) -> SparkPage:
        """Project, and keep what is hidden."""
        made = [named(self._given(sql), name) for name, sql in columns.items()]
        hidden = [*self.origin.hidden, *([KEEP] if self.marked else [])]
        said = "select", [[name, sql] for name, sql in columns.items()]
        return self._then(lambda rows: rows.select(*made, *hidden), self.marked, said)

    def stamped(self, at: int) -> SparkPage:
        """The rows with a time."""
        origin = self.origin.stamped(at)
        if self.made is None:
            return SparkPage(None, origin, self.marked)
        return replace(self._then(lambda rows: stamp(rows, at), self.marked), origin=origin)

    @property
    def files(self) -> int:
        """Of how many files, or pieces, the rows are, if a part of these can be worked on like all of them."""
        return 1 if self.steps is None else self.origin.files

    def _then(self, step: Change, marked: bool, said: Said | None = None) -> SparkPage:
        """The page after one more step."""
        steps = None if self.steps is None else (*self.steps, step)
        words = None if self.said is None or said is None else (*self.said, said)
        return SparkPage(step(self.frame), self.origin, marked, steps, words)

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
        row = self._kept().agg(F.count(TIME), F.percentile_approx(TIME, [0.05, 0.95])).first()
        assert row is not None
        return row[0], row[1][1] - row[1][0] + 1 if row[1] else 1

    def cells_of(self, width: int) -> int:
        """One job: into about how many cells of this width the rows fall."""
        row = self._kept().agg(F.approx_count_distinct(F.expr(floor_division(TIME, width)))).first()
        assert row is not None
        return int(row[0])

    def spill_rows(self, kernel: RollingKernel, width: int, place: Place) -> pa.Schema:
        """One job: the same rows, of those with a time, as Parquet files in a folder for each `width` of time."""
        made = [named(sql, name) for name, sql in kernel.row_sql().items()]
        with self.rows_passed() as frame:
            rows = frame.where(f"{TIME} IS NOT NULL").select(*made)
            cell = F.expr(floor_division(TIME, width)).alias(CELL)
            numbered = rows.select("*", cell, F.monotonically_increasing_id().alias(PLACE))
            with self.origin.pages.writing(place):
                numbered.write.mode("overwrite").partitionBy(CELL).parquet(place.address)
        return pa.schema([(f.name, arrow_of(f.dataType)) for f in rows.schema.fields])

    def spill(self, kernel: PaneKernel, place: Place) -> None:
        """One job: partials by pane and group, as Parquet files in a folder a pane."""
        keys, made = kernel_columns(kernel, False, False, None)
        with self.rows_passed() as frame:
            partials = frame.where(f"{TIME} IS NOT NULL").groupBy(*keys).agg(*made)
            with self.origin.pages.writing(place):
                partials.write.mode("overwrite").partitionBy(PANE).parquet(place.address)

    def arrival(self) -> Arrival | None:
        """Statistics before any filter, once a job has run."""
        return self.origin.arrival

    def map(self, node: Map) -> SparkPage:
        """One job, in Spark's Python workers; the rows stay where they were made."""
        with self.rows_passed() as frame:
            visible = [F.col(f"`{c}`") for c in frame.columns if c not in self.origin.hidden]
            made = frame.select(arrow_function(node)(F.struct(*visible)).alias(_MADE), *self.origin.hidden)
            names = [F.col(f"{_MADE}.`{name}`").alias(name) for name in node.schema.names]
            mapped = made.select(*names, *self.origin.hidden).localCheckpoint()
        return SparkPage(mapped, self.origin, steps=None, said=None)

    @contextmanager
    def rows_with_time(self) -> Iterator[DataFrame]:
        """For one job: the rows that have a time, with what is hidden; the arrival is known when it is over."""
        with self.rows_passed() as frame:
            yield frame.where(f"{TIME} IS NOT NULL")

    def join_stored(self, node: JoinTable) -> SparkPage:
        """By Spark; rows without a partner move time too, so their arrival is measured before, by a job."""
        table = self.origin.pages.stored(node)
        self.measure()
        made = with_stored(self._kept(), node, table, self.origin.hidden)
        said = None if self.said is None else (*self.said, ("join_stored", (node, table)))
        return SparkPage(made, self.origin, steps=None, said=said)

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
        payload = few(late_rows(self._kept(), before, within, by).drop(*self.origin.hidden), self.origin.pages)
        self.origin.pages.spent(time.perf_counter() - started)
        return self.origin.pages.of_rows(payload, self.number, self.origin.at) if payload_rows(payload) else None

    def behind(self, heartbeat: int, by_source: pl.DataFrame | None = None) -> int:
        """Rows at or below a heartbeat. Runs only for pages that have some."""
        started = time.perf_counter()
        count = rows_behind(self.origin.source, heartbeat, by_source if self.origin.many_sources else None).count()
        self.origin.pages.spent(time.perf_counter() - started)
        return count

    def save(self, place: Place | None = None) -> dict[str, Any]:
        """Write the rows to the journal's file system."""
        place = place or self.origin.pages.new("pages")
        with self.rows_passed() as frame, self.origin.pages.writing(place):
            frame.write.mode("overwrite").parquet(place.address)
        assert self.origin.arrival is not None
        saved = self.origin.pages.note(place, self.number, self.origin.arrival, {}, self.prod, place.size())
        if self.kept and self.made is None:
            self.origin.saved = saved
        return saved

    def _kept(self, frame: DataFrame | None = None) -> DataFrame:
        """The rows that the filters have let pass."""
        frame = self.frame if frame is None else frame
        return frame.where(KEEP).drop(KEEP) if self.marked else frame

    def _given(self, sql: str) -> str:
        """An expression that is not evaluated for rows that a filter has dropped."""
        if not self.marked or _SIMPLE.match(sql.strip("`")):
            return sql
        return f"CASE WHEN {KEEP} THEN {sql} END"

    @contextmanager
    def rows_passed(self) -> Iterator[DataFrame]:
        """The rows that passed, for one job on them; the arrival is known when it is over. The source is read once.

        If there is more than the driver takes, kept rows stay for the job that comes instead.
        """
        try:
            with told(self.origin.reference):
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
            return self._kept(), None
        if self.origin.many_sources:
            self.origin.keep()
            self.origin.measure()
            return self._kept(), None
        statistics = Observation()
        wanted = [
            *page_statistics(*self.origin.asked),
            *([observed_sketch()] if self.origin.observes_sketch else []),
        ]
        return self._kept(self.frame.observe(statistics, *wanted)), statistics

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
