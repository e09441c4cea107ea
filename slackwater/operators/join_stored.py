"""The join with a stored relation (S2 section 5): a page becomes its pairs; nothing is kept, nobody waits."""

from __future__ import annotations

from typing import Any, ClassVar

from slackwater.operators.operator import Emit, Unary
from slackwater.operators.page import Page
from slackwater.plan.nodes import StoredNode


class JoinStored(Unary):
    """Rows keep their time."""

    extends: ClassVar[bool] = True

    def __init__(self, label: str, node: StoredNode, table: Any) -> None:
        super().__init__(label)
        self._node = node
        self._table = table

    def on_page(self, page: Page, emit: Emit) -> None:
        """Extend the page."""
        emit(self.extended(page))

    def extended(self, page: Page) -> Page:
        """The same page with that to be done."""
        return page.join_stored(self._node, self._table)
