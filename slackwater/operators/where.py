"""Where: keeps the rows that meet a condition. Rows it drops have moved time already, at the source."""

from __future__ import annotations

from slackwater.operators.operator import Extending
from slackwater.operators.page import Page


class Where(Extending):
    """Extends each page by a filter; nothing runs here."""

    def __init__(self, label: str, condition: str) -> None:
        super().__init__(label)
        self._condition = condition

    def extended(self, page: Page) -> Page:
        """The rows that meet the condition."""
        return page.where(self._condition)
