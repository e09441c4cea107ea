"""How long the executor's thread may sleep."""

from __future__ import annotations

import threading

from slackwater.engine.build import add_query
from slackwater.engine.executor import Executor
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ReplayClock, SystemClock
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.script import ArrowPages
from tests.kit.streams import SAMPLE, frame


def test_a_promise_that_is_due_and_that_nobody_waits_for_wakes_nobody_again() -> None:
    """A thread that slept no time would look for ever."""
    clock = ReplayClock()
    executor = Executor(clock, pages=ArrowPages())
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(5, timeout="1 minute"), n="count(*)")
    add_query(executor, "q", plan, ListSink())
    executor.admit("source:s", arrow_page(frame([[9, "a"]]), 0, 0, "t"))
    executor.run_until_idle()
    executor.drain(["source:s"], for_good=False)  # all is closed: nobody waits for the timeout any more
    clock.go(1e9)
    while clock.now() < 61_000_000:
        pass
    executor.run_until_idle()
    assert executor.seconds_to_sleep() is None


def test_a_thread_can_sleep_until_an_instant_that_no_clock_will_see() -> None:
    """Threads wait 292 years at most, and fail where they are told to wait longer."""
    executor = Executor(SystemClock(), pages=ArrowPages())
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(5, timeout="60000 weeks"), n="count(*)")
    add_query(executor, "q", plan, ListSink())
    executor.admit("source:s", arrow_page(frame([[9, "a"]]), 0, 0, "t"))
    executor.run_until_idle()
    sleep = executor.seconds_to_sleep()
    assert sleep is not None
    assert 0 < sleep < threading.TIMEOUT_MAX
