"""S1 sections 1 and 3.4, progress: no row waits for ever, whatever stream falls silent, or never speaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.plan import logical as L
from slackwater.plan.explain import explain_plan
from slackwater.progress.clock import ManualClock
from slackwater.progress.disorder import Disorder
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.policies import POLICIES
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.silence import with_default_timeout
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.sql.parse import parse
from slackwater.sql.policies import policy_sql
from slackwater.sql.scope import Scope
from slackwater.testing import ListSink, Script, StreamSpec, arrow_page
from slackwater.testing.pages import ArrowPages
from tests.kit.arcs import watched_arcs
from tests.kit.joins import alive, join, join_of, renamed, rows_of
from tests.kit.quiet_streams import BOUNDS, STEPS, Quiet, go_on
from tests.kit.streams import SAMPLE, frame
from tests.kit.streams_of_samples import A, B, C, plan, select, union, windows

MINUTE = 60_000_000
SCHEMA = pa.schema([("t", pa.int64()), ("g", pa.string())])
COUNT = "SELECT COUNT(*) AS n FROM a [RANGE 10, SLIDE 10]"


def silent_for(ticks: int) -> Disorder:
    return sw.bounded(0, timeout=f"{ticks} microseconds")


def beat(tick: int, idle: bool = False) -> Punctuation:
    return Punctuation(Heartbeat(tick), idle=idle)


# --- the timeout of a live stream


def test_the_last_windows_of_a_live_stream_close_though_its_user_names_no_timeout() -> None:
    script = Script.from_sql(COUNT, {"a": StreamSpec(SCHEMA, sw.bounded(20), live=True)})
    script.page([{"t": 1}, {"t": 19}, {"t": 25}])
    assert script.until(10 * MINUTE - 1).advance(0).results == []
    assert script.until(10 * MINUTE).advance(0).metrics()["source:a"]["heartbeat"] == 25
    assert [row["n"] for row in script.results] == [1, 1], "a row at 26 may still come, none up to 25"


def test_a_user_may_wait_for_ever_by_saying_so() -> None:
    script = Script.from_sql(COUNT, {"a": StreamSpec(SCHEMA, sw.bounded(20, timeout="never"), live=True)})
    assert script.page([{"t": 1}, {"t": 25}]).until(10_000 * MINUTE).advance(0).results == []
    assert "disorder bounded(20, timeout='never')" in explain_plan(script.plan)


def test_explain_shows_the_default_timeout_of_the_stream_and_of_a_policy_of_the_query() -> None:
    spec = {"a": StreamSpec(SCHEMA, sw.bounded(20), live=True)}
    assert "disorder bounded(20, timeout='10 minutes')" in explain_plan(Script.from_sql(COUNT, spec).plan)
    own = Script.from_sql(COUNT.replace("SLIDE 10]", "SLIDE 10, DISORDER BOUNDED 5]"), spec)
    assert "disorder bounded(5, timeout='10 minutes')" in explain_plan(own.plan)
    same = Script.from_sql(COUNT.replace("SLIDE 10]", "SLIDE 10, DISORDER BOUNDED 20]"), spec)
    assert list(same.executor.graph.nodes["source:a"].outputs) == ["main"], "equal policies are computed once"


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (sw.bounded(5), "bounded(5, timeout='10 minutes')"),
        (sw.bounded(5, timeout="1 minute"), "bounded(5, timeout='1 minute')"),
        (sw.bounded("5 seconds", idle="1 minute"), "bounded('5 seconds', idle='1 minute')"),
        (sw.drop_ratio(0.01), "drop_ratio(0.01, timeout='10 minutes')"),
        (sw.punctuated("upto"), "punctuated('upto', timeout='10 minutes')"),
        (sw.papers.max_delay(), "max_delay(timeout='10 minutes')"),
        (sw.papers.disorder_control(0.01), "disorder_control(dratio='1%', timeout='10 minutes')"),
        # Theorem 3.3: these bounds let no row wait.
        (sw.papers.global_counter(("100 ms", "2 seconds")), None),
        (sw.skew([[(0, 0)]]), None),
        (sw.internal(), None),
    ],
)
def test_a_policy_has_a_timeout_or_its_bounds_guarantee_progress(policy: Disorder, text: str | None) -> None:
    assert with_default_timeout(policy).describe() == (policy.describe() if text is None else text)


@pytest.mark.parametrize(
    "policy",
    [
        sw.bounded(5, timeout="never"),
        sw.drop_ratio(0.01, timeout="never"),
        sw.punctuated("upto", timeout="never"),
        sw.papers.disorder_control(0.01, timeout="never"),
        sw.papers.max_delay(timeout="never"),
        sw.skew([[(0, 5)]], timeout="never"),
    ],
)
def test_never_is_kept_in_python_and_in_sql(policy: Disorder) -> None:
    assert with_default_timeout(policy) == policy
    assert "timeout='never'" in policy.describe()
    read = parse(COUNT.replace("SLIDE 10]", f"SLIDE 10, DISORDER {policy_sql(policy)}]"), Scope(frozenset("a")))
    window: Any = read.statements[0]
    assert window.query.window.disorder == policy


def test_every_policy_that_users_can_name_either_shows_a_timeout_or_needs_none() -> None:
    assert {p.gives for p in POLICIES if "timeout" in p.options} >= {
        "Bounded",
        "DropRatio",
        "Learned",
        "Punctuated",
    }


# --- idle inputs


def test_idle_arcs_do_not_count_as_long_as_another_one_goes_on() -> None:
    assert Punctuation.common([beat(3, idle=True), beat(9), beat(12)]) == beat(9)
    assert Punctuation.common([beat(3, idle=True), beat(8, idle=True)]) == beat(8, idle=True)
    assert Punctuation.common([beat(3, idle=True), Punctuation.END]) == beat(3, idle=True), "it may come back"
    assert Punctuation.load(beat(3, idle=True).saved()) == beat(3, idle=True)


def test_a_union_does_not_wait_for_a_stream_that_never_sends() -> None:
    policies = {"a": sw.bounded(0), "b": silent_for(50)}
    script = Script(plan(windows(union(A, B), 10, 10), policies))
    with watched_arcs():
        script.page(frame([[5], [31]]), stream="a")
        assert script.until(49).advance(0).results == []
        script.until(50).advance(0)
        assert [row["window_start"] for row in script.results] == [0]
        script.page(frame([[47]]), stream="a")
        assert [row["window_start"] for row in script.results] == [0, 30]
    assert script.metrics()["source:b"]["idle"] and not script.metrics()["source:a"]["idle"]


@pytest.mark.parametrize("sends", [True, False])
@pytest.mark.parametrize(
    "policy",
    [
        sw.bounded(3),
        sw.drop_ratio(0.01),
        sw.learned(),
        sw.punctuated("g"),
        sw.papers.disorder_control(0.01),
        sw.skew([[(0, 5)]], timeout="10 minutes"),
        # Theorem 3.3: their own rows never wait.
        sw.skew([[("2 minutes", 0)]]),
        sw.sensors(3, rate=(5, "1 second")),
        sw.papers.global_counter(("1 second", "1 minute")),
    ],
)
def test_s1_1_no_policy_of_a_live_stream_lets_the_rows_of_others_wait_for_ever(
    policy: Disorder, sends: bool
) -> None:
    policies = {"a": sw.bounded(0), "b": with_default_timeout(policy)}
    script = Script(plan(windows(union(A, B), 10, 10), policies))
    with watched_arcs():
        if sends:
            script.page(frame([[2]]), stream="b")
        for minute in range(14):
            script.until(minute * MINUTE)
            script.page(frame([[10 * minute]]), stream="a", at=minute * MINUTE)
            if minute in (9, 10):
                script.advance(0)
                expected = [] if minute < 10 else list(range(0, 100, 10))
                assert [row["window_start"] for row in script.results] == expected
    assert script.metrics()["source:b"]["idle"]
    assert script.metrics()["q/window"]["late_rows"] == 0


def test_s1_1_a_stream_is_not_idle_while_its_bounds_still_promise_something() -> None:
    slow = with_default_timeout(sw.skew([[("1 hour", 0)]], latency="5 minutes"))
    script = Script(plan(windows(union(A, B), 10, 10), {"a": sw.bounded(0), "b": slow}))
    script.page(frame([[12]]), stream="b").page(frame([[95]]), stream="a")
    assert script.until(65 * MINUTE - 1).advance(0).results == []
    script.page(frame([[8]]), stream="b")
    assert script.metrics()["q/window"]["late_rows"] == 0, "within an hour and five minutes any row may come"
    assert script.until(65 * MINUTE).advance(0).results == [], "that row ended the silence"


def test_idle_counts_from_the_start_for_a_stream_that_never_sends() -> None:
    policies = {"a": sw.bounded("0 seconds"), "b": sw.bounded("0 seconds", idle="8 seconds")}
    query = windows(union(A, B), "1 second", "1 second")
    script = Script(plan(query, policies, domain=TimeDomain.TIMESTAMP))
    script.page(frame([[1_000_000], [90_000_000]]), stream="a")
    assert script.until(7_999_999).advance(0).results == []
    assert [row["n"] for row in script.until(8_000_000).advance(0).results] == [1]


def test_a_stream_that_comes_back_counts_again_and_no_heartbeat_goes_back() -> None:
    policies = {"a": sw.bounded(0), "b": silent_for(50), "c": sw.bounded(0)}
    script = Script(plan(windows(union(A, B), 10, 10), policies))
    with watched_arcs():
        script.page(frame([[2]]), stream="b")
        script.page(frame([[5], [31]]), stream="a").until(60).advance(0)
        assert [row["n"] for row in script.results] == [2]
        script.page(frame([[32]]), stream="b").page(frame([[95]]), stream="a")
        assert [row["n"] for row in script.results] == [2], "b is at 32 and counts"
        script.page(frame([[40]]), stream="b")
        assert [row["n"] for row in script.results] == [2, 2]
    assert script.metrics()["q/window"]["late_rows"] == 0
    script.page(frame([[3]]), stream="b")
    assert script.metrics()["q/window"]["late_rows"] == 1, "its window has been answered"


def test_when_all_streams_are_silent_time_is_that_of_the_last_row_of_all() -> None:
    script = Script(
        plan(windows(union(A, B, C), 10, 10), {n: sw.bounded(30, timeout="50 microseconds") for n in "abc"})
    )
    for name, time in (("a", 5), ("b", 12), ("c", 29)):
        script.page(frame([[time]]), stream=name)
    script.until(60).advance(0)
    assert [row["window_start"] for row in script.results] == [0, 10, 20], "S1 3.4: no later row is at or below 29"


@pytest.mark.parametrize("how", ["left", "full"])
def test_an_outer_join_gives_the_rows_of_one_stream_though_the_other_never_sends(how: str) -> None:
    a, b = select(A, g="g", t="t"), select(B, h="g", u="t")
    query = L.Join((a, b), (L.Window(range=10), L.Window(range=10)), "g = h", how)
    script = Script(plan(query, {"a": silent_for(80), "b": silent_for(50)}))
    script.page(frame([[5, "x"], [31, "y"]]), stream="a")
    assert script.until(49).advance(0).results == []
    script.until(50).advance(0)
    assert [row["t"] for row in script.results] == [5]
    # Back again: what is above the heartbeat finds its partner; what is not, is late and counted, and stays alone.
    script.page(frame([[32, "y"], [6, "x"]]), stream="b")
    alone = [(None, 6)] if how == "full" else []
    assert [(row["t"], row["u"]) for row in script.results] == [(5, None), (31, 32), *alone]
    (figures,) = (f for label, f in script.metrics().items() if "late_by_input" in f)
    assert figures["late_by_input"] == [0, 1]


@settings(max_examples=100)
@given(
    bounds=st.fixed_dictionaries({"a": BOUNDS, "b": BOUNDS}),
    steps=STEPS,
    how=st.sampled_from(["inner", "left", "right", "full"]),
    ranges=st.tuples(st.integers(1, 12), st.integers(1, 12)),
)
def test_a_join_of_streams_that_pause_gives_what_its_definition_gives(
    bounds: dict[str, Quiet], steps: list[tuple[int, str | None, list[int]]], how: str, ranges: tuple[int, int]
) -> None:
    """Of rows above the heartbeat of their input, whoever was idle meanwhile: none is late, none is missed."""
    sides = renamed(A, "1", "t", "i"), renamed(B, "2", "t", "i")
    query = join_of(*sides, (f"{ranges[0]} microseconds", f"{ranges[1]} microseconds"), "i1 >= i2", how)
    script = Script(plan(query, {n: q.policy for n, q in bounds.items()}, domain=TimeDomain.TIMESTAMP))
    rows = {"a": SAMPLE.clear(), "b": SAMPLE.clear()}
    begun = steps[0][0] if steps else 0
    for pause, stream, above in steps:
        script.advance(pause)
        now = script.clock.now()
        go_on(bounds.values(), now, begun)
        if stream is not None:
            start = bounds[stream].least(now)
            start = 100 if start is None else start
            page = frame([[start + up, "x", 0, 0.0, up] for up in above])
            script.page(page, stream=stream)
            bounds[stream].come(now, start + max(above))
            rows[stream] = pl.concat([rows[stream], page])
            go_on(bounds.values(), now, begun)
    script.drain()
    left, right = (
        alive(rows[name].rename({"t": f"t{n}", "i": f"i{n}"}).with_columns(t=f"t{n}"), range)
        for n, (name, range) in enumerate(zip("ab", ranges, strict=True), 1)
    )
    due = rows_of(join(left, right, lambda a, b: bool(a["i1"] >= b["i2"]), how), "t1", "i1", "t2", "i2")
    results = [{name: row[name] for name in ("t1", "i1", "t2", "i2")} for row in script.results]
    assert sorted_rows(results) == sorted_rows(due)
    (late,) = (f["late_by_input"] for f in script.metrics().values() if "late_by_input" in f)
    assert late == [0, 0]


def sorted_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(str, rows))


@pytest.mark.parametrize("away", [0, 1_000])
def test_a_restart_keeps_who_is_idle_and_for_how_long_others_were_silent(tmp_path: Path, away: int) -> None:
    policies = {"a": sw.bounded(0), "b": silent_for(50), "c": silent_for(80)}
    clock, sink = ManualClock(), ListSink()

    def started() -> Executor:
        journal = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)
        executor = Executor(clock, journal, pages=ArrowPages())
        add_query(executor, "q", plan(windows(union(A, B, C), 10, 10), policies), sink)
        return executor

    first = started()
    first.admit(source_label("a"), arrow_page(frame([[5], [31]]), 0, 0, "t"))
    first.run_until_idle()
    clock.set(60)
    first.run_until_idle()
    assert sink.rows == [], "c is not idle yet"
    clock.set(60 + away)
    again = started()
    again.resume()
    clock.set(79 + away)
    again.run_until_idle()
    assert sink.rows == [], "the time for which the process was away is no silence"
    assert again.graph.nodes["source:a"].times["main"].heartbeat.tick == 30
    assert again.graph.nodes["source:b"].times["main"] == beat(MIN_TICK, idle=True)
    clock.set(80 + away)
    again.run_until_idle()
    assert [row["n"] for row in sink.rows] == [1]
