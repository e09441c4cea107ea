"""Rows in the order of time, for a sink that asks for it (S1's ordering law at the end of a plan).

After a heartbeat h all rows are later than h. So rows up to h + 1 go out, and of equal times none waits for another
(S3 section 4.1). A row that comes behind the heartbeat could not be put in its place any more: it is late, counted
and left out, as is a row without a time. Early rows belong to their prod, and pass at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from slackwater.operators.operator import Emit, Input, State, Unary
from slackwater.operators.page import Page
from slackwater.operators.waiting_rows import WaitingRows
from slackwater.progress.clock import Clock
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MAX_TICK, MIN_TICK


class RowsInOrder(WaitingRows, Protocol):
    """Rows that wait for time."""

    def add(self, page: Page, after: int) -> int:
        """Take the rows of a page with a time above `after`; gives how many had one that was not."""
        ...

    def due(self, upto: int) -> bool:
        """Whether rows up to this time wait."""
        ...

    def release(self, upto: int, at: int) -> Page | None:
        """The rows up to this time that have not been out, in order: of time, then of arrival."""
        ...


class InOrder(Unary):
    """Holds rows back until their time has come."""

    makes_rows: ClassVar[bool] = True
    ordered: ClassVar[bool] = True

    def __init__(self, label: str, clock: Clock, rows: RowsInOrder) -> None:
        super().__init__(label)
        self._clock = clock
        self._rows = rows
        self._heartbeat = MIN_TICK
        self._late = 0

    def on_page(self, page: Page, emit: Emit) -> None:
        """Keep its rows until their time has come."""
        if page.prod is not None:
            emit(page)
        else:
            self._late += self._rows.add(page, self._heartbeat)
            self._release(emit)

    def on_punctuation(self, time: Punctuation, emit: Emit) -> None:
        """Let the rows out whose turn has come."""
        self._heartbeat = max(self._heartbeat, time.heartbeat.tick)
        self._release(emit)

    def _release(self, emit: Emit) -> None:
        upto = min(self._heartbeat + 1, MAX_TICK)
        if self._rows.due(upto) and (page := self._rows.release(upto, self._clock.now())) is not None:
            emit(page)

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        """Whether rows wait."""
        return self._rows.waiting

    def next_useful_time(self, tick: int) -> int | None:
        """Just before the time of the next row that waits."""
        following = self._rows.next_time(min(tick + 1, MAX_TICK))
        return None if following is None else following - 1

    def state(self, whole: bool) -> State:
        """The heartbeat, a count, and the rows."""
        kept = self._rows.state(whole)
        kept.values = {"rows": kept.values, "heartbeat": self._heartbeat, "late": self._late}
        return kept

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states."""
        values = states[-1].values
        self._heartbeat, self._late = values["heartbeat"], values["late"]
        self._rows.restore([State(s.values["rows"], s.tables, s.whole) for s in states])

    def settle(self) -> None:
        """What went may be deleted."""
        self._rows.settle()

    def metrics(self) -> dict[str, Any]:
        """Late rows, and how many wait."""
        return {"late_rows": self._late, **self._rows.size}
