"""Between two aggregates (S5 section 3.3, Q3-4): the results of the lower one as rows for the upper one."""

from __future__ import annotations

from slackwater.operators.operator import Emit, Unary
from slackwater.operators.page import Page
from slackwater.plan.nodes import ResultsNode
from slackwater.windows.results import row_columns, seen


class ResultsAsRows(Unary):
    """Leaves the columns that a query can speak of; in early results, the values of what has arrived (S5)."""

    def __init__(self, label: str, node: ResultsNode) -> None:
        super().__init__(label)
        kernel = node.inputs[0].kernel
        aggregates = {a.name for a in kernel.aggregates}
        names = row_columns(kernel)
        self._columns = {name: f"`{name}`" for name in names}
        self._seen = {name: f"`{seen(name) if name in aggregates else name}`" for name in names}

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send it on with these columns."""
        emit(page.select(self._columns if page.prod is None else self._seen))
