"""The machine's clock: steps forward are followed, a step back stops nothing that waits for time."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater.engine.build import add_query
from slackwater.engine.executor import Executor
from slackwater.engine.settings import QuerySettings
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import SystemClock
from slackwater.progress.time import TimeDomain
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.script import ArrowPages
from tests.kit.streams import SAMPLE, frame

SECOND = 1_000_000
HOUR = 3_600 * SECOND
START = 1_800_000_000 * SECOND


class Machine:
    """A machine's two clocks, in microseconds, moved by hand."""

    def __init__(self) -> None:
        self.wall, self.monotonic = START, 7 * SECOND
        self.clock = SystemClock(lambda: self.wall * 1_000, lambda: self.monotonic * 1_000)

    def work(self, micros: int) -> None:
        """Time passes."""
        self.wall += micros
        self.monotonic += micros


def test_a_step_back_does_not_stop_time() -> None:
    machine = Machine()
    assert machine.clock.now() == START
    machine.wall -= HOUR
    assert machine.clock.now() == START
    machine.work(5 * SECOND)
    assert machine.clock.now() == START + 5 * SECOND
    assert machine.clock.until(START + 6 * SECOND) == 1.0
    assert machine.clock.after(2.0) == START + 7 * SECOND


def test_a_step_forward_is_followed_and_no_step_is_counted_twice() -> None:
    machine = Machine()
    machine.clock.now()
    machine.wall += HOUR  # a suspend, or a clock that was behind
    assert machine.clock.now() == START + HOUR
    machine.wall -= HOUR
    machine.work(SECOND)
    assert machine.clock.now() == START + HOUR + SECOND
    machine.wall += HOUR
    assert machine.clock.now() == START + HOUR + SECOND


@pytest.mark.parametrize("step", [0, -HOUR])
def test_early_answers_and_a_timeout_come_after_a_step_back(step: int) -> None:
    machine, sink = Machine(), ListSink()
    executor = Executor(machine.clock, pages=ArrowPages())
    policy = bounded("5 seconds", timeout="1 minute")
    plan = arrow_plan(
        SAMPLE, "10 seconds", "10 seconds", disorder=policy, domain=TimeDomain.TIMESTAMP, n="count(*)"
    )
    add_query(executor, "q", plan, sink, QuerySettings(early=sw.early(every="20 seconds")))
    rows = frame([[START, "a"], [START + 12 * SECOND, "a"]])
    executor.admit("source:s", arrow_page(rows, 0, machine.clock.now(), "t"))
    executor.run_until_idle()
    machine.wall += step
    for _ in range(2):
        machine.work(20 * SECOND)
        executor.run_until_idle()
    assert {row["kind"] for row in sink.rows} == {"early"}
    machine.work(30 * SECOND)
    executor.run_until_idle()
    assert [row["n"] for row in sink.rows if row["kind"] == "final"] == [1]
