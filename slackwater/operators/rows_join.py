"""The window join where a side keeps its last rows, not those of a stretch of time (S3 section 4, [ROWS 100]).

Which rows are the last ones at an instant is known only when time has passed it. So rows wait until the heartbeats
of both inputs have, and are then matched in the order of time. Of equal times the one that came last is the later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from slackwater.operators.keeping_join import JoinValues, KeepingJoin
from slackwater.operators.operator import Emit, Input, State
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.operators.several import emit_early
from slackwater.operators.waiting_rows import MadeRows, WaitingRows
from slackwater.progress.clock import Clock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MIN_TICK


class OrderedRows(WaitingRows, MadeRows, Protocol):
    """The rows of both sides: those that wait, and those that may still find partners."""

    def add(self, side: int, page: Page, after: int) -> int:
        """Take the rows of a page with a time above `after`; gives how many were not above it."""

    def release(self, before: int, upto: int, at: int) -> Sequence[Page]:
        """What comes out when time goes from the one heartbeat to the other; what is needed no more goes."""

    def rest(self, before: int, at: int) -> Sequence[Page]:
        """What would come out if time ended now; nothing goes."""

    @property
    def undecided(self) -> int | None:
        """The time of the first row of which it is not known whether it stays alone."""


class RowsJoinValues(JoinValues):
    """The journaled values."""

    released: int


class RowsJoin(KeepingJoin):
    """The join of two inputs of which one or both have windows of rows."""

    ordered: ClassVar[bool] = True

    def __init__(self, label: str, clock: Clock, rows: OrderedRows) -> None:
        super().__init__(label, clock, rows)
        self._rows = rows
        self._released = MIN_TICK
        """Rows up to here have been matched."""

    def on_page(self, side: int, page: Page, times: Sequence[Punctuation], emit: Emit) -> None:
        """Keep its rows until their time has come."""
        self.keep(side, page, times[side].heartbeat.tick, emit)

    def on_prod(
        self, prod: Prod, early: Sequence[tuple[int, Page]], times: Sequence[Punctuation], emit: Emit
    ) -> None:
        """Give what would come out if early rows were final and time ended now; then forget them (S5 3.3)."""
        if not prod.void:
            with self._rows.trial():
                for side, page in early:
                    self._rows.add(side, page, MIN_TICK)
                for page in self._rows.rest(self._released, self._clock.now()):
                    emit_early(page, prod, emit)
        emit(prod)

    def on_punctuation(self, times: Sequence[Punctuation], emit: Emit) -> None:
        """Match the rows that both heartbeats have passed."""
        tick = min(time.heartbeat.tick for time in times)
        if tick > self._released:
            for page in self._rows.release(self._released, tick, self._clock.now()):
                emit(page)
            self._released = tick

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """As far as rows have been matched, and not beyond a row that may still stay alone."""
        first = self._rows.undecided
        return Punctuation(Heartbeat(self._released if first is None else min(self._released, first - 1)))

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        """Whether rows wait for the heartbeats."""
        return self._rows.waiting > 0

    @property
    def waiting_for_time(self) -> int:
        """As the store knows them."""
        return self._rows.waiting

    def next_useful_time(self, tick: int) -> int | None:
        """The time of the next row that waits."""
        return self._rows.next_time(tick)

    def values(self, common: JoinValues) -> RowsJoinValues:
        """The heartbeat."""
        return RowsJoinValues(**common, released=self._released)

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states."""
        super().restore(states)
        self._released = states[-1].read(RowsJoinValues)["released"]
