"""Rows of one input of a join as Parquet files, each with rows of about the same time: time cells.

spill/<query>-join0/left/7/__cell=42/part-….parquet     what page 7 gave to cell 42

A page's rows fall into at most CELLS cells, which repeat: a row that is far away from the others shares its cell
with few of them. So a file says itself, in its statistics, from when to when its rows are; it goes when none of
them is needed any more. Small files are made one, level by level: a long window of small pages has few of them.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyarrow import fs
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
from slackwater.spark.backend.staging import too_large
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.windows.kernel import floor_division

if TYPE_CHECKING:
    from slackwater.spark.backend.pages import SparkPages

#: A page falls into so many cells at most.
CELLS = 32
#: A row is alive over about so many cells.
_CELLS_A_LIFE = 8
#: So many files of a level are made one, unless they are large by themselves.
_MANY = 24
#: A page of fewer rows comes through the driver, if it has no other types than these.
SMALL = 20_000
_PLAIN = (NumericType, StringType, BooleanType, BinaryType, DateType, TimestampType, TimestampNTZType)
_LARGE = 32 * 2**20


@dataclass(frozen=True)
class CellFile:
    """A file, and what is known of it without reading it."""

    name: str
    """Below the place of all files."""
    rows: int
    bytes: int
    low: int
    high: int
    """Times of the first and the last row."""
    level: int = 0


class CellFiles:
    """The files of one input."""

    def __init__(self, place: StorageDir, pages: SparkPages, longest: int) -> None:
        self.files: list[CellFile] = []
        self._place = place
        self._pages = pages
        self._width = max(1, longest // _CELLS_A_LIFE)
        self._near = 2 * self._width
        """Files within so many ticks may become one."""
        self._schema: StructType | None = None
        self._next = 0
        self._small = True
        """Whether the last page was."""
        self._doomed: list[tuple[list[weakref.ref[Any]], list[str]]] = []
        self._readers: list[weakref.ref[Any]] = []

    def write(self, frame: DataFrame) -> list[CellFile]:
        """Run: rows that have a time, as files of their own; they belong to nobody yet.

        As long as pages are small they come through the driver: Spark takes much longer to write few rows.
        """
        return self._write(frame, 0, CELLS)

    def _write(self, frame: DataFrame, level: int, cells: int) -> list[CellFile]:
        folder, self._schema = str(self._next), frame.schema
        self._next += 1
        place, table = self._place.child(folder), self._here(frame) if self._small else None
        if table is None:
            decision("cells.written_by_spark", place=place.path, level=level, large_before=not self._small)
            self._write_by_spark(frame, place, cells)
        else:
            self._write_here(table, place, cells)
        files = [self._looked_at(f"{folder}/{name}", level) for name in _names(place)]
        if level == 0:
            self._small = sum(file.rows for file in files) < SMALL
        return files

    def _here(self, frame: DataFrame) -> pa.Table | None:
        """The rows in the driver; None if they are too many for that, or of a type that only Spark writes."""
        if not all(isinstance(field.dataType, _PLAIN) for field in frame.schema.fields):
            return None
        try:
            return frame.toArrow()
        except (PySparkException, Py4JJavaError) as error:
            if not too_large(error):
                raise
            return None

    def _write_by_spark(self, frame: DataFrame, place: StorageDir, cells: int) -> None:
        cell = F.expr(f"pmod({floor_division(TIME, self._width)}, {cells}L)").alias(CELL)
        with self._pages.writing(place):
            frame.select("*", cell).write.mode("overwrite").partitionBy(CELL).parquet(place.address)

    def _write_here(self, table: pa.Table, place: StorageDir, cells: int) -> None:
        of = pl.Series(table[TIME]) // self._width % cells
        for cell in of.unique().to_list():
            rows = table.filter((of == cell).to_arrow())
            self._pages.write_table(rows, place.child(f"{CELL}={cell}"), "part-0.parquet")

    def without_late(self, files: list[CellFile], after: int) -> tuple[list[CellFile], int]:
        """The same rows but those at or below a heartbeat, and how many these were; runs where there are some."""
        mixed = [file for file in files if file.low <= after]
        if after == MIN_TICK or not mixed:
            return files, 0
        kept = self.write(self.frame(mixed).where(f"{TIME} > {after}L"))
        self.forget(mixed)
        late = sum(file.rows for file in mixed) - sum(file.rows for file in kept)
        return [*(file for file in files if file.low > after), *kept], late

    def frame(self, files: Sequence[CellFile]) -> DataFrame:
        """The rows of some files."""
        assert self._schema is not None
        paths = [f"{self._place.address}/{file.name}" for file in files]
        return self._pages.spark.read.schema(self._schema).parquet(*paths)

    def add(self, files: Sequence[CellFile]) -> None:
        """Files that were written count from now on; many small ones become one."""
        self.files += files
        while (many := self._mergeable()) is not None:
            merged = self._write(self.frame(many).coalesce(1), many[0].level + 1, cells=1)
            self.drop(many)
            self.files += merged

    def _mergeable(self) -> list[CellFile] | None:
        """Small files of one level that lie close together, if there are many of them."""
        near: dict[tuple[int, int], list[CellFile]] = {}
        for file in self.files:
            place = file.low // self._near
            if file.bytes < _LARGE and file.high // self._near == place:
                near.setdefault((file.level, place), []).append(file)
        return next((files for files in near.values() if len(files) >= _MANY), None)

    def drop(self, files: Sequence[CellFile]) -> None:
        """These are needed no more, except by who reads them now."""
        gone = {file.name for file in files}
        self.files = [file for file in self.files if file.name not in gone]
        self.forget(files)

    def forget(self, files: Sequence[CellFile]) -> None:
        """The same of files that nobody counts."""
        if files:
            self._doomed.append(([r for r in self._readers if r() is not None], [file.name for file in files]))

    def read_by(self, page: object) -> None:
        """A page is made of these files, and has not run yet."""
        self._readers = [r for r in self._readers if r() is not None]
        self._readers.append(weakref.ref(page))

    def settle(self) -> None:
        """Delete what is needed no more and read by nobody."""
        waiting = [doomed for doomed in self._doomed if any(r() is not None for r in doomed[0])]
        gone = [name for doomed in self._doomed if doomed not in waiting for name in doomed[1]]
        self._doomed = waiting
        left = {_folder(file.name) for file in self.files} | {_folder(n) for _, names in waiting for n in names}
        for folder in {_folder(name) for name in gone} - left:
            self._place.child(folder).delete()
        for name in gone:
            if _folder(name) in left:
                self._place.files.delete_file(f"{self._place.path}/{name}")

    def next_time(self, after: int) -> int | None:
        """The first row of a file above a time, or, where time is within a file, its last."""
        return min((t for f in self.files for t in (f.low, f.high) if t > after), default=None)

    def state(self) -> dict[str, Any]:
        """Which files there are: small, so always all of it."""
        schema = None if self._schema is None else self._schema.json()
        return {"files": [asdict(file) for file in self.files], "next": self._next, "schema": schema}

    def restore(self, values: dict[str, Any]) -> None:
        """Continue with the journaled files; those that no record speaks of are deleted."""
        self.files = [CellFile(**file) for file in values["files"]]
        self._next = values["next"]
        self._schema = None if values["schema"] is None else StructType.fromJson(json.loads(values["schema"]))
        known = {file.name for file in self.files}
        for folder in self._place.names():
            place = self._place.child(folder)
            left = {f"{folder}/{name}" for name in _names(place)}
            if not left & known:
                place.delete()
            for name in left - known if left & known else ():
                self._place.files.delete_file(f"{self._place.path}/{name}")

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """How much room the files take."""
        return sum(file.bytes for file in self.files)

    def _looked_at(self, name: str, level: int) -> CellFile:
        path = f"{self._place.path}/{name}"
        with self._place.files.open_input_file(path) as file:
            data, size = pq.read_metadata(file), file.size()
        at = data.schema.names.index(TIME)
        times = [data.row_group(n).column(at).statistics for n in range(data.num_row_groups)]
        low, high = min(t.min for t in times), max(t.max for t in times)
        return CellFile(name, data.num_rows, size, low, high, level)


def _folder(name: str) -> str:
    """What a file was written with."""
    return name.partition("/")[0]


def _names(place: StorageDir) -> list[str]:
    """Parquet files in a folder and those below."""
    found = place.files.get_file_info(fs.FileSelector(place.path, recursive=True, allow_not_found=True))
    return [f.path.removeprefix(f"{place.path}/") for f in found if f.path.endswith(".parquet")]
