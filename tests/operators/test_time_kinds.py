"""Internal and latent time (S3 section 5): stamps by the clock, and enabling timestamps that make no row late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.engine.build import add_query, source_label
from slackwater.engine.demand import Demand
from slackwater.engine.executor import Executor
from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.node import describe
from slackwater.progress.clock import ManualClock
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.progress.time_kinds import UNSTAMPED
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_page
from slackwater.testing.script import ArrowPages
from slackwater.windows.spec import WindowSpec
from tests.kit.arcs import watched_arcs
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.running_clock import Running
from tests.kit.streams import SAMPLE, assert_same_rows, finals, frame
from tests.kit.streams_of_samples import A, B, plan, select, union, where, windows

STAMPS = TimeDomain.TIMESTAMP
COUNT = {"n": AGGREGATES["n"], "whole": AGGREGATES["whole"]}
SECOND = 1_000_000
INTERNAL = dict.fromkeys("abc", sw.internal())
LATENT = dict.fromkeys("abc", sw.latent())


def micros(instant: Any) -> int:
    return round(instant.timestamp() * SECOND)


def in_micros(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ends = ("window_start", "window_end")
    return [{**row, **{end: micros(row[end]) for end in ends}} for row in rows]


def script(query: L.Logical, policies: dict[str, Any], **more: Any) -> Script:
    return Script(plan(query, policies, domain=STAMPS), **more)


#: How long the clock goes on, which stream sends then (or none), and what its rows say.
STEPS = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.sampled_from(["a", "a", "a", "b", None]),
        st.lists(st.integers(0, 9), min_size=1, max_size=3),
    ),
    max_size=25,
)


@given(kind=st.sampled_from([INTERNAL, LATENT]), steps=STEPS, by_wakes=st.booleans(), narrow=st.booleans())
def test_windows_are_answered_when_the_clock_has_passed_them_and_no_row_is_late(
    kind: dict[str, Any], steps: list[tuple[int, str | None, list[int]]], by_wakes: bool, narrow: bool
) -> None:
    """The oracle stamps the rows by itself. Stream b is often quiet, and delays nothing."""
    rows = union(where(A, "i < 8"), B) if narrow else union(A, B)
    run = script(windows(rows, "10 microseconds", "5 microseconds"), kind)
    stamped, spec = SAMPLE.clear(), WindowSpec(10, 5)
    with watched_arcs():
        for pause, stream, values in steps:
            now = run.clock.now() + pause
            if by_wakes:
                run.until(now)
            run.advance(now - run.clock.now())
            if stream is not None:
                page = frame([[now, "x", 0, 0.0, value] for value in values])
                run.page(page, stream=stream)
                stamped = pl.concat([stamped, page.filter(pl.col("i") < 8) if narrow and stream == "a" else page])
            ended = [r for r in recompute(stamped, spec, [], COUNT) if r["window_end"] <= now]
            assert_same_rows(in_micros(finals(run.results)), ended, ["window_start"])
            if by_wakes:
                assert all(micros(r["emitted_at"]) == micros(r["window_end"]) for r in run.results)
        run.drain()
    assert_same_rows(in_micros(finals(run.results)), recompute(stamped, spec, [], COUNT), ["window_start"])
    assert run.metrics()["q/window"]["late_rows"] == 0
    assert run.metrics()["source:a"]["missing_time"] == 0


@pytest.mark.parametrize("kind", [INTERNAL, LATENT])
def test_the_clock_says_nothing_where_nobody_waits(kind: dict[str, Any]) -> None:
    run = script(windows(where(union(A, B), "i > 100"), "10 seconds", "10 seconds"), kind)
    run.page(frame([[0, "x", 0, 0.0, 1]]), stream="a").advance(30 * SECOND)
    figures = run.metrics()
    assert figures["source:b"]["heartbeat"] == MIN_TICK
    assert figures["q/window"]["registers"] == [MIN_TICK]
    assert run.executor.wake_at() is None and Demand(run.executor.graph).sources() == []


def test_only_the_end_of_a_window_wakes_the_session() -> None:
    run = script(windows(union(A, B), "10 seconds", "10 seconds"), INTERNAL)
    run.page(frame([[0]]), stream="a", at=3 * SECOND)
    assert run.executor.wake_at() == 10 * SECOND
    run.advance(6 * SECOND)
    assert run.metrics()["source:b"]["heartbeat"] == MIN_TICK, "nine seconds would let nothing out"
    run.advance(SECOND)
    assert run.metrics()["source:b"]["heartbeat"] == 10 * SECOND - 1
    assert [r["n"] for r in run.results] == [1]
    assert run.executor.wake_at() is None


@pytest.mark.parametrize("kind", [INTERNAL, LATENT, {"a": sw.internal(), "b": sw.bounded("0 seconds")}])
def test_a_clock_that_goes_on_lets_the_session_rest(kind: dict[str, Any]) -> None:
    """Else every look at the clock would give something new to say, and the executor would never be idle."""
    run = script(windows(union(A, B), "10 seconds", "10 seconds"), kind, clock=Running())
    run.page(frame([[SECOND]]), stream="a").page(frame([[60 * SECOND]]), stream="b")
    left = run.executor.seconds_to_sleep()
    assert left is not None and 9.9 < left <= 10
    run.advance(10 * SECOND)
    assert finals(run.results), "the first window has ended"


def test_windows_over_results_and_windows_for_each_row_go_by_stamps_too() -> None:
    inner = windows(A, "2 seconds", "2 seconds", "g")
    outer = windows(inner, "10 seconds", "10 seconds", most="max(n)")
    nested, rolling = script(outer, INTERNAL), script(windows(A, "3 seconds", None), INTERNAL)
    for run in (nested, rolling):
        for second in (1, 2, 5, 6, 9):
            run.until(second * SECOND)
            run.page(frame([[0, "x"], [0, "x"]]), stream="a", at=second * SECOND)
        run.until(30 * SECOND)
    assert [(r["most"], micros(r["emitted_at"])) for r in nested.results] == [(2, 10 * SECOND)]
    # The window of a row at second s has the rows of (s - 3, s]; it is let out a tick later.
    got = [(micros(r["window_end"]), r["n"], micros(r["emitted_at"])) for r in rolling.results]
    counted = {1: 2, 2: 4, 5: 2, 6: 4, 9: 2}
    assert got == [(s * SECOND, n, s * SECOND + 1) for s, n in counted.items() for _ in range(2)]


def test_a_drain_closes_windows_and_rows_that_come_later_open_new_ones() -> None:
    for kind in (INTERNAL, LATENT):
        run = script(windows(union(A, B), "10 seconds", "10 seconds"), kind)
        run.page(frame([[0]]), stream="a", at=SECOND)
        run.executor.drain(for_good=False)
        assert [r["n"] for r in run.results] == [1]
        run.page(frame([[0]]), stream="b", at=12 * SECOND).until(40 * SECOND)
        run.advance(0)
        assert [(r["n"], micros(r["window_start"])) for r in run.results] == [(1, 0), (1, 10 * SECOND)]
        assert run.metrics()["q/window"]["late_rows"] == 0


# --- latent


def test_a_query_without_a_window_passes_latent_rows_at_once_and_has_no_time() -> None:
    run = script(where(union(A, B), "i > 0"), LATENT)
    run.page(frame([[0, "x", 0, 0.0, 5], [0, "x", 0, 0.0, 0]]), stream="a")
    assert [r["i"] for r in run.results] == [5]
    assert set(run.executor.graph.nodes) == {"source:a", "source:b", "q/union0", "q/where1", "q/sink"}
    assert [n["heartbeat"] for n in run.metrics().values()] == [MIN_TICK] * 5


def test_latent_rows_are_stamped_where_a_window_takes_them_and_no_source_is_asked() -> None:
    run = script(windows(union(A, B), "10 seconds", "10 seconds"), LATENT)
    run.page(frame([[0]]), stream="a", at=4 * SECOND)
    assert [n.label for n in Demand(run.executor.graph).sources()] == ["q/stamp1"]
    run.until(60 * SECOND)
    assert [(r["n"], micros(r["emitted_at"])) for r in run.results] == [(1, 10 * SECOND)]
    figures = run.metrics()
    assert figures["source:a"]["heartbeat"] == figures["source:b"]["heartbeat"] == MIN_TICK
    assert (figures["source:a"]["rows"], figures["source:a"]["missing_time"]) == (1, 0)


def test_the_plan_says_where_rows_are_stamped() -> None:
    lines = describe(plan(windows(union(A, B), "10 seconds", "10 seconds"), LATENT, domain=STAMPS)).splitlines()
    assert lines[2:4] == ["union of 2", "stamp with the clock's time"]


@pytest.mark.parametrize("other", [sw.internal(), sw.bounded("0 seconds")])
def test_latent_rows_are_not_united_with_rows_that_have_a_time(other: Any) -> None:
    with pytest.raises(QueryError, match=r"the rows of 'a' have latent time.*'b' have a time; declare 'a' with"):
        plan(union(where(A, "i > 0"), B), {"a": sw.latent(), "b": other}, domain=STAMPS)


def test_internal_and_external_time_go_together_where_both_are_timestamps() -> None:
    run = script(
        windows(union(A, B), "10 seconds", "10 seconds"), {"a": sw.internal(), "b": sw.bounded("0 seconds")}
    )
    run.page(frame([[0]]), stream="a", at=5 * SECOND).page(frame([[6 * SECOND], [11 * SECOND]]), stream="b")
    assert run.executor.wake_at() == 10 * SECOND
    run.until(20 * SECOND)
    assert [(r["n"], micros(r["emitted_at"])) for r in run.results] == [(2, 10 * SECOND)]


# --- mistakes


@pytest.mark.parametrize(
    ("query", "policies", "wrong"),
    [
        (windows(A, "1 second", "1 second", disorder=sw.bounded("1 second")), INTERNAL, "leave out disorder="),
        (
            windows(A, "1 second", "1 second", disorder=sw.internal()),
            {},
            r"write it at the stream.*time=sw.internal",
        ),
        (
            L.Aggregate((A,), L.Window(5, 5, wattr="i"), (), (("n", "count(*)"),)),
            LATENT,
            r"stream 'a' has time=latent\(\), which says nothing.*add disorder=",
        ),
    ],
)
def test_policies_and_stamps_are_told_apart(query: L.Logical, policies: dict[str, Any], wrong: str) -> None:
    with pytest.raises(QueryError, match=wrong):
        plan(query, policies, domain=STAMPS)


def test_another_attribute_of_a_stamped_stream_has_a_policy_of_its_own() -> None:
    query = L.Aggregate((A,), L.Window(5, 5, wattr="i", disorder=sw.bounded(0)), (), (("n", "count(*)"),))
    run = script(query, LATENT)
    (stream,) = [s for s in run.executor.graph.nodes if s.startswith("source:")]
    run.page(frame([[0, "x", 0, 0.0, i] for i in (1, 2, 7)]), stream=stream.removeprefix("source:"))
    assert [r["n"] for r in run.results] == [2]


def test_internal_time_is_a_timestamp() -> None:
    with pytest.raises(
        QueryError, match=r"internal\(\) is the time of a clock, and this stream counts in sequences"
    ):
        sw.internal().tracker(TimeDomain.SEQUENCE)


# --- a crash


def restarted(
    folder: Path, clock: ManualClock, sink: ListSink, kind: dict[str, Any], held: bool = False
) -> Executor:
    journal = FileJournal(fs.LocalFileSystem(), str(folder), sync=False)
    executor = Executor(clock, journal, pages=ArrowPages())
    add_query(executor, "q", plan(windows(union(A, B), "10 seconds", "10 seconds"), kind, domain=STAMPS), sink)
    executor.held = held
    return executor


def give(executor: Executor, stream: str, number: int, i: int) -> None:
    page = arrow_page(frame([[0, "x", 0, 0.0, i]]), number, executor.clock.now(), UNSTAMPED)
    executor.admit(source_label(stream), page)


@pytest.mark.parametrize("kind", [INTERNAL, LATENT])
def test_rows_keep_their_stamps_after_a_crash(tmp_path: Path, kind: dict[str, Any]) -> None:
    """Page 0 is in the window's state, page 1 waits in the journal, page 2 was not committed and comes again."""
    clock, sink = ManualClock(SECOND), ListSink()
    first = restarted(tmp_path, clock, sink, kind)
    give(first, "a", 0, 1)
    first.run_until_idle()
    clock.set(8 * SECOND)
    give(first, "a", 1, 10)
    first.commit()
    clock.set(9 * SECOND)
    give(first, "b", 0, 100)
    assert not sink.rows
    # A clock that was set back must not stamp behind what was promised, nor lose anything.
    clock = ManualClock(25 * SECOND)
    again = restarted(tmp_path, clock, sink, kind)
    give(again, "a", 1, 10)
    give(again, "b", 0, 100)
    with watched_arcs():
        again.run_until_idle()
        again.drain()
    got = [(micros(r["window_start"]) // SECOND, r["n"], r["whole"]) for r in sink.rows]
    if kind is INTERNAL:
        assert got == [(0, 2, 11), (20, 1, 100)]
    else:
        # What waited before the stamp had none.
        assert got == [(0, 1, 1), (20, 2, 110)]


def test_a_clock_that_was_set_back_stamps_behind_no_promise(tmp_path: Path) -> None:
    clock, sink = ManualClock(SECOND), ListSink()
    first = restarted(tmp_path, clock, sink, INTERNAL)
    give(first, "a", 0, 1)
    first.run_until_idle()
    clock.set(15 * SECOND)
    first.run_until_idle()
    assert [r["n"] for r in sink.rows] == [1]
    again = restarted(tmp_path, ManualClock(3 * SECOND), sink, INTERNAL)
    give(again, "a", 1, 10)
    give(again, "b", 0, 100)
    again.run_until_idle()
    again.drain()
    assert [(micros(r["window_start"]) // SECOND, r["n"]) for r in sink.rows] == [(0, 1), (10, 2)]
    assert again.metrics()["q/window"]["late_rows"] == 0


def test_a_projection_before_the_stamp_keeps_all_columns() -> None:
    rows = union(select(A, i="i + 1"), select(B, i="i"))
    run = script(windows(rows, "10 seconds", "10 seconds", whole="sum(i)"), LATENT)
    run.page(frame([[0, "x", 0, 0.0, 5]]), stream="a").page(frame([[0, "x", 0, 0.0, 5]]), stream="b").drain()
    assert [r["whole"] for r in run.results] == [11]
