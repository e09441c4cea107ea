"""The stores of operators in this process: rows in memory, kept inside journal records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.operators.operator import State
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
        """Tables in memory."""
        return CellsInProcess()


class CellsInProcess:
    """Tables by cell, kept inside journal records."""

    def __init__(self) -> None:
        self._tables: dict[int, list[pa.Table]] = {}

    def add(self, tables: Mapping[int, pa.Table]) -> None:
        """Keep them."""
        for cell, table in tables.items():
            self._tables.setdefault(cell, []).append(table)

    def read(self, low: int, high: int) -> Iterator[pa.Table]:
        """One after another."""
        for cell, tables in self._tables.items():
            if low <= cell <= high:
                yield from tables

    def drop(self, low: int, high: int) -> None:
        """Forget them."""
        for cell in [cell for cell in self._tables if low <= cell <= high]:
            del self._tables[cell]

    def state(self) -> State:
        """All of them."""
        tables = {f"cell {c} {n}": t for c, tables in self._tables.items() for n, t in enumerate(tables)}
        return State({}, tables)

    def restore(self, state: State) -> None:
        """Continue with them."""
        self._tables = {}
        for name, table in state.tables.items():
            if name.startswith("cell "):
                self._tables.setdefault(int(name.split()[1]), []).append(table)

    def settle(self) -> None:
        """Nothing waits."""

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(table.num_rows for tables in self._tables.values() for table in tables)

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(table.nbytes for tables in self._tables.values() for table in tables)
