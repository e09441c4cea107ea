"""The window operator of S4 section 3: a slack buffer, a window buffer, and one result for each row.

A row waits in the slack buffer until the heartbeat has passed its time. One that comes after that has lost its own
result; it still counts for range windows of later rows (D3). Of a count window it would change the order of rows
whose results are out, so there it is discarded, as in S4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.operators.element import Answer, Payload, Punctuation, payload_rows
from slackwater.operators.operator import LATE, Emit, State, Unary
from slackwater.operators.page import Page, PartialsTooLarge
from slackwater.operators.record_store import SlackBuffer, in_time_order
from slackwater.plan.nodes import RollingNode
from slackwater.progress.clock import Clock
from slackwater.progress.report import Report
from slackwater.progress.sources import Ints
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.windows.count_windows import CountWindows
from slackwater.windows.partials import TIME
from slackwater.windows.range_windows import RangeWindows
from slackwater.windows.rolling import RollingKernel, rolling_rows
from slackwater.windows.scans import lift


class WindowBuffer(Protocol):
    """Released rows that later windows still need, merged as far as they can be."""

    @property
    def takes_late(self) -> bool:
        """Whether a row that was not released in time counts for later windows."""
        ...

    def release(self, rows: pl.DataFrame, heartbeat: int) -> pl.DataFrame:
        """Merged partials of the window of each row, in the order of the rows."""
        ...

    def advance(self, heartbeat: int) -> None:
        """Time has passed."""
        ...

    def absorb(self, elements: pl.DataFrame) -> None:
        """Take rows at or below the heartbeat that get no result, as partials."""
        ...

    def elements(self, heartbeat: int) -> pl.DataFrame | None:
        """All that `absorb` needs to build this again."""
        ...

    @property
    def rows(self) -> int:
        """How many are held."""
        ...

    @property
    def bytes(self) -> int:
        """Size in memory."""
        ...


def window_buffer(kernel: RollingKernel) -> WindowBuffer:
    """The buffer for a kind of window."""
    return RangeWindows(kernel) if kernel.spec.range is not None else CountWindows(kernel)


class RollingAggregate(Unary):
    """Final results of one query with a window for each row."""

    def __init__(
        self,
        label: str,
        node: RollingNode,
        clock: Clock,
        resident_limit: int = 256 * 2**20,
        route_late: bool = False,
    ) -> None:
        super().__init__(label)
        self._kernel = node.kernel
        self._schema = node.schema
        self._clock = clock
        self._limit = resident_limit
        self._route_late = route_late
        self._slack = SlackBuffer()
        self._windows = window_buffer(node.kernel)
        self._heartbeat = MIN_TICK
        self._fresh: list[pl.DataFrame] = []
        """Rows that came since the journal was last written."""
        self._late_rows = self._results = 0
        self._row_bytes = 0.0
        self._reports: list[Report] = []

    def on_page(self, page: Page, emit: Emit) -> None:
        """Put a page's rows into the slack buffer; count, and send on if wanted, those that came too late."""
        try:
            rows = page.rows_of(self._kernel)
        except PartialsTooLarge as error:
            raise MemoryError(f"{self.label}: {_TOO_LARGE}") from error
        rows = in_time_order(rows.filter(pl.col(TIME).is_not_null()))
        time = rows[TIME].to_numpy()
        late = int(np.searchsorted(time, self._heartbeat, side="right")) if self._heartbeat > MIN_TICK else 0
        self._late_rows += late
        self._tell(page.number, time, late)
        self._send_late(page, late, emit)
        kept = rows.slice(late)
        self._slack.add(kept)
        if late and self._windows.takes_late:
            behind = rows.slice(0, late)
            self._windows.absorb(elements_of(self._kernel, behind))
            kept = rows
        if kept.height:
            self._fresh.append(kept)
            self._row_bytes = max(self._row_bytes, kept.estimated_size() / kept.height)
        if (self._slack.rows + self._windows.rows) * self._row_bytes > self._limit:
            raise MemoryError(f"{self.label}: {_TOO_LARGE}")

    def on_punctuation(self, punctuation: Punctuation, emit: Emit) -> None:
        """Release the rows that the heartbeat has passed, with their results; pass the time on."""
        tick = punctuation.heartbeat.tick
        if tick > self._heartbeat:
            rows = self._slack.release(tick)
            if rows is None:
                self._windows.advance(tick)
            else:
                merged = self._windows.release(rows, tick)
                self._results += rows.height
                emit(Answer(rolling_rows(self._kernel, rows, merged, self._schema, self._clock.now())))
            self._heartbeat = tick
        emit(punctuation)

    def report(self) -> list[Report]:
        """What became of the page that was run last, for policies that aim at a share of lost rows."""
        told, self._reports = self._reports, []
        return told

    def _tell(self, page: int, time: Ints, late: int) -> None:
        """A row's own window is the only one that it can lose."""
        first = np.flatnonzero(np.diff(time, prepend=time[0] - 1)) if len(time) else np.empty(0, np.int64)
        pairs = np.diff(first, append=len(time))
        self._reports = [Report(self.label, page, time[first], pairs, late)]

    def _send_late(self, page: Page, late: int, emit: Emit) -> None:
        arrival = page.arrival()
        missing = 0 if arrival is None else arrival.missing
        if self._route_late and (late or missing):
            payload: Payload = page.late(min(self._heartbeat + 1, MAX_TICK))
            if payload_rows(payload):  # a filter may have dropped those without a time
                emit(Answer(payload), LATE)

    def state(self, whole: bool) -> State:
        """The rows that came since, or both buffers."""
        tables: dict[str, pa.Table] = {}
        if whole:
            buffered, released = self._slack.all(), self._windows.elements(self._heartbeat)
            if buffered is not None:
                tables["rows"] = buffered.to_arrow()
            if released is not None:
                tables["window"] = released.to_arrow()
        elif self._fresh:
            tables["rows"] = pl.concat(self._fresh).to_arrow()
        self._fresh = []
        values = {"heartbeat": self._heartbeat, "counts": [self._late_rows, self._results]}
        return State(values, tables, whole)

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states: what the heartbeat has passed goes to the window buffer."""
        values = states[-1].values
        self._heartbeat = values["heartbeat"]
        self._late_rows, self._results = values["counts"]
        self._windows.advance(self._heartbeat)
        for state in states:
            if "window" in state.tables:
                self._windows.absorb(_frame(state.tables["window"]))
        came = [_frame(s.tables["rows"]) for s in states if "rows" in s.tables]
        if came:
            rows = in_time_order(pl.concat(came))
            passed = int(np.searchsorted(rows[TIME].to_numpy(), self._heartbeat, side="right"))
            self._windows.absorb(elements_of(self._kernel, rows.slice(0, passed)))
            self._slack.add(rows.slice(passed))

    def settle(self) -> None:
        """The journal, if there is one, has all rows."""
        self._fresh = []

    def metrics(self) -> dict[str, Any]:
        """Late rows, results, and the size of both buffers."""
        return {
            "late_rows": self._late_rows,
            "lost_pairs": self._late_rows,
            "windows": self._results,
            "results": self._results,
            "store": "resident",
            "slack_rows": self._slack.rows,
            "window_rows": self._windows.rows,
            "state_bytes": self._slack.bytes + self._windows.bytes,
        }


_TOO_LARGE = (
    "more rows wait, or are in open windows, than the driver may hold; make range or slack smaller, give the "
    "window a slide, or raise resident_limit and spark.driver.maxResultSize"
)


def elements_of(kernel: RollingKernel, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows as partials, with their groups and times."""
    return rows.select(*kernel.keys, TIME, *lift(kernel, rows))


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
