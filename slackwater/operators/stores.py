"""What keeps the rows and partials of operators beyond a page: the contract, one method for each kind of state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from slackwater.operators.asof_join import AsofRows
from slackwater.operators.in_order import RowsInOrder
from slackwater.operators.join_state import JoinState
from slackwater.operators.operator import State
from slackwater.operators.pane_store import PaneStore, ResidentPanes
from slackwater.operators.record_store import RecordStore, ResidentRecords
from slackwater.operators.rows_join import OrderedRows
from slackwater.operators.total_store import ResidentTotals, TotalStore
from slackwater.plan.asof import AsofNode
from slackwater.plan.join_node import JoinNode
from slackwater.progress.time import TimeDomain


class CellTables(Protocol):
    """Rows of the driver by cell, on the session's storage. A cell that was dropped stays until `settle`."""

    def add(self, tables: Mapping[int, pa.Table]) -> None:
        """Run: write rows of these cells."""

    def read(self, low: int, high: int) -> Iterator[pa.Table]:
        """The rows of the cells from the first to the last, a file at a time."""

    def drop(self, low: int, high: int) -> None:
        """Nobody needs the cells from the first to the last any more."""

    def state(self) -> State:
        """Which files there are."""

    def restore(self, state: State) -> None:
        """Continue with them."""

    def settle(self) -> None:
        """What was dropped may be deleted."""

    @property
    def rows(self) -> int:
        """How many there are."""

    @property
    def bytes(self) -> int:
        """Size of the files."""


class Stores(Protocol):
    """Makes stores. An operator keeps the label of its store for life, so a restart finds it again."""

    def panes(self, label: str, resident: ResidentPanes, domain: TimeDomain) -> PaneStore:
        """For partials that are too many for the driver, beginning with the resident ones."""

    def totals(self, label: str, resident: ResidentTotals, domain: TimeDomain) -> TotalStore:
        """For totals of more groups than the driver may hold, beginning with the resident ones."""

    def rows(self, label: str, resident: ResidentRecords) -> RecordStore:
        """For rows that are too many for the driver, beginning with the resident ones."""

    def join(self, label: str, node: JoinNode) -> JoinState:
        """For the rows of a join by windows of time."""

    def ordered_join(self, label: str, node: JoinNode) -> OrderedRows:
        """For the rows of a join in which a side has a window of rows."""

    def asof_join(self, label: str, node: AsofNode) -> AsofRows:
        """For the rows of an as-of join."""
        ...

    def in_order(self, label: str, schema: pa.Schema) -> RowsInOrder:
        """For rows of this shape that wait until their time has come."""

    def cells(self, label: str) -> CellTables:
        """For rows of the driver that are too many for it."""
