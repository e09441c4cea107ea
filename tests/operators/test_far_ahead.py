"""Times far ahead of the clock, and of the bulk of recent rows: they make nobody late under any policy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.progress.ahead import AheadGuard
from slackwater.progress.arrival import Arrival, sketch_of
from slackwater.progress.clock import ManualClock
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing.script import ListSink, Script
from slackwater.testing.stream_spec import StreamSpec

T0 = datetime(2026, 3, 1, 8, tzinfo=UTC)
MICROS = int(T0.timestamp()) * 1_000_000
SECOND = 1_000_000
FAR = datetime(2062, 1, 1, tzinfo=UTC)
COLUMNS = pa.schema([("t", pa.timestamp("us", "UTC")), ("g", pa.string()), ("upto", pa.timestamp("us", "UTC"))])
TEN = "SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS, SLIDE 10 SECONDS]"
FIVE = timedelta(seconds=5)


def row(t: datetime, g: str = "a") -> dict[str, Any]:
    return {"t": t, "g": g, "upto": t - FIVE}


def beat(second: int) -> list[dict[str, Any]]:
    """Two rows, of two sources."""
    return [row(T0 + timedelta(seconds=second), g) for g in "ab"]


POLICIES: list[Disorder] = [
    sw.bounded("5 seconds"),
    sw.bounded("5 seconds", idle="1 minute"),
    sw.learned(),
    sw.skew([[(0, "5 seconds")]], timeout="1 minute"),
    sw.sensors("5 seconds", timeout="1 minute"),
    sw.drop_ratio(0.1),
    sw.papers.max_delay(),
    sw.papers.disorder_control(0.1),
]


def script(policy: Disorder, text: str = TEN, now: int = MICROS, ahead: str | None = None, **more: Any) -> Script:
    source = "g" if policy.needs_sources else None
    spec = StreamSpec(COLUMNS, policy, time="t", source=source, ahead=ahead)
    return Script.from_sql(text, {"s": spec}, clock=ManualClock(now), **more)


def play(run: Script, corrupt: int | None, pages: int = 40, start: datetime = T0) -> Script:
    """A page a second; one of them has a row of the year 2062 too."""
    move = start - T0
    for second in range(pages):
        rows = [{**r, "t": r["t"] + move, "upto": r["upto"] + move} for r in beat(second)]
        if second == corrupt:
            rows.append(row(FAR))
        run.page(rows)
        run.advance(SECOND)
    return run


def source_of(run: Script) -> dict[str, Any]:
    return next(figures for label, figures in run.metrics().items() if label.startswith("source"))


def counts(run: Script) -> list[tuple[datetime, int]]:
    return [(r["window_start"], r["n"]) for r in run.results]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.describe())
@pytest.mark.parametrize("corrupt", [0, 1, 20])
def test_a_row_of_a_distant_year_changes_no_answer_and_is_counted(policy: Disorder, corrupt: int) -> None:
    clean, spoiled = play(script(policy), None), play(script(policy), corrupt)
    assert counts(spoiled) == counts(clean)
    assert clean.results
    assert source_of(spoiled)["far_ahead"] == 1
    assert source_of(spoiled)["missing_time"] == 0
    assert source_of(clean)["far_ahead"] == 0
    assert [r["n"] for r in spoiled.drain().results] == [20] * 4


@pytest.mark.parametrize("corrupt", [0, 20])
def test_a_punctuation_that_a_row_of_a_distant_year_carries_is_not_believed(corrupt: int) -> None:
    run = play(script(sw.punctuated("upto")), corrupt)
    assert [r["n"] for r in run.results] == [20] * 3
    assert source_of(run)["far_ahead"] == 1


def test_a_punctuation_without_a_row_may_say_that_a_sender_is_done() -> None:
    run = play(script(sw.punctuated("upto")), None, 5)
    run.page([{"t": None, "g": "a", "upto": FAR}])
    assert [r["n"] for r in run.results] == [10]


def test_the_row_goes_where_late_rows_go() -> None:
    late = ListSink()
    play(script(sw.bounded("5 seconds"), late=late), 7)
    assert [r["t"] for r in late.rows] == [FAR]


def test_without_the_guard_all_that_follows_is_late() -> None:
    run = play(script(sw.bounded("5 seconds"), ahead="never"), 20)
    assert source_of(run)["far_ahead"] == 0
    assert [r["n"] for r in run.drain().results] != [20] * 4


def test_how_far_ahead_can_be_set() -> None:
    def hour_ahead(ahead: str | None) -> Script:
        run = play(script(sw.bounded("5 seconds"), ahead=ahead), None, 5)
        return run.page([row(T0 + timedelta(hours=1))])

    assert source_of(hour_ahead(None))["far_ahead"] == 0
    assert source_of(hour_ahead("5 minutes"))["far_ahead"] == 1


@pytest.mark.parametrize("policy", [sw.bounded("5 seconds"), sw.drop_ratio(0.1)], ids=lambda p: p.describe())
def test_a_stream_that_lies_wholly_in_the_future_loses_nothing(policy: Disorder) -> None:
    run = play(script(policy, ahead="1 second"), None, start=FAR).drain()
    assert source_of(run)["far_ahead"] == 0
    assert [r["n"] for r in run.results] == [20] * 4


def test_a_stream_in_the_future_is_guarded_against_a_more_distant_one() -> None:
    run = play(script(sw.bounded("5 seconds"), now=0), 20).drain()
    assert source_of(run)["far_ahead"] == 1
    assert [r["n"] for r in run.results] == [20] * 4


def test_a_backlog_of_old_rows_does_not_make_rows_of_now_far_ahead() -> None:
    run = play(script(sw.bounded("400 days"), ahead="5 minutes"), None, 5)
    run.page([row(T0 - timedelta(days=300)) for _ in range(100)])
    run.page(beat(6)).drain()
    assert source_of(run)["far_ahead"] == 0


def test_a_restart_goes_on_with_what_was_counted(tmp_path: Path) -> None:
    policy, sink = sw.bounded("5 seconds"), ListSink()
    run = script(policy, journal=FileJournal(fs.LocalFileSystem(), str(tmp_path)), sink=sink)
    play(run, 3, 10)
    again = script(policy, now=run.clock.now(), journal=FileJournal(fs.LocalFileSystem(), str(tmp_path)), sink=sink)
    again.page([*beat(10), row(FAR)])
    assert source_of(again)["far_ahead"] == 2
    assert again.drain().results[0]["n"] == 20


def test_a_filter_passes_rows_of_any_time() -> None:
    run = play(script(sw.bounded("5 seconds"), "SELECT g FROM s WHERE g = 'a'"), 2, 5)
    assert len(run.results) == 6


@pytest.mark.parametrize(
    "text",
    [
        "SELECT g, COUNT(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY g",
        "SELECT g, COUNT(*) AS n FROM s [ROWS 100] GROUP BY g",
    ],
)
def test_windows_for_each_row_leave_the_row_out(text: str) -> None:
    clean, spoiled = (
        play(script(sw.bounded("5 seconds"), text), None).drain(),
        play(script(sw.bounded("5 seconds"), text), 5).drain(),
    )
    assert [r["n"] for r in spoiled.results] == [r["n"] for r in clean.results]


def test_a_join_leaves_the_row_out() -> None:
    text = "SELECT x.g AS g FROM s [RANGE 5 SECONDS] AS x, s [RANGE 5 SECONDS] AS y WHERE x.g = y.g"
    clean, spoiled = (
        play(script(sw.bounded("5 seconds"), text), None),
        play(script(sw.bounded("5 seconds"), text), 5),
    )
    assert len(spoiled.drain().results) == len(clean.drain().results)


@pytest.mark.parametrize(
    ("ahead", "wrong"),
    [("0 seconds", "must be positive"), ("-5 minutes", "must be positive"), (5, "write a length of time")],
)
def test_a_length_that_makes_no_sense_is_refused(ahead: Any, wrong: str) -> None:
    with pytest.raises(QueryError, match=wrong):
        script(sw.bounded("5 seconds"), ahead=ahead)


def test_a_time_that_is_no_clock_has_no_guard() -> None:
    schema = pa.schema([("t", pa.int64())])
    with pytest.raises(QueryError, match="leave out ahead="):
        Script.from_sql(
            "SELECT COUNT(*) AS n FROM s [RANGE 5, SLIDE 5]",
            {"s": StreamSpec(schema, sw.bounded(0), ahead="5 minutes")},
        )


# --- the guard alone


def arrival(times: list[int], at: int) -> Arrival:
    return Arrival(len(times), 0, min(times), max(times), at, sketch=sketch_of(pl.Series(times).to_numpy()))


def test_what_is_within_reach_of_the_clock_needs_no_look_at_the_rows() -> None:
    guard = AheadGuard(60)

    def look() -> Any:
        raise AssertionError

    assert guard.limit(arrival([1, 160], at=100), look) is None


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 1_000), min_size=3, max_size=50),
    st.lists(st.integers(10**6, 10**9), max_size=20),
    st.integers(500, 1_500),
)
def test_rows_near_the_clock_are_always_believed_and_a_minority_far_ahead_never(
    near: list[int], far: list[int], at: int
) -> None:
    far = far[: (len(near) - 1) // 2]
    page = arrival(near + far, at)
    limit = AheadGuard(2_000).limit(page, page.spread)
    assert (limit is None) == (not far)
    assert limit is None or max(near) <= limit < 10**6


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=30), min_size=1, max_size=20), st.integers(1, 100)
)
def test_a_steady_stream_in_the_future_is_believed(pages: list[list[int]], step: int) -> None:
    guard = AheadGuard(50)
    for number, times in enumerate(pages):
        page = arrival([10**12 + number * step + t for t in times], at=number)
        assert guard.limit(page, page.spread) is None
        guard.note(page)


def test_the_domain_decides_whether_there_is_a_default() -> None:
    from slackwater.progress.ahead import read_ahead

    assert read_ahead(None, TimeDomain.TIMESTAMP) == 86_400 * SECOND
    assert read_ahead(None, TimeDomain.decimal(10, 2)) is None
