"""The rows of one page for Spark: their plan after all steps, and what a job over them says of their arrival."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation

from slackwater.columns import PUNCTUATION, SOURCE, TIME
from slackwater.errors import RowsGoneError
from slackwater.events import decision
from slackwater.operators.backend import PartialsTooLarge
from slackwater.operators.page import Page
from slackwater.plan.step import Step
from slackwater.progress.arrival import merged_sketch
from slackwater.spark.backend.arrival_statistics import (
    ALL,
    COLUMNS,
    glance,
    observed_sketch,
    page_statistics,
    read_arrival,
    read_sketch,
)
from slackwater.spark.backend.compile import CompiledRows, Compiler
from slackwater.spark.backend.layout import TaskLayout
from slackwater.spark.backend.locations.location import source_errors_explained
from slackwater.spark.backend.opened import LocationRows
from slackwater.windows.frames import frame_of

if TYPE_CHECKING:
    from slackwater.spark.backend.backend import SparkBackend


class PageRows:
    """The rows of a page, and the steps to be done to them, which Spark plans when it must."""

    def __init__(self, page: Page, rows: LocationRows, shape: TaskLayout, backend: SparkBackend) -> None:
        self.page, self.rows, self.shape, self.backend = page, rows, shape, backend
        self.arrival = page.arrival
        """Statistics before any filter, once a job has run."""
        self.steps = page.steps

    # --- plans

    @property
    def unknown(self) -> bool:
        """Whether the job that does the page's work is to bring the arrival statistics along.

        Some steps add or drop rows in that job. Then the statistics have a job of their own before it.
        """
        if any(not step.fuses for step in self.steps):
            self.measure()
        return self.arrival is None

    @property
    def compiled(self) -> CompiledRows:
        """The rows after all steps, lazily; planned once for all pages of the location that have these steps."""
        return self._compiled(self.steps)

    def _compiled(self, steps: tuple[Step, ...]) -> CompiledRows:
        plans = self.rows.plans
        if steps not in plans:
            plans[steps] = self._planned(steps)
        return plans[steps]

    def _planned(self, steps: tuple[Step, ...]) -> CompiledRows:
        if not steps:
            return CompiledRows(self.rows.source)
        before = self._compiled(steps[:-1])
        return self._compiler(self.unknown).step(before, steps[-1])

    def part(self, rows: DataFrame) -> DataFrame:
        """Some of the rows after the same steps."""
        return self._compiler(self.marked).all(rows, self.steps).frame

    def _compiler(self, mark: bool) -> Compiler:
        return Compiler(self.rows.hidden, mark, self.backend.stored)

    @property
    def frame(self) -> DataFrame:
        """The rows, lazily; those that a filter has dropped may only be marked."""
        return self.compiled.frame

    @property
    def marked(self) -> bool:
        """Whether they are."""
        return self.compiled.marked

    @property
    def source(self) -> DataFrame:
        """The rows before any filter, with their time."""
        return self._compiled(tuple(step for step in self.steps if step.sets_time)).frame

    @property
    def files(self) -> int:
        """How many files, or pieces, the rows come from, if a part of them can be worked on like all of them."""
        return self.rows.files if all(step.fuses for step in self.steps) else 1

    # --- statistics

    @property
    def many_sources(self) -> bool:
        """Whether statistics are by source."""
        return SOURCE in self.rows.hidden

    @property
    def asked(self) -> tuple[bool, bool]:
        """Whether the sum of times, and punctuations, are wanted."""
        return "total" in self.page.needs, PUNCTUATION in self.rows.hidden

    def sketched(self, frame: DataFrame) -> tuple[DataFrame, Observation | None]:
        """The frame, with the sketch of times observed on the way if it is wanted and not known yet."""
        if not self.observes_sketch or self.arrival is not None:
            return frame, None
        sketch = Observation()
        return frame.observe(sketch, observed_sketch()), sketch

    @property
    def observes_sketch(self) -> bool:
        """Whether a job over the rows sketches their times on its way; that takes longer than all else it does.

        Where a glance is enough, and the rows are in files, a job of its own reads the times of some of them.
        """
        needs, reference = self.page.needs, self.rows.reference
        in_files = reference is not None and reference.scanned
        return "sketch" in needs or ("glance" in needs and not in_files)

    def measure(self) -> None:
        """Take the arrival statistics by a job of their own, if none has run."""
        if self.arrival is not None:
            return
        started, (frame, sketch) = time.perf_counter(), self.sketched(self.source)
        keys = [SOURCE] if self.many_sources else []
        with source_errors_explained(self.rows.reference):
            table = frame.groupBy(*keys).agg(*page_statistics(*self.asked)).toArrow()
        self.backend.spent(time.perf_counter() - started)
        self.arrived(frame_of(table), sketch)

    def arrived(self, statistics: pl.DataFrame, *sketches: Observation | None) -> None:
        """Take the statistics that a job has brought along, or several over parts of the rows."""
        seen = [read_sketch(s.get["sketch"]) for s in sketches if s is not None]
        sketch = merged_sketch([part for part in seen if part is not None])
        rows = int(statistics[ALL].sum())
        if rows and "glance" in self.page.needs and not self.observes_sketch:
            started = time.perf_counter()
            # The rows have been worked on: that their files are gone now harms nobody but who looks at figures.
            try:
                with source_errors_explained(self.rows.reference):
                    sketch = glance(self.source, rows)
            except RowsGoneError as error:
                decision("glance.left_out", error=error)
            self.backend.spent(time.perf_counter() - started)
        self.arrival = read_arrival(statistics, self.page.at, sketch)

    def ran(self, seconds: float, jobs: int = 1) -> None:
        """A job over the rows is over, after so long, or some at the same time."""
        self.backend.spent(seconds, jobs)
        if self.rows.counter is not None and self.arrival is not None:
            rows, self.rows.counter = self.rows.counter.rows(), None
            self.arrival = self.arrival if rows is None else replace(self.arrival, rows=rows)

    # --- all rows that pass

    @contextmanager
    def rows_passed(self) -> Iterator[DataFrame]:
        """The rows that passed, for one job on them; the arrival is known when it is over. The source is read once.

        If there is more than the driver takes, kept rows stay for the job that comes instead.
        """
        try:
            with source_errors_explained(self.rows.reference):
                frame, statistics = self._observed()
                started = time.perf_counter()
                yield frame
                self._ran(started, statistics)
        except PartialsTooLarge:
            raise
        except BaseException:
            self.rows.release()
            raise
        self.rows.release()

    @contextmanager
    def rows_with_time(self) -> Iterator[DataFrame]:
        """The same for the rows that have a time, with what is hidden."""
        with self.rows_passed() as frame:
            yield frame.where(f"{TIME} IS NOT NULL")

    def _observed(self) -> tuple[DataFrame, Observation | None]:
        """The rows that passed; arrival statistics are taken on the way if that can be.

        By source that cannot be: what Spark observes has no groups. They have a job of their own, which keeps the
        rows for the next one.
        """
        if not self.unknown:
            return self.compiled.passed(), None
        if self.many_sources:
            # Filters must mark rows here: a filter over kept rows loses batches of NaN alone, a fault of Spark.
            compiled = self.compiled
            self.rows.keep()
            self.measure()
            return compiled.passed(), None
        statistics = Observation()
        wanted = [*page_statistics(*self.asked), *([observed_sketch()] if self.observes_sketch else [])]
        return CompiledRows(self.frame.observe(statistics, *wanted), self.marked).passed(), statistics

    def _ran(self, started: float, statistics: Observation | None) -> None:
        self.ran(time.perf_counter() - started)
        if statistics is None:
            return
        try:
            seen = statistics.get
        except Py4JJavaError as error:
            # Spark saw that no row can pass the filter and left out the scan, statistics and all.
            decision("page.measured_again", error=error)
            self.measure()
            return
        row = pl.DataFrame([{c: seen[c] for c in COLUMNS if c in seen}])
        self.arrived(row, statistics if "sketch" in seen else None)
