"""Rows in the order of time, for a sink or behind a union (S1's ordering law; S3's union is a sort-merge).

After a heartbeat h all rows are later than h. So rows up to h + 1 go out, and rows with equal times do not wait for
each other (S3 section 4.1). A row that arrives at or below the heartbeat is late: it is counted and left out, as is
a row without a time. Early rows belong to their prod, and pass at once. In the middle of a plan a prod also sends
the rows that wait (S5 section 3.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol, TypedDict

from slackwater.figures import Figures
from slackwater.operators.backend import LateTimes
from slackwater.operators.operator import LATE, Emit, Input, State, Unary
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.operators.several import emit_early
from slackwater.operators.waiting_rows import WaitingRows
from slackwater.progress.clock import Clock
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MAX_TICK, MIN_TICK


class RowsInOrder(WaitingRows, Protocol):
    """Rows that wait for time."""

    def add(self, page: Page, after: int) -> int:
        """Take the rows of a page with a time above `after`; gives how many had one that was not."""

    def due(self, upto: int) -> bool:
        """Whether rows up to this time wait."""

    def release(self, upto: int, at: int) -> Page | None:
        """The rows up to this time that have not been out, in order: of time, then of arrival."""

    def rest(self, at: int) -> Page | None:
        """All rows that have not come out. They stay."""
        ...


class InOrderValues(TypedDict):
    """The journaled values."""

    rows: Mapping[str, object]
    heartbeat: int
    late: int


class InOrder(Unary):
    """Holds rows back until their time has come."""

    makes_rows: ClassVar[bool] = True
    ordered: ClassVar[bool] = True

    def __init__(
        self, label: str, clock: Clock, rows: RowsInOrder, last: bool = True, route_late: bool = False
    ) -> None:
        super().__init__(label)
        self._clock, self._rows = clock, rows
        self._last, self._route_late = last, route_late
        self._heartbeat = MIN_TICK
        self._late = 0

    def on_page(self, page: Page, emit: Emit) -> None:
        """Keep its rows until their time has come."""
        if page.prod is not None:
            emit(page)
        else:
            late = self._rows.add(page, self._heartbeat)
            self._late += late
            if self._route_late and (late or self.pages.measure(page).missing):
                rows = self.pages.late(page, LateTimes(self._heartbeat + 1))
                if rows is not None:  # a filter may have dropped those without a time
                    emit(rows, LATE)
            self._release(emit)

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """The prod sees the rows that wait."""
        if not (self._last or prod.void):
            emit_early(self._rows.rest(self._clock.now()), prod, emit)
        emit(prod)

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """Rows wait for the heartbeat, whatever holds beyond it, or of some source."""
        return Punctuation(times[0].heartbeat)

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
        return self._rows.waiting > 0

    @property
    def waiting_for_time(self) -> int:
        """As the store knows them."""
        return self._rows.waiting

    def next_useful_time(self, tick: int) -> int | None:
        """Just before the time of the next row that waits."""
        following = self._rows.next_time(min(tick + 1, MAX_TICK))
        return None if following is None else following - 1

    def state(self, whole: bool) -> State:
        """The heartbeat, a count, and the rows."""
        kept = self._rows.state(whole)
        kept.values = InOrderValues(rows=kept.values, heartbeat=self._heartbeat, late=self._late)
        return kept

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states."""
        values = states[-1].read(InOrderValues)
        self._heartbeat, self._late = values["heartbeat"], values["late"]
        self._rows.restore([state.at("rows") for state in states])

    def settle(self) -> None:
        """What went may be deleted."""
        self._rows.settle()

    def metrics(self) -> Figures:
        """Late rows, and how many wait."""
        return {"late_rows": self._late, **self._rows.size}
