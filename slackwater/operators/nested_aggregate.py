"""The upper aggregate of a nested query (S5 section 3.3, "state purging in general").

The lower one accumulates, so the early results that it gives for a prod are not increments but whole: they count
for that prod only, beside what is final, and are forgotten with it. So early answers are right at every prod, and
final ones do not know of them.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from slackwater.operators.element import Prod, Provisional
from slackwater.operators.operator import Emit
from slackwater.operators.page import Page
from slackwater.operators.window_aggregate import Spill, WindowAggregate
from slackwater.plan.nodes import WindowNode
from slackwater.progress.clock import Clock
from slackwater.progress.report import Report
from slackwater.progress.sources import Ints
from slackwater.windows.closed import Closed
from slackwater.windows.estimates import Estimates
from slackwater.windows.kernel import WINDOW, PaneKernel
from slackwater.windows.panes import PaneRing
from slackwater.windows.results import COMPLETENESS, high, low, seen


class NestedAggregate(WindowAggregate):
    """A window aggregate over the results of another."""

    def __init__(
        self,
        label: str,
        node: WindowNode,
        clock: Clock,
        spill: Spill | None = None,
        resident_limit: int = 256 * 2**20,
        inner: bool = False,
    ) -> None:
        super().__init__(label, node, clock, spill, resident_limit, inner=inner)
        self._estimates = Unestimated(node.kernel)
        self._provisional: list[Page] = []
        self._beside = PaneRing(node.kernel)

    def report(self) -> list[Report]:
        """Nothing: a stream's policy learns from the rows of the stream."""
        super().report()
        return []

    def on_provisional(self, provisional: Provisional, emit: Emit) -> None:
        """Keep the rows for the prod that comes behind them."""
        self._provisional.append(provisional.page)

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """Answer from what is final and what is provisional, then forget the latter."""
        super().on_prod(prod, emit)
        self._provisional, self._beside = [], PaneRing(self._node.kernel)

    def _span(self) -> tuple[int, int] | None:
        for page in self._provisional:
            self._beside.add(page.fold(self._node.kernel).partials, self._closed)
        self._provisional = []
        spans = [s for s in (super()._span(), self._beside.span()) if s is not None]
        return (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else None

    def _merged(self, before: Closed, after: Closed) -> pl.DataFrame | None:
        kernel = self._node.kernel
        parts = [p for p in (super()._merged(before, after), self._beside.windows(before, after)) if p is not None]
        if len(parts) < 2:
            return parts[0] if parts else None
        both = pl.concat([p.select(parts[0].columns) for p in parts], how="vertical_relaxed")
        return kernel.merge(both.group_by([WINDOW, *kernel.keys]))


class Unestimated(Estimates):
    """Early answers as they are: that results of the lower aggregate are not final says nothing of their values."""

    def __init__(self, kernel: PaneKernel) -> None:
        self._kernel = kernel

    def page(self, now: int, lasts: Ints, pairs: Ints) -> None:
        """Learn nothing."""

    def early(self, merged: pl.DataFrame, values: pl.DataFrame, now: int) -> pl.DataFrame:
        """The values of what has arrived."""
        made = [pl.lit(None, pl.Float64).alias(COMPLETENESS)]
        for a in self._kernel.aggregates:
            made += [pl.col(a.name).alias(seen(a.name))]
            made += [pl.lit(None, pl.Float64).alias(n) for n in (low(a.name), high(a.name))]
        return values.with_columns(made)

    def final(self, merged: pl.DataFrame, values: pl.DataFrame, now: int) -> None:
        """Learn nothing."""

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing."""

    def metrics(self) -> dict[str, Any]:
        """Nothing."""
        return {}
