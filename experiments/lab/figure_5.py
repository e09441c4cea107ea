"""The query plan of S1's Figure 5 with virtual costs: how long results take, and how much waits meanwhile.

Operators take pages in the order of time. S3 lags behind, and catches up in bursts. Work takes time on a clock that
is moved by hand; pages come while it is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from experiments.lab.growing_union import GrowingUnion, rows_of
from experiments.lab.ordered_union import timestamp
from slackwater.engine.executor import Executor
from slackwater.engine.settings import EngineSettings
from slackwater.operators.element import Element, page_of
from slackwater.operators.operator import MAIN, Emit, Input
from slackwater.operators.pages import Pages
from slackwater.operators.payload import Payload
from slackwater.operators.sink import Sink
from slackwater.operators.source import Source
from slackwater.progress.arrival import Arrival
from slackwater.progress.clock import ManualClock
from slackwater.progress.disorder import Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MIN_TICK
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.heartbeats import Heartbeats
from slackwater.scheduling.strategy import Strategy
from slackwater.testing import arrow_page
from slackwater.testing.pages import ArrowPages


class Increasing(Tracker):
    """A stream in which no time comes in two pages: its heartbeat is the largest time that it has shown."""

    def __init__(self) -> None:
        self._heartbeat = Heartbeat.NONE

    @property
    def heartbeat(self) -> Heartbeat:
        """That time."""
        return self._heartbeat

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's largest time."""
        if arrival.highest is not None:
            self._heartbeat = max(self._heartbeat, Heartbeat(arrival.highest))

    def state(self) -> dict[str, Any]:
        """The heartbeat."""
        return {"heartbeat": self._heartbeat.tick}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from it."""
        self._heartbeat = Heartbeat(state["heartbeat"])


class ByHeartbeat(GrowingUnion):
    """Takes a page when the least heartbeat of its inputs has come to its last row (S1 section 7.2)."""

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Deliver what becomes of a page; how far time has come is for `output` to say."""
        chosen = self._next(inputs)
        assert chosen is not None
        made = self._made(inputs[chosen].pop())
        if not isinstance(made, Punctuation):
            emit(made)

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """What holds on all inputs."""
        return Punctuation.common(times)

    def _next(self, inputs: Sequence[Input]) -> int | None:
        for n, waiting in enumerate(inputs):
            said = (e.heartbeat.tick for e in waiting.elements() if isinstance(e, Punctuation))
            self._registers[n] = max(waiting.time.heartbeat.tick, *said, self._registers[n])
        ready = [n for n, i in enumerate(inputs) if len(i) and _last(i.peek(), self.pages) <= min(self._registers)]
        return min(ready, key=lambda n: timestamp(inputs[n].peek(), self.pages), default=None)


def _last(element: Element, pages: Pages) -> int:
    """The last time of a page's rows; a punctuation waits for nothing."""
    if isinstance(element, Punctuation):
        return MIN_TICK
    highest = pages.measure(page_of(element)).highest
    assert isinstance(highest, int)
    return highest


@dataclass(frozen=True)
class Comes:
    """A page of a stream: when it comes, and the times of its rows."""

    at: int
    stream: str
    times: tuple[int, ...]


@dataclass(frozen=True)
class Below:
    """An operator below O2: the streams that it reads, its growth, and its cost in ticks a row."""

    streams: tuple[str, str]
    growth: float
    cost: int = 1


#: O1 of Figure 5, as section 7.3 has it and as section 7.2 has it.
PROLIFERATIVE, SELECTIVE = Below(("S1", "S2"), 4), Below(("S1", "S2"), 0.25)
#: The same beside another operator below O2.
BOTH = {"O1": PROLIFERATIVE, "O3": Below(("S4", "S5"), 0.25)}


@dataclass(frozen=True)
class Figure5Outcome:
    """What a run has shown."""

    rows: list[int]
    """The times of all rows, in the order in which they came out of O2."""
    waits: list[int]
    """For each, but for the last pages, which the end lets out: ticks since all streams had come to its time."""
    peak: int
    """The most rows that ever waited on all arcs."""

    @property
    def latency(self) -> float:
        """The mean wait."""
        return sum(self.waits) / max(1, len(self.waits))


def lagging(streams: Sequence[str], pages: int, rows: int, every: int, burst: int) -> list[Comes]:
    """Streams in step with one another, a page each every so many ticks; S3 comes in bursts of so many pages."""
    made = []
    for number in range(pages):
        times = tuple(range(number * rows, (number + 1) * rows))
        late = (number // burst + 1) * burst
        made += [Comes(every * number, stream, times) for stream in streams if stream != "S3"]
        made.append(Comes(every * late, "S3", times))
    return sorted(made, key=lambda page: page.at)


def run(
    pages: Sequence[Comes],
    below: Mapping[str, Below],
    heartbeats: Heartbeats,
    cost: int = 1,
    strategy: Strategy | None = None,
) -> Figure5Outcome:
    """Let the pages come to a plan of these operators, whose results O2 takes beside S3's rows at some cost."""
    return _Run(pages, below, heartbeats, cost, strategy).outcome()


class _Run:
    def __init__(
        self,
        pages: Sequence[Comes],
        below: Mapping[str, Below],
        heartbeats: Heartbeats,
        cost: int,
        strategy: Strategy | None,
    ) -> None:
        self._pages = sorted(pages, key=lambda page: page.at)
        self._clock = ManualClock()
        self._came = self._peak = 0
        self._out: list[tuple[int, int]] = []
        self._numbers: dict[str, int] = {}
        self._executor = executor = Executor(
            self._clock, None, ArrowPages(), EngineSettings(strategy or Fifo(), heartbeat_scope=heartbeats)
        )
        streams = ["S3", *(stream for of in below.values() for stream in of.streams)]
        for stream in streams:
            executor.add(Source(stream, Increasing()))
        for label, of in below.items():
            operator = ByHeartbeat(label, 2, of.growth, self._clock, of.cost)
            executor.add(operator, [(stream, MAIN) for stream in of.streams])
        top = ByHeartbeat("O2", 1 + len(below), 1, self._clock, cost)
        executor.add(top, [*((label, MAIN) for label in below), ("S3", MAIN)])
        executor.add(Sink("sink", self), [("O2", MAIN)])
        executor.between = self._between

    def write(self, payload: Payload, commit_id: int) -> None:
        """Note when rows come out."""
        times: list[int] = rows_of(payload)["t"].to_list()
        self._out += [(time, self._clock.now()) for time in times]

    def _between(self) -> None:
        while self._came < len(self._pages) and self._pages[self._came].at <= self._clock.now():
            page, self._came = self._pages[self._came], self._came + 1
            number = self._numbers[page.stream] = self._numbers.get(page.stream, -1) + 1
            rows = pl.DataFrame({"t": page.times}, schema={"t": pl.Int64})
            made = arrow_page(rows, number, self._clock.now(), "t")
            made = replace(made, arrival=ArrowPages().measure(made))
            self._executor.admit(page.stream, made)
        self._peak = max(self._peak, sum(queue.size()[0] for _, queue in self._executor.graph.queues()))
        self._executor.commit()

    def outcome(self) -> Figure5Outcome:
        while self._came < len(self._pages):
            self._clock.set(max(self._clock.now(), self._pages[self._came].at))
            self._between()
            self._executor.run_until_idle()
        self._executor.drain()
        last = min(page.times[0] for page in {page.stream: page for page in self._pages}.values())
        waits = [at - self._ready(time) for time, at in self._out if time < last]
        return Figure5Outcome([time for time, _ in self._out], waits, self._peak)

    def _ready(self, time: int) -> int:
        """When all streams had come to a time."""
        firsts: dict[str, int] = {}
        for page in self._pages:
            if max(page.times) >= time:
                firsts.setdefault(page.stream, page.at)
        return max(firsts.values())
