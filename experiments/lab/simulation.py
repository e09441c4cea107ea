"""S2's simulation: the engine's own executor on operators that cost virtual time, on a clock that is moved by hand.

A page is a number of rows. An operator takes some microseconds a row and passes a share of them on; pages come
meanwhile. So a run of minutes takes seconds, and is the same for the same seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from experiments.lab.ordered_union import OrderedUnion
from slackwater.engine.executor import Executor
from slackwater.engine.settings import EngineSettings
from slackwater.operators.operator import MAIN, Emit, Input, Operator, Unary
from slackwater.operators.page import CachedRows, Origin, Page
from slackwater.operators.prod import Prod
from slackwater.operators.several import Several
from slackwater.operators.stamp import TimeByClock
from slackwater.progress.arrival import Arrival
from slackwater.progress.clock import ManualClock
from slackwater.progress.punctuation import Punctuation
from slackwater.scheduling.strategy import Strategy


def load(stream: str, number: int, rows: int, entered: int, readers: int = 1) -> Page:
    """A page of which all is known: so many rows of a byte each, which came at some instant.

    `readers` is the number of operators that it waits before; each has an equal share in its room.
    """
    arrival = Arrival(rows, 0, entered, entered, entered)
    return Page(Origin(stream, number), CachedRows(readers), at=entered, arrival=arrival, size=rows)


def readers_of(page: Page) -> int:
    """The operators that such a page waits before."""
    assert isinstance(page.location, CachedRows) and isinstance(page.location.rows, int)
    return page.location.rows


def rows_of(page: Page) -> int:
    """How many rows such a page has."""
    assert page.arrival is not None
    return page.arrival.rows


@dataclass(frozen=True)
class Virtual:
    """An operator: what feeds it, its microseconds a row, and the rows that it gives for one.

    One with several inputs is a union, or a join of windows, which takes rows in order of time (S2 section 5.1).
    """

    label: str
    inputs: tuple[str, ...]
    cost: float
    selectivity: float = 0.0
    union: bool = False


@dataclass(frozen=True)
class Case:
    """Queries: streams, and operators behind them. What comes out of one that nobody reads leaves the system."""

    streams: tuple[str, ...]
    operators: tuple[Virtual, ...]

    def work(self, stream: str) -> float:
        """Microseconds of work that a row of a stream brings with it."""
        readers = [o for o in self.operators if stream in o.inputs]
        return sum(o.cost + o.selectivity * self.work(o.label) for o in readers)


@dataclass(frozen=True, order=True)
class Comes:
    """A page comes to a stream at some instant."""

    at: int
    stream: str
    rows: int


@dataclass
class SimulationOutcome:
    """What a run has shown."""

    times: list[int] = field(default_factory=list)
    """Instants at which the memory was another than before, in microseconds."""
    memory: list[float] = field(default_factory=list)
    """Rows in all queues from then on."""
    latencies: list[int] = field(default_factory=list)
    """Of each page that came out at the end of a path, in microseconds."""
    departed: dict[str, int] = field(default_factory=dict)
    """Rows that came out, by the last operator."""
    runs: int = 0
    switches: int = 0
    """Runs of another operator than the one before (S2 section 4.2)."""

    @property
    def peak(self) -> float:
        """The most rows that ever waited."""
        return max(self.memory, default=0)

    @property
    def mean(self) -> float:
        """Rows that waited, on the average over time."""
        if len(self.times) < 2:
            return 0.0
        return float(np.average(self.memory[:-1], weights=np.diff(self.times)))

    def at(self, instant: int) -> float:
        """Rows that waited at an instant, with those that came then."""
        found = int(np.searchsorted(self.times, instant, side="right")) - 1
        return self.memory[found] if found >= 0 else 0


class _Source(TimeByClock):
    """Lets pages in; its time is the clock's, so that a join need not wait for a stream that is silent."""

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send it on."""
        emit(page)

    def output(self, times: object) -> None:
        """Its pages tell the time."""


class _Work:
    """What a page costs an operator, and what it leaves; part of a row waits until it is a whole one."""

    def __init__(
        self, of: Virtual, readers: int, clock: ManualClock, done: Callable[[Virtual, Page, int], None]
    ) -> None:
        self._of = of
        self._readers = readers
        self._clock = clock
        self._done = done
        self._spent = self._rest = 0.0

    def on(self, page: Page, emit: Emit) -> None:
        """Take the time, and send on what is left."""
        self._spent += self._of.cost * rows_of(page)
        self._clock.advance(int(self._spent))
        self._spent %= 1
        self._rest += self._of.selectivity * rows_of(page) + 1e-9
        rows, self._rest = int(self._rest), self._rest % 1
        self._done(self._of, page, rows)
        if rows:
            emit(load(self._of.label, page.number, rows, page.at, self._readers))


class _Filter(Unary):
    def __init__(self, of: Virtual, work: _Work) -> None:
        super().__init__(of.label)
        self._work = work

    def on_page(self, page: Page, emit: Emit) -> None:
        """Work on it."""
        self._work.on(page, emit)


class _Join(OrderedUnion):
    def __init__(self, of: Virtual, work: _Work) -> None:
        super().__init__(of.label, len(of.inputs))
        self._work = work

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Work on the next page in the order of time."""
        chosen = self._next(inputs)
        assert chosen is not None
        element = inputs[chosen].pop()
        if isinstance(element, (Punctuation, Prod)):
            emit(element)
        else:
            self._work.on(element, emit)


class _Union(Several):
    def __init__(self, of: Virtual, work: _Work) -> None:
        super().__init__(of.label)
        self._work = work

    def on_page(self, side: int, page: Page, times: Sequence[Punctuation], emit: Emit) -> None:
        """Work on it."""
        self._work.on(page, emit)

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """What holds on all inputs."""
        return Punctuation.common(times)


class Simulation:
    """One run of a case under a strategy."""

    def __init__(self, case: Case, comes: Sequence[Comes], strategy: Strategy) -> None:
        self._comes = sorted(comes)
        self._came = self._counted = 0
        """Pages that have been let in, and that have been counted as waiting."""
        self._start = 0
        self._clock = ManualClock()
        self._numbers = dict.fromkeys(case.streams, -1)
        self._waiting = 0.0
        self._last = ""
        """The operator that ran last."""
        self._readers = Counter(label for of in case.operators for label in of.inputs)
        self.outcome = SimulationOutcome()
        self._executor = Executor(self._clock, settings=EngineSettings(strategy=strategy))
        self._executor.measure_by(lambda: self._clock.now() / 1e6)
        for stream in case.streams:
            self._executor.add(_Source(stream))
        for of in case.operators:
            work = _Work(of, self._readers[of.label], self._clock, self._worked)
            kind = _Union if of.union else _Join if len(of.inputs) > 1 else _Filter
            operator: Operator = kind(of, work)
            self._executor.add(operator, [(label, MAIN) for label in of.inputs])
        self._warm_up(case)
        self._executor.between = self._enter

    def _warm_up(self, case: Case) -> None:
        """S2's preliminary pass over the data: what operators cost and leave is known at the beginning."""
        comes, self._comes = self._comes, [Comes(0, s, 1_000) for s in case.streams for _ in range(8)]
        self._enter()
        self._executor.run_until_idle()
        self._comes, self._came, self._counted = comes, 0, 0
        self.outcome, self._start = SimulationOutcome(), self._clock.now()

    def run(self) -> SimulationOutcome:
        """Until all pages have come and gone."""
        while self._came < len(self._comes):
            self._clock.set(self._start + self._comes[self._came].at)
            self._enter()
            self._executor.run_until_idle()
        return self.outcome

    def _enter(self) -> None:
        """Let in what has come by now: an operator cannot be left in the middle, so some may have come before."""
        self._count()
        for page in self._comes[self._came : self._counted]:
            number = self._numbers[page.stream] = self._numbers[page.stream] + 1
            readers, entered = self._readers[page.stream], self._start + page.at
            self._executor.admit(page.stream, load(page.stream, number, page.rows, entered, readers))
        self._came = self._counted

    def _count(self) -> None:
        """Pages wait from the instant at which they come."""
        now = self._clock.now() - self._start
        while self._counted < len(self._comes) and self._comes[self._counted].at <= now:
            page, self._counted = self._comes[self._counted], self._counted + 1
            self._note(page.at, page.rows)

    def _worked(self, of: Virtual, page: Page, rows: int) -> None:
        self._count()
        self.outcome.runs += 1
        self.outcome.switches += of.label != self._last
        self._last = of.label
        now = self._clock.now()
        all_rows = rows_of(page)
        taken = all_rows / readers_of(page)
        if self._readers[of.label]:
            self._note(now - self._start, rows - taken)
            return
        self._note(now - self._start, -taken)
        self.outcome.latencies.append(now - page.at)
        self.outcome.departed[of.label] = self.outcome.departed.get(of.label, 0) + all_rows

    def _note(self, at: int, change: float) -> None:
        """So many rows more or less wait."""
        self._waiting += change
        if self.outcome.times and self.outcome.times[-1] == at:
            self.outcome.memory[-1] = self._waiting
        else:
            self.outcome.times.append(at)
            self.outcome.memory.append(self._waiting)


def simulate(case: Case, comes: Sequence[Comes], strategy: Strategy) -> SimulationOutcome:
    """Run a case."""
    return Simulation(case, comes, strategy).run()
