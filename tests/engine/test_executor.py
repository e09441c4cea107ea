"""The executor's cycle: what runs when, when a page is safe, and what an error or a restart leaves.

Strategies and operators here are made for the test; the executor takes them as it takes its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.engine.admission import Ticket
from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.settings import EngineSettings
from slackwater.errors import RunError
from slackwater.operators.backend import LateTimes
from slackwater.operators.operator import MAIN, Emit, Wanted
from slackwater.operators.page import Page
from slackwater.operators.payload import Payload
from slackwater.operators.sink import Sink
from slackwater.operators.source import Source
from slackwater.plan.nodes import WindowNode
from slackwater.plan.steps import Select, Where
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.strategy import Ordered, Ready, Strategy
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_page, arrow_plan
from slackwater.testing.script import ArrowPages
from slackwater.windows.spec import WindowSpec
from tests.kit.faults import Died
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.streams import SAMPLE, Stream, assert_same_rows, bounded_streams, frame
from tests.kit.union import Collect, sorted_stream

COUNT = {"n": AGGREGATES["n"], "total": AGGREGATES["total"]}


def query(slack: int = 0, where: str | None = None) -> WindowNode:
    texts = {name: text for name, (text, _) in COUNT.items()}
    return arrow_plan(SAMPLE, 7, 3, group_by=["g"], where=where, disorder=bounded(slack), **texts)


def page(rows: pl.DataFrame, number: int) -> Page:
    return arrow_page(rows, number, 0, "t")


def files(folder: Path) -> FileJournal:
    return FileJournal(fs.LocalFileSystem(), str(folder), sync=False)


def admit_all(script: Script, pages: Sequence[pl.DataFrame]) -> list[Ticket]:
    return [script.executor.admit(source_label("s"), page(rows, n)) for n, rows in enumerate(pages)]


def assert_exact(sink: ListSink, pages: Sequence[pl.DataFrame]) -> None:
    wanted = recompute(pl.concat([SAMPLE.clear(), *pages]), WindowSpec(7, 3), ["g"], COUNT)
    assert_same_rows(sink.rows, wanted, ["window_start", "g"])


def path_of(executor: Executor, *labels: str) -> list[object]:
    """A source, and behind it operators that note what they run on."""
    log: list[object] = []
    executor.add(Source("source", sorted_stream()))
    for before, label in zip(["source", *labels], labels, strict=False):
        executor.add(Collect(label, log, forward=True), [(before, MAIN)])
    return log


# --- the cycle


def test_fifo_takes_each_page_down_the_whole_path_before_the_next() -> None:
    executor = Executor(ManualClock(), pages=ArrowPages())
    log = path_of(executor, "one", "two")
    for number in range(3):
        executor.admit("source", page(frame([[number]]), number))
    executor.run_until_idle()
    assert [entry for entry in log if isinstance(entry[1], int)] == [
        (label, number) for number in range(3) for label in ("one", "two")
    ]


def test_fifo_goes_forward_as_soon_as_there_is_something_to_take_forward() -> None:
    class Twice(Collect):
        def on_page(self, page: Page, emit: Emit) -> None:
            emit(page)
            emit(page)

    executor, log = Executor(ManualClock(), pages=ArrowPages()), []
    executor.add(Source("source", sorted_stream()))
    executor.add(Twice("twice"), [("source", MAIN)])
    executor.add(Collect("one", log, forward=True), [("twice", MAIN)])
    executor.add(Collect("two", log), [("one", MAIN)])
    executor.admit("source", page(frame([[1]]), 0))
    executor.run_until_idle()
    assert log == [("one", 0), ("two", 0), ("one", 0), ("two", 0)]


def test_a_demand_goes_back_to_the_source_and_its_answer_comes_down_the_path() -> None:
    asked = []

    class Clocked(Source):
        def enable(self, now: int, emit: Emit, wanted: Wanted) -> None:
            asked.append(now)
            if len(asked) == 1:
                emit(Punctuation(Heartbeat(now)))

    clock = ManualClock(42)
    executor = Executor(clock, pages=ArrowPages())
    log: list[object] = []
    executor.add(Clocked("source", sorted_stream()))
    executor.add(Collect("one", log, forward=True), [("source", MAIN)])
    executor.add(Collect("two", log, forward=True, waits=True), [("one", MAIN)])
    executor.run_until_idle()
    assert log == [("one", Heartbeat(42)), ("two", Heartbeat(42))]
    assert asked == [42, 42], "asked again until there is nothing new to say"


def test_the_heartbeat_of_a_page_follows_behind_it() -> None:
    """Nothing ran on the page, so nothing is known of its times; the next page's work tells both."""
    executor = Executor(ManualClock(), pages=ArrowPages())
    script = Script(query())
    script.page(frame([[20, "a"]]))
    assert script.metrics()["source:s"]["heartbeat"] == 19
    log = path_of(executor, "one")
    executor.admit("source", page(frame([[20]]), 0))
    executor.run_until_idle()
    assert log == [("one", 0)]


def test_two_queries_share_a_source() -> None:
    executor, sinks = Executor(ManualClock(), pages=ArrowPages()), [ListSink(), ListSink()]
    add_query(executor, "one", query(), sinks[0])
    add_query(executor, "two", query(where="x > 1"), sinks[1])
    executor.admit("source:s", page(frame([[1, "a", 0, 1.0], [2, "a", 0, 2.0]]), 0))
    executor.drain()
    assert executor.metrics()["source:s"]["pages"] == 1
    assert [sum(row["n"] for row in sink.rows) for sink in sinks] == [4, 2]


def test_an_operator_that_was_taken_out_gets_nothing_more() -> None:
    executor, sinks = Executor(ManualClock(), pages=ArrowPages()), [ListSink(), ListSink()]
    add_query(executor, "one", query(), sinks[0])
    add_query(executor, "two", query(), sinks[1])
    executor.remove("two")
    executor.admit("source:s", page(frame([[1, "a"]]), 0))
    executor.drain()
    assert (len(sinks[0].rows), len(sinks[1].rows)) == (2, 0)


def test_a_label_is_taken_once() -> None:
    executor = Executor(ManualClock(), pages=ArrowPages())
    executor.add(Collect("one"))
    with pytest.raises(RunError, match="already an operator 'one'"):
        executor.add(Collect("one"))


# --- admission


def test_admission_is_apart_from_processing() -> None:
    script = Script(query())
    tickets = admit_all(script, [frame([[n, "a"]]) for n in range(5)])
    assert not any(t.done for t in tickets)
    assert script.metrics()["source:s"]["queued"] == 5
    assert script.results == []
    script.executor.run_until_idle()
    assert all(t.done for t in tickets)
    assert script.metrics()["source:s"]["queued"] == 0


def test_a_ticket_says_when_it_is_done() -> None:
    script, done = Script(query()), []
    for n, ticket in enumerate(admit_all(script, [frame([[n, "a"]]) for n in range(3)])):
        ticket.on_done = lambda n=n: done.append(n)
    script.executor.run_until_idle()
    assert done == [0, 1, 2]


def test_a_page_number_that_was_taken_is_done_at_once() -> None:
    script = Script(query()).page(frame([[1, "a"]]), number=7)
    assert script.executor.consumed("source:s") == 7
    assert script.executor.admit("source:s", page(frame([[1, "a"]]), 7)).done
    assert script.executor.admit("source:s", page(frame([[1, "a"]]), 3)).done
    assert not script.executor.admit("source:s", page(frame([[1, "a"]]), 8)).done


# --- a slow operator with a backlog


class Reluctant(Ordered):
    """Runs one operator only when no other is ready, and dies after some runs of it."""

    def __init__(self, label: str, runs: int = 0) -> None:
        super().__init__(commit_every=1)
        self.label, self.runs = label, runs

    def first(self, ready: Sequence[Ready]) -> Ready:
        others = [r for r in ready if r.label != self.label]
        if others:
            return min(others, key=lambda r: r.oldest)
        if self.runs == 0:
            raise Died
        self.runs -= 1
        return ready[0]


def start(folder: Path, sink: ListSink, strategy: Strategy | None = None, where: str | None = None) -> Script:
    return Script(query(12, where), files(folder), sink, strategy=strategy, commit_every=1)


@settings(max_examples=60)
@given(bounded_streams(most=15), st.integers(0, 6), st.sampled_from([None, "h >= 0"]))
def test_a_backlog_is_safe_at_a_commit_and_revived_by_a_restart(
    tmp_path_factory: pytest.TempPathFactory, stream: Stream, runs: int, where: str | None
) -> None:
    folder, sink = tmp_path_factory.mktemp("journal"), ListSink()
    first = start(folder, sink, Reluctant("q/window", runs), where)
    tickets = admit_all(first, stream.pages)
    try:
        first.executor.run_until_idle()
    except Died:
        assert all(t.done for t in tickets), "each page is in a record, as rows or as panes"
    second = start(folder, sink, where=where)
    assert second.executor.consumed("source:s") == len(stream.pages) - 1
    for number, rows in enumerate(stream.pages):
        second.page(rows, number=number)
    second.drain()
    kept = [p.filter(pl.col("h") >= 0) if where else p for p in stream.pages]
    assert_exact(sink, kept)
    assert second.metrics()["source:s"]["rows"] == stream.rows.height


def test_pages_that_wait_are_saved_once_and_dropped_when_they_are_done(tmp_path: Path) -> None:
    first = start(tmp_path, ListSink(), Reluctant("q/window"))
    admit_all(first, [frame([[n, "a"]]) for n in range(4)])
    with pytest.raises(Died):
        first.executor.run_until_idle()
    second = start(tmp_path, ListSink(), Reluctant("q/window", runs=99))
    assert sum(f["queued_rows"] for f in second.metrics().values()) == 4
    second.executor.run_until_idle()
    assert not any(f["queued"] for f in second.metrics().values())
    assert files(tmp_path).recover().records[-1].queues == {}


def test_after_a_restart_the_backlog_is_older_than_what_comes_now(tmp_path: Path) -> None:
    def begin(strategy: Strategy | None) -> tuple[Executor, list[object]]:
        executor = Executor(ManualClock(), files(tmp_path), ArrowPages(), EngineSettings(strategy or Fifo(1)))
        log: list[object] = []
        for source, label in (("a", "one"), ("b", "two")):
            executor.add(Source(source, sorted_stream()))
            executor.add(Collect(label, log), [(source, MAIN)])
        return executor, log

    executor, _ = begin(Reluctant("one"))
    for number in range(3):
        executor.admit("a", page(frame([[number]]), number))
    with pytest.raises(Died):
        executor.run_until_idle()
    executor, log = begin(None)
    executor.admit("b", page(frame([[0]]), 0))
    executor.run_until_idle()
    assert [entry for entry in log if isinstance(entry[1], int)] == [("one", 0), ("one", 1), ("one", 2), ("two", 0)]


@pytest.mark.parametrize("value", [datetime(2020, 1, 1, tzinfo=UTC), Decimal("1.25"), b"\x00\xff", [1, None]])
def test_a_page_of_any_columns_is_the_same_after_it_was_saved(value: object) -> None:
    rows = frame([[5, "a"], [None, "b"]]).with_columns(pl.Series("v", [value, None]))
    first = page(rows, 3).with_step(Where("g = 'a'"))
    pages = ArrowPages()
    again = Page.from_json(json.loads(json.dumps(pages.write(first).to_json())))
    assert (again.number, pages.rows(again), again.arrival) == (3, 2, pages.arrival(first))
    late = [pages.late(p.with_step(Select((("v", "v"),))), LateTimes(10)) for p in (again, first)]
    assert late[0] is not None and late[1] is not None and pages.payload(late[0]) == pages.payload(late[1])


class Shuffled(Ordered):
    """Picks any of the ready operators, by a row of numbers."""

    def __init__(self, numbers: tuple[int, ...], turn: list[int]) -> None:
        super().__init__()
        self.numbers, self.turn = numbers, turn

    def first(self, ready: Sequence[Ready]) -> Ready:
        self.turn[0] += 1
        return ready[self.numbers[self.turn[0] % len(self.numbers)] % len(ready)]


@settings(max_examples=60)
@given(bounded_streams(most=20), st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_no_strategy_changes_the_results(stream: Stream, numbers: list[int]) -> None:
    script = Script(query(12), strategy=Shuffled(tuple(numbers), [0]))
    tickets = admit_all(script, stream.pages)
    script.drain()
    assert all(t.done for t in tickets)
    assert_exact(script.sink, stream.pages)


# --- errors


PAGES = [frame([[1, "a", 0, 1.0]]), frame([[9, "a", 0, 2.0]]), frame([[25, "b", 0, 3.0]])]


class Full(ListSink):
    """Takes nothing."""

    def write(self, payload: Payload, commit_id: int) -> None:
        raise OSError("no space left")


BROKEN = PAGES[1].drop("x")


def test_an_error_in_an_operator_reaches_the_caller_and_the_page_comes_again(tmp_path: Path) -> None:
    sink = ListSink()
    first = Script(query(), files(tmp_path), sink).page(PAGES[0])
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        first.page(BROKEN)
    second = Script(query(), files(tmp_path), sink)
    assert second.executor.consumed("source:s") == 0
    second.page(PAGES[1]).page(PAGES[2]).drain()
    assert_exact(sink, PAGES)


def test_after_an_error_nothing_is_committed_that_lacks_the_page(tmp_path: Path) -> None:
    """The page that failed has left its arc: what is there now is not what the pages make."""
    sink = ListSink()
    first = Script(query(), files(tmp_path), sink).page(PAGES[0])
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        first.page(BROKEN)
    for attempt in (lambda: first.advance(1), lambda: first.page(PAGES[2]), first.drain, first.executor.commit):
        with pytest.raises(RunError, match=r"has failed: .*x"):
            attempt()
    second = Script(query(), files(tmp_path), sink)
    assert second.executor.consumed("source:s") == 0
    second.page(PAGES[1]).page(PAGES[2]).drain()
    assert_exact(sink, PAGES)


def test_after_an_error_of_a_sink_its_rows_come_with_the_restart(tmp_path: Path) -> None:
    first = Script(query(), files(tmp_path), Full())
    with pytest.raises(RunError, match="no space left"):
        first.page(frame([[1, "a"], [20, "a"]]))
    with pytest.raises(RunError, match=r"has failed: .*no space left"):
        first.drain()
    second = Script(query(), files(tmp_path))
    second.drain()
    assert sum(row["n"] for row in second.results) == 4


def test_queries_that_are_started_again_one_after_another_find_their_answers(tmp_path: Path) -> None:
    first = Executor(ManualClock(), files(tmp_path), pages=ArrowPages())
    add_query(first, "one", query(), Full())
    add_query(first, "two", query(), Full())
    first.admit("source:s", page(frame([[1, "a"], [20, "a"]]), 0))
    with pytest.raises(RunError, match="no space left"):
        first.run_until_idle()
    second, sinks = Executor(ManualClock(), files(tmp_path), pages=ArrowPages()), [ListSink(), ListSink()]
    add_query(second, "one", query(), sinks[0])
    second.run_until_idle()
    for attempt in (second.commit, second.drain, lambda: second.admit("source:s", page(frame([[30, "a"]]), 1))):
        with pytest.raises(RunError, match="holds results for two/sink; start that query again first"):
            attempt()
    add_query(second, "two", query(), sinks[1])
    second.drain()
    assert [sum(row["n"] for row in sink.rows) for sink in sinks] == [4, 4]


def test_rows_may_go_straight_into_a_sink() -> None:
    executor, sink = Executor(ManualClock(), pages=ArrowPages()), ListSink()
    executor.add(Source("source", sorted_stream()))
    executor.add(Sink("sink", sink), [("source", MAIN)])
    executor.admit("source", page(frame([[1]]), 0))
    executor.run_until_idle()
    assert [row["t"] for row in sink.rows] == [1]
