"""The window aggregate (S5 section 2.3): folds pages into panes, answers a window when time has passed its end.

A row is lost to a window only when that window has been emitted; it still counts for the open ones (D3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from slackwater.operators.element import Answer, Punctuation, payload_rows
from slackwater.operators.operator import LATE, Emit, State, Unary
from slackwater.operators.page import Page, PartialsTooLarge
from slackwater.operators.pane_store import PaneStore, ResidentPanes
from slackwater.plan.nodes import WindowNode
from slackwater.progress.clock import Clock
from slackwater.windows.kernel import PANE, ROWS

#: Makes the store for partials that are too many for the driver, from the resident one.
Spill = Callable[[ResidentPanes], PaneStore]


class WindowAggregate(Unary):
    """Final results of one windowed query."""

    def __init__(
        self,
        label: str,
        node: WindowNode,
        clock: Clock,
        spill: Spill | None = None,
        resident_limit: int = 256 * 2**20,
        route_late: bool = False,
    ) -> None:
        super().__init__(label)
        self._node = node
        self._spec = node.kernel.spec
        self._clock = clock
        self._spill = spill
        self._limit = resident_limit
        self._route_late = route_late
        self._panes: PaneStore = ResidentPanes(node.kernel, node.schema)
        self._last_closed: int | None = None
        self._late_rows = self._lost_pairs = self._windows = self._results = 0

    def on_page(self, page: Page, emit: Emit) -> None:
        """Fold a page in; count, and send on if wanted, the rows that some window no longer takes."""
        below = None if self._last_closed is None else self._spec.panes(self._last_closed)[1]
        try:
            counts = self._panes.absorb(page, below)
        except PartialsTooLarge:
            self._go_large()
            counts = self._panes.absorb(page, below)
        late = self._count_late(counts)
        arrival = page.arrival()
        missing = 0 if arrival is None else arrival.missing
        if self._route_late and (late or missing):
            payload = page.late(self._late_before())
            if payload_rows(payload):  # a filter may have dropped those without a time
                emit(Answer(payload), LATE)
        if self._panes.kind == ResidentPanes.kind and self._panes.bytes > self._limit:
            self._go_large()

    def on_punctuation(self, punctuation: Punctuation, emit: Emit) -> None:
        """Emit the windows that have ended, drop the panes that no open window needs, pass the time on."""
        closed = self._spec.last_closed(punctuation.heartbeat)
        if self._last_closed is None or closed > self._last_closed:
            self._close(closed, emit)
            self._last_closed = closed
            self._panes.purge((closed + 1) * self._spec.panes_per_slide)
        emit(punctuation)

    def _close(self, closed: int, emit: Emit) -> None:
        span = self._panes.span()
        if span is None:
            return
        first = self._spec.first_window(span[0])
        if self._last_closed is not None:
            first = max(first, self._last_closed + 1)
        last = min(closed, self._spec.last_window(span[1]))
        if first > last:
            return
        payload = self._panes.results(first, last, self._clock.now())
        rows = payload_rows(payload)
        if rows:
            self._results += rows
            self._windows += last - first + 1
            emit(Answer(payload))

    def _late_before(self) -> int:
        """Rows below this time are in a window that has been emitted."""
        if self._last_closed is None:
            return -(2**63)
        return max(-(2**63), min(self._spec.bounds(self._last_closed)[1], 2**63 - 1))

    def _count_late(self, counts: pl.DataFrame) -> int:
        for pane, rows in counts.select(PANE, ROWS).iter_rows():
            assert self._last_closed is not None
            lost = min(self._last_closed, self._spec.last_window(pane)) - self._spec.first_window(pane) + 1
            self._lost_pairs += lost * rows
            self._late_rows += rows
        return counts.height

    def _go_large(self) -> None:
        if self._spill is None:
            raise MemoryError(f"{self.label}: more window state than the driver may hold, and nowhere to spill it")
        assert isinstance(self._panes, ResidentPanes)
        self._panes = self._spill(self._panes)

    def state(self, whole: bool) -> State:
        """Counts, the closed windows, and the store's own changes."""
        kept = self._panes.state(whole)
        kept.values = {
            "store": self._panes.kind,
            "panes": kept.values,
            "last_closed": self._last_closed,
            "counts": [self._late_rows, self._lost_pairs, self._windows, self._results],
        }
        return kept

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states; those of a store that was left for a larger one do not matter."""
        values = states[-1].values
        self._last_closed = values["last_closed"]
        self._late_rows, self._lost_pairs, self._windows, self._results = values["counts"]
        kind = values["store"]
        if kind != self._panes.kind:
            self._go_large()
        mine = [State(s.values["panes"], s.tables, s.whole) for s in states if s.values["store"] == kind]
        low = None if self._last_closed is None else (self._last_closed + 1) * self._spec.panes_per_slide
        self._panes.restore(mine, low)

    def settle(self) -> None:
        """Purged panes may be deleted."""
        self._panes.settle()

    def metrics(self) -> dict[str, Any]:
        """Late rows, windows, and the size of the state."""
        return {
            "late_rows": self._late_rows,
            "lost_pairs": self._lost_pairs,
            "windows": self._windows,
            "results": self._results,
            "store": self._panes.kind,
            **self._panes.size,
        }
