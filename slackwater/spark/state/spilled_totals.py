"""Totals of more groups than the driver can hold: partials are Parquet files, and Spark merges them for an answer.

Each page is a piece. The pieces since the last answer say which groups have changed. Pieces that are answered are
made one, level by level, so that an answer reads few files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import polars as pl
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, LongType, StructField, StructType

from slackwater.columns import CLOSED, PANE, SOURCE, WINDOW
from slackwater.operators.backend import PartialsTooLarge
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.payload import Payload
from slackwater.operators.total_store import ResidentTotals
from slackwater.progress.time import TimeDomain
from slackwater.spark.backend.kept_rows import closed as closed_rows
from slackwater.spark.backend.staging import stage, too_large
from slackwater.spark.state.partitioned_files import FilesValues, PartFile, PartitionedFiles
from slackwater.spark.storage.storage_dir import file_name
from slackwater.spark.storage.types import spark_of, spark_schema
from slackwater.windows.closed import Closed
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import PaneKernel
from slackwater.windows.results import COMPLETENESS, EMITTED_AT, KIND, WINDOW_END, WINDOW_START
from slackwater.windows.totals import last_of

if TYPE_CHECKING:
    from slackwater.spark.backend.pages import SparkPages

#: This number of answered pieces of a level are merged.
_MANY = 8
_ONLY_ONE = 0
"""The pane of all merged pieces: totals have no panes to keep apart."""


class SpilledTotalsValues(TypedDict):
    """The journaled values."""

    files: FilesValues
    answered: int


class SpilledTotals:
    """Totals on the journal's file system. The driver knows only the files."""

    kind = "spilled"

    def __init__(self, label: str, resident: ResidentTotals, domain: TimeDomain, pages: SparkPages) -> None:
        self._kernel: PaneKernel = resident.kernel
        self._schema = resident.schema
        self._last = last_of(resident.kernel)
        self._backend = pages.spark
        self._pages = pages
        self._files = PartitionedFiles(
            self._backend.root.child("spill").child(file_name(label)), self._backend, PANE
        )
        self._answered = 0
        """The pieces below this one have been answered."""
        self._columns: StructType | None = None
        parts = resident.totals.frame
        if parts is not None:
            changed = pl.col(PANE) == resident.totals.answers
            self._write(parts.filter(~changed))
            self._answered = self._files.pieces
            self._write(parts.filter(changed))

    def _write(self, part: pl.DataFrame) -> None:
        if part.height:
            table = part.with_columns(pl.lit(_ONLY_ONE, pl.Int64).alias(PANE)).to_arrow()
            rows = self._backend.spark.createDataFrame(table, spark_schema(table.schema))
            self._files.add(self._files.write_frame(rows))

    def absorb(self, pages: Pages, page: Page) -> None:
        """One Spark job writes the page's partials."""
        for work in self._pages.works(page):
            _, place = self._files.new_piece()
            work.spill(self._kernel.panes, place)
            self._files.add(self._files.written(place))

    def answer(self, pages: Pages, emitted_at: int) -> Payload | None:
        """One Spark job merges the partials of the groups that have changed into staged rows."""
        fresh = [file for file in self._files.files if file.piece >= self._answered]
        if not fresh:
            return None
        started = time.perf_counter()
        rows, keys = self._read(self._files.files), self._kernel.keys
        if keys and len(fresh) < len(self._files.files):
            groups = self._read(fresh).select(*map(_quoted, keys)).distinct()
            same = [rows[f"`{key}`"].eqNullSafe(groups[f"`{key}`"]) for key in keys]
            rows = rows.join(groups, same, "left_semi")
        staged = stage(self._results(self._merged(rows), emitted_at), self._backend)
        self._answered = self._files.pieces
        self._merge_pieces()
        self._backend.spent(time.perf_counter() - started)
        return staged

    def _merged(self, rows: DataFrame) -> DataFrame:
        """One partial for each group and kept row, as those of window 0."""
        keys = [F.lit(0).cast("bigint").alias(WINDOW), *map(_quoted, self._kernel.panes.keys)]
        merge = self._kernel.panes.merge_sql().items()
        return rows.groupBy(*keys).agg(*(F.expr(sql).alias(name) for name, sql in merge))

    def _results(self, merged: DataFrame, emitted_at: int) -> DataFrame:
        sql = {
            **{key: f"`{key}`" for key in self._kernel.keys},
            **self._kernel.value_sql(),
            **dict.fromkeys((WINDOW_START, WINDOW_END, COMPLETENESS), "NULL"),
            KIND: "'early'",
            EMITTED_AT: f"timestamp_micros({emitted_at}L)",
        }
        closed = closed_rows(merged, self._kernel)
        return closed.select(*(F.expr(sql[f.name]).cast(spark_of(f.type)).alias(f.name) for f in self._schema))

    def values(self, pages: Pages) -> pl.DataFrame | None:
        """One Spark job merges all partials, and brings them to the driver if it can hold them."""
        if not self._files.files:
            return None
        started = time.perf_counter()
        try:
            table = self._results(self._merged(self._read(self._files.files)), 0).toArrow()
        except (PySparkException, Py4JJavaError) as error:
            if not too_large(error):
                raise
            raise PartialsTooLarge("more groups than spark.driver.maxResultSize") from error
        self._backend.spent(time.perf_counter() - started)
        found = frame_of(table)
        return found.drop(WINDOW_START, WINDOW_END, KIND, EMITTED_AT, COMPLETENESS)

    def forget(self, closed: Closed, length: int) -> None:
        """If a group is to be forgotten, one Spark job writes all other groups again."""
        files, highest = self._files.files, closed.highest_closed()
        if not files or highest is None:
            return
        started = time.perf_counter()
        merged = self._merged(self._read(files)).drop(WINDOW)
        keys = self._kernel.keys
        last = merged.groupBy(*map(_quoted, keys)).agg(F.max(self._last).alias(self._last))
        passed = self._closed(last, closed).where(f"{self._last} + {length}L <= {CLOSED}")
        due = passed.select(*(_quoted(key).alias(f"__g{n}") for n, key in enumerate(keys)))
        if not due.isEmpty():
            same = [_quoted(key).eqNullSafe(F.col(f"__g{n}")) for n, key in enumerate(keys)]
            self._replace(files, merged.join(due, same, "left_anti"), 1 + max(file.level for file in files))
        self._backend.spent(time.perf_counter() - started)

    def _closed(self, last: DataFrame, closed: Closed) -> DataFrame:
        """These groups with the heartbeat of each."""
        rest = F.lit(closed.emitted_through).cast("bigint")
        if closed.named is None:
            return last.withColumn(CLOSED, rest)
        named = self._backend.spark.createDataFrame(closed.named.to_arrow())
        source = F.expr(self._kernel.source_sql).alias(SOURCE)
        joined = last.select("*", source).join(F.broadcast(named), on=SOURCE, how="left").drop(SOURCE)
        return joined.withColumn(CLOSED, F.coalesce(F.col(CLOSED), rest))

    def _merge_pieces(self) -> None:
        """Merge answered pieces of a level into one of the next level, if there are many."""
        level = 0
        while True:
            same = [file for file in self._files.files if file.level == level]
            if len({file.piece for file in same}) >= _MANY:
                self._replace(same, self._merged(self._read(same)).drop(WINDOW), level + 1)
            elif not any(file.level > level for file in self._files.files):
                return
            level += 1

    def _replace(self, files: Sequence[PartFile], rows: DataFrame, level: int) -> None:
        merged = self._files.write_frame(rows.withColumn(PANE, F.lit(_ONLY_ONE).cast("bigint")), level)
        self._files.drop(files)
        self._files.add(merged)
        self._answered = self._files.pieces

    def _read(self, files: Sequence[PartFile]) -> DataFrame:
        reader = self._backend.spark.read.option("basePath", self._files.root.address)
        if self._columns is None:
            # All files have the same columns. To find them Spark runs a job: once is enough.
            found = reader.parquet(*self._files.addresses(files)).schema
            self._columns = StructType([StructField(f.name, self._kept_as(f)) for f in found.fields])
        return reader.schema(self._columns).parquet(*self._files.addresses(files))

    def _kept_as(self, column: StructField) -> DataType:
        """The type of a column in files. Decimals have the largest precision, because sums of sums grow."""
        if column.name == PANE:
            return LongType()  # Spark guesses a type from the names of folders
        kind, partial = column.dataType, column.name not in self._kernel.panes.keys
        return DecimalType(38, kind.scale) if partial and isinstance(kind, DecimalType) else kind

    def state(self, whole: bool) -> State:
        """The list of files."""
        return State(SpilledTotalsValues(files=self._files.state(), answered=self._answered), whole=whole)

    def restore(self, states: Sequence[State]) -> None:
        """Continue with the journaled files."""
        values = states[-1].read(SpilledTotalsValues)
        self._files.restore(values["files"])
        self._answered = values["answered"]

    def settle(self) -> None:
        """Delete the files that were dropped."""
        self._files.settle()

    @property
    def bytes(self) -> int:
        """Zero: the driver has only names of files."""
        return 0

    @property
    def size(self) -> dict[str, int]:
        """Bytes on the file system. The driver does not know the number of groups."""
        return {"state_bytes": 0, "spilled_bytes": self._files.bytes}


def _quoted(name: str) -> Column:
    return F.col(f"`{name}`")
