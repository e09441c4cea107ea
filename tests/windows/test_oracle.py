"""Random disordered streams through the engine equal a recomputation from scratch.

Any range, slide and offset (catches pane arithmetic), any cut into pages (merging), times below zero (division),
null groups and values, NaN, filters and projections, and every aggregate with its partials merged over many panes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.time import TimeDomain
from slackwater.testing import Script, arrow_plan
from slackwater.windows import panes
from slackwater.windows.spec import CumulateSpec, WindowSpec
from tests.kit.oracle import AGGREGATES, NAN_AGGREGATES, Means, recompute
from tests.kit.streams import SAMPLE, WINDOWS, Stream, assert_same_rows, bounded_streams, frame, timeless

GROUPS = st.sampled_from([[], ["g"], ["g", "h"]])
OFFSETS = st.integers(-20, 20)
CHEAP = {n: AGGREGATES[n] for n in ("n", "total", "high", "var", "begins", "ends", "p30")}


def run(
    pages: Sequence[pl.DataFrame],
    slack: int,
    window: tuple[int, int],
    aggregates: dict[str, tuple[str, Means]],
    groups: Sequence[str] = (),
    **settings: Any,
) -> Script:
    texts = {name: text for name, (text, _) in aggregates.items()}
    plan = arrow_plan(SAMPLE, *window, group_by=groups, disorder=bounded(slack), **settings, **texts)
    script = Script(plan)
    for page in pages:
        script.page(page)
    return script.drain()


def check(
    stream: Stream,
    window: tuple[int, int],
    offset: int = 0,
    groups: Sequence[str] = (),
    aggregates: dict[str, tuple[str, Means]] = CHEAP,
) -> None:
    script = run(stream.pages, stream.slack, window, aggregates, groups, offset=offset)
    wanted = recompute(stream.rows, WindowSpec(*window, offset), groups, aggregates)
    assert_same_rows(script.results, wanted, ["window_start", *groups])
    figures = script.metrics()["q/window"]
    assert (figures["late_rows"], figures["lost_pairs"]) == (0, 0)
    assert (figures["results"], figures["partials"]) == (len(wanted), 0)


@settings(max_examples=100)
@given(bounded_streams(), WINDOWS, OFFSETS, GROUPS)
@example(Stream([SAMPLE, SAMPLE.clear(), SAMPLE], 0), (7, 3), -1, [])
def test_any_stream_within_its_bound_gives_exact_windows(
    stream: Stream, window: tuple[int, int], offset: int, groups: list[str]
) -> None:
    check(stream, window, offset, groups)


@given(bounded_streams(), st.integers(1, 8), st.integers(1, 20), OFFSETS, GROUPS)
def test_rows_between_windows_are_in_none(
    stream: Stream, length: int, more: int, offset: int, groups: list[str]
) -> None:
    check(stream, (length, length + more), offset, groups)


@given(bounded_streams(), st.integers(1, 8), st.integers(1, 6), OFFSETS, GROUPS)
def test_windows_grow_by_steps_and_begin_anew(
    stream: Stream, step: int, steps: int, offset: int, groups: list[str]
) -> None:
    settings = {"step": step, "offset": offset, "group_by": groups, "disorder": bounded(stream.slack)}
    script = Script(arrow_plan(SAMPLE, step * steps, **settings, **{n: text for n, (text, _) in CHEAP.items()}))
    for page in stream.pages:
        script.page(page)
    script.drain()
    wanted = recompute(stream.rows, CumulateSpec(step * steps, step, offset), groups, CHEAP)
    assert_same_rows(script.results, wanted, ["window_start", "window_end", *groups])
    figures = script.metrics()["q/window"]
    assert (figures["late_rows"], figures["lost_pairs"], figures["partials"]) == (0, 0, 0)


@settings(max_examples=60)
@given(bounded_streams(), st.sampled_from([(7, 3), (10, 10), (12, 4), (9, 1)]), GROUPS)
def test_every_aggregate_equals_its_recomputation(
    stream: Stream, window: tuple[int, int], groups: list[str]
) -> None:
    check(stream, window, groups=groups, aggregates=AGGREGATES)


@settings(max_examples=60)
@given(bounded_streams(), WINDOWS, GROUPS)
def test_merging_the_panes_after_every_page_changes_nothing(
    stream: Stream, window: tuple[int, int], groups: list[str]
) -> None:
    with mock.patch.object(panes, "_MOST_PIECES", 2):
        check(stream, window, groups=groups)


@settings(max_examples=60)
@given(bounded_streams(), WINDOWS, GROUPS, st.randoms(use_true_random=False))
def test_nan_is_above_every_number(
    stream: Stream, window: tuple[int, int], groups: list[str], chance: random.Random
) -> None:
    nan = pl.lit(float("nan"))
    pages = [
        p.with_columns(
            x=pl.when(pl.Series([chance.random() < 0.3 for _ in range(p.height)], dtype=pl.Boolean))
            .then(nan)
            .otherwise(pl.col("x"))
        )
        for p in stream.pages
    ]
    check(Stream(pages, stream.slack), window, groups=groups, aggregates=NAN_AGGREGATES)


@settings(max_examples=60)
@given(bounded_streams(), WINDOWS, OFFSETS)
def test_a_filter_and_a_projection_come_before_the_windows(
    stream: Stream, window: tuple[int, int], offset: int
) -> None:
    aggregates = {"n": AGGREGATES["n"], "total": AGGREGATES["total"], "ends": AGGREGATES["ends"]}
    select = {"x": "x * 2 + h", "key": "g"}
    script = run(
        stream.pages, stream.slack, window, aggregates, ["key"], offset=offset, where="x > -500", select=select
    )
    kept = stream.rows.filter(pl.col("x") > -500).with_columns(x=pl.col("x") * 2 + pl.col("h"), key=pl.col("g"))
    wanted = recompute(kept, WindowSpec(*window, offset), ["key"], aggregates)
    assert_same_rows(script.results, wanted, ["window_start", "key"])


@settings(max_examples=60)
@given(bounded_streams(), WINDOWS, st.data())
def test_the_cut_into_pages_changes_nothing(stream: Stream, window: tuple[int, int], data: st.DataObject) -> None:
    rows = stream.rows
    size = data.draw(st.integers(1, max(rows.height, 1)))
    recut = [rows[n : n + size] for n in range(0, rows.height, size)]
    one = run(stream.pages, stream.slack, window, CHEAP, ["g"])
    other = run(recut, stream.slack, window, CHEAP, ["g"])
    keys = ["window_start", "g"]
    assert [[row[k] for k in keys] for row in one.results] == [[row[k] for k in keys] for row in other.results]
    assert_same_rows(one.results, timeless(other.results), keys)


@settings(max_examples=60)
@given(bounded_streams(), st.sampled_from([(7, 3), (60, 60), (30, 10)]), st.integers(-3, 3))
def test_timestamps_before_and_after_1970_are_laid_alike(
    stream: Stream, window: tuple[int, int], offset: int
) -> None:
    second = 1_000_000
    stamped = [p.with_columns(t=(pl.col("t") * second).cast(pl.Datetime("us"))) for p in stream.pages]
    plan = arrow_plan(
        SAMPLE.with_columns(t=pl.col("t").cast(pl.Datetime("us"))),
        f"{window[0]} seconds",
        f"{window[1]} seconds",
        offset=f"{offset} seconds",
        domain=TimeDomain.TIMESTAMP,
        disorder=bounded(f"{stream.slack} seconds"),
        n="count(*)",
    )
    script = Script(plan)
    for page in stamped:
        script.page(page)
    wanted = recompute(stream.rows, WindowSpec(*window, offset), [], {"n": AGGREGATES["n"]})
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for row in wanted:
        row["window_start"] = epoch + timedelta(seconds=row["window_start"])
        row["window_end"] = epoch + timedelta(seconds=row["window_end"])
    assert_same_rows(script.drain().results, wanted, ["window_start"])


@pytest.mark.parametrize("window", [(7, 3), (10, 10), (5, 1)])
@pytest.mark.parametrize("tick", [-8, -1, 0, 1, 6, 7])
def test_a_single_row_is_in_every_window_that_covers_it(tick: int, window: tuple[int, int]) -> None:
    check(Stream([frame([[tick, "a", 1, 2.5, 3, "p"]])], 3), window, aggregates=AGGREGATES)


def test_windows_without_rows_give_no_results() -> None:
    script = run([frame([[0]]), frame([[1000]])], 0, (10, 5), {"n": AGGREGATES["n"]})
    starts = [row["window_start"] for row in script.results]
    assert starts == [-5, 0, 995, 1000]


def test_a_stream_without_rows_gives_no_results() -> None:
    assert run([SAMPLE.clear()], 0, (10, 5), CHEAP).results == []


def test_many_groups_over_many_panes_are_exact() -> None:
    chance = random.Random(7)
    rows = []
    for n in range(6_000):
        tick = n // 20 - chance.randrange(9)
        rows.append([tick, f"k{chance.randrange(400)}", chance.randrange(2), chance.randrange(4000) / 4, n, "p"])
    cuts = [frame(rows[a : a + 700]) for a in range(0, len(rows), 700)]
    check(Stream(cuts, 12), (35, 10), 3, ["g", "h"])


def test_results_come_in_the_order_of_window_and_group_and_say_that_they_are_final() -> None:
    rows = [[t, g] for t in (0, 1, 2) for g in ("b", None, "a")]
    script = run([frame(rows)], 0, (2, 1), {"n": AGGREGATES["n"]}, ["g"])
    keys = [(row["window_start"], row["g"] is not None, row["g"]) for row in script.results]
    assert keys == sorted(keys, key=lambda k: (k[0], k[1], k[2] or ""))
    assert {(row["kind"], row["completeness"]) for row in script.results} == {("final", 1.0)}


def test_a_result_says_when_it_was_emitted() -> None:
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)")
    script = Script(plan).page(frame([[5]]), at=1_000).page(frame([[25]]), at=2_000).page(frame([[26]]), at=3_000)
    emitted = [row["emitted_at"] for row in script.results]
    assert emitted == [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=2_000)]


def test_variance_of_large_numbers_does_not_cancel() -> None:
    chance = random.Random(3)
    values = [1e9 + chance.random() for _ in range(3_000)]
    pages = [
        frame([[n // 100, "a", 0, x] for n, x in list(enumerate(values))[a : a + 90]]) for a in range(0, 3_000, 90)
    ]
    script = run(pages, 5, (30, 30), {"var": AGGREGATES["var"]})
    mean = sum(x - 1e9 for x in values) / 3_000
    wanted = sum((x - 1e9 - mean) ** 2 for x in values) / 2_999
    assert script.results[0]["var"] == pytest.approx(wanted, rel=1e-6)


def test_sketches_of_many_values_stay_within_their_error() -> None:
    chance = random.Random(11)
    values = list(range(20_000))
    chance.shuffle(values)
    rows = [[n // 1_000, "a", 0, float(x), x, f"s{x}"] for n, x in enumerate(values)]
    texts = {"d": "approx_count_distinct(s)", "p": "approx_percentile(x, 0.9)", "m": "approx_percentile(i, 0.5)"}
    script = Script(arrow_plan(SAMPLE, 20, 5, disorder=bounded(0), **texts))
    for a in range(0, len(rows), 3_000):
        script.page(frame(rows[a : a + 3_000]))
    (full,) = [row for row in script.drain().results if row["window_start"] == 0]
    assert full["d"] == pytest.approx(20_000, rel=0.05)
    assert full["p"] == pytest.approx(18_000, abs=20_000 * 0.03)
    assert full["m"] == pytest.approx(10_000, abs=20_000 * 0.03)
