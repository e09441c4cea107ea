"""The window join (S3 section 4): pairs of rows that are alive at the same time and meet a condition.

A row of time t is alive in [t, t + range). A pair comes out as soon as both rows are there, whatever their order,
and its time is that of the later one. Time only decides what is needed no more, and which rows have stayed alone.
A row that arrives at or below the heartbeat of its input meets the rows that are not past (S4 section 4). A row is
past when no later row can meet it. Where rows may stay alone, it is also past once it has been decided: a row that
came out alone gets no pair. A late row whose own life is decided comes out alone at once if it meets nobody. A row
counts as late if it is at or below the last instant up to which the other side is past, because partners of it may
be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.operators.join_state import JoinState
from slackwater.operators.keeping_join import JoinValues, KeepingJoin
from slackwater.operators.operator import Emit, Input, State, Wanted
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.operators.several import behind, emit_early, moved
from slackwater.plan.join_node import JoinNode
from slackwater.plan.step import Columns
from slackwater.progress.clock import Clock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MAX_TICK, MIN_TICK


class WindowJoinValues(JoinValues):
    """The journaled values."""

    decided: list[int]
    purged: list[int]
    pages: int


class WindowJoin(KeepingJoin):
    """The join of two inputs by windows of time."""

    def __init__(
        self, label: str, node: JoinNode, clock: Clock, state: JoinState, late: Sequence[Columns] | None = None
    ) -> None:
        super().__init__(label, clock, state, late)
        self._node = node
        self._kept = state
        self._decided = [MIN_TICK, MIN_TICK]
        """Of each side: rows whose last instant is at most this have come out alone, or never will."""
        self._purged = [MIN_TICK, MIN_TICK]
        """Of each side: rows whose last instant is at most this are needed no more."""
        self._pages = 0

    def on_page(self, side: int, page: Page, times: Sequence[Punctuation], emit: Emit) -> None:
        """Match a page with what the other side has, then keep it."""
        self.keep(side, page, self._past(1 - side), emit)
        self._emit(self._matches(side), emit)
        if side in self._node.lone and self._node.how != "semi":
            self._emit(self._kept.alone(side, self._decided[side], self._clock.now()), emit)
        self._kept.settle_page()

    def _matches(self, side: int) -> Page | None:
        """The rows that come of the page that was added last."""
        how, at = self._node.how, self._clock.now()
        if how == "anti":
            return None
        return self._kept.partnered(side, at) if how == "semi" else self._kept.pairs(side, at)

    def _lone(self, side: int, until: int) -> Page | None:
        """The rows of a side that have stayed alone, and have not come out yet."""
        if self._node.how == "semi" or self._kept.last(side) <= self._decided[side]:
            return None
        return self._kept.lone(side, self._decided[side], until, self._clock.now())

    def on_prod(
        self, prod: Prod, early: Sequence[tuple[int, Page]], times: Sequence[Punctuation], emit: Emit
    ) -> None:
        """Give what the join would still give if early rows were final and nothing else came; then forget them.

        Early rows meet each other and the rows that are kept (S5 section 3.3).
        """
        if not prod.void:
            with self._kept.trial():
                for side, page in early:
                    self._kept.add(side, page, MIN_TICK)
                    emit_early(self._matches(side), prod, emit)
                    self._kept.settle_page()
                for side in self._node.lone:
                    emit_early(self._lone(side, MAX_TICK), prod, emit)
        emit(prod)

    def on_punctuation(self, times: Sequence[Punctuation], emit: Emit) -> None:
        """Let rows out that have stayed alone; what finds no partner any more goes."""
        beats = [time.heartbeat.tick for time in times]
        for side in self._node.lone:
            until = self._decides(side, beats)
            if until > self._decided[side]:
                self._emit(self._lone(side, until), emit)
                self._decided[side] = until
        for side in (0, 1):
            self._purged[side] = self._needless(side, beats)
            self._kept.purge(side, self._purged[side])

    def _past(self, side: int) -> int:
        """Rows of a side whose last instant is at most this meet nobody who comes from now on."""
        return self._decided[side] if side in self._node.lone else self._purged[side]

    def _emit(self, page: Page | None, emit: Emit) -> None:
        if page is not None:
            self._pages += 1
            emit(page)

    # --- time

    def _decides(self, side: int, beats: Sequence[int]) -> int:
        """Rows of a side whose last instant is at most this have all come, and no partner of theirs will."""
        return min(beats[1 - side], moved(beats[side], self._node.sides[side].shortest - 1))

    def _needless(self, side: int, beats: Sequence[int]) -> int:
        """Rows of a side whose last instant is at most this are needed no more."""
        other, limits = 1 - side, [beats[1 - side]]
        if side in self._node.lone:
            limits.append(self._decided[side])
        if other in self._node.lone:
            # Whether a row of the other side has a partner is asked when it is decided.
            limits.append(moved(self._decided[other], 1 - self._node.sides[other].longest))
        return min(limits)

    def _limits(self, beats: Sequence[int]) -> list[tuple[int, int]]:
        """What holds the output back: how far it lets time come, and the input that it waits for."""
        found = [(beats[0], 0), (beats[1], 1)]
        for side in self._node.lone:
            alive = self._node.sides[side]
            found.append((moved(beats[1 - side], 1 - alive.longest), 1 - side))
            found.append((moved(beats[side], alive.shortest - alive.longest), side))
        return found

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """A pair is as late as its later row; a row that may stay alone holds time back for as long as it lives."""
        return Punctuation(Heartbeat(min(self._limits([t.heartbeat.tick for t in times]))[0]))

    def blocking(self, inputs: Sequence[Input]) -> list[int]:
        """The inputs that the output waits for."""
        limits = self._limits([waiting.time.heartbeat.tick for waiting in inputs])
        least = min(limits)[0]
        return sorted({n for tick, n in limits if tick == least})

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        """Whether rows may come out alone."""
        return self._node.how != "semi" and any(self._kept.last(s) > self._decided[s] for s in self._node.lone)

    def next_useful_time(self, tick: int) -> int | None:
        """The next last instant of rows that may stay alone."""
        found = [self._kept.next_last(side, max(tick, self._decided[side])) for side in self._node.lone]
        return min((last for last in found if last is not None), default=None)

    def map_demand(self, wanted: Wanted) -> Wanted:
        """The output is behind the inputs by as long as a row lives that may stay alone."""
        return behind(wanted, max((self._node.sides[side].longest - 1 for side in self._node.lone), default=0))

    # --- the journal

    def values(self, common: JoinValues) -> WindowJoinValues:
        """Decided times, and a count."""
        decided, purged = list(self._decided), list(self._purged)
        return WindowJoinValues(**common, decided=decided, purged=purged, pages=self._pages)

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states."""
        super().restore(states)
        values = states[-1].read(WindowJoinValues)
        self._decided, self._purged = list(values["decided"]), list(values["purged"])
        self._pages = values["pages"]
