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

from slackwater.engine import journal_files
from slackwater.errors import QueryError
from slackwater.plan.describe import describe
from slackwater.plan.nodes import QueryNode
from slackwater.progress.bounded import bounded
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.testing import ListSink, Script, arrow_plan
from slackwater.windows import arena, count_windows, range_windows, scans
from tests.faults import Fate, World
from tests.rolling_oracle import AGGREGATES, Means, Recomputed, recompute
from tests.streams import SAMPLE, Stream, bounded_streams, frame, same, unbounded_streams

GROUPS = st.sampled_from([[], ["g"], ["g", "h"]])
KINDS = st.one_of(
    st.sampled_from([1, 2, 5, 10, 40, 1000]).map(lambda r: {"range": r}),
    st.sampled_from([1, 2, 3, 5, 8, 100]).map(lambda n: {"rows": n}),
)
CHEAP = {n: AGGREGATES[n] for n in ("n", "total", "low", "high_s", "var", "begins", "ends_s")}


def plan(window: dict[str, int], slack: int, groups: Sequence[str], aggregates: dict[str, Any]) -> QueryNode:
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
    return recompute(pages, beats_before(stream.pages, stream.slack), groups, aggregates, **window)


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


@settings(max_examples=150)
@given(bounded_streams(), KINDS, GROUPS)
@example(Stream([SAMPLE, SAMPLE.clear(), SAMPLE], 0), {"range": 1}, [])
def test_any_stream_within_its_bound_gives_exact_windows(
    stream: Stream, window: dict[str, int], groups: list[str]
) -> None:
    check(stream, window, groups)


@settings(max_examples=150)
@given(unbounded_streams(), KINDS, GROUPS)
def test_late_rows_lose_their_own_result_and_count_for_open_range_windows(
    stream: Stream, window: dict[str, int], groups: list[str]
) -> None:
    check(stream, window, groups)


@settings(max_examples=80)
@given(unbounded_streams(most=20), KINDS, GROUPS)
def test_every_aggregate_equals_its_recomputation(
    stream: Stream, window: dict[str, int], groups: list[str]
) -> None:
    check(stream, window, groups, AGGREGATES)


@settings(max_examples=80)
@given(bounded_streams(), KINDS, GROUPS)
def test_scans_and_doublings_and_shrunken_stores_agree(
    stream: Stream, window: dict[str, int], groups: list[str]
) -> None:
    with (
        mock.patch.object(scans, "_SHORT", 0),
        mock.patch.object(arena, "_SLACK", 0),
        mock.patch.object(arena, "_RATIO", 1),
        mock.patch.object(count_windows, "_SLACK", 0),
        mock.patch.object(range_windows, "_FEW_GROUPS", 0),
    ):
        check(stream, window, groups)
    with mock.patch.object(scans, "_SHORT", 100):
        check(stream, window, groups)


@settings(max_examples=60)
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
