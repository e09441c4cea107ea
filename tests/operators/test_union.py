"""The union: pages pass at once, time is that of the input furthest behind, a prod goes on once."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.engine.build import add_query
from slackwater.engine.executor import Executor
from slackwater.engine.queue import Entry, Queue
from slackwater.operators.backend import PartialsTooLarge
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.operators.stream_union import StreamUnion
from slackwater.operators.window_aggregate import WindowAggregate
from slackwater.progress.bounds.bounded import BoundedTracker, bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.window_losses import WindowLosses
from slackwater.testing import ListSink, Script, arrow_page
from slackwater.testing.script import ArrowPages
from slackwater.windows.spec import WindowSpec
from tests.kit.arcs import watched_arcs
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.streams import assert_same_rows, finals, frame
from tests.kit.streams_of_samples import A, B, C, plan, select, union, where, windows

COUNT = {"n": AGGREGATES["n"], "whole": AGGREGATES["whole"]}
ROW = frame([[5, "a", 0, 1.0, 1, ""]])


def arcs(*elements: list[Any]) -> list[Queue]:
    made = []
    for each in elements:
        queue = Queue()
        for element in each:
            queue.push(Entry(element, 1))
        made.append(queue)
    return made


def sent(operator: StreamUnion, inputs: list[Queue]) -> list[Any]:
    out: list[Any] = []
    while operator.has_work(inputs):
        operator.run(inputs, lambda element, port="main": out.append(element))
    return out


def page(number: int = 0) -> Page:
    return arrow_page(ROW, number, 0, "t")


def beat(tick: int) -> Punctuation:
    return Punctuation(Heartbeat(tick))


# --- the operator


def test_pages_pass_though_the_other_input_has_said_nothing() -> None:
    union, inputs = StreamUnion("u"), arcs([page(1), beat(9), page(2)], [])
    assert [p.number for p in sent(union, inputs)] == [1, 2]
    assert union.output([q.time for q in inputs]) == Punctuation.NONE
    inputs[1].push(Entry(beat(4), 1))
    assert sent(union, inputs) == []
    assert union.output([q.time for q in inputs]) == beat(4)


def test_inputs_take_turns() -> None:
    inputs = arcs([page(n) for n in range(4)], [page(n) for n in range(10, 12)])
    assert [p.number for p in sent(StreamUnion("u"), inputs)] == [0, 10, 1, 11, 2, 3]


def test_a_prod_goes_on_once_when_it_has_come_by_all_and_nothing_overtakes_it() -> None:
    prod, union = Prod(query="q"), StreamUnion("u")
    inputs = arcs([prod, page(2)], [page(1)])
    assert [p.number for p in sent(union, inputs)] == [1], "page 2 came behind the prod"
    inputs[1].push(Entry(prod, 1))
    assert [getattr(e, "number", e) for e in sent(union, inputs)] == [prod, 2]


def test_a_prod_that_one_input_could_not_answer_is_void_for_all() -> None:
    inputs = arcs([Prod(9)], [Prod(9, void=True)])
    assert sent(StreamUnion("u"), inputs) == [Prod(9, void=True)]


def test_time_of_each_source_is_the_least_of_all_inputs() -> None:
    a = Punctuation(Heartbeat(1), SourceHeartbeats(["x", "y"], np.array([9, 3]), 2))
    b = Punctuation(Heartbeat(0), SourceHeartbeats(["y", "z"], np.array([5, 8]), 1))
    both = StreamUnion("u").output([a, b]).sources
    assert both is not None
    assert (both.names, both.ticks.tolist(), both.others) == (["x", "y", "z"], [1, 3, 2], 1)
    whole = StreamUnion("u").output([a, beat(4)]).sources
    assert whole is not None and (whole.ticks.tolist(), whole.others) == ([4, 3], 2)
    same = StreamUnion("u").output([a, a]).sources
    assert same is not None and (same.names, same.ticks.tolist()) == (["x", "y"], [9, 3])


@st.composite
def punctuations(draw: st.DrawFn) -> Punctuation:
    ticks = sorted(draw(st.sets(st.integers(0, 30), min_size=1, max_size=7)))
    ranges = [(low, high) for low, high in zip(ticks[1::2], ticks[2::2], strict=False) if low > ticks[0]]
    return Punctuation(Heartbeat(ticks[0]), None, tuple(ranges))


@given(st.lists(punctuations(), min_size=1, max_size=4))
def test_what_is_promised_behind_a_union_is_promised_on_every_input(times: list[Punctuation]) -> None:
    def promises(time: Punctuation, tick: int) -> bool:
        return tick <= time.heartbeat.tick or any(after < tick <= until for after, until in time.ranges)

    both = StreamUnion("u").output(times)
    for tick in range(-2, 33):
        assert promises(both, tick) == all(promises(time, tick) for time in times)


# --- in a query


def test_windows_over_a_union_close_by_the_stream_that_is_behind() -> None:
    script = Script(plan(windows(union(A, B), 10, 10)))
    script.page(frame([[3], [25]]), stream="a")
    assert script.results == []
    script.page(frame([[1], [12]]), stream="b")
    assert [(r["window_start"], r["n"]) for r in script.results] == [(0, 2)]
    script.drain()
    assert [(r["window_start"], r["n"]) for r in script.results] == [(0, 2), (10, 1), (20, 1)]


def test_a_stream_united_with_itself_counts_twice_and_its_halves_once() -> None:
    twice = Script(plan(windows(union(A, A), 10, 10))).page(frame([[1], [2]]), stream="a").drain()
    assert [r["n"] for r in twice.results] == [4]
    halves = union(where(A, "h >= 1"), where(A, "h < 1"))
    once = Script(plan(windows(halves, 10, 10))).page(frame([[1, "a", 0], [2, "a", 1]]), stream="a").drain()
    assert [r["n"] for r in once.results] == [2]


def test_late_rows_of_a_union_have_its_columns() -> None:
    late = ListSink()
    script = Script(plan(windows(union(A, B), 10, 10)), late=late)
    script.page(frame([[30]]), stream="a").page(frame([[30]]), stream="b").page(
        frame([[2, "x"]]), stream="b"
    ).drain()
    assert [(r["t"], r["g"]) for r in late.rows] == [(2, "x")]
    assert script.metrics()["q/window"]["late_rows"] == 1


def test_results_of_windows_are_united_and_windows_over_them_wait_for_both() -> None:
    both = union(windows(A, 10, 10, "g"), windows(where(B, "h >= 1"), 10, 10, "g"))
    rows = {"a": frame([[1, "x"], [2, "y"], [11, "x"]]), "b": frame([[3, "x", 1], [4, "x", 0], [12, "z", 1]])}
    flat, top = Script(plan(both)), Script(plan(windows(both, 10, 10, most="max(n)", groups="count(*)")))
    with watched_arcs():
        for script in (flat, top):
            for name in ("a", "b"):
                script.page(rows[name], stream=name)
            script.drain()
    counted = sorted((r["window_start"], r["g"], r["n"]) for r in flat.results)
    assert counted == [(0, "x", 1), (0, "x", 1), (0, "y", 1), (10, "x", 1), (10, "z", 1)]
    assert [(r["window_start"], r["groups"]) for r in top.results] == [(0, 3), (10, 2)]


def test_windows_by_source_over_a_union_close_by_the_least_of_each_source() -> None:
    policy = sw.punctuated("i")
    query = plan(windows(union(A, B), 10, 10, "g", n="count(*)"), {"a": policy, "b": policy}, source="g")
    script = Script(query)
    script.page(frame([[1, "x", 0, 0.0, 40], [1, "y", 0, 0.0, 5]]), stream="a")
    script.page(frame([[2, "x", 0, 0.0, 15], [2, "y", 0, 0.0, 40]]), stream="b")
    assert [(r["g"], r["n"]) for r in script.results] == [("x", 2)], "y is at 5 on stream a"
    script.page(frame([[None, "y", 0, 0.0, 20]]), stream="a")
    assert [(r["g"], r["n"]) for r in script.results] == [("x", 2), ("y", 2)]


# --- prods


def test_early_answers_over_a_union_know_all_that_has_come() -> None:
    script = Script(plan(windows(union(A, B, C), 10, 10)))
    script.page(frame([[1]]), stream="a").page(frame([[2], [3]]), stream="b").prod()
    assert [(r["kind"], r["n_seen"]) for r in script.results] == [("early", 3)]


def test_an_early_answer_over_results_of_two_windows_lays_both_side_by_side() -> None:
    both = union(windows(A, 10, 10, "g"), windows(B, 10, 10, "g"))
    script = Script(plan(windows(both, 10, 10, groups="count(*)", most="max(n)")))
    script.page(frame([[1, "x"]]), stream="a").page(frame([[2, "x"], [3, "x"], [4, "y"]]), stream="b")
    script.prod().prod()
    assert [(r["kind"], r["groups"], r["most"]) for r in script.results] == [("early", 3, 2)] * 2
    script.drain()
    assert [(r["groups"], r["most"]) for r in finals(script.results)] == [(3, 2)]


def test_a_window_that_cannot_answer_a_prod_does_not_stop_the_others_from_going_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = WindowAggregate._asked

    def refuses(self: WindowAggregate, prod: Prod) -> Any:
        if self.label == "q/inner1":
            raise PartialsTooLarge("too many")
        return asked(self, prod)

    monkeypatch.setattr(WindowAggregate, "_asked", refuses)
    both = union(windows(A, 10, 10, "g"), windows(B, 10, 10, "g"))
    script = Script(plan(windows(both, 10, 10, groups="count(*)")))
    script.page(frame([[1, "x"]]), stream="a").page(frame([[2, "x"]]), stream="b").prod()
    assert script.results == [], "an answer without the rows of one side would be wrong"
    script.page(frame([[11, "x"]]), stream="a").page(frame([[12, "x"]]), stream="b")
    assert [r["groups"] for r in script.results] == [2], "the prod is gone, and nothing waits behind it"


# --- what goes back to the sources


class Listening(BoundedTracker):
    """Notes what it hears."""

    def __init__(self) -> None:
        super().__init__(0, None)
        self.heard: list[tuple[int, int]] = []

    def hear(self, report: WindowLosses) -> None:
        self.heard.append((report.page, report.all))


def test_a_report_goes_to_the_stream_of_its_page_though_numbers_are_the_same() -> None:
    script = Script(plan(windows(union(A, B), 10, 10)))
    trackers = {name: Listening() for name in "ab"}
    for name, tracker in trackers.items():
        script.executor.graph.nodes[f"source:{name}"].operator._ports["main"].tracker = tracker
    script.page(frame([[1]]), stream="a").page(frame([[2], [3]]), stream="b").page(frame([[4]] * 5), stream="a")
    assert trackers["a"].heard == [(0, 1), (1, 5)]
    assert trackers["b"].heard == [(0, 2)]


def test_each_stream_of_a_union_keeps_its_own_policy_and_loses_its_own_share() -> None:
    policies = {"a": sw.drop_ratio(0.5), "b": bounded(3)}
    script = Script(plan(windows(union(A, B), 10, 10), policies))
    for n in range(40):
        script.page(frame([[10 * n + k % 7] for k in range(5)]), stream="a", at=n)
        script.page(frame([[10 * n + 3]]), stream="b")
    figures = script.metrics()
    assert figures["source:b"]["heartbeat"] == 393 - 3 - 1
    policy = script.executor.graph.nodes["source:a"].operator._ports["main"].tracker
    assert figures["source:a"]["rows"] == 200 and figures["source:b"]["rows"] == 40
    assert policy._stream._queries["q/window"].all_pairs == 200, "only its own rows"


def test_a_page_of_another_stream_with_the_same_number_keeps_nobody_waiting() -> None:
    """A query goes whose page was never worked on; of that number only another stream's page still waits."""
    executor = Executor(ManualClock(), pages=ArrowPages())
    add_query(executor, "gone", plan(windows(A, 10, 10)), ListSink())
    add_query(executor, "stays", plan(windows(union(A, B), 10, 10)), ListSink())
    executor.admit("source:a", arrow_page(frame([[1]]), 0, 0, "t"))
    node = executor.graph.nodes["source:a"]
    executor._cycle.run(node)
    executor.admit("source:b", arrow_page(frame([[1]]), 0, 0, "t"))
    executor._cycle.run(executor.graph.nodes["source:b"])
    for queue in executor.graph.nodes["stays/union0"].inputs[:1]:
        queue.pop()  # as if the page of a had been dropped
    executor.graph.nodes["gone/window"].inputs[0].pop()
    assert executor.graph.pages_behind(node) == set()
    executor.remove("gone")
    assert node.operator._under_way == []


# --- queries that come later, streams that end for now


def test_a_union_that_comes_later_is_told_what_a_quiet_stream_has_said() -> None:
    executor, sink = Executor(ManualClock(), pages=ArrowPages()), ListSink()
    add_query(executor, "first", plan(windows(B, 10, 10)), ListSink())
    executor.admit("source:b", arrow_page(frame([[50]]), 0, 0, "t"))
    executor.run_until_idle()
    add_query(executor, "later", plan(windows(where(union(A, B), "t > 0"), 10, 10)), sink)
    executor.admit("source:a", arrow_page(frame([[5], [45]]), 0, 0, "t"))
    executor.run_until_idle()
    assert [(r["window_start"], r["n"]) for r in sink.rows] == [(0, 1)], "stream b has been at 49 for long"


def test_the_end_for_now_closes_the_windows_of_the_stream_that_is_ahead() -> None:
    executor, sink = Executor(ManualClock(), pages=ArrowPages()), ListSink()
    add_query(executor, "q", plan(windows(union(A, B, C), 10, 5)), sink)
    executor.admit("source:a", arrow_page(frame([[3], [95]]), 0, 0, "t"))
    executor.admit("source:b", arrow_page(frame([[12]]), 0, 0, "t"))
    executor.run_until_idle()
    executor.drain(for_good=False)
    rows = frame([[3], [95], [12]])
    assert_same_rows(finals(sink.rows), recompute(rows, WindowSpec(10, 5), [], COUNT), ["window_start"])


def test_a_window_for_each_row_over_a_union_releases_rows_in_order() -> None:
    script = Script(plan(windows(union(A, B), 10, None, n="count(*)")))
    script.page(frame([[5], [9], [20]]), stream="a").page(frame([[7], [12]]), stream="b")
    assert [r["n"] for r in script.results] == [1, 2, 3], "5, 7, 9; 12 itself may still have company"
    script.drain()
    assert [r["n"] for r in script.results] == [1, 2, 3, 4, 2]


def test_rows_of_a_union_go_to_a_sink_as_they_come() -> None:
    script = Script(plan(where(union(A, B), "h >= 1")))
    script.page(frame([[5, "a", 1], [9, "a", 0]]), stream="b").page(frame([[1, "b", 2]]), stream="a")
    assert [(r["t"], r["g"]) for r in script.results] == [(5, "a"), (1, "b")]


def test_a_wider_type_is_the_type_of_the_union() -> None:
    mixed = union(select(A, g="g", v="i"), select(B, v="x", g="g"))
    script = Script(plan(windows(mixed, 10, 10, "g", total="sum(v)")))
    script.page(frame([[1, "p", 0, 0.25, 3]]), stream="a").page(frame([[2, "p", 0, 0.25, 3]]), stream="b").drain()
    assert [(r["g"], r["total"]) for r in script.results] == [("p", 3.25)]
    assert pl.DataFrame(script.sink.commits[0]).schema["total"] == pl.Float64
