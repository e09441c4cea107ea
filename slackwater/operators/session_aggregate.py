"""Session windows (`windows/sessions.py`): folds pages, answers a session when no row can join it any more.

A row joins an open session wherever it connects to it, however late it comes (D3). It is lost if it connects to
none and the session that it would begin is over. Where the groups contain the stream's source, sessions are over by
their own source's heartbeat (D4), and rows are lost only up to the last session that was answered for it (D10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.columns import BEFORE, CLOSED, PANE, ROWS, SINCE, SOURCE
from slackwater.errors import QueryError, RunError
from slackwater.estimates.no_estimates import NoEstimates
from slackwater.events import decision
from slackwater.figures import Figures
from slackwater.operators.backend import Folded, LateTimes, PartialsTooLarge
from slackwater.operators.early_rows import EarlyRows
from slackwater.operators.late_counts import LateCounts, LateValues
from slackwater.operators.operator import LATE, Emit, Input, State, Wanted
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.operators.several import behind
from slackwater.plan.window_kinds import SessionNode
from slackwater.progress.clock import Clock
from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.windows.closed import Closed
from slackwater.windows.frames import frame_of
from slackwater.windows.results import Kind, bounded_rows, early_schema
from slackwater.windows.sessions import FIRST, LAST, TICKS, OpenSessions, SessionSpec, cells

#: The tables of sources in a journal: how far time has come for each, and its last answered row.
_CLOSED = ("closed", "answered")


class SessionValues(TypedDict):
    """The journaled values, besides the sessions."""

    closed: int | None
    counts: tuple[int, int, int, int]
    late: LateValues


class SessionAggregate(EarlyRows):
    """Results of one query with session windows, final ones and those that prods ask for."""

    def __init__(
        self, label: str, node: SessionNode, clock: Clock, route_late: bool = False, inner: bool = False
    ) -> None:
        super().__init__(label)
        spec = node.kernel.spec
        assert isinstance(spec, SessionSpec)
        self._node, self._clock, self._gap = node, clock, spec.gap
        self._route_late, self._inner = route_late, inner
        self._cells = cells(node.kernel)
        self._open = OpenSessions(node.kernel)
        self._by_source = node.kernel.source is not None
        self._closed = Closed(by_source=self._by_source)
        """Up to which tick time has passed."""
        self._answered = Closed(by_source=self._by_source)
        """By source: the last row of an answered session."""
        self._late = LateCounts(spec, node.domain)
        self._pages = self._given = self._results = self._early = self._refused = 0
        self._journaled: tuple[int, pl.DataFrame | None, pl.DataFrame | None] = (0, None, None)
        """What the journal knows: the sessions up to this page, and the sources of both tables."""
        self._provisional: list[pl.DataFrame] = []
        """Partials of early rows, which count for the next prod only."""

    def on_page(self, page: Page, emit: Emit) -> None:
        """Fold a page in. Count, and send on if wanted, the rows that came too late."""
        folded = self._folded(page)
        if page.prod is not None:
            self._provisional.append(folded.partials)
            return
        self._pages += 1
        over = self._open.add(folded.partials, self._pages, self._closed)
        lost = self._lost(self._open.values(over), emit)
        self._count(page, folded, lost)
        arrival = self.pages.arrival(page)
        if self._route_late and (lost.height or (arrival is not None and arrival.missing)):
            self._send_late(page, lost, emit)

    def _folded(self, page: Page) -> Folded:
        try:
            return self.pages.fold(page, self._cells)
        except PartialsTooLarge as error:
            raise RunError(
                f"{self.label}: one page has more sessions than the driver takes ({error}); read smaller pages, or "
                "raise spark.driver.maxResultSize"
            ) from error

    def _lost(self, over: pl.DataFrame, emit: Emit) -> pl.DataFrame:
        """Of sessions that are over as they come those that are lost. The others are answered at once."""
        if self._answered.named is None:
            lost = over.clear() if self._by_source else over
        else:
            known = self._answered.beside(over, self._node.kernel.source_of)
            lost = known.filter(pl.col(FIRST) <= pl.col(CLOSED) + self._gap).drop(CLOSED)
        if lost.height < over.height:
            keys = [*self._node.kernel.keys, FIRST]
            self._emit_final(over.join(lost, on=keys, how="anti", nulls_equal=True), emit)
        return lost

    def _count(self, page: Page, folded: Folded, lost: pl.DataFrame) -> None:
        source, counts = [], folded.counts
        if self._by_source:
            source = [self._node.kernel.source_of.alias(SOURCE)]
            counts = folded.partials.select(PANE, *source, ROWS)
        late = lost.select((pl.col(FIRST) // self._gap).alias(PANE), *source, ROWS)
        if not self._node.over_results:  # a stream's policy learns from the rows of the stream
            self._reports.append(self._late.count_late(counts, late, self.label, page.number))

    def _send_late(self, page: Page, lost: pl.DataFrame, emit: Emit) -> None:
        limits = lost.select(*self._node.kernel.keys, pl.col(FIRST).alias(SINCE), (pl.col(LAST) + 1).alias(BEFORE))
        late = self.pages.late(page, LateTimes(MIN_TICK, (), limits, self._node.kernel.groups))
        if late is not None:  # a filter may have dropped those without a time
            emit(late, LATE)

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        """Whether a session is open."""
        return len(self._open.ends) > 0

    def next_useful_time(self, tick: int) -> int | None:
        """When the next session is over."""
        ends = self._open.ends
        place = int(np.searchsorted(ends, tick, side="right"))
        return int(ends[place]) if place < len(ends) else None

    def map_demand(self, wanted: Wanted) -> Wanted:
        """Results come as far as the tick before that of the input."""
        return behind(wanted, 1)

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """How far results have come. A session that is open at some tick may end with it, and not before."""
        (time,) = times
        by = time.sources if self._by_source else None
        if by is not None:
            by = SourceHeartbeats(by.names, _before(by.ticks), int(_before(np.array([by.others]))[0]))
        return Punctuation(Heartbeat(int(_before(np.array([time.heartbeat.tick]))[0])), by, idle=time.idle)

    def on_punctuation(self, time: Punctuation, emit: Emit) -> None:
        """Answer the sessions that are over."""
        closed = self._closed.advanced(TICKS, time.heartbeat, time.sources)
        if closed is self._closed:
            return
        self._closed = closed
        if self._open.frame is not None:
            over = self._open.over(closed)
            if over.height:
                self._emit_final(self._open.values(over), emit)

    def _emit_final(self, values: pl.DataFrame, emit: Emit) -> None:
        self._results += values.height
        if self._by_source:
            last = values.group_by(self._node.kernel.source_of.alias(SOURCE)).agg(pl.col(LAST).max())
            given = SourceHeartbeats(last[SOURCE].to_list(), last[LAST].to_numpy(), MIN_TICK)
            self._answered = self._answered.advanced(TICKS, Heartbeat.NONE, given)
        emit(self._page(values, "final"))

    def _page(self, values: pl.DataFrame, kind: Kind, prod: Prod | None = None) -> Page:
        self._given += 1
        now, schema = self._clock.now(), self._node.schema
        if kind == "early":
            schema = early_schema(schema, self._node.kernel)
        table = bounded_rows(values, values[FIRST], values[LAST] + self._gap, schema, now, kind)
        return self.pages.results(self.label, self._given, table, self._node, now, prod)

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """Answer the open sessions it speaks of, from what has arrived. Then let it pass."""
        asked, refused = None, prod.void
        try:
            asked = self._asked(prod) if not prod.void and (self._inner or prod.asks(self.label)) else None
        except QueryError as error:
            decision("prod.refused", operator=self.label, error=error)
            self._refused += 1
            refused = True
        if asked is not None and asked.height:
            self._early += asked.height
            estimated = NoEstimates(self._node.kernel).early(asked, self._clock.now())
            emit(self._page(estimated, "early", prod))
        self._provisional = []
        emit(replace(prod, void=refused) if self._inner else prod)

    def open_rows(self) -> pa.Table | None:
        """What the open sessions have, as their results would be now."""
        sessions, schema = self._open.with_parts([]), self._node.schema
        if sessions is None:
            return schema.empty_table()
        values = self._open.values(sessions)
        return bounded_rows(values, values[FIRST], values[LAST] + self._gap, schema, self._clock.now(), "final")

    def _asked(self, prod: Prod) -> pl.DataFrame | None:
        """The open sessions that would end in the time that a prod asks for."""
        sessions = self._open.with_parts(self._provisional)
        if sessions is None:
            return None
        values = self._open.values(sessions)
        after = MIN_TICK if prod.after is None or self._inner else prod.after
        until = MAX_TICK if prod.until is None else prod.until
        values = values.filter((pl.col(LAST) + self._gap).is_between(after, until, closed="right"))
        if prod.where is None or self._inner or values.is_empty():
            return values
        return values[self.pages.backend.matching(values.select(self._node.kernel.keys), prod.where)]

    def state(self, whole: bool) -> State:
        """Counts, how far time has come, and the sessions that have changed."""
        known, values = (0, None, None) if whole else self._journaled, self._values()
        changed = self._open.changed_since(known[0])
        tables = {} if changed is None else {"sessions": changed}
        for name, closed, before in zip(_CLOSED, (self._closed, self._answered), known[1:], strict=True):
            news = closed.news(before)
            if news is not None:
                tables[name] = news
        self._journaled = self._pages, self._closed.named, self._answered.named
        return State(values, {name: table.to_arrow() for name, table in tables.items()}, whole)

    def _values(self) -> SessionValues:
        return SessionValues(
            closed=self._closed.emitted_through,
            counts=(self._pages, self._given, self._results, self._early),
            late=self._late.state(),
        )

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states: which sessions were open is known only in order."""
        values = states[-1].read(SessionValues)
        self._pages, self._given, self._results, self._early = values["counts"]
        self._late.restore(values["late"])
        for state in states:
            tables = {name: frame_of(table) for name, table in state.tables.items()}
            self._closed = replace(self._closed, emitted_through=state.read(SessionValues)["closed"])
            if "closed" in tables:
                self._closed = self._closed.with_news(tables["closed"])
            if "answered" in tables:
                self._answered = self._answered.with_news(tables["answered"])
            if "sessions" in tables:
                self._open.load(tables["sessions"], self._closed)
        self._journaled = self._pages, self._closed.named, self._answered.named

    def metrics(self) -> Figures:
        """Late rows, answers, and the size of the state."""
        return {
            **self._late.metrics(),
            "windows": self._results,
            "results": self._results,
            "early_results": self._early,
            **({"prods_refused": self._refused} if self._refused else {}),
            "store": "resident",
            **self._open.size,
        }


def _before(ticks: Ints) -> Ints:
    """The tick before each; those without end, or before all time, stay."""
    return np.where((ticks > MIN_TICK) & (ticks < MAX_TICK), ticks - 1, ticks)
