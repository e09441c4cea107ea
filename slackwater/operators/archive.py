"""Tables that are seldom read, on the session's storage: few files, however long it goes on.

Each table has rows with a number, such as a pane or a window, and is a file of its own at first. Small files are
made one, level by level. The driver knows of each file which numbers it has.
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

#: This number of files of a level become one. More make it slower to read them, fewer to write them again.
MANY = 24
#: Bytes of files that are not made one any more: so much is in memory while that is done.
LARGE = 32 * 2**20


@dataclass(frozen=True)
class _File:
    number: int
    kind: str
    """What its rows are."""
    low: int
    high: int
    level: int
    """How often it has been made of smaller ones."""
    bytes: int


class Archive:
    """Tables of several kinds, by a column of numbers that each kind has."""

    def __init__(self, cells: CellTables, by: dict[str, str]) -> None:
        """`by` has the column of numbers of each kind."""
        self._cells = cells
        self._by = by
        self._files: list[_File] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._files)

    @property
    def bytes(self) -> int:
        """Size of the files, as it is in memory."""
        return sum(file.bytes for file in self._files)

    def add(self, kind: str, rows: pl.DataFrame, below: int) -> None:
        """Keep some rows. Those with a number below `below` may go when files are made one."""
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
        """The rows of a kind with numbers from `low` to `high`, file by file."""
        for file in self._files:
            if file.kind == kind and file.low <= high and file.high >= low:
                yield self._rows(file).filter(pl.col(self._by[kind]).is_between(low, high))

    def drop(self, kind: str, below: int) -> None:
        """Nobody needs rows with a number below this one any more."""
        for file in [f for f in self._files if f.kind == kind and f.high < below]:
            self._drop(file)

    def state(self) -> tuple[ArchiveValues, dict[str, pa.Table]]:
        """Which files there are."""
        cells, files = self._cells.state(), [astuple(file) for file in self._files]
        return ArchiveValues(files=files, next=self._next, cells=cells.values), cells.tables

    def restore(self, values: ArchiveValues, tables: dict[str, pa.Table]) -> None:
        """Continue with the files of a journal."""
        self._files = [_File(*file) for file in values["files"]]
        self._next = values["next"]
        self._cells.restore(State(values["cells"], tables))

    def settle(self) -> None:
        """What was dropped may be deleted."""
        self._cells.settle()
