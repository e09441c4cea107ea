"""What a window join keeps: the rows of both inputs, for as long as they may find partners. The contract."""

from __future__ import annotations

from typing import Protocol

from slackwater.operators.page import Page
from slackwater.operators.waiting_rows import MadeRows


class JoinState(MadeRows, Protocol):
    """Rows are added page by page; matches are looked for between what was added last and the other side.

    Pages that it gives may be lazy: what they are made of stays until nobody reads them.
    """

    def add(self, side: int, page: Page, after: int) -> int:
        """Take the rows of a page; gives how many have a time at or below `after`: these may have lost partners.

        They meet the rows that were there before and whose last instant is above `after`. They count as there only
        after `settle_page`.
        """

    def pairs(self, side: int, at: int) -> Page | None:
        """Run or plan: the page that was added last, with the rows of the other side."""

    def partnered(self, side: int, at: int) -> Page | None:
        """The rows of the left side that have their first partner by the page that was added last on `side`."""

    def lone(self, side: int, after: int, until: int, at: int) -> Page | None:
        """The rows of a side without a partner whose last instant is above `after` and at most `until`."""

    def alone(self, side: int, until: int, at: int) -> Page | None:
        """The rows of the page that was added last without a partner and whose last instant is at most `until`."""

    def settle_page(self) -> None:
        """The page that was added last is one of those before from now on."""

    def purge(self, side: int, until: int) -> None:
        """Rows whose last instant is at most this find no partner any more."""

    def last(self, side: int) -> int:
        """The last instant of all rows of a side that are there; MIN_TICK where there are none."""

    def next_last(self, side: int, after: int) -> int | None:
        """The next last instant of rows of a side above this one, or one that is not much later."""
