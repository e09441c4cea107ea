"""Rows where they lie, as Spark reads them: opened when a job needs them, and let go when no page is there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from slackwater.columns import PUNCTUATION, SOURCE, TIME, UNTIL
from slackwater.events import decision
from slackwater.operators.page import CachedRows, DriverRows, JoinOutput, Location, SavedRows, SourceRows
from slackwater.plan.step import Columns, Step
from slackwater.spark.backend.compile import CompiledRows, column, named
from slackwater.spark.backend.locations.location import RowLocation, source_errors_explained
from slackwater.spark.backend.locations.registry import KINDS
from slackwater.spark.backend.one_task import can_scan_in_one
from slackwater.spark.storage.types import spark_schema

if TYPE_CHECKING:
    from slackwater.spark.backend.backend import SparkBackend


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
        except Py4JJavaError as error:
            decision("rows.not_counted", error=error)
            return None
        self._tell(counted)
        return counted


@dataclass(frozen=True, eq=False)
class LazyRows:
    """Rows that are made when a job needs them, and what counts them then, where somebody wants to know."""

    frame: DataFrame
    counter: Counter | None = None


@dataclass(eq=False)
class LocationRows:
    """The rows of a location, and Spark's plans over them. Nothing is read before somebody looks at them."""

    rows: Callable[[], DataFrame]
    hidden: tuple[str, ...]
    """Hidden columns of every row."""
    reference: RowLocation | None = None
    """Where the rows lie, if that is where a source has them."""
    scanned: bool = False
    """Whether Spark can scan the files of the rows in one task on request."""
    part: Callable[[RowLocation], DataFrame] | None = None
    """What reads a part of the reference."""
    counter: Counter | None = None
    plans: dict[tuple[Step, ...], CompiledRows] = field(default_factory=dict)
    """What Spark's plans of the rows are, by the steps that are done to them."""
    kept: bool = False
    """Whether the rows stay in memory for the next job."""

    @cached_property
    def source(self) -> DataFrame:
        """The rows as they came."""
        return self.rows()

    @property
    def files(self) -> int:
        """How many files, or pieces of another source, the rows come from; 1 if they cannot be read in parts."""
        return 1 if self.reference is None or self.kept else self.reference.pieces

    def parts(self, count: int) -> list[Callable[[], DataFrame]] | None:
        """What gives the rows in `parts` parts; None if they cannot be cut."""
        if self.reference is None or self.part is None:
            return None
        return [partial(self.part, part) for part in self.reference.cut(count)]

    def keep(self) -> None:
        """Have the next job keep the rows as they came, so that the one after it need not read them again."""
        if not self.kept:
            self.kept = True
            self.source.persist()

    def release(self) -> None:
        """Kept rows are not needed any more."""
        if self.kept:
            self.kept = False
            self.source.unpersist()


def reference_of(location: Location) -> RowLocation | None:
    """Which rows of a source a page refers to; None if the page has rows of its own."""
    return KINDS[location.source].load(json.loads(location.where)) if isinstance(location, SourceRows) else None


def open_rows(location: Location, backend: SparkBackend) -> LocationRows:
    """The rows of a location."""
    if isinstance(location, SourceRows):
        return _referenced(location, backend)
    if isinstance(location, SavedRows):
        frame = _timed(backend.spark.read.parquet(backend.root.child(location.folder).address), location.hidden)
        names = tuple(c for c in (TIME, UNTIL, SOURCE, PUNCTUATION) if c in frame.columns)
        return LocationRows(lambda: frame, names)
    if isinstance(location, DriverRows):
        table = location.table
        names = tuple(c for c in (TIME, UNTIL, SOURCE, PUNCTUATION) if c in table.schema.names)
        hidden = (*names, *(name for name, _ in location.hidden))
        return LocationRows(
            lambda: _timed(backend.given(table, spark_schema(table.schema)), location.hidden), hidden
        )
    assert isinstance(location, (CachedRows, JoinOutput))
    rows = location.rows if isinstance(location.rows, LazyRows) else LazyRows(_frame(location.rows))
    return LocationRows(lambda: rows.frame, location.hidden, counter=rows.counter)


def _frame(rows: object) -> DataFrame:
    assert isinstance(rows, DataFrame)
    return rows


def _referenced(location: SourceRows, backend: SparkBackend) -> LocationRows:
    reference, reader = reference_of(location), backend.reader(location.stream)
    assert reference is not None
    names_of = [column.strip("`") for column in location.columns]

    def rows(some: RowLocation) -> DataFrame:
        with source_errors_explained(some):
            read = some.read(lambda: backend.streams(location.stream, names_of), reader, backend.spark)
            return timed(read, location.columns, location.hidden)

    scanned = reference.scanned and can_scan_in_one(reader)
    names = tuple(name for name, _ in location.hidden)
    return LocationRows(lambda: rows(reference), names, reference, scanned, rows)


def timed(frame: DataFrame, columns: Sequence[str], hidden: Columns) -> DataFrame:
    """Some columns of rows, with hidden ones. One step: Spark analyses each for itself."""
    return frame.select(*map(column, columns), *(named(sql, name) for name, sql in hidden))


def _timed(frame: DataFrame, hidden: Columns) -> DataFrame:
    made = {name for name, _ in hidden}
    return timed(frame, [f"`{c}`" for c in frame.columns if c not in made], hidden) if hidden else frame
