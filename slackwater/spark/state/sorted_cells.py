"""Rows that wait for time, on Spark: in time cells, sorted when time has passed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import pyarrow as pa
from pyspark.sql import functions as F

from slackwater.columns import ROW_ORDER, TIME
from slackwater.operators.operator import State
from slackwater.operators.page import JoinOutput, Origin, Page
from slackwater.progress.arrival import Arrival
from slackwater.progress.time import LONGEST_SPAN, MAX_TICK, MIN_TICK
from slackwater.spark.backend.compile import column
from slackwater.spark.backend.opened import LazyRows
from slackwater.spark.state.cell_files import CellFiles, high, low
from slackwater.spark.state.partitioned_files import FilesValues, PartFile
from slackwater.spark.storage.storage_dir import file_name

if TYPE_CHECKING:
    from slackwater.spark.backend.pages import SparkPages

#: Column for the number of a row's page.
PAGE = "__page"


class SortedCellsValues(TypedDict):
    """The journaled values."""

    cells: FilesValues
    at: tuple[int, int, int, int, int]


class SortedCells:
    """The rows of one query."""

    def __init__(self, label: str, schema: pa.Schema, pages: SparkPages) -> None:
        place = pages.spark.root.child("spill").child(file_name(label))
        self._cells = CellFiles(place, pages.spark, LONGEST_SPAN)
        self._label = label
        self._pages = pages
        self._visible = [column(f"`{name}`") for name in schema.names]
        self._came = self._given = 0
        self._released = MIN_TICK
        """Rows up to here are out, but for those of this time in pages that came after `_out`."""
        self._out = 0
        self._first_new = MAX_TICK
        """The lowest time in files that are newer than the last release."""

    def add(self, page: Page, after: int) -> int:
        """One job writes the page's rows; another one only where some of them are late."""
        self._came += 1
        for work in self._pages.works(page):
            with work.rows_with_time() as frame:
                place = [F.lit(self._came).alias(PAGE), F.monotonically_increasing_id().alias(ROW_ORDER)]
                files = self._cells.write(frame.select(*self._visible, TIME, *place))
        files, late = self._cells.without_late(files, after)
        self._cells.add(files)
        self._first_new = min([self._first_new, *map(low, files)])
        return late

    def due(self, upto: int) -> bool:
        """Read off the statistics of the files."""
        passed = any(low(file) <= upto and high(file) > self._released for file in self._cells.files)
        return self._first_new <= upto or (upto > self._released and passed)

    def release(self, upto: int, at: int) -> Page | None:
        """A lazy page of the rows up to a time that are not out."""
        due, page = self._page(upto, at)
        self._released, self._out, self._first_new = upto, self._came, MAX_TICK
        self._cells.drop([file for file in due if high(file) <= upto])
        return page

    def rest(self, at: int) -> Page | None:
        """Release all rows; every file stays."""
        return self._page(MAX_TICK, at)[1]

    def _page(self, upto: int, at: int) -> tuple[Sequence[PartFile], Page | None]:
        """The files of the rows up to a time, and their rows that are not out."""
        due = [file for file in self._cells.files if low(file) <= upto]
        before, out = self._released, self._out
        if not due:
            return due, None
        rows = self._cells.frame(due).where(f"{TIME} <= {upto}L")
        if before > MIN_TICK:
            rows = rows.where(f"{TIME} > {before}L OR ({TIME} = {before}L AND {PAGE} > {out})")
        frame = rows.orderBy(TIME, PAGE, ROW_ORDER).select(*self._visible, TIME)
        self._given += 1
        rows_to_sort = JoinOutput(LazyRows(frame), (TIME,), tuple(file.name for file in due))
        self._cells.read_by(rows_to_sort)
        # Its rows are not counted before they are needed, and move no time.
        unknown = Arrival(0, 0, None, None, at)
        return due, Page(Origin(self._label, self._given), rows_to_sort, at=at, arrival=unknown)

    @property
    def waiting(self) -> int:
        """Those of files that reach above the heartbeat."""
        return sum(file.rows for file in self._cells.files if high(file) > self._released)

    def next_time(self, after: int) -> int | None:
        """Read off the statistics of the files."""
        return self._cells.next_time(after)

    def state(self, whole: bool) -> State:
        """Which files there are."""
        at = (self._came, self._given, self._released, self._out, self._first_new)
        return State(SortedCellsValues(cells=self._cells.state(), at=at))

    def restore(self, states: Sequence[State]) -> None:
        """Continue with them."""
        values = states[-1].read(SortedCellsValues)
        self._came, self._given, self._released, self._out, self._first_new = values["at"]
        self._cells.restore(values["cells"])

    def settle(self) -> None:
        """Delete what is needed no more."""
        self._cells.settle()

    @property
    def size(self) -> dict[str, int]:
        """Rows and bytes of the files; some of the rows may be out."""
        return {"waiting_rows": self._cells.rows, "state_bytes": self._cells.bytes}
