"""Running totals: folds pages, and emits at each prod the totals of the groups that have changed.

There is no window, so no row is late and no answer is final. The operator does not hold time back. With `forget=`,
a group is dropped after the first answer at which the heartbeat is this length past the group's last row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict, cast

import polars as pl
import pyarrow as pa

from slackwater.errors import QueryError
from slackwater.events import decision
from slackwater.figures import Figures
from slackwater.operators.backend import PartialsTooLarge
from slackwater.operators.operator import Emit, State, Unary
from slackwater.operators.page import Page
from slackwater.operators.payload import Payload, payload_rows
from slackwater.operators.prod import Prod
from slackwater.operators.shared_fold import SharedFold
from slackwater.operators.total_store import ResidentTotals, TotalStore, total_rows
from slackwater.plan.window_kinds import TotalNode
from slackwater.progress.clock import Clock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.windows.closed import Closed
from slackwater.windows.frames import frame_of
from slackwater.windows.sessions import TICKS
from slackwater.windows.totals import with_last


class RunningTotalsValues(TypedDict):
    """The journaled values, besides the store's tables."""

    store: str
    totals: Mapping[str, object]
    closed: int | None
    counts: tuple[int, int]


class RunningTotals(Unary):
    """Results of one query without a window."""

    def __init__(
        self, label: str, node: TotalNode, clock: Clock, resident_limit: int, fold: SharedFold | None = None
    ) -> None:
        super().__init__(label)
        self._node, self._clock, self._limit = node, clock, resident_limit
        self._kernel = with_last(node.kernel)
        self._fold = fold or SharedFold()
        self._fold.join(self._kernel.panes)
        self._store: TotalStore = ResidentTotals(self._kernel, node.schema, self._fold)
        self._closed = Closed(by_source=node.kernel.source is not None)
        """The heartbeats, by source if the groups contain the source."""
        self._journaled: pl.DataFrame | None = None
        """The heartbeats of the sources, as in the last record of the journal."""
        self._given = self._results = self._refused = 0

    def on_page(self, page: Page, emit: Emit) -> None:
        """Fold a page in. Skip pages that a join emits for one prod only: their rows may still find a partner."""
        if page.prod is not None:
            return
        try:
            self._store.absorb(self.pages, page)
        except PartialsTooLarge:
            if self._store.kind != ResidentTotals.kind:
                raise
            self._go_large()
            self._store.absorb(self.pages, page)
        if self._store.kind == ResidentTotals.kind and self._store.bytes > self._limit:
            self._go_large()

    def on_punctuation(self, time: Punctuation, emit: Emit) -> None:
        """Note the heartbeat, by which groups are forgotten. The end of a stream forgets no group."""
        if time.heartbeat != Heartbeat.END:
            self._closed = self._closed.advanced(TICKS, time.heartbeat, time.sources)

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """Emit the groups that have changed. A prod with a condition emits its groups, changed or not."""
        payload: Payload | None = None
        if not prod.asks(self.label):
            emit(prod)
            return
        try:
            payload = self._looked_up(prod.where) if prod.where is not None else self._answer()
        except (PartialsTooLarge, QueryError) as error:
            decision("prod.refused", operator=self.label, error=error)
            self._refused += 1
        if payload is not None and payload_rows(payload):
            self._given += 1
            self._results += payload_rows(payload)
            emit(self.pages.results(self.label, self._given, payload, self._node, self._clock.now(), prod))
        emit(prod)

    def _answer(self) -> Payload | None:
        payload = self._store.answer(self.pages, self._clock.now())
        if self._node.forget is not None:
            self._store.forget(self._closed, self._node.forget)
        return payload

    def _looked_up(self, where: str) -> Payload | None:
        values = self._store.values(self.pages)
        if values is None:
            return None
        found = values[self.pages.backend.matching(values.select(self._node.kernel.keys), where)]
        return total_rows(found, self._node.schema, self._clock.now())

    def open_rows(self) -> pa.Table:
        """The totals of all groups."""
        values, schema = self._store.values(self.pages), self._node.schema
        return schema.empty_table() if values is None else total_rows(values, schema, self._clock.now())

    def _go_large(self) -> None:
        resident = cast(ResidentTotals, self._store)
        decision("totals.spilled", operator=self.label, bytes=resident.bytes, limit=self._limit)
        self._store = self.pages.stores.totals(self.label, resident, self._node.domain)
        self.detach()

    def detach(self) -> None:
        """Pages need not be folded for it any more."""
        self._fold.detach(self._kernel.panes)

    def state(self, whole: bool) -> State:
        """Counts, how far time has come, and the store's own changes."""
        kept = self._store.state(whole)
        kept.values = RunningTotalsValues(
            store=self._store.kind,
            totals=kept.values,
            closed=self._closed.emitted_through,
            counts=(self._given, self._results),
        )
        news = self._closed.news(None if kept.whole else self._journaled)
        if news is not None:
            kept.tables["closed"] = news.to_arrow()
        self._journaled = self._closed.named
        return kept

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states; those of a store that was left for a larger one do not matter."""
        values = states[-1].read(RunningTotalsValues)
        self._given, self._results = values["counts"]
        self._closed = replace(self._closed, emitted_through=values["closed"])
        for state in states:
            if "closed" in state.tables:
                self._closed = self._closed.with_news(frame_of(state.tables["closed"]))
        self._journaled = self._closed.named
        if values["store"] != self._store.kind:
            self._go_large()
        mine = [s for s in states if s.read(RunningTotalsValues)["store"] == self._store.kind]
        self._store.restore([state.at("totals") for state in mine])

    def settle(self) -> None:
        """Dropped files may be deleted."""
        self._store.settle()

    def metrics(self) -> Figures:
        """Answers, and the size of the state."""
        return {
            "results": self._results,
            "early_results": self._results,
            **({"prods_refused": self._refused} if self._refused else {}),
            "store": self._store.kind,
            **self._store.size,
        }
