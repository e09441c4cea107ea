"""A sink that gets rows in the order of time: all that were not late, each once, over restarts."""

from __future__ import annotations

import tempfile
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.operators.prod_request import check_late
from slackwater.plan import logical as L
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script
from tests.kit.arcs import watched_arcs
from tests.kit.streams import Stream, bounded_streams, frame, unbounded_streams
from tests.kit.streams_of_samples import A, B, plan, union, where, windows


@given(
    streams=st.fixed_dictionaries({name: bounded_streams(most=20) for name in "ab"}),
    order=st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=30),
)
def test_rows_come_in_the_order_of_time_each_once(
    streams: dict[str, Stream], order: list[tuple[str, bool]]
) -> None:
    query, sink = plan(where(union(A, B), "h >= 0"), {n: bounded(s.slack) for n, s in streams.items()}), ListSink()
    waiting = {name: list(enumerate(s.pages)) for name, s in streams.items()}
    with tempfile.TemporaryDirectory() as folder, watched_arcs():

        def begin() -> Script:
            return Script(query, FileJournal(fs.LocalFileSystem(), folder, sync=False), sink, ordered=True)

        script = begin()
        for name, restart in [*order, *((rest, False) for rest in "ab" for _ in waiting[rest])]:
            if waiting[name]:
                number, rows = waiting[name].pop(0)
                script.page(rows, number, stream=name)
            if restart:
                script = begin()
        script.drain()
    wanted = pl.concat([s.rows for s in streams.values()]).filter(pl.col("h") >= 0)
    assert [row["t"] for row in sink.rows] == sorted(wanted["t"].to_list())
    assert sorted(map(repr, sink.rows)) == sorted(map(repr, wanted.to_dicts()))


@given(stream=unbounded_streams())
def test_rows_behind_the_heartbeat_are_counted_and_left_out(stream: Stream) -> None:
    script = Script(plan(where(A, "true"), {"a": bounded(stream.slack)}), ordered=True)
    kept, heartbeat, late = [], None, 0
    for rows in stream.pages:
        for row in rows.to_dicts():
            if row["t"] is not None:
                in_time = heartbeat is None or row["t"] > heartbeat
                kept += [row["t"]] if in_time else []
                late += not in_time
        script.page(rows)
        top = rows["t"].max()
        if top is not None:
            heartbeat = max(-(10**9) if heartbeat is None else heartbeat, int(top) - stream.slack - 1)  # type: ignore[call-overload]
    script.drain()
    assert [row["t"] for row in script.results] == sorted(kept)
    assert script.metrics()["q/order"]["late_rows"] == late


def test_equal_times_keep_the_order_of_arrival_and_rows_wait_no_longer_than_they_must() -> None:
    script = Script(plan(where(A, "true"), {"a": bounded(5)}), ordered=True)
    script.page(frame([[9, "x"], [7, "y"], [9, "z"], [3, "w"]]))
    assert [r["g"] for r in script.results] == ["w"], "the heartbeat is 3"
    script.page(frame([[9, "v"], [20, "u"]]))
    assert [r["g"] for r in script.results] == ["w", "y", "x", "z", "v"]


@pytest.mark.parametrize("window", [(6, 3), (5, 5)])
def test_results_come_in_the_order_of_their_windows_and_early_ones_at_once(window: tuple[int, int]) -> None:
    query: L.Logical = windows(A, *window, "g")
    script = Script(plan(query, {"a": bounded(0)}), ordered=True)
    script.page(frame([[1, "x"], [2, "y"]])).prod()
    assert {r["kind"] for r in script.results} == {"early"}
    script.page(frame([[30, "x"], [33, "y"]])).drain()
    finals = [r["window_end"] for r in script.results if r["kind"] == "final"]
    assert finals == sorted(finals) and len(finals) >= 4


@pytest.mark.parametrize("kind", [sw.internal(), sw.latent()])
def test_rows_that_are_stamped_come_as_soon_as_their_stamp_has_passed(tmp_path: Path, kind: Any) -> None:
    query = plan(where(union(A, B), "true"), {"a": kind, "b": kind}, domain=TimeDomain.TIMESTAMP)
    sink, clock = ListSink(), ManualClock(100)

    def begin() -> Script:
        journal = FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)
        return Script(query, journal, sink, ordered=True, clock=clock)

    script = begin().page(frame([[0, "x"], [0, "y"]]), 0, stream="a")
    assert [r["g"] for r in sink.rows] == ["x", "y"], "another page may get the same stamp, and comes after them"
    script = begin().page(frame([[0, "z"]]), 0, stream="b").advance(1)
    assert [r["g"] for r in sink.rows] == ["x", "y", "z"]
    script.advance(9).page(frame([[0, "w"]]), 1, stream="a").advance(1)
    assert [r["g"] for r in sink.rows] == ["x", "y", "z", "w"]
    assert script.metrics()["q/order"]["late_rows"] == 0


def test_s3_4_1_simultaneous_rows_never_wait_for_each_other() -> None:
    """Two streams in order, and the paper's registers: rows that go out after each page are 0 2 3 3 5."""
    script = Script(plan(where(union(A, B), "true")), ordered=True)
    out = []
    for stream, times in (("a", [1]), ("b", [1]), ("a", [1]), ("b", [2, 2]), ("a", [2, 2])):
        script.page(frame([[t] for t in times]), stream=stream)
        out.append(len(script.results))
    assert out == [0, 2, 3, 3, 7], (
        "a third row of time 1 goes at once; those of 2 as soon as both streams are there"
    )
    script.page(frame([[2]]), stream="b").page(frame([[2]]), stream="a")
    assert len(script.results) == 9


@given(
    pages=st.lists(
        st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 2), min_size=1, max_size=3)), max_size=20
    )
)
def test_s3_4_1_rows_of_ordered_streams_go_as_registers_by_rows_let_them(
    pages: list[tuple[str, list[int]]],
) -> None:
    """The oracle is S3's: a tuple may go when the last tuple of every stream is not before it."""
    script, tops, came = Script(plan(where(union(A, B), "true")), ordered=True), {"a": -1, "b": -1}, []
    for stream, steps in pages:
        times = list(accumulate(steps, initial=max(tops[stream], 0)))[1:]
        tops[stream] = times[-1]
        came += times
        script.page(frame([[t] for t in times]), stream=stream)
        wanted = sorted(t for t in came if t <= min(tops.values()))
        assert [r["t"] for r in script.results] == wanted


# --- S3's union: rows in order on the way

MERGED = L.Union((A, B), ordered=True)


def test_section_4_1_an_ordered_union_of_streams_in_order_gives_simultaneous_rows_at_once() -> None:
    """Rows of one instant do not wait for each other; where only punctuation moved time it would be 0 0 0 2 3."""
    script, out = Script(plan(where(MERGED, "true"))), []
    for stream, time in (("a", 1), ("b", 1), ("a", 1), ("b", 2), ("a", 3)):
        out.append(len(script.page(frame([[time, stream]]), stream=stream).results))
    assert out == [0, 2, 3, 3, 4], "the row at 2 waits until a has passed 1, that at 3 until b has passed 2"


@given(
    streams=st.fixed_dictionaries({name: unbounded_streams(most=20) for name in "ab"}),
    order=st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=30),
)
def test_an_ordered_union_is_in_order_and_what_is_late_for_it_goes_to_the_late_sink(
    streams: dict[str, Stream], order: list[tuple[str, bool]]
) -> None:
    query = plan(where(MERGED, "h IS NOT NULL"), {n: bounded(s.slack) for n, s in streams.items()})
    sink, late, waiting = ListSink(), ListSink(), {name: list(enumerate(s.pages)) for name, s in streams.items()}
    with tempfile.TemporaryDirectory() as folder:

        def begin() -> Script:
            return Script(query, FileJournal(fs.LocalFileSystem(), folder, sync=False), sink, late)

        script = begin()
        for name, restart in [*order, *((rest, False) for rest in "ab" for _ in waiting[rest])]:
            if waiting[name]:
                number, rows = waiting[name].pop(0)
                script.page(rows, number, stream=name)
            if restart:
                script = begin()
        script.drain()
    times = [row["t"] for row in sink.rows]
    assert times == sorted(times)
    every = pl.concat([s.rows for s in streams.values()])
    came = [r for r in [*sink.rows, *late.rows] if r["t"] is not None and r["h"] is not None]
    wanted = every.filter(pl.col("t").is_not_null() & pl.col("h").is_not_null()).to_dicts()
    assert sorted(map(repr, came)) == sorted(map(repr, wanted)), "each row is in the answer or late, once"
    assert sum(r["t"] is None for r in late.rows) == every["t"].null_count()


def test_windows_behind_an_ordered_union_have_no_late_rows_of_their_own() -> None:
    script = Script(plan(windows(MERGED, 10, 10), {"a": bounded(2), "b": bounded(2)}), late=ListSink())
    script.page(frame([[5, "x"], [20, "x"]]), stream="a").page(frame([[21, "x"]]), stream="b")
    script.page(frame([[3, "late"], [19, "x"]]), stream="b").drain()
    assert [(r["window_start"], r["n"]) for r in script.results] == [(0, 1), (10, 1), (20, 2)]
    assert script.late is not None and [r["g"] for r in script.late.rows] == ["late"]
    assert script.metrics()["q/window"]["late_rows"] == 0


def test_only_rows_of_streams_are_put_in_order_on_the_way() -> None:
    with pytest.raises(sw.QueryError, match=r"start\(ordered=True\)"):
        plan(L.Union((windows(A, 5, 5), windows(B, 5, 5)), ordered=True))
    with pytest.raises(sw.QueryError, match="counts its late rows"):
        check_late(plan(where(union(MERGED, L.Union((A, A), ordered=True)), "true")))
