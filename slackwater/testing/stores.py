"""The stores of operators in this process: rows in memory, kept inside journal records; nothing is spilled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.operators.pane_store import PaneStore, ResidentPanes
from slackwater.operators.record_store import RecordStore, ResidentRecords
from slackwater.operators.stores import CellTables
from slackwater.operators.total_store import ResidentTotals, TotalStore
from slackwater.plan.asof import AsofNode
from slackwater.plan.join_node import JoinNode
from slackwater.progress.time import TimeDomain
from slackwater.testing.asof_rows import AsofInProcess
from slackwater.testing.join_rows import JoinRows
from slackwater.testing.ordered_rows import OrderedRowsHere
from slackwater.testing.rows_in_order import RowsInOrderHere

if TYPE_CHECKING:
    from slackwater.testing.pages import ArrowPages


class ArrowStores:
    """Rows and partials in memory."""

    def __init__(self, pages: ArrowPages) -> None:
        self._pages = pages

    def panes(self, label: str, resident: ResidentPanes, domain: TimeDomain) -> PaneStore:
        """Refused."""
        raise MemoryError(f"{label}: more window state than the driver may hold, and nowhere to spill it")

    def totals(self, label: str, resident: ResidentTotals, domain: TimeDomain) -> TotalStore:
        """Refused."""
        raise MemoryError(f"{label}: more groups than the driver may hold, and nowhere to spill them")

    def rows(self, label: str, resident: ResidentRecords) -> RecordStore:
        """Refused."""
        raise MemoryError(f"{label}: more rows than the driver may hold, and nowhere to spill them")

    def join(self, label: str, node: JoinNode) -> JoinRows:
        """Rows in memory."""
        return JoinRows(label, node, self._pages)

    def ordered_join(self, label: str, node: JoinNode) -> OrderedRowsHere:
        """Rows in memory."""
        return OrderedRowsHere(label, node, self._pages)

    def asof_join(self, label: str, node: AsofNode) -> AsofInProcess:
        """Rows in memory."""
        return AsofInProcess(label, node, self._pages)

    def in_order(self, label: str, schema: pa.Schema) -> RowsInOrderHere:
        """Rows in memory."""
        return RowsInOrderHere(label, self._pages)

    def cells(self, label: str) -> CellTables:
        """Refused."""
        raise MemoryError(f"{label}: more rows than the driver may hold, and nowhere to spill them")
