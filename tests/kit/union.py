"""Two streams and S3's sorted union over them, and what notes the order in which its elements come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from slackwater.engine.executor import Executor
from slackwater.operators.operator import MAIN, Emit, Input, Unary
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
from slackwater.progress.time import TimeDomain
from slackwater.testing import ArrowPage, ListSink
from slackwater.testing.in_order import InOrder
from slackwater.testing.script import ArrowPages


class KnownPage(ArrowPage):
    """A page that knows its times on arrival; it is ordered among others by its lowest."""

    def __init__(self, rows: pl.DataFrame, number: int, at: int = 0) -> None:
        super().__init__(rows, number, at, "t")
        self._execute()


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
    executor.add(InOrder("union"), [("a", MAIN), ("b", MAIN)])
    if plan is None:
        end = Collect("end")
        executor.add(end, [("union", MAIN)])
        return end
    executor.add(WindowAggregate("window", plan, executor.clock, ArrowPages()), [("union", MAIN)])
    output = ListSink() if sink is None else sink
    executor.add(Sink("sink", output), [("window", MAIN)])
    return output
