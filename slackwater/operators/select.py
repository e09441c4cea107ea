"""Select: replaces the columns of a page; time travels along hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from slackwater.operators.operator import Extending
from slackwater.operators.page import Page


class Select(Extending):
    """Extends each page by a projection; nothing runs here."""

    keeps_rows: ClassVar[bool] = True

    def __init__(self, label: str, columns: Mapping[str, str], early: Mapping[str, str] | None = None) -> None:
        super().__init__(label)
        self._columns = dict(columns)
        self._early = self._columns if early is None else dict(early)

    def extended(self, page: Page) -> Page:
        """The rows with their new columns."""
        return page.select(self._columns if page.prod is None else self._early)
