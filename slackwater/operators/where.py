"""Where: keeps the rows that meet a condition. Rows it drops have moved time already, at the source."""

from __future__ import annotations

from typing import ClassVar

from slackwater.operators.operator import Emit, Unary
from slackwater.operators.page import Page


class Where(Unary):
    """Extends each page by a filter; nothing runs here."""

    extends: ClassVar[bool] = True

    def __init__(self, label: str, condition: str) -> None:
        super().__init__(label)
        self._condition = condition

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send the page on, filtered."""
        emit(self.extended(page))

    def extended(self, page: Page) -> Page:
        """The same page with that to be done."""
        return page.where(self._condition)
