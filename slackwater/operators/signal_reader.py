"""Reads the signals in a page: punctuations that are patterns (S5 section 2.1), and prods.

A job for each page with such punctuations, and for each page of a stream whose rows may be prods.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from slackwater.events import decision
from slackwater.operators.backend import PartialsTooLarge
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.prod import Prod
from slackwater.plan.signals import PROD, PROD_UNTIL, SINCE
from slackwater.plan.step import Columns
from slackwater.plan.steps import Where
from slackwater.progress.arrival import Arrival
from slackwater.progress.pattern import Pattern
from slackwater.windows.kernel import Group
from slackwater.windows.per_row.rolling import RollingKernel, RollingSpec

UNTIL = "__until"


class SignalReader:
    """Reads the columns of a stream's punctuations and prods."""

    def __init__(self, punctuation: str | None, columns: Columns) -> None:
        sql = dict(columns)
        self._prod, self._until = sql.pop(PROD, None), sql.pop(PROD_UNTIL, "")
        self._values = [name for name in sql if name != SINCE]
        self._punctuation = punctuation if sql else None
        self._groups = tuple(Group(name, text) for name, text in ((UNTIL, punctuation or ""), *sql.items()))
        self._prods: dict[int, int] = {}
        """The number of prods in each page under way: these rows do not count."""

    @staticmethod
    def of(punctuation: str | None, columns: Columns) -> SignalReader | None:
        """The reader of a stream; None if the stream has no prods, and no punctuations but plain times."""
        return SignalReader(punctuation, columns) if columns else None

    def prods(self, pages: Pages, page: Page) -> list[Prod]:
        """The prods in a page, without duplicates; they follow the page. An empty list if there are too many."""
        if self._prod is None:
            return []
        rows = _rows(pages, page, self._prod, (Group(UNTIL, self._until),))
        self._prods[page.number] = rows.height
        return [Prod(until) for until in rows[UNTIL].cast(pl.Int64).unique(maintain_order=True)]

    def read(self, pages: Pages, page: Page, arrival: Arrival) -> Arrival:
        """The arrival without the rows that are prods, and with the patterns of the page, without duplicates."""
        asked = self._prods.pop(page.number, 0)
        arrival = replace(arrival, rows=arrival.rows - asked, missing=arrival.missing - asked)
        if self._punctuation is None or arrival.punctuation is None:
            return arrival
        rows = _rows(pages, page, f"({self._punctuation}) IS NOT NULL", self._groups)
        ticks = [pl.col(name).cast(pl.Int64) for name in (UNTIL, SINCE) if name in rows.columns]
        said = rows.select(*ticks, *self._values).unique(maintain_order=True).to_dicts()
        patterns = (Pattern(row[UNTIL], row.get(SINCE), tuple(row[name] for name in self._values)) for row in said)
        return replace(arrival, patterns=tuple(patterns))


def _rows(pages: Pages, page: Page, condition: str, groups: tuple[Group, ...]) -> pl.DataFrame:
    """These columns of the rows that meet a condition; an empty frame if there are too many rows."""
    try:
        return pages.rows_of(page.with_step(Where(condition)), RollingKernel(RollingSpec(rows=1), groups, ()))
    except PartialsTooLarge as error:
        decision("signals.unread", page=page.number, error=error)
        return pl.DataFrame(schema=[group.name for group in groups])
