"""The executor's thread: events and conditions say when something has happened, nothing sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyarrow import fs

from slackwater.engine.build import add_query
from slackwater.engine.executor import Executor
from slackwater.engine.loop import Loop
from slackwater.engine.settings import EngineSettings
from slackwater.errors import RunError
from slackwater.operators.operator import MAIN, Emit, Input, Operator, Unary
from slackwater.operators.page import Page
from slackwater.operators.payload import Payload
from slackwater.operators.prod import Prod
from slackwater.operators.source import Source
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock, ReplayClock
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.strategy import Ordered, Ready, Strategy
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_page, arrow_plan
from slackwater.testing.script import ArrowPages
from tests.kit.faults import Died
from tests.kit.streams import SAMPLE, frame
from tests.kit.union import sorted_stream

PATIENCE = 20.0
"""Seconds after which a test gives up on what should happen at once."""


class Gate(Unary):
    """Holds the thread at a page until it is opened, or fails there."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__("gate")
        self.reached, self.opened = threading.Event(), threading.Event()
        self.error = error
        self.threads: set[str] = set()

    def on_page(self, page: Page, emit: Emit) -> None:
        self.threads.add(threading.current_thread().name)
        self.reached.set()
        assert self.opened.wait(PATIENCE)
        if self.error is not None:
            raise self.error


class Hoard(Operator):
    """Never takes what comes."""

    def __init__(self) -> None:
        super().__init__("hoard")
        self.seen = threading.Event()

    def has_work(self, inputs: Sequence[Input]) -> bool:
        if len(inputs[0]):
            self.seen.set()
        return False

    def run(self, inputs: Sequence[Input], emit: Emit) -> None:
        raise AssertionError


class Told(ListSink):
    """Says when it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, payload: Payload, commit_id: int) -> None:
        super().write(payload, commit_id)
        self.written.set()


@pytest.fixture
def loops() -> Iterator[Callable[..., Loop]]:
    """Makes loops, and stops them at the end."""
    made: list[Loop] = []

    def make(*operators: Operator, executor: Executor | None = None, held: bool = False) -> Loop:
        loop = Loop(executor or Executor(ManualClock(), pages=ArrowPages()), held)
        made.append(loop)
        if operators:
            loop.call(lambda: loop.executor.add(Source("source", sorted_stream())))
            for operator in operators:
                loop.call(lambda operator=operator: loop.executor.add(operator, [("source", MAIN)]))
        return loop

    yield make
    for loop in made:
        loop.stop()


@pytest.fixture
def apart() -> Iterator[Callable[..., Future[Any]]]:
    """Calls something in another thread."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


def page(tick: int, number: int = 0) -> Page:
    return arrow_page(frame([[tick, "a"]]), number, 0, "t")


def test_a_call_is_done_by_the_loops_thread_and_gives_its_value(loops: Callable[..., Loop]) -> None:
    loop = loops()
    assert loop.call(lambda: threading.current_thread().name) == "slackwater-executor"


def test_an_error_of_a_call_goes_to_its_caller_and_the_loop_goes_on(loops: Callable[..., Loop]) -> None:
    loop = loops()
    with pytest.raises(ZeroDivisionError):
        loop.call(lambda: 1 // 0)
    assert loop.call(lambda: 42) == 42
    assert loop.error is None


def test_admit_waits_until_the_page_is_safe(loops: Callable[..., Loop], apart: Callable[..., Future[Any]]) -> None:
    gate = Gate()
    loop = loops(gate)
    admitted = apart(loop.admit, [("source", page(1))])
    assert gate.reached.wait(PATIENCE)
    assert not admitted.done()
    gate.opened.set()
    admitted.result(PATIENCE)
    assert gate.threads == {"slackwater-executor"}


def test_admit_of_a_page_that_was_taken_returns_at_once(loops: Callable[..., Loop]) -> None:
    gate = Gate()
    gate.opened.set()
    loop = loops(gate)
    loop.admit([("source", page(1, 5))])
    gate.opened.clear()
    loop.admit([("source", page(1, 5))])
    loop.admit([("source", page(1, 4))])


def test_admit_to_an_unknown_source_is_the_callers_error_alone(loops: Callable[..., Loop]) -> None:
    loop = loops()
    with pytest.raises(RunError, match="no query reads nowhere"):
        loop.admit([("nowhere", page(1))])
    assert loop.call(lambda: 42) == 42


def test_an_operators_error_reaches_all_who_wait_and_all_who_come_later(
    loops: Callable[..., Loop], apart: Callable[..., Future[Any]]
) -> None:
    hoard, gate = Hoard(), Gate(ZeroDivisionError("an operator failed"))
    loop = loops(hoard, gate)
    first = apart(loop.admit, [("source", page(1, 0))])
    assert gate.reached.wait(PATIENCE)
    second = apart(loop.call, lambda: 42)
    gate.opened.set()
    with pytest.raises(ZeroDivisionError, match="an operator failed"):
        first.result(PATIENCE)
    # The second came before the failure or after it; it never hangs, and never gets an answer.
    with pytest.raises((ZeroDivisionError, RunError), match="an operator failed"):
        second.result(PATIENCE)
    with pytest.raises(RunError, match="the session has failed: an operator failed"):
        loop.admit([("source", page(2, 1))])
    assert isinstance(loop.error, ZeroDivisionError)


def test_stop_ends_the_thread_and_says_so_to_all_who_wait(
    loops: Callable[..., Loop], apart: Callable[..., Future[Any]]
) -> None:
    hoard = Hoard()
    loop = loops(hoard)
    waiting = apart(loop.admit, [("source", page(1))])
    assert hoard.seen.wait(PATIENCE)
    loop.stop()
    assert not loop._thread.is_alive()
    with pytest.raises(RunError, match="the session has been stopped"):
        waiting.result(PATIENCE)
    with pytest.raises(RunError, match="the session has been stopped"):
        loop.call(lambda: 42)
    assert loop.error is None
    loop.stop()


def test_the_loop_may_be_stopped_from_its_own_thread(loops: Callable[..., Loop]) -> None:
    loop = loops()
    loop.call(loop.stop)
    loop._thread.join(PATIENCE)
    assert not loop._thread.is_alive()


def test_a_call_from_the_loops_own_thread_is_an_error_and_does_not_wait_for_itself(
    loops: Callable[..., Loop],
) -> None:
    loop = loops()
    for ask in (loop.call, loop.interrupt):
        with pytest.raises(RunError, match=r"called from a sink.*give back sw\.prod"):
            loop.call(lambda ask=ask: ask(lambda: 42))
    with pytest.raises(RunError, match="called from a sink"):
        loop.call(lambda: loop.offer("source", page(1)))
    assert loop.call(lambda: 42) == 42


def test_a_timeout_closes_the_last_windows_without_anyone_calling(loops: Callable[..., Loop]) -> None:
    clock, sink = ReplayClock(), Told()
    loop = loops(executor=Executor(clock, pages=ArrowPages()))
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(5, timeout="1 minute"), n="count(*)")
    loop.call(lambda: add_query(loop.executor, "q", plan, sink))
    loop.admit([("source:s", page(9))])
    assert loop.call(lambda: sink.rows) == []
    clock.go(1e6)
    loop.call(lambda: None)  # it sleeps, as the clock stood
    assert sink.written.wait(PATIENCE)
    assert [(row["window_start"], row["n"]) for row in sink.rows] == [(0, 1)]


def test_a_timeout_that_is_far_does_not_hold_up_a_call(loops: Callable[..., Loop]) -> None:
    loop = loops(executor=Executor(ManualClock(), pages=ArrowPages()))
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(5, timeout="1 day"), n="count(*)")
    loop.call(lambda: add_query(loop.executor, "q", plan, ListSink()))
    loop.admit([("source:s", page(9))])
    assert loop.call(loop.executor.wake_at) == 86_400_000_000


def test_work_that_failed_inside_a_call_ends_the_session_and_is_not_committed(
    loops: Callable[..., Loop], tmp_path: Path
) -> None:
    """`drain` and `run_until_idle` are called like anything else; half of a step must not become durable."""

    def files() -> FileJournal:
        return FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)

    plan, sink = arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)", total="sum(x)"), ListSink()
    loop = loops(executor=Executor(ManualClock(), files(), pages=ArrowPages()))
    loop.call(lambda: add_query(loop.executor, "q", plan, sink))
    loop.admit([("source:s", page(1, 0))])

    def broken() -> None:
        loop.executor.admit("source:s", arrow_page(frame([[2, "a"]]).drop("x"), 1, 0, "t"))
        loop.executor.drain()

    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        loop.call(broken)
    loop._thread.join(PATIENCE)
    with pytest.raises(RunError, match="the session has failed"):
        loop.call(lambda: 42)
    again = Script(plan, files(), sink)
    assert again.executor.consumed("source:s") == 0
    again.page(frame([[2, "a"]])).drain()
    assert [row["n"] for row in sink.rows] == [2]


def test_queries_are_started_again_one_call_after_another(loops: Callable[..., Loop], tmp_path: Path) -> None:
    class Full(ListSink):
        def write(self, payload: Payload, commit_id: int) -> None:
            raise OSError("no space left")

    def executor() -> Executor:
        return Executor(
            ManualClock(), FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False), pages=ArrowPages()
        )

    plan, sinks = arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)"), [ListSink(), ListSink()]
    loop = loops(executor=executor())
    for name in ("one", "two"):
        loop.call(lambda name=name: add_query(loop.executor, name, plan, Full()))
    with pytest.raises(RunError, match="no space left"):
        loop.admit([("source:s", arrow_page(frame([[1, "a"], [20, "a"]]), 0, 0, "t"))])
    again = loops(executor=executor())
    for name, sink in zip(("one", "two"), sinks, strict=True):
        again.call(lambda name=name, sink=sink: add_query(again.executor, name, plan, sink))
    again.call(again.executor.drain)
    assert [[row["n"] for row in sink.rows] for sink in sinks] == [[1, 1], [1, 1]]


class OnlyTheSource(Ordered):
    """Runs the source, then the process ends; the first commit finds pages that still wait there."""

    def first(self, ready: Sequence[Ready]) -> Ready:
        if ready[0].label != "source:s":
            raise Died
        return ready[0]


def test_a_held_loop_runs_nothing_until_all_queries_are_there(loops: Callable[..., Loop], tmp_path: Path) -> None:
    """Pages that were acknowledged while they waited at a source go to every query that reads it."""
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)")

    def executor(strategy: Strategy | None = None) -> Executor:
        journal = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)
        return Executor(ManualClock(), journal, ArrowPages(), EngineSettings(strategy or Fifo(1)))

    first = executor(OnlyTheSource(commit_every=1))
    for name in ("one", "two"):
        add_query(first, name, plan, ListSink())
    tickets = [first.admit("source:s", page(tick, tick)) for tick in (1, 2, 3)]
    with pytest.raises(Died):
        first.run_until_idle()
    assert all(t.done for t in tickets)

    loop, sinks = loops(executor=executor(), held=True), [ListSink(), ListSink()]
    for name, sink in zip(("one", "two"), sinks, strict=True):
        loop.call(lambda name=name, sink=sink: add_query(loop.executor, name, plan, sink))
        assert loop.call(loop.executor.metrics)["source:s"]["queued"] > 0
    loop.release()
    loop.call(loop.executor.drain)
    assert [[row["n"] for row in sink.rows] for sink in sinks] == [[3], [3]]


def test_a_held_loop_begins_when_it_is_released(
    loops: Callable[..., Loop], apart: Callable[..., Future[Any]]
) -> None:
    gate = Gate()
    gate.opened.set()
    loop = loops(gate, held=True)
    admitted = apart(loop.admit, [("source", page(1))])
    loop.release()
    admitted.result(PATIENCE)
    assert gate.reached.is_set()


def test_a_paused_loop_lets_pages_in_and_runs_none_until_it_goes_on(
    loops: Callable[..., Loop], apart: Callable[..., Future[Any]]
) -> None:
    gate = Gate()
    gate.opened.set()
    loop = loops(gate)
    loop.set_paused(True)
    safe = loop.offer("source", page(1))
    later = apart(loop.call, lambda: 42)
    assert loop.interrupt(lambda: loop.executor.metrics()["source"]["queued"]) == 1
    assert not gate.reached.is_set() and not safe.done() and not later.done()
    loop.set_paused(False)
    safe.result(PATIENCE)
    assert later.result(PATIENCE) == 42 and gate.reached.is_set()


def test_a_drain_that_is_paused_in_its_middle_ends_only_after_it_has_closed_all(
    apart: Callable[..., Future[Any]],
) -> None:
    gate, sink = Gate(), ListSink()
    script = Script(arrow_plan(SAMPLE, range=10, slide=10, n="count(*)"), sink=sink)
    script.executor.add(gate, [("source:s", MAIN)], "q")
    loop = Loop(script.executor)
    try:
        loop.offer("source:s", page(1))
        drained = apart(loop.call, lambda: loop.executor.drain())
        assert gate.reached.wait(PATIENCE)
        paused = apart(loop.set_paused, True)
        gate.opened.set()
        paused.result(PATIENCE)
        assert not drained.done() and not sink.rows
        loop.set_paused(False)
        drained.result(PATIENCE)
        assert [row["n"] for row in sink.rows] == [1]
    finally:
        loop.stop()


def test_a_paused_loop_answers_prods_and_can_be_stopped() -> None:
    sink = ListSink()
    script = Script(arrow_plan(SAMPLE, range=10, slide=10, n="count(*)"), sink=sink)
    loop = Loop(script.executor)
    loop.admit([("source:s", page(1))])
    loop.set_paused(True)

    def ask() -> None:
        loop.executor.prod(Prod(query="q"))
        loop.executor.answer_prods()

    loop.interrupt(ask)
    assert [(row["kind"], row["n_seen"]) for row in sink.rows] == [("early", 1)]
    loop.stop()
    assert not loop._thread.is_alive()
