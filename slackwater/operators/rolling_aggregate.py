"""The window operator of S4 section 3: rows wait in a record store, each gets one result when time has passed it.

A row that comes after that has lost its own result; it still counts for range windows of later rows (D3). In count
windows it would change the order of rows that are out, so there it is discarded, as in S4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from slackwater.events import decision
from slackwater.operators.backend import LateTimes, PartialsTooLarge
from slackwater.operators.operator import LATE, Emit, Input, State, Unary
from slackwater.operators.page import Page
from slackwater.operators.payload import payload_rows
from slackwater.operators.record_store import RecordStore, ResidentRecords
from slackwater.plan.nodes import RollingNode
from slackwater.progress.clock import Clock
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.progress.window_losses import WindowLosses


class RollingAggregate(Unary):
    """Final results of one query with a window for each row."""

    ordered: ClassVar[bool] = True

    def __init__(
        self,
        label: str,
        node: RollingNode,
        clock: Clock,
        resident_limit: int = 256 * 2**20,
        route_late: bool = False,
    ) -> None:
        super().__init__(label)
        self._node = node
        self._clock = clock
        self._limit = resident_limit
        self._route_late = route_late
        self._store: RecordStore = ResidentRecords(node.kernel, node.schema)
        self._released = MIN_TICK
        """Rows up to here have left the slack buffer."""
        self._given = 0
        self._late_rows = self._results = self._rows = 0
        self._reports: list[WindowLosses] = []

    def on_page(self, page: Page, emit: Emit) -> None:
        """Put a page's rows into the store; count, and send on if wanted, those that came too late."""
        try:
            judged = self._store.absorb(self.pages, page, self._released)
        except PartialsTooLarge:
            self._go_large()
            judged = self._store.absorb(self.pages, page, self._released)
        self._late_rows += judged.late
        self._rows += int(judged.rows.sum())
        # A row's own window is the only one that it can lose.
        self._reports = [WindowLosses(self.label, page.number, judged.times, judged.rows, judged.late)]
        self._send_late(page, judged.late, emit)
        if self._store.kind == ResidentRecords.kind and self._store.bytes > self._limit:
            self._go_large()

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        """Whether rows wait for the heartbeat."""
        return self._store.waiting > 0

    def wanted(self, tick: int) -> int | None:
        """The time of the next row that waits."""
        return self._store.next_time(tick)

    def on_punctuation(self, time: Punctuation, emit: Emit) -> None:
        """Release the rows that the heartbeat has passed, with their results."""
        tick = time.heartbeat.tick
        if tick > self._released:
            payload = self._store.release(self._released, tick, self._clock.now())
            self._released = tick
            rows = payload_rows(payload)
            if rows:
                self._results += rows
                self._given += 1
                emit(self.pages.results(self.label, self._given, payload, self._node, self._clock.now()))

    def report(self) -> list[WindowLosses]:
        """What became of the page that was run last, for policies that aim at a share of lost rows."""
        told, self._reports = self._reports, []
        return told

    def _send_late(self, page: Page, late: int, emit: Emit) -> None:
        arrival = self.pages.arrival(page)
        missing = 0 if arrival is None else arrival.missing
        if self._route_late and (late or missing):
            rows = self.pages.late(page, LateTimes(min(self._released + 1, MAX_TICK)))
            if rows is not None:  # a filter may have dropped those without a time
                emit(rows, LATE)

    def _go_large(self) -> None:
        assert isinstance(self._store, ResidentRecords)
        decision("rows.spilled", operator=self.label, bytes=self._store.bytes, limit=self._limit)
        self._store = self.pages.stores.rows(self.label, self._store)

    def state(self, whole: bool) -> State:
        """Counts, the heartbeat, and the store's own changes."""
        kept = self._store.state(whole, self._released)
        kept.values = {
            "store": self._store.kind,
            "records": kept.values,
            "released": self._released,
            "counts": [self._late_rows, self._results, self._rows, self._given],
        }
        return kept

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states; those of a store that was left for a larger one do not matter."""
        values = states[-1].values
        self._released = values["released"]
        self._late_rows, self._results, self._rows, self._given = values["counts"]
        kind = values["store"]
        if kind != self._store.kind:
            self._go_large()
        mine = [State(s.values["records"], s.tables, s.whole) for s in states if s.values["store"] == kind]
        self._store.restore(mine, self._released)

    def settle(self) -> None:
        """What went may be deleted."""
        self._store.settle()

    def metrics(self) -> dict[str, Any]:
        """Late rows, results, and the size of both buffers."""
        return {
            "late_rows": self._late_rows,
            "lost_pairs": self._late_rows,
            "lost_share": self._late_rows / self._rows if self._rows else 0.0,
            "windows": self._results,
            "results": self._results,
            "store": self._store.kind,
            **self._store.size,
        }
