"""Bounds between streams (S1 section 2): never a late row, and no window waits longer than the bounds imply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.plan.cross_stream import with_bounds
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import StreamNode
from slackwater.progress.bounds.between_streams import read_stream_bounds
from slackwater.progress.bounds.skew import SkewMatrix
from slackwater.progress.clock import ManualClock
from slackwater.progress.disorder import Disorder
from slackwater.progress.silence import with_default_timeout
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.strategy import Ready
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_page
from slackwater.testing.script import ArrowPages
from slackwater.windows.spec import WindowSpec
from tests.kit.arcs import watched_arcs
from tests.kit.emissions import STEADY, World, by_the_rule, worlds
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.streams import SAMPLE, assert_same_rows, finals, frame
from tests.kit.streams_of_samples import A, B, C, plan, union, where, windows

COUNT = {"n": AGGREGATES["n"], "whole": AGGREGATES["whole"]}
#: The stream's own rows promise nothing.
NOTHING = sw.skew([[None]], timeout="never")
SORTED = sw.bounded(0)
#: Longer than any world lasts.
LONG = 10_000


def named(matrix: SkewMatrix) -> SkewMatrix:
    """The same bounds between streams a, b and c; of those that the world does not have, nothing is promised."""
    entries = [[matrix[i, j] if max(i, j) < len(matrix.names) else None for j in range(3)] for i in range(3)]
    return SkewMatrix(entries, [*matrix.latency.tolist(), 0, 0][:3], ["a", "b", "c"])


def played(world: World, script: Script, names: Sequence[str]) -> None:
    """The pages of a world, one for each stream and instant; what the bounds imply must be answered at once."""
    closed, spec, rows = world.matrix.closure(), WindowSpec(2, 2), SAMPLE.clear()
    for now in range(world.end + 8):
        script.advance(now - script.clock.now())
        for source, times in world.arrivals(now).items():
            page = frame([[time + 10, "x", 0, 0.0, 1] for time in times])
            rows = pl.concat([rows, page])
            script.page(page, stream=names[source])
        reached = min(by_the_rule(world, closed, n, now - 1) for n in range(len(names)))
        due = [r["window_start"] for r in recompute(rows, spec, [], COUNT) if r["window_end"] <= reached + 11]
        assert set(due) <= {r["window_start"] for r in script.results}, f"at {now} the bounds imply {reached}"
    script.drain()
    assert_same_rows(finals(script.results), recompute(rows, spec, [], COUNT), ["window_start"])
    assert script.metrics()["q/window"]["late_rows"] == 0


@STEADY
@given(worlds(counted=True))
def test_s1_2_no_row_that_keeps_its_bounds_is_late_and_no_window_waits_longer_than_they_imply(world: World) -> None:
    """The whole matrix, in both directions: sets of pairs, tuple-based pairs, and what follows through others."""
    names, inputs = "abc"[: len(world.latency)], [A, B, C][: len(world.latency)]
    rows = inputs[0] if len(inputs) == 1 else union(*inputs)
    bounds = sw.skew(named(world.matrix), timeout=LONG)
    with watched_arcs():
        played(world, Script(plan(windows(rows, 2, 2), dict.fromkeys("abc", NOTHING), bounds=bounds)), names)


def test_s1_1_temperature_and_pressure_pause_in_turn() -> None:
    """S1's opening example: each sensor sends only what has changed, so one of the two is often silent."""
    bounds = sw.skew({("a", "b"): (2, 5), ("b", "a"): (2, 5)}, latency=1, timeout=LONG)
    script = Script(plan(windows(union(A, B), 10, 10), bounds=bounds))
    for now in range(0, 200):
        script.advance(now - script.clock.now())
        changing = "a" if now // 50 % 2 == 0 else "b"
        script.page(frame([[now]]), stream=changing)
        answered = [r["window_end"] for r in script.results]
        # A reading of τ at c promises τ − 5 of the other sensor, for what comes after c + 2 + 1.
        assert answered == list(range(10, now - 4 - 5 + 2, 10)), now
    assert script.metrics()["q/window"]["late_rows"] == 0
    alone = Script(plan(windows(union(A, B), 10, 10)))
    for now in range(0, 50):
        alone.page(frame([[now]]), stream="a", at=now)
    assert alone.results == [], "without bounds all wait for pressure"


def test_s1_3_4_when_all_streams_pause_the_timeout_counts_the_silence_of_all() -> None:
    bounds = sw.skew({("a", "b"): (0, 5), ("b", "a"): (0, 5)}, timeout=100)
    script = Script(plan(windows(union(A, B), 10, 10), bounds=bounds))
    script.page(frame([[4]]), stream="a", at=0).page(frame([[29]]), stream="b", at=90)
    script.until(150).advance(0)
    assert [r["window_end"] for r in script.results] == [10]
    script.until(189).advance(0)
    assert len(script.results) == 1
    script.until(191).advance(0)
    assert [r["window_end"] for r in script.results] == [10, 30], "all that was seen is all there is"


@pytest.mark.parametrize(
    "bounds",
    [
        sw.skew({("a", "b"): (0, 5), ("b", "a"): (0, 5)}),
        sw.skew({("b", "a"): (0, 5)}),
        sw.skew({(x, y): [(0, 5), (3, 0)] for x in "ab" for y in "ab"}),
    ],
)
def test_s1_3_4_others_do_not_wait_for_bound_streams_that_are_all_silent(bounds: Disorder) -> None:
    """Live streams: a and b carry each other along; while both are silent, c goes on without them."""
    policy, _ = read_stream_bounds(bounds, None, TimeDomain.SEQUENCE, live=True)
    live = {name: with_default_timeout(SORTED) for name in "abc"}
    minute, script = 60_000_000, Script(plan(windows(union(A, B, C), 10, 10), live, bounds=policy))
    answered = []
    for now in range(24):
        script.until(now * minute)
        script.page(frame([[10 * now]]), stream="c", at=now * minute)
        if now == 12:
            script.page(frame([[127]]), stream="b")
        answered.append(len(script.advance(0).results))
    # Never sent: silent since they are read. Then b counts again, and a with it, until both are silent again.
    assert answered == [0] * 10 + [10, 11] + [12] * 10 + [22, 23]
    assert script.metrics()["q/window"]["late_rows"] == 0
    assert [script.metrics()[f"source:{name}"]["idle"] for name in "abc"] == [True, True, False]


def test_theorem_3_3_bounds_that_come_down_to_nothing_need_no_timeout() -> None:
    settled = sw.skew({(x, y): [(0, 5), (3, 0)] for x in "ab" for y in "ab"})
    script = Script(plan(windows(union(A, B), 10, 10), bounds=settled))
    script.page(frame([[9]]), stream="a", at=0).until(4).advance(0)
    assert [r["window_end"] for r in script.results] == [10]


def test_s1_5_2_groups_of_streams_share_a_heartbeat() -> None:
    """The pairs between a and b hold for both, since they are one group: the weakest of theirs."""
    bounds = sw.skew(
        {("a", "c"): (0, 3), ("b", "c"): (0, 9), ("c", "a"): (0, 1), ("c", "b"): (0, 1)},
        groups={"pair": ["a", "b"], "c": ["c"]},
        timeout=LONG,
    )
    script = Script(plan(windows(C, 10, 10), {"c": NOTHING}, bounds=bounds))
    assert script.executor.graph.nodes["source:c"].operator.hears_from == {"source:c"}
    script = Script(plan(windows(union(A, C), 10, 10), {"c": NOTHING, "a": NOTHING}, bounds=bounds))
    script.page(frame([[18]]), stream="a", at=0).page(frame([[11]]), stream="c", at=1).advance(1)
    assert script.metrics()["source:c"]["policies"]["main"]["bounds"]["heartbeat"] == 18 - 9


def test_s1_6_learned_bounds_between_streams() -> None:
    """b is 20 behind a; once that is known, a's rows carry b along while it is silent."""
    types = {"a": NOTHING, "b": NOTHING}
    learned = with_streams(plan(windows(union(A, B), 10, 10), types), sw.learned(unit="1 us", tmax="5 us"), "ab")
    script = Script(learned)
    for now in range(0, 60):
        script.page(frame([[now]]), stream="a", at=2 * now)
        if now < 40:
            script.page(frame([[now - 20 if now >= 20 else 0]]), stream="b", at=2 * now + 1)
    script.advance(1)
    assert [r["window_end"] for r in script.results] == [10, 20, 30]
    assert script.metrics()["source:b"]["policies"]["main"]["bounds"]["exceeded"] > 0, "at first it was taken for 0"


def with_streams(node: PlanNode, policy: Disorder, names: Sequence[str]) -> PlanNode:
    """The same plan with bounds between these streams."""
    if isinstance(node, StreamNode):
        return with_bounds({n: replace(node, name=n) for n in names}, policy, list(names))[node.name]
    return node.over(tuple(with_streams(below, policy, names) for below in node.inputs))


def lagging(**settings: Any) -> Script:
    bounds = sw.skew({("b", "a"): (0, 5)}, timeout="never", **settings)
    return Script(plan(windows(union(A, B), 10, 10), {"a": NOTHING}, bounds=bounds))


def test_the_rows_of_one_stream_close_the_windows_of_both_though_the_other_is_quiet() -> None:
    script = lagging(latency=3)
    script.page(frame([[4], [13]]), stream="b", at=100)
    assert script.executor.wake_at() == 101, "what came now may be followed by a row in this very instant"
    script.until(104).advance(0)
    assert script.results == [], "a may still send 9"
    script.page(frame([[14]]), stream="b", at=110).until(113).advance(0)
    assert script.results == []
    script.until(114).advance(0)
    assert [r["n"] for r in script.results] == [1], "14 - 5 closes it, once the latency has passed"
    assert script.metrics()["source:a"]["policies"]["main"]["bounds"]["heartbeat"] == 9


def test_the_larger_of_the_stream_s_own_heartbeat_and_that_of_the_bounds_counts() -> None:
    bounds = sw.skew({("b", "a"): (0, 5)}, timeout="never")
    script = Script(plan(windows(union(A, B), 10, 10), {"a": sw.bounded(3)}, bounds=bounds))
    script.page(frame([[30]]), stream="a", at=0).page(frame([[12]]), stream="b", at=5).advance(5)
    assert script.metrics()["source:a"]["heartbeat"] == 26, "its own, not 7"
    script.page(frame([[60]]), stream="b", at=20).advance(5)
    assert script.metrics()["source:a"]["heartbeat"] == 55


def test_a_policy_of_a_query_has_the_bounds_too() -> None:
    bounds = sw.skew({("b", "a"): (0, 5)}, timeout="never")
    query = windows(union(A, B), 10, 10, disorder=sw.bounded(7))
    script = Script(plan(query, bounds=bounds))
    script.page(frame([[1]]), stream="a", at=0).page(frame([[27]]), stream="b", at=5).advance(5)
    assert [r["window_end"] for r in script.results] == [10], "b's own promise is 19, a's by the bounds 22"


class Newest(Fifo):
    """What came last goes first."""

    def first(self, ready: Sequence[Ready]) -> Ready:
        return max(ready, key=lambda r: (r.oldest, r.depth))


def test_a_page_that_waits_is_not_behind_what_came_after_it() -> None:
    """The page of a was admitted before the rows of b that would forbid it, and is taken after them."""
    bounds = sw.skew({("b", "a"): (0, 5)}, timeout="never")
    script = Script(plan(windows(union(A, B), 10, 10), {"a": NOTHING}, bounds=bounds), strategy=Newest())
    executor = script.executor
    executor.between = lambda: script.clock.advance(1)
    executor.admit(source_label("a"), arrow_page(frame([[3], [88]]), 0, 0, "t"))
    script.clock.set(20)
    executor.admit(source_label("b"), arrow_page(frame([[90]]), 0, 0, "t"))
    with watched_arcs():
        executor.run_until_idle()
        script.drain()
    assert sum(r["n"] for r in script.results) == 3


def test_what_came_before_a_page_that_waits_is_heard_before_the_page_goes_down() -> None:
    """A stream that is never idle hears of the others all the same."""
    bounds = sw.skew({("b", "a"): (0, 5)}, timeout="never")
    script = Script(plan(windows(union(A, B), 10, 10), {"a": NOTHING}, bounds=bounds))
    executor = script.executor
    script.page(frame([[3]]), stream="a", at=0).page(frame([[40]]), stream="b", at=10)
    script.clock.set(20)
    seen: list[int] = []
    executor.between = lambda: seen.append(script.metrics()["source:a"]["policies"]["main"]["bounds"]["heartbeat"])
    for number, time in ((1, 50), (2, 51)):
        executor.admit(source_label("a"), arrow_page(frame([[time]]), number, 0, "t"))
    executor.run_until_idle()
    assert seen[0] == 35, "b's page of 10 was heard though two pages of a, of 20, were waiting"


def test_nothing_is_promised_where_nobody_waits_or_nobody_reads_the_other_stream() -> None:
    bounds, nothing = sw.skew({("b", "a"): (0, 5)}, timeout="never"), {"a": NOTHING}
    script = Script(plan(windows(where(union(A, B), "i > 100"), 10, 10), nothing, bounds=bounds))
    script.page(frame([[50]]), stream="b", at=10).advance(50)
    assert script.metrics()["source:a"]["heartbeat"] == MIN_TICK
    alone = Script(plan(windows(A, 10, 10), nothing, bounds=bounds))
    alone.page(frame([[3]]), stream="a").advance(1_000)
    assert alone.results == []


def test_another_query_may_read_the_other_stream_and_come_and_go() -> None:
    bounds, nothing = sw.skew({("b", "a"): (0, 5)}, timeout="never"), {"a": NOTHING}
    clock, sinks = ManualClock(), [ListSink(), ListSink(), ListSink()]
    executor = Executor(clock, pages=ArrowPages())
    add_query(executor, "one", plan(windows(A, 10, 10), nothing, bounds=bounds), sinks[0])

    def give(stream: str, number: int, time: int) -> None:
        executor.admit(source_label(stream), arrow_page(frame([[time]]), number, clock.now(), "t"))
        executor.run_until_idle()
        clock.advance(10)
        executor.run_until_idle()

    give("a", 0, 3)
    add_query(executor, "two", plan(windows(B, 10, 10), nothing, bounds=bounds), sinks[1])
    give("b", 0, 20)
    assert [r["window_start"] for r in sinks[0].rows] == [0]
    executor.remove("two")
    add_query(executor, "three", plan(windows(B, 10, 10), nothing, bounds=bounds), sinks[2])
    give("a", 1, 25)
    give("b", 1, 40)
    assert [r["window_start"] for r in sinks[0].rows] == [0, 20]
    executor.remove("one")
    give("b", 2, 60)
    listeners = executor.graph.nodes["source:b"].operator._listeners
    assert list(listeners) == ["source:b"], "nobody else is told any more"


def test_a_restart_keeps_what_the_other_stream_has_promised(tmp_path: Path) -> None:
    bounds = sw.skew({("b", "a"): (0, 5), ("a", "b"): (0, 90)}, latency={"a": 100, "b": 0}, timeout="never")
    clock, sink = ManualClock(), ListSink()

    def started() -> Executor:
        journal = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)
        executor = Executor(clock, journal, pages=ArrowPages())
        add_query(executor, "q", plan(windows(union(A, B), 10, 10), {"a": sw.bounded(2)}, bounds=bounds), sink)
        return executor

    first = started()
    first.admit(source_label("b"), arrow_page(frame([[4], [30]]), 0, 0, "t"))
    first.run_until_idle()
    again = started()
    clock.set(100)
    again.run_until_idle()
    assert sink.rows == []
    clock.set(101)
    again.run_until_idle()
    assert [r["n"] for r in sink.rows] == [1]


@given(st.data())
@STEADY
def test_a_restart_at_any_instant_changes_no_answer(tmp_path_factory: Any, data: st.DataObject) -> None:
    world = data.draw(worlds(counted=True))
    folder, clock, sink = str(tmp_path_factory.mktemp("journal")), ManualClock(), ListSink()
    dies = data.draw(st.sets(st.integers(0, world.end + 1)))
    names, inputs = "abc"[: len(world.latency)], [A, B, C][: len(world.latency)]
    rows = inputs[0] if len(inputs) == 1 else union(*inputs)
    bounds = sw.skew(named(world.matrix), timeout=LONG)
    query = plan(windows(rows, 2, 2), dict.fromkeys("abc", NOTHING), bounds=bounds)

    def started() -> Executor:
        executor = Executor(clock, FileJournal(fs.LocalFileSystem(), folder, sync=False), pages=ArrowPages())
        add_query(executor, "q", query, sink)
        return executor

    script, executor, numbers, given_rows = Script(query), started(), dict.fromkeys(names, 0), SAMPLE.clear()
    for now in range(world.end + 8):
        script.advance(now - script.clock.now())
        clock.set(now)
        executor.run_until_idle()
        for source, times in world.arrivals(now).items():
            name, page = names[source], frame([[time + 10, "x", 0, 0.0, 1] for time in times])
            given_rows = pl.concat([given_rows, page])
            script.page(page, stream=name)
            executor.admit(source_label(name), arrow_page(page, numbers[name], now, "t"))
            numbers[name] += 1
            executor.run_until_idle()
        if now in dies:
            executor = started()
            executor.run_until_idle()
        assert [r["window_end"] for r in sink.rows] == [r["window_end"] for r in script.results]
    executor.drain()
    assert_same_rows(finals(sink.rows), recompute(given_rows, WindowSpec(2, 2), [], COUNT), ["window_start"])
