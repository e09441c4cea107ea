"""Reads the punctuations of a page that say more than a time (S5 section 2.1): a job for each page with some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from slackwater.events import decision
from slackwater.operators.backend import PartialsTooLarge
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.plan.step import Columns
from slackwater.plan.steps import Where
from slackwater.progress.arrival import Arrival
from slackwater.progress.pattern import Pattern
from slackwater.windows.kernel import Group
from slackwater.windows.per_row.rolling import RollingKernel, RollingSpec

UNTIL, SINCE, VALUE = "__until", "__since", "__value"


class PatternReader:
    """Knows the columns of a stream's punctuations."""

    def __init__(self, punctuation: str, columns: Columns) -> None:
        self._has = Where(f"({punctuation}) IS NOT NULL")
        groups = (Group(UNTIL, punctuation), *(Group(name, sql) for name, sql in columns))
        self._reads = RollingKernel(RollingSpec(rows=1), groups, ())
        self._values = [name for name, _ in columns if name != SINCE]

    @staticmethod
    def of(punctuation: str | None, columns: Columns) -> PatternReader | None:
        """None for a stream whose punctuations are a time only."""
        return PatternReader(punctuation, columns) if punctuation is not None and columns else None

    def read(self, pages: Pages, page: Page, arrival: Arrival) -> Arrival:
        """The arrival with what the page's punctuations say, equal ones once. Too many of them say nothing."""
        if arrival.punctuation is None:
            return arrival
        try:
            rows = pages.rows_of(page.with_step(self._has), self._reads)
        except PartialsTooLarge as error:
            decision("patterns.unread", page=page.number, error=error)
            return arrival
        ticks = [pl.col(name).cast(pl.Int64) for name in (UNTIL, SINCE) if name in rows.columns]
        said = rows.select(*ticks, *self._values).unique(maintain_order=True).to_dicts()
        patterns = (Pattern(row[UNTIL], row.get(SINCE), tuple(row[name] for name in self._values)) for row in said)
        return replace(arrival, patterns=tuple(patterns))


def pattern_columns(since: str | None, attributes: Sequence[str]) -> Columns:
    """The columns as `StreamNode.patterns` has them; values as text, as groups are compared with them."""
    begins = () if since is None else ((SINCE, since),)
    return (*begins, *((f"{VALUE}{n}", f"CAST({sql} AS STRING)") for n, sql in enumerate(attributes)))
