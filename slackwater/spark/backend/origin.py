"""What all pages made from one arrival share: where the rows came from, and the statistics of their arrival."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from slackwater.columns import PUNCTUATION, SOURCE, TIME
from slackwater.errors import RowsGoneError
from slackwater.events import decision
from slackwater.operators.prod import Prod
from slackwater.plan.steps import Step
from slackwater.progress.arrival import Arrival, merged_sketch
from slackwater.spark.backend.compile import Compiled
from slackwater.spark.backend.layout import TaskLayout
from slackwater.spark.backend.locations.location import RowLocation, source_errors_explained
from slackwater.spark.backend.locations.registry import is_reference
from slackwater.spark.backend.statistics import (
    ALL,
    glance,
    observed_sketch,
    page_statistics,
    read_arrival,
    read_sketch,
)
from slackwater.windows.frames import frame_of

if TYPE_CHECKING:
    from slackwater.spark.backend.pages import SparkPages


class Counter:
    """Counts the rows of a lazy page while the first job runs on it."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._seen = Observation()

    def watching(self, frame: DataFrame) -> DataFrame:
        """The rows, counted on their way. No filter behind this is moved before it."""
        return frame.observe(self._seen, F.count(F.lit(1)).alias("rows"))

    def rows(self) -> int | None:
        """How many there were, after a job; None if Spark saw that it needs none of them."""
        try:
            counted: int = self._seen.get["rows"]
        except Py4JJavaError:
            return None
        self._tell(counted)
        return counted


@dataclass
class Origin:
    """What all pages made from one arrival share."""

    rows: DataFrame | Callable[[], DataFrame]
    """The rows as they came, or what gives them: nothing is opened before somebody looks at them."""
    number: int
    at: int
    shape: TaskLayout
    pages: SparkPages
    hidden: tuple[str, ...]
    """Hidden columns of every row."""
    scanned: bool = False
    """Whether Spark can scan the files of the rows in one task, if it is told so."""
    files: int = 1
    """Of how many files, or pieces of another source, the rows are, if they can be read in parts."""
    parts: Callable[[int], list[Callable[[], DataFrame]]] | None = None
    """What gives the rows in so many parts."""
    reference: RowLocation | None = None
    """Where the rows lie, if that is where a source has them."""
    needs: frozenset[str] = frozenset()
    arrival: Arrival | None = None
    prod: Prod | None = None
    saved: dict[str, Any] | None = None
    """Where the rows of the page as it came are durable."""
    size: int | None = None
    """Bytes of the rows, where they are known without files."""
    count: int | None = None
    """Rows, where they are not those that arrived."""
    table: pa.Table | None = None
    """The rows, if they are in the driver: a sink takes them as they are."""
    hidden_sql: Mapping[str, str] = field(default_factory=dict)
    """Spark SQL of the hidden columns of such rows."""
    unstamped: Origin | None = None
    """That of the same rows before they got their time: their arrival is known with this one's."""
    counter: Counter | None = None
    """What counts the rows as they came, where somebody wants to know."""
    plans: dict[tuple[Step, ...], Compiled] = field(default_factory=dict, repr=False)
    """What Spark's plans of the rows are, by the steps that are done to them."""
    _kept: bool = False

    @cached_property
    def source(self) -> DataFrame:
        """The rows as they came."""
        return self.rows() if callable(self.rows) else self.rows

    @property
    def bytes(self) -> int | None:
        """The room of the rows, if it is known."""
        if self.size is not None:
            return self.size
        return None if self.saved is None else self.saved["bytes"]

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
        with source_errors_explained(self.reference):
            table = frame.groupBy(*keys).agg(*page_statistics(*self.asked)).toArrow()
        self.pages.spent(time.perf_counter() - started)
        self.arrived(frame_of(table), sketch)

    def keep(self) -> None:
        """Have the next job keep the rows as they came, so that the one after it need not read them again."""
        if not self._kept:
            self._kept = True
            self.files = 1
            self.source.persist()

    def release(self) -> None:
        """Kept rows are not needed any more."""
        if self._kept:
            self._kept = False
            self.source.unpersist()

    def ran(self, seconds: float, jobs: int = 1) -> None:
        """A job over the rows is over, after so long, or some at the same time."""
        self.pages.spent(seconds, jobs)
        if self.counter is not None and self.arrival is not None:
            rows, self.counter = self.counter.rows(), None
            self.arrival = self.arrival if rows is None else replace(self.arrival, rows=rows)

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
        in_files = self.reference is not None and self.reference.scanned
        return "sketch" in self.needs or ("glance" in self.needs and not in_files)

    def arrived(self, statistics: pl.DataFrame, *sketches: Observation | None) -> None:
        """Take the statistics that a job has brought along, or several over parts of the rows."""
        seen = [read_sketch(s.get["sketch"]) for s in sketches if s is not None]
        sketch = merged_sketch([part for part in seen if part is not None])
        rows = int(statistics[ALL].sum())
        if rows and "glance" in self.needs and not self.observes_sketch:
            started = time.perf_counter()
            # The rows have been worked on: that their files are gone now harms nobody but who looks at figures.
            try:
                with source_errors_explained(self.reference):
                    sketch = glance(self.source, rows)
            except RowsGoneError as error:
                decision("glance.left_out", error=error)
            self.pages.spent(time.perf_counter() - started)
        self.arrival = read_arrival(statistics, self.at, sketch)
        if self.unstamped is not None and self.unstamped.arrival is None:
            self.unstamped.arrival = self.arrival

    def expect(self, needs: frozenset[str], at: int | None) -> None:
        """Remember what will be asked for, and when it arrived: the statistics of a spooled page are older."""
        self.needs = needs
        if at is not None:
            self.at = at
            self.arrival = None if self.arrival is None else replace(self.arrival, at=at)
        if self.saved is not None and is_reference(self.saved):
            self.saved = {**self.saved, "needs": sorted(needs), "at": self.at}

    def held(self, rows: DataFrame, count: int | None, size: int | None) -> Origin:
        """That of rows which were made of these, and lie where they were made."""
        here = replace(self, rows=rows, count=count, size=size, scanned=False, files=1, parts=None)
        return replace(here, reference=None, saved=None, unstamped=None, table=None, plans={})

    def stamped(self, at: int) -> Origin:
        """The same rows, each with this time."""
        arrival, saved = None if self.arrival is None else self.arrival.stamped(at), self.saved
        if saved is not None and is_reference(saved):
            saved = {**saved, "stamp": at}
        elif saved is not None and arrival is not None:
            saved = {**saved, "hidden": {**saved["hidden"], TIME: stamp_sql(at)}, "arrival": arrival.saved()}

        def stamped() -> DataFrame:
            return stamp(self.source, at)

        def parts(count: int) -> list[Callable[[], DataFrame]]:
            assert self.parts is not None
            return [lambda part=part: stamp(part(), at) for part in self.parts(count)]  # type: ignore[misc]

        cut = None if self.parts is None else parts
        return replace(
            self,
            rows=stamped,
            parts=cut,
            arrival=arrival,
            saved=saved,
            unstamped=self,
            table=None,
            plans={},
            _kept=False,
        )


def stamp(rows: DataFrame, at: int) -> DataFrame:
    """The rows with this time."""
    return rows.withColumn(TIME, F.expr(stamp_sql(at)))


def stamp_sql(at: int) -> str:
    """A time that is the same for all rows that have one, in Spark SQL, as no part of Spark's generated code (D2).

    A number would be written into the code, which Spark then compiles for each page. Of an array the code has only
    a reference, as long as the place in it is not known before the job runs.
    """
    return f"CASE WHEN {TIME} IS NOT NULL THEN get(array({at}L), spark_partition_id() * 0) END"
