"""A two-input operator for the tests: S3's union with its Time-Stamp Memory registers, on pages and punctuation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from slackwater.engine.executor import Executor
from slackwater.operators.element import Element
from slackwater.operators.operator import MAIN, Emit, Input, Operator, State, Unary
from slackwater.operators.page import Page
from slackwater.operators.sink import Sink
from slackwater.operators.source import Source
from slackwater.operators.window_aggregate import WindowAggregate
from slackwater.plan.nodes import WindowNode
from slackwater.progress.arrival import Arrival
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.disorder import Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.testing import ArrowPage, ListSink
from slackwater.testing.script import ArrowPages


class KnownPage(ArrowPage):
    """A page that knows its times on arrival; it is ordered among others by its lowest."""

    def __init__(self, rows: pl.DataFrame, number: int, at: int = 0) -> None:
        super().__init__(rows, number, at, "t")
        self._execute()


def stamp(element: Element) -> int:
    """The lowest time that this element and all behind it on its arc can have."""
    if isinstance(element, Punctuation):
        return element.heartbeat.tick + 1
    arrival = element.arrival()
    assert arrival is not None and arrival.lowest is not None
    return arrival.lowest


class SortedUnion(Operator):
    """Merges two streams that are sorted page by page. It holds time back for as long as one input is behind."""

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._registers = [MIN_TICK] * 2

    def more(self, inputs: Sequence[Input]) -> bool:
        """Figure 5: some input holds an element with the smallest register value."""
        return self._next(inputs) is not None

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        """Figure 6: deliver that element, then remove it from the input."""
        chosen = self._next(inputs)
        assert chosen is not None
        emit(inputs[chosen].pop())

    def _next(self, inputs: Sequence[Input]) -> int | None:
        for n, waiting in enumerate(inputs):
            if len(waiting):
                self._registers[n] = stamp(waiting.peek())
        least = min(self._registers)
        return next((n for n, i in enumerate(inputs) if len(i) and self._registers[n] == least), None)

    def holds(self, inputs: Sequence[Input]) -> bool:
        """Something waits here that may not go on."""
        return any(map(len, inputs)) and not self.more(inputs)

    def blocking(self, inputs: Sequence[Input]) -> list[int]:
        """The empty inputs that are furthest behind."""
        least = min(self._registers)
        return [n for n, i in enumerate(inputs) if not len(i) and self._registers[n] == least]

    def state(self, whole: bool) -> State:
        return State({"registers": self._registers})

    def restore(self, states: Sequence[State]) -> None:
        self._registers = list(states[-1].values["registers"])


class Collect(Unary):
    """Keeps the elements that come, in order, and what it noted of each."""

    def __init__(
        self, label: str, log: list[Any] | None = None, forward: bool = False, waits: bool = False
    ) -> None:
        super().__init__(label)
        self.log: list[Any] = [] if log is None else log
        self.forward = forward
        self.waits = waits
        """Whether it always waits for time to pass."""

    def holds(self, inputs: Sequence[Input]) -> bool:
        return self.waits

    def on_page(self, page: Page, emit: Emit) -> None:
        self.log.append((self.label, page.number))
        if self.forward:
            emit(page)

    def on_punctuation(self, time: Punctuation, emit: Emit) -> None:
        self.log.append((self.label, time.heartbeat))

    def output(self, times: Sequence[Punctuation]) -> Punctuation | None:
        return times[0] if self.forward else None


class Internal(Tracker):
    """Internal timestamps (S3 section 5): rows are stamped with the clock, which is also the answer to a demand."""

    def __init__(self) -> None:
        self._beat = Heartbeat.NONE
        self.asked = 0

    @property
    def heartbeat(self) -> Heartbeat:
        return self._beat

    def arrive(self, arrival: Arrival) -> None:
        self._beat = max(self._beat, Heartbeat(arrival.at - 1))

    def tick(self, now: int) -> None:
        self.asked += 1
        self._beat = max(self._beat, Heartbeat(now - 1))

    def state(self) -> dict[str, Any]:
        return {"heartbeat": self._beat.tick}

    def restore(self, state: dict[str, Any]) -> None:
        self._beat = Heartbeat(state["heartbeat"])


def sorted_stream() -> Tracker:
    """External timestamps of a sorted stream: it promises only what it has shown."""
    return bounded(0).tracker(TimeDomain.SEQUENCE)


def union_of_two(
    executor: Executor, a: Tracker, b: Tracker, plan: WindowNode | None = None, sink: ListSink | None = None
) -> Collect | ListSink:
    """Two sources, a union, and behind it a window query or something that notes the order."""
    executor.add(Source("a", a))
    executor.add(Source("b", b))
    executor.add(SortedUnion("union"), [("a", MAIN), ("b", MAIN)])
    if plan is None:
        end = Collect("end")
        executor.add(end, [("union", MAIN)])
        return end
    executor.add(WindowAggregate("window", plan, executor.clock, ArrowPages()), [("union", MAIN)])
    output = ListSink() if sink is None else sink
    executor.add(Sink("sink", output), [("window", MAIN)])
    return output
