"""The file store under spilled panes, spilled rows and join cells: Parquet files on the session's storage.

spill/<store>/__piece=7/__pane=42/part-….parquet     what the 7th write gave to pane 42

Files are written in pieces, one a page, with a folder for each value of the partition column. A file is dropped
when nobody needs it, and deleted at the next `settle`: until then a crash may ask for it again. After a restart,
files that no record names are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import NotRequired, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame

from slackwater.columns import TIME
from slackwater.operators.page import JoinOutput
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.storage.storage_dir import StorageDir

_PIECE = "__piece"


@dataclass(frozen=True)
class PartFile:
    """A file, and what is known of it without reading it."""

    name: str
    """Below the root of the store."""
    rows: int
    bytes: int
    low: int | None
    high: int | None
    """Times of the first and the last row, where rows have one."""
    level: int = 0
    """How often it has been made of smaller ones."""

    @property
    def piece(self) -> int:
        """The write that it came with."""
        return int(self.name.partition("/")[0].rpartition("=")[2])

    @property
    def key(self) -> int:
        """Value of the partition column."""
        return int(self.name.rpartition("/")[0].rpartition("=")[2])


class FilesValues(TypedDict):
    """The journaled values of a store of files: of each file its fields, and the number of the next write."""

    files: list[tuple[str, int, int, int | None, int | None, int]]
    next: int
    schema: NotRequired[str | None]
    """The columns as Spark's JSON, where they are kept."""


class PartitionedFiles:
    """The files of one store."""

    def __init__(self, root: StorageDir, backend: SparkBackend, column: str) -> None:
        """`column` is the partition column."""
        self.root = root
        self.files: list[PartFile] = []
        self._backend = backend
        self._column = column
        self._next = 0
        self._doomed: list[tuple[list[JoinOutput], list[str]]] = []
        """Files to delete, and the rows that are still to be made of them."""
        self._readers: list[JoinOutput] = []

    @property
    def pieces(self) -> int:
        """The number of the next write."""
        return self._next

    def new_piece(self) -> tuple[int, StorageDir]:
        """The number and the folder of the next write."""
        piece = self._next
        self._next += 1
        return piece, self.root.child(f"{_PIECE}={piece}")

    def write_frame(self, rows: DataFrame, level: int = 0) -> list[PartFile]:
        """Run: rows with the partition column, by Spark. The files belong to nobody before `add`."""
        _, place = self.new_piece()
        with self._backend.writing(place):
            rows.write.mode("overwrite").partitionBy(self._column).parquet(place.address)
        return self.written(place, level)

    def write_tables(self, tables: Mapping[int, pa.Table], level: int = 0) -> list[PartFile]:
        """Write rows of the driver, by value of the partition column."""
        _, place = self.new_piece()
        for key, table in tables.items():
            self._backend.write_table(table, place.child(f"{self._column}={key}"), "part-0.parquet")
        return self.written(place, level)

    def written(self, place: StorageDir, level: int = 0) -> list[PartFile]:
        """The files of a piece, which somebody else may have written."""
        return [self._looked_at(name, level) for name in self._names(place)]

    def addresses(self, files: Iterable[PartFile]) -> list[str]:
        """Addresses of some files, for Spark."""
        return [f"{self.root.address}/{file.name}" for file in files]

    def add(self, files: Sequence[PartFile]) -> None:
        """Files that were written count from now on."""
        self.files += files

    def drop(self, files: Sequence[PartFile]) -> None:
        """Nobody needs these any more, except those who read them now."""
        gone = {file.name for file in files}
        self.files = [file for file in self.files if file.name not in gone]
        self.forget(files)

    def forget(self, files: Sequence[PartFile]) -> None:
        """Drop files that were not added."""
        if files:
            self._readers = [rows for rows in self._readers if self._backend.is_lazy(rows)]
            self._doomed.append((self._readers, [file.name for file in files]))

    def read_by(self, rows: JoinOutput) -> None:
        """Rows of a page are to be made of these files."""
        self._readers = [*self._readers, rows]
        self._backend.lazy(rows)

    def settle(self) -> None:
        """Delete the files that were dropped and that nobody reads."""
        waiting = [doomed for doomed in self._doomed if any(map(self._backend.is_lazy, doomed[0]))]
        gone = {name for doomed in self._doomed if doomed not in waiting for name in doomed[1]}
        self._doomed = waiting
        self._delete(gone, {file.name for file in self.files} | {n for _, names in waiting for n in names})

    def state(self) -> FilesValues:
        """Which files there are: small, so always all of it."""
        return FilesValues(files=[astuple(file) for file in self.files], next=self._next)

    def restore(self, values: FilesValues) -> None:
        """Continue with the journaled files; those that no record names are deleted."""
        self.files = [PartFile(*file) for file in values["files"]]
        self._next = values["next"]
        known = {file.name for file in self.files}
        self._delete(set(self._names(self.root)) - known, known)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return sum(file.bytes for file in self.files)

    def _delete(self, names: set[str], left: set[str]) -> None:
        """Delete files, and whole pieces of which none is left."""
        pieces = {_piece(name) for name in left}
        for piece in {_piece(name) for name in names} - pieces:
            self.root.child(piece).delete()
        for name in names:
            if _piece(name) in pieces:
                self.root.files.delete_file(f"{self.root.path}/{name}")

    def _names(self, place: StorageDir) -> list[str]:
        """Parquet files in a folder and those below, named from the root."""
        found = self.root.files.get_file_info(fs.FileSelector(place.path, recursive=True, allow_not_found=True))
        return [f.path.removeprefix(f"{self.root.path}/") for f in found if f.path.endswith(".parquet")]

    def _looked_at(self, name: str, level: int) -> PartFile:
        with self.root.files.open_input_file(f"{self.root.path}/{name}") as file:
            data, size = pq.read_metadata(file), file.size()
        low = high = None
        if TIME in data.schema.names:
            at = data.schema.names.index(TIME)
            times = [data.row_group(n).column(at).statistics for n in range(data.num_row_groups)]
            low, high = min(t.min for t in times), max(t.max for t in times)
        return PartFile(name, data.num_rows, size, low, high, level)


def _piece(name: str) -> str:
    return name.partition("/")[0]
