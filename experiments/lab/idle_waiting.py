"""S3's experiment (section 6) in virtual time: two filtered streams, a fast and a sparse one, united by tuples.

The engine's own executor runs S3's operators: sources, selections, the ordered union, a sink. Each step of an
operator takes some microseconds on a clock that is moved by hand, and tuples come meanwhile. So a run of minutes
takes seconds, and is the same for the same seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from experiments.lab.ordered_union import OrderedUnion
from slackwater.engine.enabling import Enabling
from slackwater.engine.executor import Executor
from slackwater.engine.settings import EngineSettings
from slackwater.operators.operator import MAIN, Emit, Unary, Wanted
from slackwater.operators.page import CachedRows, Origin, Page
from slackwater.operators.stream_union import StreamUnion
from slackwater.progress.arrival import Arrival
from slackwater.progress.clock import ManualClock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time_kinds import StampTracker

SECOND = 1_000_000
#: Microseconds that a step of an operator takes.
COST = 5


@dataclass(frozen=True)
class Tuple(Page):
    """A page of one row, or a punctuation tuple that a source is given at regular intervals."""

    passes: bool = True
    """Whether the selection lets it through."""
    is_punctuation: bool = False

    @staticmethod
    def at_no_time(passes: bool = True, is_punctuation: bool = False) -> Tuple:
        """One that has no number yet, and whose time is latent."""
        return Tuple(Origin("", 0), CachedRows(None), size=1, passes=passes, is_punctuation=is_punctuation).entered(
            0, 0
        )

    def entered(self, number: int, at: int) -> Tuple:
        """The tuple as it enters."""
        return replace(self, origin=Origin("", number), at=at, arrival=Arrival(1, 0, 0, 0, at))

    def timed(self, time: int) -> Tuple:
        """The tuple with a timestamp."""
        return replace(self, arrival=Arrival(1, 0, time, time, self.at))

    @property
    def time(self) -> int:
        """Its timestamp; 0 as long as it is latent."""
        assert self.arrival is not None and self.arrival.lowest is not None
        return self.arrival.lowest


class TupleSource(Unary):
    """Stamps tuples when they enter, unless their time is latent; asked for an ETS, it gives the clock."""

    def __init__(self, label: str, clock: ManualClock, latent: bool, cost: int) -> None:
        super().__init__(label)
        self._clock = clock
        self._latent = latent
        self._cost = cost
        self._tracker = StampTracker()
        self.made = 0
        """Enabling timestamps."""

    def prepare(self, page: Page, now: int) -> Page:
        """A tuple enters."""
        assert isinstance(page, Tuple)
        return page if self._latent else page.timed(self._tracker.stamp(now))

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send it on."""
        if isinstance(page, Tuple) and page.is_punctuation:
            emit(Punctuation(Heartbeat(page.time - 1)))
        else:
            emit(page)

    def output(self, times: object) -> None:
        """Its tuples tell the time."""

    def enable(self, now: int, emit: Emit, wanted: Wanted) -> None:
        """An ETS takes a step, too."""
        wake = self.wake_for(wanted)
        if wake is not None and wake <= now:
            self._clock.advance(self._cost)
            self.made += 1
            self._tracker.tick(now)
            emit(Punctuation(self._tracker.heartbeat))

    def wake_for(self, wanted: Wanted) -> int | None:
        """When the clock is where it is wanted."""
        tick = wanted(self._tracker.heartbeat.tick)
        return None if tick is None else self._tracker.reaches(tick)


class Selection(Unary):
    """Lets tuples through by chance; punctuation passes."""

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send it on, or not."""
        if isinstance(page, Tuple) and page.passes:
            emit(page)


class Departures(Unary):
    """The sink: notes how long each tuple was in the system."""

    def __init__(self, label: str, clock: ManualClock) -> None:
        super().__init__(label)
        self._clock = clock
        self.tuples: list[Tuple] = []
        self.latencies: list[int] = []

    def on_page(self, page: Page, emit: Emit) -> None:
        """It leaves."""
        assert isinstance(page, Tuple)
        self.tuples.append(page)
        self.latencies.append(self._clock.now() - page.at)


@dataclass(frozen=True)
class Case:
    """One line of S3's figures."""

    enabling: Enabling = field(default_factory=Enabling)
    latent: bool = False
    punctuations: float = 0.0
    """Punctuation tuples a second, put into the sparse stream."""
    rates: tuple[float, float] = (50.0, 0.05)
    """Tuples a second."""
    selectivity: float = 0.95
    cost: int = COST


@dataclass(frozen=True)
class IdleOutcome:
    """What a run has shown."""

    latencies: list[int]
    """Of each tuple, in microseconds."""
    departed: list[Tuple]
    idle_waiting: float
    """Share of the time in which the union held a tuple and could not go on."""
    peak_queue: int
    """Elements in all buffers, at most."""
    enabled: int
    """Enabling timestamps that were made."""

    @property
    def mean(self) -> float:
        """Of the latencies."""
        return float(np.mean(self.latencies)) if self.latencies else float("nan")

    @property
    def median(self) -> float:
        """Of the latencies."""
        return float(np.median(self.latencies)) if self.latencies else float("nan")


def arrivals(case: Case, seconds: float, seed: int) -> Iterator[tuple[int, str, Tuple]]:
    """Poisson arrivals of both streams and regular punctuation tuples, in order."""
    streams = [
        _poisson(name, rate, seconds, case.selectivity, np.random.default_rng([seed, n]))
        for n, (name, rate) in enumerate(zip("ab", case.rates, strict=True))
    ]
    if case.punctuations:
        instants = np.arange(1, int(seconds * case.punctuations) + 1) / case.punctuations
        streams.append([(round(t * SECOND), "b", Tuple.at_no_time(is_punctuation=True)) for t in instants])
    numbers = dict.fromkeys("ab", 0)
    for at, stream, made in heapq.merge(*streams, key=lambda event: event[0]):
        yield at, stream, made.entered(numbers[stream], at)
        numbers[stream] += 1


def _poisson(
    name: str, rate: float, seconds: float, selectivity: float, random: np.random.Generator
) -> list[tuple[int, str, Tuple]]:
    instants = np.cumsum(random.exponential(1 / rate, round(3 * rate * seconds) + 50))
    inside = instants[instants < seconds]
    passes = random.random(len(inside)) < selectivity
    return [(round(t * SECOND), name, Tuple.at_no_time(bool(p))) for t, p in zip(inside, passes, strict=True)]


class Simulation:
    """One run of a case."""

    def __init__(self, case: Case, seconds: float, seed: int) -> None:
        self.clock = clock = ManualClock()
        self.executor = executor = Executor(clock, settings=EngineSettings(quiet_streams=case.enabling))
        self._case = case
        self._coming = arrivals(case, seconds, seed)
        self._next = next(self._coming, None)
        self._blocked_since: int | None = None
        self._blocked = self._peak = 0
        for name in "ab":
            executor.add(TupleSource(name, clock, case.latent, case.cost))
            executor.add(Selection(f"selection {name}"), [(name, MAIN)])
        union = StreamUnion("union") if case.latent else OrderedUnion("union")
        executor.add(union, [("selection a", MAIN), ("selection b", MAIN)])
        self._end = Departures("sink", clock)
        executor.add(self._end, [("union", MAIN)])
        executor.between = self._step

    def run(self) -> IdleOutcome:
        """Until all tuples have come."""
        while self._next is not None:
            self.clock.set(self._next[0])
            self._enter()
            self.executor.run_until_idle()
            self._look()
        self._look(over=True)
        sources: Any = [self.executor.graph.nodes[name].operator for name in "ab"]
        share = self._blocked / max(1, self.clock.now())
        made = sum(source.made for source in sources)
        return IdleOutcome(self._end.latencies, self._end.tuples, share, self._peak, made)

    def _step(self) -> None:
        """A step of an operator is over."""
        self.clock.advance(self._case.cost)
        self._enter()
        self._look()

    def _enter(self) -> None:
        """Let in what has come by now."""
        while self._next is not None and self._next[0] <= self.clock.now():
            _, stream, made = self._next
            self.executor.admit(stream, made)
            self._next = next(self._coming, None)
        self._peak = max(self._peak, sum(len(queue) for _, queue in self.executor.graph.queues()))

    def _look(self, over: bool = False) -> None:
        """Note since when the union has been idle-waiting."""
        node, now = self.executor.graph.nodes["union"], self.clock.now()
        waits = not over and node.operator.waits_for_time(node.arcs)
        if self._blocked_since is not None:
            self._blocked += now - self._blocked_since
        self._blocked_since = now if waits else None


def simulate(case: Case, seconds: float, seed: int = 1) -> IdleOutcome:
    """Run a case."""
    return Simulation(case, seconds, seed).run()
