"""Pages in this process, with the stores of operators."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.testing.backend import ArrowBackend
from slackwater.testing.stores import ArrowStores


class ArrowPages(Pages):
    """Saved pages are whole inside their journal record."""

    def __init__(
        self,
        tables: Mapping[str, pl.DataFrame] | None = None,
        here: ArrowBackend | None = None,
        stores: type[ArrowStores] = ArrowStores,
    ) -> None:
        self.here = here or ArrowBackend(tables)
        super().__init__(self.here, lambda pages: stores(self))

    def timed(self, page: Page) -> pl.DataFrame:
        """The rows that have a time."""
        self.measure(page)
        return self.here.timed(self.known(page))
