"""S3's ordered union with a virtual cost and a growth: the proliferative operator of S1 section 7.3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from experiments.lab.ordered_union import OrderedUnion
from slackwater.operators.element import Element
from slackwater.operators.operator import Emit, Input
from slackwater.operators.page import Page
from slackwater.operators.payload import MaterializedRows, Staged
from slackwater.progress.clock import ManualClock
from slackwater.testing import ArrowPages, arrow_page


def rows_of(payload: MaterializedRows) -> pl.DataFrame:
    """The rows of a page in this process."""
    assert not isinstance(payload, Staged)
    return pl.DataFrame(payload)


class GrowingUnion(OrderedUnion):
    """A row comes out `growth` times, or of 1 / `growth` rows the first.

    Each that is taken costs so many ticks of the clock.
    """

    def __init__(
        self, label: str, inputs: int = 2, growth: float = 1, clock: ManualClock | None = None, cost: int = 0
    ) -> None:
        super().__init__(label, inputs)
        self._growth = growth
        self._clock = clock
        self._cost = cost

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Deliver what becomes of the next element."""
        super().run(inputs, lambda element, port="main": emit(self._made(element), port))

    def _made(self, element: Element) -> Element:
        if isinstance(element, Page) and self._clock is not None:
            self._clock.advance(self._cost * self.pages.measure(element).rows)
        if not isinstance(element, Page) or self._growth == 1:
            return element
        rows, copies, every = rows_of(self.pages.payload(element)), round(self._growth), round(1 / self._growth)
        if copies:
            grown = pl.concat([rows] * copies)
        else:  # of a page of a few rows the first is the only one: that needs no query of polars
            grown = rows.head(1) if rows.height <= every else rows.gather_every(every)
        page = arrow_page(grown, element.number, self.pages.measure(element).at, "t")
        return replace(page, arrival=ArrowPages().measure(page))
