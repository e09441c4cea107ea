"""The aggregate that early rows come to (S5 section 3.3, "state purging in general"): results, or rows of a join.

The lower one accumulates, so the early results that it gives for a prod are not increments but whole: they count
for that prod only, beside what is final, and are forgotten with it. So early answers are right at every prod, and
final ones do not know of them.
"""

from __future__ import annotations

import polars as pl

from slackwater.columns import WINDOW
from slackwater.estimates.early import Early
from slackwater.estimates.estimates import Estimates
from slackwater.operators.early_rows import EarlyRows
from slackwater.operators.operator import Emit
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.operators.window_aggregate import WindowAggregate
from slackwater.operators.window_settings import WindowSettings
from slackwater.plan.nodes import WindowNode
from slackwater.progress.clock import Clock
from slackwater.progress.time import TimeDomain
from slackwater.progress.window_losses import WindowLosses
from slackwater.windows.closed import Closed
from slackwater.windows.panes import PaneRing


class NestedAggregate(EarlyRows, WindowAggregate):
    """A window aggregate over the results of another, or over a join that has rows for a prod."""

    def __init__(self, label: str, node: WindowNode, clock: Clock, settings: WindowSettings) -> None:
        super().__init__(label, node, clock, settings)
        if not settings.inner and self._spec.alike:
            by_clock = node.domain is TimeDomain.TIMESTAMP
            self._estimates = Estimates(
                node.kernel, settings.early or Early(), by_clock, settings.timing, corrects=False
            )
        self._provisional: list[Page] = []
        self._beside = PaneRing(node.kernel.panes)

    def report(self) -> list[WindowLosses]:
        """A stream's policy learns from the rows of the stream, and not from results."""
        reports = super().report()
        return [] if self._node.over_results else reports

    def on_page(self, page: Page, emit: Emit) -> None:
        """Fold rows in; keep early ones for the prod that follows them."""
        if page.prod is None:
            super().on_page(page, emit)
        else:
            self._provisional.append(page)

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """Answer from what is final and what is provisional, then forget the latter."""
        super().on_prod(prod, emit)
        self._provisional, self._beside = [], PaneRing(self._node.kernel.panes)

    def _span(self) -> tuple[int, int] | None:
        for page in self._provisional:
            self._beside.add(self.pages.fold(page, self._node.kernel.panes).partials, self._closed)
        self._provisional = []
        spans = [s for s in (super()._span(), self._beside.span()) if s is not None]
        return (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else None

    def _merged(self, before: Closed, after: Closed) -> pl.DataFrame | None:
        kernel = self._node.kernel.panes
        parts = [p for p in (super()._merged(before, after), self._beside.windows(before, after)) if p is not None]
        if len(parts) < 2:
            return parts[0] if parts else None
        both = pl.concat([p.select(parts[0].columns) for p in parts], how="vertical_relaxed")
        return kernel.merge(both.group_by([WINDOW, *kernel.keys]))
