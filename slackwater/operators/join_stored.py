"""The join with a stored relation (S2 section 5): a page becomes its pairs; nothing is kept, nobody waits."""

from __future__ import annotations

from typing import Any

from slackwater.operators.operator import Extending
from slackwater.operators.page import Page
from slackwater.plan.nodes import StoredNode


class JoinStored(Extending):
    """Rows keep their time."""

    def __init__(self, label: str, node: StoredNode, table: Any) -> None:
        super().__init__(label)
        self._node = node
        self._table = table

    def extended(self, page: Page) -> Page:
        """The pairs of its rows with those of the relation."""
        return page.join_stored(self._node, self._table)
