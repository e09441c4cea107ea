"""Tables that are seldom read, on the session's storage, in few files however long a query runs.

Each row has a number, such as a pane or a window. Each table is a file of its own at first. Small files are merged,
level by level. The driver keeps the range of numbers of each file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace

import polars as pl
import pyarrow as pa

from slackwater.operators.operator import State
from slackwater.operators.stores import CellTables
from slackwater.operators.window_values import ArchiveValues
from slackwater.windows.frames import frame_of

#: This number of files of a level are merged. A larger number makes reading slower, a smaller one writing.
MANY = 24
#: Files with more bytes than this are not merged any more, because a merge holds them in memory.
LARGE = 32 * 2**20


@dataclass(frozen=True)
class _File:
    number: int
    kind: str
    """The kind of its rows."""
    low: int
    high: int
    level: int
    """How often its rows have been merged; -1: the file is large, and is not merged any more."""
    bytes: int


class Archive:
    """Tables of several kinds. Each kind has a column of numbers, by which its rows are found."""

    def __init__(self, cells: CellTables, by: dict[str, str]) -> None:
        """`by` gives, for each kind, the name of its column of numbers."""
        self._cells = cells
        self._by = by
        self._files: list[_File] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._files)

    @property
    def bytes(self) -> int:
        """Size of the files, as tables in memory."""
        return sum(file.bytes for file in self._files)

    def add(self, kind: str, rows: pl.DataFrame, below: int) -> None:
        """Add some rows. When files are merged, rows with a number below `below` are dropped."""
        self._write(kind, rows, 0)
        level = 0
        while len(small := [f for f in self._files if f.kind == kind and f.level == level]) >= MANY:
            if sum(file.bytes for file in small) > LARGE:
                self._files = [replace(f, level=-1) if f in small else f for f in self._files]
                return
            rows = pl.concat([self._rows(file) for file in small], how="vertical_relaxed")
            for file in small:
                self._drop(file)
            level += 1
            self._write(kind, rows.filter(pl.col(self._by[kind]) >= below), level)

    def _write(self, kind: str, rows: pl.DataFrame, level: int) -> None:
        if not rows.height:
            return
        numbers = rows[self._by[kind]].to_numpy()
        self._cells.add({self._next: rows.to_arrow()})
        size = int(rows.estimated_size())
        self._files.append(_File(self._next, kind, int(numbers.min()), int(numbers.max()), level, size))
        self._next += 1

    def _rows(self, file: _File) -> pl.DataFrame:
        return pl.concat([frame_of(table) for table in self._cells.read(file.number, file.number)])

    def _drop(self, file: _File) -> None:
        self._files.remove(file)
        self._cells.drop(file.number, file.number)

    def read(self, kind: str, low: int, high: int) -> Iterator[pl.DataFrame]:
        """The rows of a kind with a number from `low` to `high`, file by file."""
        for file in self._files:
            if file.kind == kind and file.low <= high and file.high >= low:
                yield self._rows(file).filter(pl.col(self._by[kind]).is_between(low, high))

    def drop(self, kind: str, below: int) -> None:
        """Drop files whose rows all have a number below this one."""
        for file in [f for f in self._files if f.kind == kind and f.high < below]:
            self._drop(file)

    def state(self) -> tuple[ArchiveValues, dict[str, pa.Table]]:
        """The list of files."""
        cells, files = self._cells.state(), [astuple(file) for file in self._files]
        return ArchiveValues(files=files, next=self._next, cells=cells.values), cells.tables

    def restore(self, values: ArchiveValues, tables: dict[str, pa.Table]) -> None:
        """Continue with the files of a journal."""
        self._files = [_File(*file) for file in values["files"]]
        self._next = values["next"]
        self._cells.restore(State(values["cells"], tables))

    def settle(self) -> None:
        """Delete the files that were dropped."""
        self._cells.settle()
