"""Rows that wait for time, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import polars as pl

from slackwater.columns import TIME
from slackwater.operators.operator import State
from slackwater.operators.page import Origin, Page
from slackwater.progress.time import MIN_TICK
from slackwater.testing.backend import page_of_rows
from slackwater.windows.frames import frame_of

if TYPE_CHECKING:
    from slackwater.testing.pages import ArrowPages


class GivenValues(TypedDict):
    """The journaled values, besides the rows."""

    given: int


class RowsInOrderHere:
    """One frame, in the order of arrival."""

    def __init__(self, label: str, pages: ArrowPages) -> None:
        self._label = label
        self._pages = pages
        self._rows: pl.DataFrame | None = None
        self._given = 0

    def add(self, page: Page, after: int) -> int:
        """Take the rows above a heartbeat."""
        rows = self._pages.timed(page)
        kept = rows.filter(pl.col(TIME) > after) if after > MIN_TICK else rows
        self._rows = kept if self._rows is None else pl.concat([self._rows, kept])
        return rows.height - kept.height

    def due(self, upto: int) -> bool:
        """Whether there are some."""
        return self._rows is not None and bool((self._rows[TIME] <= upto).any())

    def release(self, upto: int, at: int) -> Page | None:
        """The rows up to a time."""
        if self._rows is None:
            return None
        out = self._rows.filter(pl.col(TIME) <= upto).sort(TIME, maintain_order=True)
        self._rows = self._rows.filter(pl.col(TIME) > upto)
        self._given += 1
        return page_of_rows(out, Origin(self._label, self._given), at) if out.height else None

    def rest(self, at: int) -> Page | None:
        """All."""
        self._given += 1
        rows = self._rows
        return None if rows is None or not rows.height else page_of_rows(rows, Origin(self._label, self._given), at)

    @property
    def waiting(self) -> int:
        """All there are."""
        return 0 if self._rows is None else self._rows.height

    def next_time(self, after: int) -> int | None:
        """The next one."""
        return None if self._rows is None else min((t for t in self._rows[TIME] if t > after), default=None)

    def state(self, whole: bool) -> State:
        """All of it."""
        return State(GivenValues(given=self._given), {} if self._rows is None else {"rows": self._rows.to_arrow()})

    def restore(self, states: Sequence[State]) -> None:
        """The last one."""
        self._given = states[-1].read(GivenValues)["given"]
        table = states[-1].tables.get("rows")
        self._rows = None if table is None else frame_of(table)

    def settle(self) -> None:
        """There is nothing outside."""

    @property
    def size(self) -> dict[str, int]:
        """How many wait."""
        return {"waiting_rows": 0 if self._rows is None else self._rows.height}
