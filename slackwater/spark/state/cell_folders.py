"""Rows of the driver that are too many for it: Parquet files, a folder for each cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.columns import CELL
from slackwater.operators.operator import State
from slackwater.spark.state.partitioned_files import FilesValues, PartitionedFiles
from slackwater.spark.storage.storage_dir import file_name

if TYPE_CHECKING:
    from slackwater.spark.backend.pages import SparkPages


class CellFolders:
    """Rows by cell. The driver writes and reads them itself."""

    def __init__(self, label: str, pages: SparkPages) -> None:
        place = pages.spark.root.child("spill").child(file_name(label))
        self._files = PartitionedFiles(place, pages.spark, CELL)
        self.settle = self._files.settle

    def add(self, tables: Mapping[int, pa.Table]) -> None:
        """A file for each cell."""
        self._files.add(self._files.write_tables(tables))

    def read(self, low: int, high: int) -> Iterator[pa.Table]:
        """One file after another."""
        root = self._files.root
        for file in self._files.files:
            if low <= file.key <= high:
                yield pq.read_table(f"{root.path}/{file.name}", filesystem=root.files, partitioning=None)

    def drop(self, low: int, high: int) -> None:
        """Let their files go."""
        self._files.drop([file for file in self._files.files if low <= file.key <= high])

    def state(self) -> State:
        """Which files there are."""
        return State(self._files.state())

    def restore(self, state: State) -> None:
        """Continue with them."""
        self._files.restore(state.read(FilesValues))

    @property
    def rows(self) -> int:
        """As the files say."""
        return self._files.rows

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return self._files.bytes
