"""An operator of two inputs: S3's ordered union, its idle-waiting, and the demand that ends it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from experiments.lab.ordered_union import OrderedUnion
from slackwater.engine.demand import Demand
from slackwater.engine.executor import Executor
from slackwater.engine.queue import Entry, Queue
from slackwater.operators.element import Element
from slackwater.operators.page import Page
from slackwater.progress.clock import ManualClock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, arrow_plan
from slackwater.testing.script import ArrowPages
from slackwater.windows.spec import WindowSpec
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.pages import known_page
from tests.kit.streams import SAMPLE, assert_same_rows, frame
from tests.kit.union import Collect, Internal, sorted_stream, union_of_two

COUNT = {"n": AGGREGATES["n"], "total": AGGREGATES["total"]}
PLAN = arrow_plan(SAMPLE, 10, 4, group_by=["g"], n="count(*)", total="sum(x)")


def page(tick: int, number: int = 0, at: int = 0) -> Page:
    return known_page(frame([[tick, "a", 0, 1.0]]), number, at)


def queue(*elements: Element) -> Queue:
    made = Queue()
    for element in elements:
        made.push(Entry(element, 1))
    return made


def pages_of(end: Collect | ListSink) -> list[int]:
    assert isinstance(end, Collect)
    return [what for _, what in end.log if isinstance(what, int)]


def ordered_union() -> OrderedUnion:
    union = OrderedUnion("u")
    union.pages = ArrowPages()
    return union


# --- the registers (Figures 5 and 6)


def test_union_waits_while_an_input_has_shown_nothing() -> None:
    union = ordered_union()
    inputs = [queue(page(10)), queue()]
    assert not union.has_work(inputs)
    assert union.waits_for_time(inputs) and union.blocking(inputs) == [1]


def test_union_delivers_the_smallest_and_simultaneous_pages_do_not_wait() -> None:
    union, out = ordered_union(), []
    inputs = [queue(page(10, 1), page(10, 2)), queue(page(10, 3))]
    while union.has_work(inputs):
        union.run(inputs, lambda element, port="main": out.append(element.number))
    assert sorted(out) == [1, 2, 3]
    inputs[0].push(Entry(page(10, 4), 1))
    assert union.has_work(inputs), "the register of the empty input still says 10"


def test_a_register_keeps_a_later_page_waiting() -> None:
    union = ordered_union()
    inputs = [queue(page(11)), queue(page(10))]
    assert union.has_work(inputs)
    union.run(inputs, lambda element, port="main": None)
    assert not union.has_work(inputs)


def test_a_punctuation_moves_a_register_and_is_delivered_in_its_turn() -> None:
    union, out = ordered_union(), []
    inputs = [queue(page(10, 1)), queue(Punctuation(Heartbeat(14)))]
    while union.has_work(inputs):
        union.run(inputs, lambda element, port="main": out.append(element))
    assert [e.number for e in out] == [1]
    inputs[0].push(Entry(page(20, 2), 1))
    assert union.has_work(inputs)
    union.run(inputs, lambda element, port="main": out.append(element))
    assert out[-1] == Punctuation(Heartbeat(14))


# --- in the executor


def test_without_an_answer_from_its_source_union_waits_idly() -> None:
    executor = Executor(ManualClock(), pages=ArrowPages())
    end = union_of_two(executor, sorted_stream(), sorted_stream())
    for number in range(5):
        executor.admit("a", page(10 + number, number))
        executor.run_until_idle()
    assert pages_of(end) == []
    assert executor.metrics()["union"]["queued_rows"] == 5
    executor.admit("b", page(12, 100))
    executor.run_until_idle()
    assert pages_of(end) == [0, 1, 2, 100]


def test_a_demand_ends_idle_waiting_at_once() -> None:
    clock, b = ManualClock(), Internal()
    executor = Executor(clock, pages=ArrowPages())
    end = union_of_two(executor, Internal(), b)
    for number in range(5):
        clock.advance(10)
        executor.admit("a", page(clock.now(), number, clock.now()))
        executor.run_until_idle()
        assert pages_of(end) == list(range(number + 1))
        assert executor.metrics()["union"]["queued_rows"] == 0
    assert b.asked >= 5


def test_without_a_journal_a_page_is_safe_only_when_it_waits_no_longer() -> None:
    executor = Executor(ManualClock(), pages=ArrowPages())
    union_of_two(executor, sorted_stream(), sorted_stream())
    tickets = [executor.admit("a", page(tick, number)) for number, tick in enumerate((10, 11, 20))]
    executor.run_until_idle()
    assert [t.done for t in tickets] == [False, False, False]
    executor.admit("b", page(11))
    executor.run_until_idle()
    assert [t.done for t in tickets] == [True, True, False]


def test_only_the_source_of_the_empty_input_is_behind_it() -> None:
    executor = Executor(ManualClock(), pages=ArrowPages())
    union_of_two(executor, sorted_stream(), sorted_stream())
    executor.admit("a", page(10))
    executor.run_until_idle()
    demand = Demand(executor.graph)
    assert [n.label for n in demand.sources()] == ["b"], "the union holds a page of a, and waits for b"
    assert [n.label for n in executor.graph.sources_behind(executor.graph.nodes["end"])] == ["a", "b"]


@st.composite
def two_streams(draw: st.DrawFn) -> list[tuple[str, pl.DataFrame]]:
    """Pages of two sorted streams, in any interleaving."""
    high, pages = {"a": draw(st.integers(-30, 30)), "b": draw(st.integers(-30, 30))}, []
    for _ in range(draw(st.integers(0, 14))):
        name, rows = draw(st.sampled_from(["a", "a", "b"])), []
        for _ in range(draw(st.integers(1, 3))):
            high[name] += draw(st.integers(0, 6))
            rows.append([high[name], draw(st.sampled_from(["x", None])), 0, float(draw(st.integers(-9, 9)))])
        pages.append((name, frame(rows)))
    return pages


@settings(max_examples=80)
@given(two_streams(), st.booleans())
def test_windows_over_a_union_are_exact_and_pages_come_in_order(
    given_pages: list[tuple[str, pl.DataFrame]], at_once: bool
) -> None:
    executor, ordered = Executor(ManualClock(), pages=ArrowPages()), Executor(ManualClock(), pages=ArrowPages())
    sink = union_of_two(executor, sorted_stream(), sorted_stream(), PLAN)
    end = union_of_two(ordered, sorted_stream(), sorted_stream())
    for number, (name, rows) in enumerate(given_pages):
        for each in (executor, ordered):
            each.admit(name, known_page(rows, number))
            if not at_once:
                each.run_until_idle()
    executor.drain()
    ordered.drain()
    assert isinstance(sink, ListSink)
    rows = pl.concat([SAMPLE.clear(), *(r for _, r in given_pages)])
    assert_same_rows(sink.rows, recompute(rows, WindowSpec(10, 4), ["g"], COUNT), ["window_start", "g"])
    assert executor.metrics()["window"]["late_rows"] == 0
    lowest = [given_pages[number][1]["t"].min() for number in pages_of(end)]
    assert lowest == sorted(lowest)
    assert len(lowest) == len(given_pages)


def test_pages_that_wait_for_the_other_input_outlive_a_restart(tmp_path: Path) -> None:
    sink = ListSink()

    def start() -> Executor:
        journal = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)
        executor = Executor(ManualClock(), journal, pages=ArrowPages())
        union_of_two(executor, sorted_stream(), sorted_stream(), PLAN, sink)
        return executor

    executor, tickets = start(), []
    for number in range(4):
        tickets.append(executor.admit("a", page(5 * number, number)))
        executor.run_until_idle()
    assert all(t.done for t in tickets)
    executor = start()
    assert executor.metrics()["union"]["queued_rows"] == 4
    executor.admit("b", page(7, 0))
    executor.drain()
    rows = frame([[t, "a", 0, 1.0] for t in (0, 5, 10, 15, 7)])
    assert_same_rows(sink.rows, recompute(rows, WindowSpec(10, 4), ["g"], COUNT), ["window_start", "g"])
