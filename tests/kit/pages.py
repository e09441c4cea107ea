"""Pages in process for the tests."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from slackwater.operators.page import Page
from slackwater.testing import ArrowPages, arrow_page


def known_page(rows: pl.DataFrame, number: int, at: int = 0) -> Page:
    """A page that knows its times on arrival; it is ordered among others by its lowest."""
    page = arrow_page(rows, number, at, "t")
    return replace(page, arrival=ArrowPages().measure(page))
