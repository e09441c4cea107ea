"""Select: replaces the columns of a page; time travels along hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from slackwater.operators.operator import Emit, Unary
from slackwater.operators.page import Page


class Select(Unary):
    """Extends each page by a projection; nothing runs here."""

    extends: ClassVar[bool] = True

    def __init__(self, label: str, columns: Mapping[str, str], early: Mapping[str, str] | None = None) -> None:
        super().__init__(label)
        self._columns = dict(columns)
        self._early = self._columns if early is None else dict(early)

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send the page on with its new columns."""
        emit(self.extended(page))

    def extended(self, page: Page) -> Page:
        """The same page with that to be done."""
        return page.select(self._columns if page.prod is None else self._early)
