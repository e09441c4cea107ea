"""The stores of operators on Spark: files on the session's storage."""

from __future__ import annotations

import pyarrow as pa

from slackwater.operators.pane_store import PaneStore, ResidentPanes
from slackwater.operators.record_store import RecordStore, ResidentRecords
from slackwater.operators.total_store import ResidentTotals, TotalStore
from slackwater.plan.asof import AsofNode
from slackwater.plan.join_node import JoinNode
from slackwater.progress.time import TimeDomain
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.state.asof_cells import AsofCells
from slackwater.spark.state.cell_folders import CellFolders
from slackwater.spark.state.join_cells import JoinCells
from slackwater.spark.state.ordered_cells import OrderedCells
from slackwater.spark.state.sorted_cells import SortedCells
from slackwater.spark.state.spilled_panes import SpilledPanes
from slackwater.spark.state.spilled_records import SpilledRecords
from slackwater.spark.state.spilled_totals import SpilledTotals


class SparkStores:
    """One folder below `spill/` for each store."""

    def __init__(self, pages: SparkPages) -> None:
        self._pages = pages

    def panes(self, label: str, resident: ResidentPanes, domain: TimeDomain) -> PaneStore:
        """Panes as files."""
        return SpilledPanes(label, resident, domain, self._pages)

    def totals(self, label: str, resident: ResidentTotals, domain: TimeDomain) -> TotalStore:
        """Totals as files."""
        return SpilledTotals(label, resident, domain, self._pages)

    def rows(self, label: str, resident: ResidentRecords) -> RecordStore:
        """Rows as files."""
        return SpilledRecords(label, resident, self._pages)

    def join(self, label: str, node: JoinNode) -> JoinCells:
        """Rows as files, by time."""
        return JoinCells(label, node, self._pages)

    def ordered_join(self, label: str, node: JoinNode) -> OrderedCells:
        """Rows as files, matched in the order of time."""
        return OrderedCells(label, node, self._pages)

    def asof_join(self, label: str, node: AsofNode) -> AsofCells:
        """Rows as files."""
        return AsofCells(label, node, self._pages)

    def in_order(self, label: str, schema: pa.Schema) -> SortedCells:
        """Rows as files, sorted when time has passed them."""
        return SortedCells(label, schema, self._pages)

    def cells(self, label: str) -> CellFolders:
        """Rows as files, by cell."""
        return CellFolders(label, self._pages)
