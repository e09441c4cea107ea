"""Graphs with S3's ordered union for the tests: pages that know their times, and an end that notes what comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.lab.ordered_union import OrderedUnion
from slackwater.engine.executor import Executor
from slackwater.operators.operator import MAIN, Emit, Input, Unary
from slackwater.operators.page import Page
from slackwater.operators.sink import Sink
from slackwater.operators.source import Source
from slackwater.operators.window_aggregate import WindowAggregate
from slackwater.plan.nodes import WindowNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.disorder import Tracker
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import TimeDomain
from slackwater.progress.time_kinds import StampTracker
from slackwater.testing import ListSink


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

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        return self.waits

    def on_page(self, page: Page, emit: Emit) -> None:
        self.log.append((self.label, page.number))
        if self.forward:
            emit(page)

    def on_punctuation(self, time: Punctuation, emit: Emit) -> None:
        self.log.append((self.label, time.heartbeat))

    def output(self, times: Sequence[Punctuation]) -> Punctuation | None:
        return times[0] if self.forward else None


class Internal(StampTracker):
    """Internal timestamps (S3 section 5) that count how often they were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def tick(self, now: int) -> None:
        self.asked += 1
        super().tick(now)


def sorted_stream() -> Tracker:
    """External timestamps of a sorted stream: it promises only what it has shown."""
    return bounded(0).tracker(TimeDomain.SEQUENCE)


def union_of_two(
    executor: Executor, a: Tracker, b: Tracker, plan: WindowNode | None = None, sink: ListSink | None = None
) -> Collect | ListSink:
    """Two sources, a union, and behind it a window query or something that notes the order."""
    executor.add(Source("a", a))
    executor.add(Source("b", b))
    executor.add(OrderedUnion("union"), [("a", MAIN), ("b", MAIN)])
    if plan is None:
        end = Collect("end")
        executor.add(end, [("union", MAIN)])
        return end
    executor.add(WindowAggregate("window", plan, executor.clock), [("union", MAIN)])
    output = ListSink() if sink is None else sink
    executor.add(Sink("sink", output), [("window", MAIN)])
    return output
