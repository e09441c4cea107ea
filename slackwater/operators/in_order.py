"""Rows in the order of time, for a sink that asks for it (S1's ordering law at the end of a plan).

Rows wait until the heartbeat has passed them. One that comes behind it could not be put in its place any more: it
is late, counted and left out, as is a row without a time. Early rows belong to their prod, and pass at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from slackwater.operators.operator import Emit, Input, State, Unary
from slackwater.operators.page import Page
from slackwater.operators.waiting_rows import WaitingRows
from slackwater.progress.clock import Clock
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MIN_TICK


class RowsInOrder(WaitingRows, Protocol):
    """Rows that wait for time."""

    def add(self, page: Page, after: int) -> int:
        """Take the rows of a page with a time above `after`; gives how many had one that was not."""
        ...

    def release(self, before: int, upto: int, at: int) -> Page | None:
        """The rows above the one heartbeat and up to the other, in order: of time, then of arrival."""
        ...


class InOrder(Unary):
    """Holds rows back until their time has come."""

    makes_rows: ClassVar[bool] = True
    ordered: ClassVar[bool] = True

    def __init__(self, label: str, clock: Clock, rows: RowsInOrder) -> None:
        super().__init__(label)
        self._clock = clock
        self._rows = rows
        self._released = MIN_TICK
        self._late = 0

    def on_page(self, page: Page, emit: Emit) -> None:
        """Keep its rows until their time has come."""
        if page.prod is not None:
            emit(page)
        else:
            self._late += self._rows.add(page, self._released)

    def on_punctuation(self, time: Punctuation, emit: Emit) -> None:
        """Let the rows out that the heartbeat has passed."""
        tick = time.heartbeat.tick
        if tick > self._released:
            page = self._rows.release(self._released, tick, self._clock.now())
            self._released = tick
            if page is not None:
                emit(page)

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        """Whether rows wait."""
        return self._rows.waiting

    def wanted(self, tick: int) -> int | None:
        """The time of the next row that waits."""
        return self._rows.next_time(tick)

    def state(self, whole: bool) -> State:
        """The heartbeat, a count, and the rows."""
        kept = self._rows.state(whole)
        kept.values = {"rows": kept.values, "released": self._released, "late": self._late}
        return kept

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states."""
        values = states[-1].values
        self._released, self._late = values["released"], values["late"]
        self._rows.restore([State(s.values["rows"], s.tables, s.whole) for s in states])

    def settle(self) -> None:
        """What went may be deleted."""
        self._rows.settle()

    def metrics(self) -> dict[str, Any]:
        """Late rows, and how many wait."""
        return {"late_rows": self._late, **self._rows.size}
