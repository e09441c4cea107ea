"""The as-of join: a row waits until the heartbeat of the other input has passed all rows that it may meet.

Then it comes out, with the one row that matches or alone, whatever the heartbeat of its own input is. A row of the
left input at or below the output's heartbeat is late and left out, because its match may be dropped already. A late
row of the right input is counted as late, because rows may have come out without it. It may still match rows that
wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slackwater.operators.keeping_join import JoinValues, KeepingJoin
from slackwater.operators.operator import Emit, Input, State, Wanted
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.operators.several import behind, emit_early, moved
from slackwater.operators.waiting_rows import MadeRows, WaitingRows
from slackwater.plan.asof import AsofNode
from slackwater.plan.step import Columns
from slackwater.progress.clock import Clock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MIN_TICK


class AsofRows(WaitingRows, MadeRows, Protocol):
    """Rows of the left side that wait, and the rows of the right side that may still match."""

    def add(self, side: int, page: Page, after: int) -> int:
        """Take the rows of a page; gives how many have a time at or below `after`.

        Those of the left side are not taken, those of the right side are.
        """
        ...

    def due(self, upto: int) -> bool:
        """Whether rows of the left side up to this time wait."""
        ...

    def release(self, upto: int, at: int) -> Page | None:
        """The rows of the left side up to this time that have not come out, each with its match."""
        ...

    def rest(self, at: int) -> Page | None:
        """The rows that would come out if time ended now. Nothing is dropped."""
        ...

    def purge(self, past: int) -> None:
        """Rows of the left side up to this time are out: drop what matches none of the others."""
        ...


class AsofJoinValues(JoinValues):
    """The journaled values."""

    past: int


class AsofJoin(KeepingJoin):
    """The as-of join of two inputs."""

    def __init__(
        self, label: str, node: AsofNode, clock: Clock, rows: AsofRows, late: Sequence[Columns] | None = None
    ) -> None:
        super().__init__(label, clock, rows, late)
        self._node = node
        self._rows = rows
        self._past = MIN_TICK
        """Rows of the left input at or below this are late."""

    def on_page(self, side: int, page: Page, times: Sequence[Punctuation], emit: Emit) -> None:
        """Keep its rows; those whose time has come go on at once."""
        self.keep(side, page, self._past if side == 0 else times[1].heartbeat.tick, emit)
        if side == 0:
            self._release(times, emit)

    def on_punctuation(self, times: Sequence[Punctuation], emit: Emit) -> None:
        """Send the rows that need not wait any more; drop what matches none of the others."""
        self._release(times, emit)
        past = self.output(times).heartbeat.tick
        if past > self._past:
            self._past = past
            self._rows.purge(past)

    def _release(self, times: Sequence[Punctuation], emit: Emit) -> None:
        upto = self._decided(times)
        if self._rows.due(upto) and (page := self._rows.release(upto, self._clock.now())) is not None:
            emit(page)

    def on_prod(
        self, prod: Prod, early: Sequence[tuple[int, Page]], times: Sequence[Punctuation], emit: Emit
    ) -> None:
        """Send what would come out if early rows were final and time ended now; then forget early rows (S5 3.3)."""
        if not prod.void:
            with self._rows.trial():
                for side, page in early:
                    self._rows.add(side, page, MIN_TICK)
                emit_early(self._rows.rest(self._clock.now()), prod, emit)
        emit(prod)

    # --- time

    def _decided(self, times: Sequence[Punctuation]) -> int:
        """The match of rows up to this time is known."""
        return moved(times[1].heartbeat.tick, -self._node.ahead)

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """The time up to which rows have come out and no more will come."""
        return Punctuation(Heartbeat(min(times[0].heartbeat.tick, self._decided(times))))

    def blocking(self, inputs: Sequence[Input]) -> list[int]:
        """The right input while rows wait for it; else whichever is behind."""
        left, right = inputs[0].time.heartbeat.tick, self._decided([waiting.time for waiting in inputs])
        return [1] if right < left or self._rows.waiting else [0] if left < right else [0, 1]

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        """Whether rows wait."""
        return self._rows.waiting > 0

    @property
    def waiting_for_time(self) -> int:
        """As the store knows them."""
        return self._rows.waiting

    def wanted(self, tick: int) -> int | None:
        """The time of the next row that waits."""
        return self._rows.next_time(tick)

    def map_demand(self, wanted: Wanted) -> Wanted:
        """The output is behind the right input by as long as a row waits for later ones."""
        return behind(wanted, self._node.ahead)

    # --- the journal

    def values(self, common: JoinValues) -> AsofJoinValues:
        """The output's heartbeat."""
        return AsofJoinValues(**common, past=self._past)

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states."""
        super().restore(states)
        self._past = states[-1].read(AsofJoinValues)["past"]
