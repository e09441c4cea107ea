"""The record store (S4 section 3): slack buffer and window buffer; the contract, and the store in the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import NotRequired, Protocol, TypedDict

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.columns import TIME
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.payload import Payload
from slackwater.operators.prod import Prod
from slackwater.operators.slack_buffer import SlackBuffer, in_time_order
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.windows.frames import frame_of
from slackwater.windows.per_row.count_windows import CountWindows
from slackwater.windows.per_row.range_windows import RangeWindows
from slackwater.windows.per_row.rolling import RollingKernel, rolling_rows
from slackwater.windows.per_row.scans import lift
from slackwater.windows.runs import Bools

#: Kind of the store for rows that are too many for the driver.
SPILLED = "spilled"


@dataclass(frozen=True, eq=False)
class PageLateness:
    """How a page's rows lie to the heartbeat."""

    times: Ints
    """Times, or ends of stretches of time, that the page has rows for, increasing."""
    rows: Ints
    """How many rows each has."""
    late: int
    """Rows at or below the heartbeat."""


class RecordStore(Protocol):
    """Rows of one query: those that wait for the heartbeat, and those that later windows still need."""

    @property
    def kind(self) -> str:
        """Name of the store in the journal and in metrics."""

    def absorb(self, pages: Pages, page: Page, heartbeat: int) -> PageLateness:
        """Take a page; a late row counts for the windows of later rows (D3)."""

    def release(self, before: int, heartbeat: int, emitted_at: int) -> Payload:
        """Results of the rows above the heartbeat before and up to this one; what is needed no more goes."""

    def early(self, before: int, emitted_at: int) -> Iterator[tuple[pl.DataFrame, pa.Table]]:
        """Some of the rows that wait, and the results that they would have if time ended now. Nothing goes."""
        ...

    @property
    def takes_next(self) -> bool:
        """Whether rows of the instant after the heartbeat have their results at once, too (S3 section 4.1)."""
        ...

    def state(self, whole: bool, heartbeat: int) -> State:
        """Changes since this was last asked, or all."""

    def restore(self, states: Sequence[State], heartbeat: int) -> None:
        """Continue from journaled states."""

    def settle(self) -> None:
        """The journal has all that `state` gave; what went may be deleted."""

    @property
    def waiting(self) -> int:
        """Rows that wait for the heartbeat."""

    def next_time(self, after: int) -> int | None:
        """The time of the first row above this one that waits, or the end of the stretch of time that it is in."""

    @property
    def bytes(self) -> int:
        """About what it takes of the driver's memory."""

    @property
    def size(self) -> dict[str, int]:
        """Figures for a person."""


class WindowBuffer(Protocol):
    """Released rows that later windows still need, merged as far as they can be."""

    def release(self, rows: pl.DataFrame, heartbeat: int) -> pl.DataFrame:
        """Merged partials of the window of each row, in the order of the rows."""

    @property
    def ends(self) -> Bools | None:
        """Which of these rows end a window; None: all."""

    def advance(self, heartbeat: int) -> None:
        """Time has passed."""

    def absorb(self, elements: pl.DataFrame) -> None:
        """Take rows at or below the heartbeat that get no result, as partials, in the order of time."""

    def elements(self, heartbeat: int) -> pl.DataFrame | None:
        """The rows and tables from which `absorb` builds this again."""

    @property
    def rows(self) -> int:
        """How many are held."""

    @property
    def bytes(self) -> int:
        """Size in memory."""


def window_buffer(kernel: RollingKernel) -> WindowBuffer:
    """The buffer for a kind of window."""
    return RangeWindows(kernel) if kernel.spec.range is not None else CountWindows(kernel)


def results_of(
    kernel: RollingKernel, windows: WindowBuffer, rows: pl.DataFrame, schema: pa.Schema, emitted_at: int
) -> pa.Table:
    """The results of rows that are released, in order."""
    return rows_with_results(kernel, windows, rows, schema, emitted_at)[1]


def rows_with_results(
    kernel: RollingKernel, windows: WindowBuffer, rows: pl.DataFrame, schema: pa.Schema, emitted_at: int
) -> tuple[pl.DataFrame, pa.Table]:
    """The same beside the rows that end a window."""
    merged = windows.release(rows, int(rows[TIME][-1]))
    if windows.ends is not None:
        rows, merged = rows.filter(windows.ends), merged.filter(windows.ends)
    return rows, rolling_rows(kernel, rows, merged, schema, emitted_at)


def trial_of(windows: WindowBuffer, kernel: RollingKernel) -> WindowBuffer:
    """A copy, which may take rows that are not released yet."""
    return deepcopy(windows, {id(kernel): kernel})


def asked_of(rows: pl.DataFrame, results: pa.Table, prod: Prod, pages: Pages, kernel: RollingKernel) -> pa.Table:
    """The results that a prod asks for, of those beside some rows: windows that end in its time, its groups."""
    after, until = MIN_TICK if prod.after is None else prod.after, MAX_TICK if prod.until is None else prod.until
    asked = rows[TIME].is_between(after, until, closed="right")
    rows, results = rows.filter(asked), results.filter(asked.to_arrow())
    if prod.where is None or not rows.height:
        return results
    return results.take(pages.backend.matching(rows.select(kernel.keys), prod.where).to_arrow())


def elements_of(kernel: RollingKernel, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows as partials, with their groups and times."""
    return rows.select(*kernel.keys, TIME, *lift(kernel, rows))


class ResidentValues(TypedDict):
    """The journaled values, besides the rows."""

    next_out: NotRequired[int]


class ResidentRecords:
    """Both buffers in the driver."""

    kind = "resident"

    def __init__(self, kernel: RollingKernel, schema: pa.Schema) -> None:
        self.kernel = kernel
        self.schema = schema
        self.slack = SlackBuffer()
        self.windows = window_buffer(kernel)
        self._fresh: list[pl.DataFrame] = []
        """Rows that came since the journal was last written."""
        self._row_bytes = 0.0
        self._next_out = 0
        """Rows of the instant after the heartbeat that have their results, and that the journal has as waiting."""

    def absorb(self, pages: Pages, page: Page, heartbeat: int) -> PageLateness:
        """Put the page's rows into the slack buffer, and late ones into the window buffer."""
        return self.take(pages.rows_of(page, self.kernel).filter(pl.col(TIME).is_not_null()), heartbeat)

    def take(self, rows: pl.DataFrame, heartbeat: int) -> PageLateness:
        """The same with rows that have a time."""
        rows = in_time_order(rows)
        time = rows[TIME].to_numpy()
        late = passed(rows, heartbeat)
        self.slack.add(rows.slice(late))
        if late:
            self.windows.absorb(elements_of(self.kernel, rows.slice(0, late)))
        if rows.height:
            self._fresh.append(rows)
            self._row_bytes = max(self._row_bytes, rows.estimated_size() / rows.height)
        first = np.flatnonzero(np.diff(time, prepend=time[0] - 1)) if len(time) else np.empty(0, np.int64)
        return PageLateness(time[first], np.diff(first, append=len(time)), late)

    def release(self, before: int, heartbeat: int, emitted_at: int) -> Payload:
        """Take rows out of the slack buffer, and merge their windows."""
        if heartbeat > before:
            self._next_out = 0
        upto = min(heartbeat + self.takes_next, MAX_TICK)
        self._next_out += self.slack.count(heartbeat, upto) if self.takes_next else 0
        released = self.release_rows(upto, emitted_at)
        self.windows.advance(heartbeat)
        return self.schema.empty_table() if released is None else released[0]

    @property
    def takes_next(self) -> bool:
        """In windows of rows: what comes later at that instant is behind them in the order of arrival."""
        return self.kernel.spec.rows is not None

    def early(self, before: int, emitted_at: int) -> Iterator[tuple[pl.DataFrame, pa.Table]]:
        """All in one."""
        rows = self.slack.all()
        if rows is not None:
            yield rows_with_results(
                self.kernel, trial_of(self.windows, self.kernel), in_time_order(rows), self.schema, emitted_at
            )

    def release_rows(self, heartbeat: int, emitted_at: int) -> tuple[pa.Table, int] | None:
        """The same up to the last row that is released: later rows above it, and below the heartbeat, may follow.

        Gives the results and the time of that row; None where there is none.
        """
        rows = self.slack.release(heartbeat)
        if rows is None:
            return None
        return results_of(self.kernel, self.windows, rows, self.schema, emitted_at), int(rows[TIME][-1])

    def state(self, whole: bool, heartbeat: int) -> State:
        """The rows that came since, or both buffers."""
        tables: dict[str, pa.Table] = {}
        if whole:
            self._next_out = 0
            buffered, released = self.slack.all(), self.windows.elements(heartbeat)
            if buffered is not None:
                tables["rows"] = buffered.to_arrow()
            if released is not None:
                tables["window"] = released.to_arrow()
        elif self._fresh:
            tables["rows"] = pl.concat(self._fresh).to_arrow()
        self._fresh = []
        return State(ResidentValues(next_out=self._next_out), tables, whole)

    def restore(self, states: Sequence[State], heartbeat: int) -> None:
        """What the heartbeat has passed goes to the window buffer."""
        self.windows.advance(heartbeat)
        for state in states:
            if "window" in state.tables:
                self.windows.absorb(frame_of(state.tables["window"]))
        came = [frame_of(s.tables["rows"]) for s in states if "rows" in s.tables]
        if came:
            rows = in_time_order(pl.concat(came))
            self._next_out = states[-1].read(ResidentValues).get("next_out", 0)
            released = passed(rows, heartbeat) + self._next_out
            self.windows.absorb(elements_of(self.kernel, rows.slice(0, released)))
            self.slack.add(rows.slice(released))

    def settle(self) -> None:
        """The journal, if there is one, has all rows."""
        self._fresh = []

    @property
    def waiting(self) -> int:
        """Rows of the slack buffer."""
        return self.slack.rows

    def next_time(self, after: int) -> int | None:
        """The time of the first row above this one in the slack buffer."""
        return self.slack.next_time(after)

    @property
    def bytes(self) -> int:
        """An estimate by the size of the rows that came; `size` has exact figures."""
        return int((self.slack.rows + self.windows.rows) * self._row_bytes)

    @property
    def size(self) -> dict[str, int]:
        """Rows and bytes of both buffers."""
        return {
            "slack_rows": self.slack.rows,
            "window_rows": self.windows.rows,
            "state_bytes": self.slack.bytes + self.windows.bytes,
        }


def passed(rows: pl.DataFrame, heartbeat: int) -> int:
    """How many rows, in the order of time, a heartbeat has passed."""
    return 0 if heartbeat <= MIN_TICK else int(np.searchsorted(rows[TIME].to_numpy(), heartbeat, side="right"))
