"""Windows of a row (S4): over (t - range, t] and over the last n rows, equal to a recomputation from scratch.

Any cut into pages (catches what is carried from release to release), any range beside any gap (blocks that are
skipped), late rows (blocks that change), simultaneous rows, null times, groups and values, NaN.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.errors import QueryError
from slackwater.plan.node import PlanNode, describe
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.progress.window_losses import WindowLosses
from slackwater.spark.storage import journal_files
from slackwater.testing import ListSink, Script, arrow_plan
from slackwater.windows.per_row import count_windows, range_windows, row_store, scans
from tests.kit.faults import Fate, World
from tests.kit.rolling_oracle import AGGREGATES, Means, Recomputed, recompute
from tests.kit.streams import SAMPLE, Stream, bounded_streams, frame, same, timeless, unbounded_streams

GROUPS = st.sampled_from([[], ["g"], ["g", "h"]])
KINDS = st.one_of(
    st.sampled_from([1, 2, 5, 10, 40, 1000]).map(lambda r: {"range": r}),
    st.sampled_from([1, 2, 3, 5, 8, 100]).map(lambda n: {"rows": n}),
    st.tuples(st.integers(2, 8), st.integers(1, 9)).map(lambda n: {"rows": n[0], "slide": n[1]}),
)
CHEAP = {n: AGGREGATES[n] for n in ("n", "total", "low", "high_s", "var", "begins", "ends_s")}


def plan(window: dict[str, int], slack: int, groups: Sequence[str], aggregates: dict[str, Any]) -> PlanNode:
    texts = {name: text for name, (text, _) in aggregates.items()}
    return arrow_plan(SAMPLE, group_by=groups, disorder=bounded(slack), **window, **texts)


def beats_before(pages: Sequence[pl.DataFrame], slack: int) -> list[int | None]:
    """The heartbeat by which each page is judged, as `bounded` has it: the largest time so far less the slack."""
    beats, high = [], None
    for page in pages:
        beats.append(None if high is None else high - slack - 1)
        top = page["t"].max()
        high = high if top is None else top if high is None else max(high, top)
    return beats


def recomputed(
    stream: Stream, window: dict[str, int], groups: Sequence[str], aggregates: dict[str, tuple[str, Means]]
) -> Recomputed:
    pages = [p.to_dicts() for p in stream.pages]
    return recompute(pages, beats_before(stream.pages, stream.slack), groups, aggregates, waits=False, **window)


def assert_same_in_order(got: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted, strict=True):
        for column, value in theirs.items():
            assert same(ours[column], value), f"{column} at {theirs['window_end']}: {ours[column]!r}, not {value!r}"


def check(
    stream: Stream,
    window: dict[str, int],
    groups: Sequence[str] = (),
    aggregates: dict[str, tuple[str, Means]] = CHEAP,
) -> Script:
    script = Script(plan(window, stream.slack, groups, aggregates), late=ListSink())
    for page in stream.pages:
        script.page(page)
    script.drain()
    wanted = recomputed(stream, window, groups, aggregates)
    assert_same_in_order(script.results, wanted.results)
    figures = script.metrics()["q/window"]
    assert (figures["late_rows"], figures["lost_pairs"]) == (len(wanted.late), len(wanted.late))
    assert (figures["results"], figures["slack_rows"]) == (len(wanted.results), 0)
    return script


def test_the_oracle_knows_the_heartbeat() -> None:
    for slack in (0, 3):
        script = Script(plan({"range": 5}, slack, [], {"n": AGGREGATES["n"]}))
        pages = [frame([[4], [7]]), frame([[2]]), frame([[20]]), frame([[21]])]
        for page, beat in zip(pages, beats_before(pages, slack), strict=True):
            said = script.metrics()["source:s"]["heartbeat"]
            assert said == (MIN_TICK if beat is None else beat)
            script.page(page)


@settings(max_examples=40)
@given(bounded_streams(), KINDS, GROUPS)
@example(Stream([SAMPLE, SAMPLE.clear(), SAMPLE], 0), {"range": 1}, [])
def test_any_stream_within_its_bound_gives_exact_windows(
    stream: Stream, window: dict[str, int], groups: list[str]
) -> None:
    check(stream, window, groups)


@settings(max_examples=40)
@given(unbounded_streams(), KINDS, GROUPS)
def test_late_rows_lose_their_own_result_and_count_for_open_windows(
    stream: Stream, window: dict[str, int], groups: list[str]
) -> None:
    check(stream, window, groups)


@settings(max_examples=40)
@given(unbounded_streams(most=20), KINDS, GROUPS)
def test_every_aggregate_equals_its_recomputation(
    stream: Stream, window: dict[str, int], groups: list[str]
) -> None:
    check(stream, window, groups, AGGREGATES)


@settings(max_examples=40)
@given(bounded_streams(), KINDS, GROUPS)
def test_scans_and_doublings_and_shrunken_stores_agree(
    stream: Stream, window: dict[str, int], groups: list[str]
) -> None:
    with (
        mock.patch.object(scans, "_SHORT", 0),
        mock.patch.object(row_store, "_SLACK", 0),
        mock.patch.object(row_store, "_RATIO", 1),
        mock.patch.object(count_windows, "_SLACK", 0),
        mock.patch.object(range_windows, "_FEW_GROUPS", 0),
    ):
        check(stream, window, groups)
    with mock.patch.object(scans, "_SHORT", 100):
        check(stream, window, groups)


@settings(max_examples=30)
@given(bounded_streams(), KINDS, st.randoms(use_true_random=False))
def test_nan_is_above_every_number(stream: Stream, window: dict[str, int], chance: random.Random) -> None:
    pages = [
        p.with_columns(
            x=pl.when(pl.Series([chance.random() < 0.3 for _ in range(p.height)], dtype=pl.Boolean))
            .then(pl.lit(float("nan")))
            .otherwise(pl.col("x"))
        )
        for p in stream.pages
    ]
    names = ("n", "nx", "low", "high")
    check(Stream(pages, stream.slack), window, ["g"], {n: AGGREGATES[n] for n in names})


# --- the paper's own queries


def test_q1_the_maximum_of_the_latest_30_seconds() -> None:
    """S4 Q1: SELECT MAX(value) FROM Sensors [RANGE 30 seconds], over (t - 30, t]."""
    second = 1_000_000
    sample = pl.DataFrame({"t": [0], "value": [0.0]}, schema={"t": pl.Int64, "value": pl.Float64})
    q1 = arrow_plan(
        sample, "30 seconds", domain=TimeDomain.TIMESTAMP, disorder=bounded("10 seconds"), high="max(value)"
    )
    script = Script(q1)
    for page in ([(0, 9.0), (29, 3.0)], [(35, 1.0), (30, 2.0)], [(64, 0.5), (59, 4.0)]):
        script.page(pl.DataFrame(page, schema=sample.schema, orient="row").with_columns(pl.col("t") * second))
    got = [(row["window_end"].timestamp(), row["high"]) for row in script.drain().results]
    # At 30 the reading of 0 has just left; at 59 that of 29 has too, and at 64 that of 35 stays in (34, 64].
    assert got == [(0, 9.0), (29, 9.0), (30, 3.0), (35, 3.0), (59, 4.0), (64, 4.0)]
    first = script.results[0]
    assert first["window_start"] == datetime(1970, 1, 1, tzinfo=UTC) - timedelta(seconds=30)
    assert (first["kind"], first["completeness"]) == ("final", 1.0)


def test_q2_the_average_service_time_of_the_latest_100_orders() -> None:
    """S4 Q2: SELECT AVG(serviceTime) FROM Services [RANGE 100 tuples, WATTR orderID], out of order."""
    chance = random.Random(4)
    orders = [(n, float(chance.randrange(1, 60))) for n in range(1, 501)]
    served = sorted(orders, key=lambda order: order[0] + chance.random() * 40)
    sample = pl.DataFrame({"orderID": [0], "serviceTime": [0.0]})
    q2 = arrow_plan(sample, rows=100, time="orderID", disorder=bounded(40), late="avg(serviceTime)")
    script = Script(q2)
    for start in range(0, 500, 37):
        script.page(pl.DataFrame(served[start : start + 37], schema=sample.schema, orient="row"))
    results = script.drain().results
    assert [row["window_end"] for row in results] == list(range(1, 501))
    assert [row["window_start"] for row in results] == [max(1, n - 99) for n in range(1, 501)]
    for row in results:
        window = [time for n, time in orders if row["window_start"] <= n <= row["window_end"]]
        assert row["late"] == pytest.approx(sum(window) / len(window), rel=1e-12)


def test_simultaneous_rows_are_in_each_others_range_window_but_have_an_order_in_count_windows() -> None:
    pages = [frame([[5, "a", 0, 1.0], [5, "a", 0, 2.0]]), frame([[5, "a", 0, 4.0]])]
    stream = Stream(pages, 3)
    ranged = check(stream, {"range": 2}, aggregates={"total": AGGREGATES["total"]})
    assert [row["total"] for row in ranged.results] == [7.0, 7.0, 7.0]
    counted = check(stream, {"rows": 2}, aggregates={"total": AGGREGATES["total"]})
    assert [row["total"] for row in counted.results] == [1.0, 3.0, 6.0]


@settings(max_examples=20)
@given(unbounded_streams(most=25), st.integers(1, 5), GROUPS)
def test_section_4_rows_of_count_windows_are_numbered_anew(stream: Stream, rows: int, groups: list[str]) -> None:
    with mock.patch.object(count_windows, "_LARGEST", 6):
        check(stream, {"rows": rows}, groups)


def test_section_4_a_late_row_counts_for_windows_that_are_still_open() -> None:
    pages = [frame([[10, "a", 0, 1.0], [20, "a", 0, 2.0]]), frame([[12, "a", 0, 4.0]]), frame([[21, "a", 0, 8.0]])]
    for window, totals in (
        ({"range": 15}, [1.0, 7.0, 15.0]),
        # The row at 20 had its result when it came, for all later rows come after it (S3 section 4.1).
        ({"rows": 3}, [1.0, 3.0, 14.0]),
        ({"rows": 2}, [1.0, 3.0, 10.0]),
    ):
        script = check(Stream(pages, 0), window, aggregates={"total": AGGREGATES["total"]})
        assert [row["total"] for row in script.results] == totals
        assert script.late is not None
        assert [row["t"] for row in script.late.rows] == [12]


def test_section_4_1_of_s3_rows_of_one_instant_do_not_wait_for_each_other() -> None:
    """Windows of rows are answered at once in a stream in order; those of time see their whole instant."""
    given = [[[1, "a"], [2, "a"]], [[2, "a"], [2, "a"]], [[2, "a"], [5, "a"]]]
    for window, after in (({"rows": 3}, [2, 4, 6]), ({"range": 3}, [1, 1, 5])):
        script = Script(plan(window, 0, [], {"n": AGGREGATES["n"]}))
        assert [len(script.page(frame(rows)).results) for rows in given] == after, window


def test_rows_without_a_time_go_to_the_late_sink_and_get_no_result() -> None:
    script = check(Stream([frame([[None, "a"], [3, "a"]])], 0), {"range": 5})
    assert script.late is not None
    assert [row["t"] for row in script.late.rows] == [None]
    assert script.metrics()["source:s"]["missing_time"] == 1


def test_variance_of_large_numbers_does_not_cancel() -> None:
    chance = random.Random(3)
    rows = [[n, "a", 0, 1e9 + chance.random()] for n in range(2_000)]
    pages = [frame(rows[a : a + 90]) for a in range(0, 2_000, 90)]
    for window in ({"range": 300}, {"rows": 300}):
        script = Script(plan(window, 0, [], {"var": AGGREGATES["var"]}))
        for page in pages:
            script.page(page)
        last = [x - 1e9 for _, _, _, x in rows[-300:]]
        mean = sum(last) / 300
        wanted = sum((x - mean) ** 2 for x in last) / 299
        assert script.drain().results[-1]["var"] == pytest.approx(wanted, rel=1e-6)


def test_what_no_later_window_needs_is_forgotten() -> None:
    for window, most in (({"range": 50}, 100), ({"rows": 50}, 100 + 2 * count_windows._SLACK)):
        script = Script(plan(window, 5, [], {"n": AGGREGATES["n"]}))
        for start in range(0, 20_000, 400):
            script.page(frame([[t] for t in range(start, start + 400)]))
        figures = script.metrics()["q/window"]
        assert figures["slack_rows"] == (6 if "range" in window else 5)
        assert figures["window_rows"] <= most
    assert script.drain().metrics()["q/window"]["results"] == 20_000


def test_groups_that_have_no_row_left_are_forgotten() -> None:
    script = Script(plan({"range": 50}, 0, ["i"], {"n": AGGREGATES["n"]}))
    for start in range(0, 20_000, 2_000):
        script.page(frame([[t, "a", 0, 1.0, t] for t in range(start, start + 2_000)]))
    operator = script.executor.graph.nodes["q/window"].operator
    assert len(operator._lanes[0].store.windows._codes) <= 2 * range_windows._FEW_GROUPS + 2_000


# --- refusals, reports


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"range": 0}, "range=0 must be positive"),
        ({"rows": 0}, "rows=0: write how many rows"),
        ({"rows": True}, "rows=True: write how many rows"),
        ({"range": 5, "rows": 5}, "a window has one length"),
        ({"rows": 5, "slide": "5 seconds"}, "windows of rows slide by rows"),
        ({"rows": 1, "slide": 5}, "two rows or more"),
        ({"range": 5, "offset": 5}, "add a slide"),
        ({"slide": 5}, "needs a size too"),
        ({}, "write range='30 seconds' or rows=100"),
        ({"range": 5, "d": "approx_count_distinct(x)"}, "give the window a slide"),
    ],
)
def test_a_window_that_cannot_be_meant_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(QueryError, match=says):
        arrow_plan(SAMPLE, **{"n": "count(*)", **settings})


def test_the_plan_says_that_each_row_has_a_window() -> None:
    assert "\nwindow range 5, for each row group by g\nagg n = count(*)" in describe(
        arrow_plan(SAMPLE, 5, group_by=["g"], n="count(*)")
    )
    assert "\nwindow 100 rows, for each row\n" in describe(arrow_plan(SAMPLE, rows=100, n="count(*)"))


def test_a_page_is_reported_as_one_pair_a_row() -> None:
    script = Script(plan({"range": 5}, 0, [], {"n": AGGREGATES["n"]}))
    heard: list[WindowLosses] = []
    script.executor.graph.nodes["source:s"].operator.on_report = heard.append  # type: ignore[method-assign]
    script.page(frame([[7], [3], [7]])).page(frame([[5], [9], [None]]))
    report = heard[-1]
    assert (report.query, report.page, report.lost) == ("q/window", 1, 1)
    assert (report.last_ticks.tolist(), report.pairs.tolist(), report.all) == ([5, 9], [1, 1], 2)


# --- crashes


def assert_undisturbed(world: World, script: Script) -> None:
    calm = Script(world.plan, late=ListSink())
    for number, page in enumerate(world.pages):
        calm.page(page, at=number)
    calm.drain()
    assert calm.late is not None
    assert_same_in_order(world.sink.rows, timeless(calm.results))
    assert sorted(map(str, world.late.rows)) == sorted(map(str, calm.late.rows))
    for key in ("late_rows", "lost_pairs", "windows", "results", "slack_rows"):
        assert script.metrics()["q/window"][key] == calm.metrics()["q/window"][key]


@settings(max_examples=30)
@given(
    unbounded_streams(most=20),
    KINDS,
    GROUPS,
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
    st.integers(0, 3),
    st.sampled_from([1, 2, 64]),
    st.sampled_from([0, 3_000, 1 << 20]),
)
def test_the_process_may_die_again_and_again(
    stream: Stream,
    window: dict[str, int],
    groups: list[str],
    deaths: list[int],
    again: int,
    commit_every: int,
    whole_at: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(journal_files, "_SMALLEST_WHOLE", whole_at):
        world = World(plan(window, stream.slack, groups, CHEAP), stream.pages, Path(folder), commit_every)
        script = world.outlive(deaths, again)
        assert_undisturbed(world, script)


@pytest.mark.parametrize("window", [{"range": 7}, {"rows": 3}], ids=["range", "rows"])
@pytest.mark.parametrize("whole_at", [0, 1 << 20], ids=["often whole", "once whole"])
def test_a_stop_between_any_two_pages_changes_nothing(
    tmp_path: Path, window: dict[str, int], whole_at: int
) -> None:
    chance = random.Random(6)
    pages = [
        frame([[n * 3 + chance.randrange(-9, 9), chance.choice("ab"), 0, float(k)] for k in range(6)])
        for n in range(8)
    ]
    with mock.patch.object(journal_files, "_SMALLEST_WHOLE", whole_at):
        world = World(plan(window, 4, ["g"], CHEAP), pages, tmp_path)
        for number in range(len(pages)):
            world._give(world.start(Fate()), number)
        script = world.live(Fate())
    assert script is not None
    assert_undisturbed(world, script)
    assert script.metrics()["q/window"]["late_rows"] > 0
