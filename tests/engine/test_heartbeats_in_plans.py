"""Heartbeats in query plans (S1 section 7): what waits before an operator and for whom; nothing waits for ever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.engine.build import add_query
from slackwater.engine.demand import Demand
from slackwater.engine.executor import Executor
from slackwater.engine.queue import Entry, Queue
from slackwater.engine.settings import EngineSettings
from slackwater.operators.operator import Input
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.operators.source import Source
from slackwater.operators.stream_union import StreamUnion
from slackwater.progress.clock import ManualClock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.scheduling.heartbeats import Heartbeats, Plan, StreamLabel, streams_below
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_page
from slackwater.testing.script import ArrowPages
from tests.kit.pages import known_page
from tests.kit.streams import frame
from tests.kit.streams_of_samples import A, B, C, plan, union, where, windows
from tests.kit.union import Collect, sorted_stream

LEVELS = {"operator": sw.operator_level(), "query": sw.papers.query_level(), "memory": sw.memory_aware()}


def page(*times: int | None, number: int = 0) -> Page:
    return arrow_page(frame([[t, "x", 1, 1.0, 1] for t in times]), number, 0, "t")


# --- the queue


def kinds(entries: Any) -> list[Any]:
    return [getattr(e.element, "number", type(e.element).__name__) for e in entries]


def test_a_page_is_held_back_with_what_follows_it_and_prods_pass() -> None:
    queue = Queue(ArrowPages())
    queue.hold_back(True)
    queue.push(Entry(Punctuation(Heartbeat(1)), 0))
    for element in (
        page(3, 5, number=7),
        Punctuation(Heartbeat(3)),
        Prod(),
        page(4, number=8),
        page(None, number=9),
    ):
        queue.push(Entry(element, 0))
    assert [type(e).__name__ for e in queue.elements()] == ["Punctuation", "Prod"]
    assert (len(queue), queue.prods, queue.waiting) == (2, 1, 6)
    queue.present(4)
    assert kinds(queue)[:4] == ["Punctuation", "Prod", "Punctuation", 7] and len(queue) == 3, "5 lies above it"
    queue.present(5)
    assert kinds(queue)[3:] == [7, "Punctuation", 8, 9], "a page without a time waits for none"
    assert len(queue) == 7


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 4)), max_size=9), st.integers(0, 20))
def test_time_is_told_ahead_of_pages_as_far_as_it_lies_below_them(
    elements: list[tuple[bool, int, int]], heartbeat: int
) -> None:
    """Pages whose rows lie above what was said before them, and punctuations, of which some wait behind pages."""
    queue, said = Queue(ArrowPages()), -1
    queue.hold_back(True)
    for n, (is_page, step, width) in enumerate(elements):
        if is_page:
            queue.push(Entry(known_page(frame([[said + 1 + step, "x"], [said + 1 + step + width, "x"]]), n), n))
        else:
            said += step
            queue.push(Entry(Punctuation(Heartbeat(said)), n))
    queue.present(heartbeat)
    told = max((e.heartbeat.tick for e in queue.elements() if isinstance(e, Punctuation)), default=-1)
    lowest = [arrival.lowest for e in queue.held if (arrival := getattr(e.element, "arrival", None))]
    assert all(told < low for low in lowest)
    if any(isinstance(e.element, Punctuation) for e in queue.held):
        first = next(n for n, e in enumerate(queue.held) if isinstance(e.element, Punctuation))
        assert told >= min(queue.held[first].element.heartbeat.tick, *(low - 1 for low in lowest[:first]))  # type: ignore[union-attr]
    ticks = [e.element.heartbeat.tick for e in queue if isinstance(e.element, Punctuation)]
    assert ticks == sorted(ticks), "none goes back"


def test_what_waits_already_is_held_back_too_and_let_go_again() -> None:
    queue = Queue(ArrowPages())
    for element in (page(3, number=7), Prod(), Punctuation(Heartbeat(3))):
        queue.push(Entry(element, 0))
    queue.hold_back(True)
    assert (kinds(queue), len(queue), queue.prods) == (["Prod", 7, "Punctuation"], 1, 1)
    queue.hold_back(False)
    assert (len(queue), queue.prods) == (3, 1)


def test_early_rows_pass_with_their_prod() -> None:
    queue = Queue(ArrowPages())
    queue.hold_back(True)
    early = arrow_page(frame([[9, "x"]]), 1, 0, "t", prod=Prod())
    for element in (page(3), early, Prod()):
        queue.push(Entry(element, 0))
    assert [type(e).__name__ for e in queue.elements()] == ["Page", "Prod"]


# --- the query level


BOTH_STREAMS = windows(union(A, where(B, "h >= 1")), 10, 10, n="count(*)")


def test_at_the_query_level_pages_wait_until_the_slowest_stream_has_come_to_them() -> None:
    script = Script(plan(BOTH_STREAMS), heartbeat_scope=sw.papers.query_level())
    for tick in (1, 7, 12):
        script.page(frame([[tick, "x", 1]]), stream="a")
    figures = script.metrics()
    assert figures["q/union1"]["held"] == 3 and figures["q/window"]["queued"] == 0, "nothing of b has come"
    assert figures["q/union1"]["label"] == ["source:a", "source:b"]
    assert {f["level"] for f in figures.values()} == {"query level"}
    script.page(frame([[8, "x", 1]]), stream="b")
    assert script.metrics()["q/union1"]["held"] == 1 and script.metrics()["q/where0"]["held"] == 1
    assert script.results == []
    script.page(frame([[30, "x", 1]]), stream="b").page(frame([[30, "x", 1]]), stream="a")
    assert [(r["window_start"], r["n"]) for r in script.results] == [(0, 3), (10, 1)]


@pytest.mark.parametrize("level", [sw.papers.query_level(), sw.operator_level(), sw.memory_aware()])
def test_s1_7_1_pages_of_streams_with_sources_never_wait_whatever_the_level(level: Heartbeats) -> None:
    """A row of y below the heartbeat of all is in time for y's own windows (D4); held back it would be late."""
    policies = dict.fromkeys("ab", sw.sensors(0, timeout="never"))
    query = windows(union(A, where(B, "h >= 1")), 10, 10, "g", n="count(*)")
    script = Script(plan(query, policies, source="g"), heartbeat_scope=level)
    for tick in (1, 7, 12):
        script.page(frame([[tick, "x", 1]]), stream="a")
    assert sum(f["held"] for f in script.metrics().values()) == 0
    script.page(frame([[30, "x", 1]]), stream="b").page(frame([[30, "x", 1]]), stream="a")
    script.page(frame([[2, "y", 1]]), stream="a")
    script.drain()
    assert sorted((r["g"], r["window_start"], r["n"]) for r in script.results) == [
        *(("x", 0, 2), ("x", 10, 1), ("x", 30, 2), ("y", 0, 1))
    ]
    assert script.metrics()["q/window"]["late_rows"] == 0


def test_at_the_operator_level_nothing_is_held_back() -> None:
    script = Script(plan(BOTH_STREAMS))
    script.page(frame([[1, "x", 1]]), stream="a")
    assert {(f["level"], f["held"]) for f in script.metrics().values()} == {("operator level", 0)}
    assert script.metrics()["q/window"]["label"] == ["source:a", "source:b"]


def test_a_query_does_not_wait_for_the_streams_of_another_with_which_it_has_a_part_in_common() -> None:
    executor = Executor(ManualClock(), None, ArrowPages(), EngineSettings(heartbeat_scope=sw.papers.query_level()))
    alone, both = ListSink(), ListSink()
    filtered = where(A, "h >= 1")
    add_query(executor, "alone", plan(windows(filtered, 10, 10, n="count(*)")), alone)
    add_query(executor, "both", plan(windows(union(filtered, C), 10, 10, n="count(*)")), both)
    for number, tick in enumerate((1, 15, 40)):
        executor.admit("source:a", page(tick, number=number))
        executor.run_until_idle()
    assert [r["n"] for r in alone.rows] == [1, 1], "40 itself waits for more"
    assert executor.metrics()["alone/where0"]["label"] == ["source:a"]
    assert both.rows == [] and executor.metrics()["both/union1"]["held"] == 2
    executor.drain()
    assert [r["n"] for r in both.rows] == [1, 1, 1]


# --- nothing waits for ever


def test_just_the_streams_that_hold_a_page_back_are_asked() -> None:
    executor = Executor(ManualClock(), None, ArrowPages(), EngineSettings(heartbeat_scope=sw.papers.query_level()))
    for source in "abc":
        executor.add(Source(source, sorted_stream()))
    executor.add(StreamUnion("union"), [(source, "main") for source in "abc"])
    executor.add(Collect("end"), [("union", "main")])
    for source, tick in (("a", 20), ("b", 11), ("c", 50)):
        executor.admit(source, page(tick))
    executor.run_until_idle()
    # Heartbeats are at 19, 10 and 49: each stream has to go on for its own page.
    assert {n.label for n in Demand(executor.graph).sources()} == {"a", "b", "c"}
    executor.admit("a", page(60, number=1))
    executor.admit("c", page(70, number=1))
    executor.run_until_idle()
    assert executor.metrics()["union"]["held"] == 5
    assert {n.label for n in Demand(executor.graph).sources()} == {"b"}, "50 is next on c, 20 on a, 11 on b"


def test_a_silent_stream_is_asked_and_its_timeout_lets_the_pages_of_others_go_on() -> None:
    policies = {"a": sw.bounded(0), "b": sw.bounded(0, timeout="5 seconds")}
    script = Script(plan(BOTH_STREAMS, policies), heartbeat_scope=sw.papers.query_level())
    script.page(frame([[25, "x", 1]]), stream="b")
    for tick in (3, 14, 20):
        script.page(frame([[tick, "x", 1]]), stream="a")
    assert script.metrics()["q/union1"]["held"] == 1, "that of 20, for which a must go on"
    script.page(frame([[25, "x", 1]]), stream="a").page(frame([[26, "x", 1]]), stream="a")
    assert script.metrics()["q/union1"]["held"] == 2, "25 and 26: b has promised 24"
    script.advance(5_000_000)
    assert script.metrics()["q/union1"]["held"] == 1
    assert script.metrics()["q/where0"]["held"] == 0


class Shut(StreamUnion):
    """Takes nothing before a page has come by its first input, and does not look at what waits."""

    opened = False

    def has_work(self, inputs: Sequence[Input]) -> bool:
        self.opened |= any(isinstance(element, Page) for element in inputs[0].elements())
        return self.opened and super().has_work(inputs)


class Given:
    """Labels as they are given; the others are as at the operator level."""

    name: ClassVar[str] = "given"

    def __init__(self, labels: dict[str, StreamLabel]) -> None:
        self._labels = labels

    def labels(self, plan: Plan) -> dict[str, StreamLabel]:
        own = {label: StreamLabel(streams) for label, streams in streams_below(plan).items()}
        return {**own, **{label: of for label, of in self._labels.items() if label in own}}


def test_a_stream_whose_pages_wait_for_those_that_wait_for_it_is_looked_at() -> None:
    """The page of b would be run only behind that of a, which is held back until b has come to it."""
    label = StreamLabel(frozenset({("a", "main"), ("b", "main")}), waits=True)
    executor = Executor(ManualClock(), None, ArrowPages(), EngineSettings(heartbeat_scope=Given({"first": label})))
    for source in "ab":
        executor.add(Source(source, sorted_stream()))
    executor.add(Collect("first", forward=True), [("a", "main")])
    executor.add(Shut("both"), [("first", "main"), ("b", "main")])
    end = Collect("end")
    executor.add(end, [("both", "main")])
    executor.admit("a", page(5))
    executor.admit("a", page(6, number=1))
    executor.admit("b", page(90, number=7))
    executor.run_until_idle()
    assert sorted(what for _, what in end.log if isinstance(what, int)) == [0, 7]
    assert executor.metrics()["both"]["queued"] == 0
    assert executor.metrics()["first"]["held"] == 1, "6, for which a must go on"


def test_without_a_journal_the_sender_of_a_page_that_is_held_back_does_not_wait() -> None:
    """Its next page may be the one that lets the first go on."""
    executor = Executor(ManualClock(), None, ArrowPages(), EngineSettings(heartbeat_scope=sw.papers.query_level()))
    add_query(executor, "q", plan(BOTH_STREAMS), ListSink())
    ticket = executor.admit("source:a", page(5))
    assert not ticket.done
    executor.run_until_idle()
    assert ticket.done and executor.metrics()["q/union1"]["held"] == 1


POLICIES = {
    "bounded": sw.bounded(3),
    "learned": sw.learned(),
    "drop ratio": sw.drop_ratio(0.05),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_time_goes_on_by_each_policy_while_pages_are_held_back(policy: str) -> None:
    """A policy may learn from what windows made of a page; it must not need that of the page that waits for it."""
    of = dict.fromkeys("ab", POLICIES[policy])
    held = {}
    for name, level in LEVELS.items():
        script = Script(plan(windows(union(A, B), 10, 10, n="count(*)"), of), heartbeat_scope=level)
        for number in range(60):
            for stream in "ab":
                script.page(frame([[2 * number + k, "x", 1] for k in (0, 3, 1)]), stream=stream)
        assert len(script.results) >= 8, f"windows close at the {name} level"
        held[name] = script.metrics()["q/union0"]["held"]
        script.drain()
        assert sum(r["n"] for r in script.results) + script.metrics()["q/window"]["late_rows"] >= 360
        assert not any(queue.waiting for _, queue in script.executor.graph.queues())
    assert held["operator"] == held["memory"] == 0 < held["query"]


# --- prods, restarts


def test_an_early_answer_speaks_of_what_has_been_presented() -> None:
    script = Script(plan(BOTH_STREAMS), heartbeat_scope=sw.papers.query_level())
    script.page(frame([[1, "x", 1]]), stream="a").page(frame([[3, "x", 1]]), stream="b")
    script.page(frame([[5, "x", 1]]), stream="a").prod()
    assert [(r["kind"], r["n_seen"]) for r in script.results] == [("early", 1)], "of 1; 3 and 5 wait"
    script.drain()
    assert [(r["kind"], r["n"]) for r in script.results][1:] == [("final", 3)]


def test_pages_that_are_held_back_outlive_a_restart_and_are_held_back_again(tmp_path: Path) -> None:
    sink = ListSink()

    def start() -> Script:
        journal = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)
        return Script(plan(BOTH_STREAMS), journal, sink, heartbeat_scope=sw.papers.query_level())

    script, tickets = start(), []
    for number, tick in enumerate((1, 7, 12)):
        tickets.append(script.executor.admit("source:a", page(tick, number=number)))
        script.executor.run_until_idle()
    assert all(ticket.done for ticket in tickets), "the journal has them"
    script = start()
    script.executor.run_until_idle()
    assert script.metrics()["q/union1"]["held"] == 3
    script.page(frame([[8, "x", 1]]), stream="b")
    assert script.metrics()["q/union1"]["held"] == 1
    script.drain()
    assert [(r["window_start"], r["n"]) for r in sink.rows] == [(0, 3), (10, 1)]


def test_a_journal_may_be_continued_at_another_level(tmp_path: Path) -> None:
    sink = ListSink()
    for n, level in enumerate((sw.papers.query_level(), sw.operator_level(), sw.papers.query_level())):
        journal = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)
        script = Script(plan(BOTH_STREAMS), journal, sink, heartbeat_scope=level)
        script.page(frame([[n, "x", 1]]), stream="a")
        assert script.metrics()["q/union1"]["held"] == (0 if n == 1 else 1)
    script.drain()
    assert [(r["window_start"], r["n"]) for r in sink.rows] == [(0, 3)]


# --- memory
