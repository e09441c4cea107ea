"""The Prodder (S5 section 3.2): watches time at the sources of a query and sends prods along with the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from slackwater.estimates.early import Early
from slackwater.estimates.prod_timing import ProdTiming
from slackwater.figures import Figures
from slackwater.operators.operator import Emit, Input, Operator, State
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.progress.credible_time import CredibleTime
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.windows.prodded_windows import ends
from slackwater.windows.spec import WindowSpec


class ProdderValues(TypedDict):
    """The journaled values."""

    setting: str
    reference: dict[str, object]
    highest: int | None
    came: bool
    prodded: int | None
    next: int | None
    prods: int
    aim: dict[str, object]


class Prodder(Operator):
    """Prods each window once, some way into its last slide, and all open windows every so often.

    It stands on no arc: it is shown the pages that its query's sources send, and its prods are put behind them.

    It watches the session's clock; where windows go by something else than timestamps, the largest one that can be
    believed. While a stream pauses, windows that no row has come for are passed over: there is nothing to say.
    """

    def __init__(
        self,
        label: str,
        query: str,
        specs: Sequence[WindowSpec],
        domain: TimeDomain,
        timing: ProdTiming,
        early: Early,
        at_end: bool = False,
        to: str | None = None,
    ) -> None:
        """`at_end`: the end of the input is an instant to prod, too."""
        super().__init__(label)
        self._at_end = at_end
        self._query, self._to = query, to
        """`to` is the label of the window that it times, if the query gives the results of several."""
        self._specs = specs
        """Of the aggregates that rows go through."""
        self._spec = specs[-1]
        self._by_clock = domain is TimeDomain.TIMESTAMP
        self._timing = timing
        self._every = early.every
        self._setting = early.describe()
        self._under_way: list[Page] = []
        self._reference = CredibleTime()
        self._highest: int | None = None
        self._came = False
        """Whether a page has come since the last prod."""
        self._prodded: int | None = None
        """The last window that was prodded."""
        self._next: int | None = None
        """When all open windows are prodded next."""
        self._prods = 0

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Nothing waits for it."""
        raise AssertionError("a prodder has no input")

    def observe(self, page: Page) -> None:
        """A source has sent a page; its largest time is known once it has been worked on."""
        self._learn()
        self.pages.hold(page)
        self._under_way.append(page)
        self._came = True

    @property
    def watches_clock(self) -> bool:
        """Whether it prods at all: every window query has a prodder, and most ask for no early answers."""
        return self._timing.offset is not None or self._every is not None

    def tick(self, now: int, emit: Emit) -> None:
        """Send the prods that are due."""
        self._learn()
        if self._reference.time is None:
            return
        if self._timing.offset is not None:
            self._prod_due(now if self._by_clock else self._reference.time, self._timing.offset, emit)
        if self._every is not None and (self._next is None or now >= self._next):
            if self._next is not None:
                self._send(Prod(query=self._query), emit)
            self._next = (now // self._every + 1) * self._every

    def _prod_due(self, time: int, offset: int, emit: Emit) -> None:
        due = self._due(time, offset)
        if self._prodded is None:
            self._prodded = due - 1
        # Time can turn out to be less than was believed.
        self._prodded = min(self._prodded, self._due(time, 0))
        if due > self._prodded:
            until, after, waits = self._spec.bounds(due)[1], self._spec.bounds(self._prodded)[1], self._waits()
            self._prodded = due
            if waits:
                self._came = False
                self._send(Prod(until, after, timed=True, query=self._query, to=self._to), emit)

    def end(self, emit: Emit, for_good: bool, last: int | None = None) -> None:
        """At the end of the input, prod totals without a window: no window closes to answer them."""
        if self._at_end:
            self._send(Prod(query=self._query), emit)

    def _send(self, prod: Prod, emit: Emit) -> None:
        self._prods += 1
        emit(prod)

    def _due(self, time: int, offset: int) -> int:
        """The last window whose instant has come, so far into its last slide."""
        begin = self._spec.offset + self._spec.first_end - self._spec.last_part
        return (time - begin - offset) // self._spec.slide

    def _waits(self) -> bool:
        """Whether the next window may have something to say."""
        assert self._highest is not None and self._prodded is not None
        end = ends(self._specs, self._highest, self._highest)[1]
        return self._came or self._prodded < self._spec.last_closed(Heartbeat(end - 1))

    def wake_at(self) -> int | None:
        """When the next prod is due by the clock."""
        if self._reference.time is None:
            return None
        times = [] if self._every is None or self._next is None else [self._next]
        timed = self._by_clock and self._timing.offset is not None
        if timed and self._prodded is not None and self._waits():
            start = self._spec.bounds(self._prodded + 1)[1] - self._spec.last_part
            times.append(start + (self._timing.offset or 0))
        return min(times, default=None)

    def _learn(self) -> None:
        waiting = []
        for page in self._under_way:
            arrival = self.pages.arrival(page)
            if arrival is None:
                waiting.append(page)
                continue
            self.pages.release(page)
            if arrival.highest is not None:
                self._reference.pass_arrival(arrival)
                self._highest = max(arrival.highest, MIN_TICK if self._highest is None else self._highest)
        self._under_way = waiting

    def detach(self) -> None:
        """It need not learn from pages any more."""
        for page in self._under_way:
            self.pages.release(page)

    def state(self, whole: bool) -> State:
        """The state of prods."""
        self._learn()
        return State(
            ProdderValues(
                setting=self._setting,
                reference=self._reference.state(),
                highest=self._highest,
                came=self._came,
                prodded=self._prodded,
                next=self._next,
                prods=self._prods,
                aim=self._timing.state(),
            )
        )

    def restore(self, states: Sequence[State]) -> None:
        """Continue from the last state; what follows from other settings is left behind."""
        values = states[-1].read(ProdderValues)
        self._reference.restore(values["reference"])
        self._highest, self._came = values["highest"], values["came"]
        self._prodded, self._prods = values["prodded"], values["prods"]
        if values["setting"] == self._setting:
            self._next = values["next"]
            self._timing.restore(values["aim"])

    def metrics(self) -> Figures:
        """How often it has prodded, and where in the slide."""
        return {"prods": self._prods, **self._timing.metrics()}
