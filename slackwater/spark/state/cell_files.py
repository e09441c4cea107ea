"""Rows of one input of a join as Parquet files, each with rows of about the same time: time cells.

A page's rows fall into at most CELLS cells, which repeat: a row that is far away from the others shares its cell
with few of them. So a file says itself, in its statistics, from when to when its rows are; it goes when none of
them is needed any more. Small files are made one, level by level: a long window of small pages has few of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import polars as pl
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from slackwater.columns import CELL, TIME
from slackwater.events import decision
from slackwater.progress.time import MIN_TICK
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.staging import too_large
from slackwater.spark.state.partitioned_files import FilesValues, PartFile, PartitionedFiles
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.windows.spec import floor_division

#: The largest number of cells that a page falls into.
CELLS = 32
#: About how many cells a row lives for.
_CELLS_A_LIFE = 8
#: This number of files of a level become one, unless they are large by themselves.
_MANY = 24
#: A page of fewer rows comes through the driver, if it has no other types than these.
SMALL = 20_000
_PLAIN = (NumericType, StringType, BooleanType, BinaryType, DateType, TimestampType, TimestampNTZType)
_LARGE = 32 * 2**20


class CellFiles(PartitionedFiles):
    """The files of one input."""

    def __init__(self, place: StorageDir, backend: SparkBackend, longest: int) -> None:
        super().__init__(place, backend, CELL)
        self._width = max(1, longest // _CELLS_A_LIFE)
        self._near = 2 * self._width
        """Files within this number of ticks may become one."""
        self._schema: StructType | None = None
        self._small = True
        """Whether the last page was."""
        self._on_trial = False

    def write(self, frame: DataFrame) -> list[PartFile]:
        """Run: rows that have a time, as files of their own; they belong to nobody yet.

        As long as pages are small they come through the driver: Spark takes much longer to write few rows.
        """
        return self._write(frame, 0, CELLS)

    def _write(self, frame: DataFrame, level: int, cells: int) -> list[PartFile]:
        self._schema = frame.schema
        table = self._here(frame) if self._small else None
        if table is None:
            decision("cells.written_by_spark", place=self.root.path, level=level, large_before=not self._small)
            cell = F.expr(f"pmod({floor_division(TIME, self._width)}, {cells}L)").alias(CELL)
            files = self.write_frame(frame.select("*", cell), level)
        else:
            files = self.write_tables(self._by_cell(table, cells), level)
        if level == 0:
            self._small = sum(file.rows for file in files) < SMALL
        return files

    def _by_cell(self, table: pa.Table, cells: int) -> dict[int, pa.Table]:
        cell = pl.Series(table[TIME]) // self._width % cells
        return {value: table.filter((cell == value).to_arrow()) for value in cell.unique().to_list()}

    def _here(self, frame: DataFrame) -> pa.Table | None:
        """The rows in the driver; None if they are too many for that, or of a type that only Spark writes."""
        if not all(isinstance(field.dataType, _PLAIN) for field in frame.schema.fields):
            return None
        try:
            return frame.toArrow()
        except (PySparkException, Py4JJavaError) as error:
            if not too_large(error):
                raise
            decision("join.rows_stay_in_files", error=error)
            return None

    def without_late(self, files: list[PartFile], after: int) -> tuple[list[PartFile], int]:
        """The same rows but those at or below a heartbeat, and how many these were; runs where there are some."""
        mixed = [file for file in files if low(file) <= after]
        if after == MIN_TICK or not mixed:
            return files, 0
        kept = self.write(self.frame(mixed).where(f"{TIME} > {after}L"))
        self.forget(mixed)
        late = sum(file.rows for file in mixed) - sum(file.rows for file in kept)
        return [*(file for file in files if low(file) > after), *kept], late

    def rows_until(self, files: Sequence[PartFile], tick: int) -> int:
        """How many rows have a time at or below a tick; runs where files have such rows and others."""
        whole = sum(file.rows for file in files if high(file) <= tick)
        mixed = [file for file in files if low(file) <= tick < high(file)]
        return whole + (self.frame(mixed).where(f"{TIME} <= {tick}L").count() if mixed else 0)

    def frame(self, files: Sequence[PartFile]) -> DataFrame:
        """The rows of some files."""
        assert self._schema is not None
        return self._backend.spark.read.schema(self._schema).parquet(*self.addresses(files))

    def add(self, files: Sequence[PartFile]) -> None:
        """Files that were written count from now on; many small ones become one."""
        super().add(files)
        while not self._on_trial and (many := self._mergeable()) is not None:
            merged = self._write(self.frame(many).coalesce(1), many[0].level + 1, cells=1)
            self.drop(many)
            super().add(merged)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Files that are added within it go at its end, once nobody reads them."""
        files = self.files
        self.files, self._on_trial = list(files), True
        try:
            yield
        finally:
            added = self.files[len(files) :]
            self.files, self._on_trial = files, False
            self.forget(added)

    def _mergeable(self) -> list[PartFile] | None:
        """Small files of one level that lie close together, if there are many of them."""
        near: dict[tuple[int, int], list[PartFile]] = {}
        for file in self.files:
            place = low(file) // self._near
            if file.bytes < _LARGE and high(file) // self._near == place:
                near.setdefault((file.level, place), []).append(file)
        return next((files for files in near.values() if len(files) >= _MANY), None)

    def next_time(self, after: int) -> int | None:
        """The first row of a file above a time, or, where time is within a file, its last."""
        return min((t for f in self.files for t in (low(f), high(f)) if t > after), default=None)

    def state(self) -> FilesValues:
        """Which files there are, and their columns."""
        values = super().state()
        values["schema"] = None if self._schema is None else self._schema.json()
        return values

    def restore(self, values: FilesValues) -> None:
        """Continue with the journaled files."""
        super().restore(values)
        schema = values.get("schema")
        self._schema = None if schema is None else StructType.fromJson(json.loads(schema))


def low(file: PartFile) -> int:
    """The time of its first row: every row of a join has one."""
    assert file.low is not None
    return file.low


def high(file: PartFile) -> int:
    """The time of its last row."""
    assert file.high is not None
    return file.high
