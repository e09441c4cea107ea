"""Prods (S5 chapter 3): any interleaving of pages, prods, heartbeats and restarts leaves final results as they are.

Each early value (`<name>_seen`) equals a recomputation over exactly the rows that had arrived for its window, and a
prod for some windows or groups touches only these.
"""

from __future__ import annotations

import tempfile
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.operators.prod import Prod
from slackwater.operators.prod_request import check_early
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_plan
from slackwater.windows.spec import WindowSpec
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.streams import SAMPLE, WINDOWS, Stream, assert_same_rows, bounded_streams, finals, frame

CHOSEN = {name: AGGREGATES[name] for name in ("n", "total", "mean", "low", "high", "ends", "ends_s")}
SECOND = 1_000_000


def query(stream: Stream, window: tuple[int, int]) -> Any:
    aggregates = {name: text for name, (text, _) in CHOSEN.items()}
    return arrow_plan(SAMPLE, *window, group_by=["g"], disorder=bounded(stream.slack), **aggregates)


@given(
    stream=bounded_streams(),
    window=WINDOWS,
    prods=st.lists(st.tuples(st.integers(0, 10), st.one_of(st.none(), st.integers(-60, 90)), st.booleans())),
    stops=st.sets(st.integers(0, 10)),
)
def test_prods_show_what_has_arrived_and_change_no_final_result(
    stream: Stream, window: tuple[int, int], prods: list[tuple[int, int | None, bool]], stops: set[int]
) -> None:
    spec = WindowSpec(*window)
    calm = Script(query(stream, window))
    with tempfile.TemporaryDirectory() as folder:
        sink = ListSink()

        def begin() -> Script:
            return Script(query(stream, window), FileJournal(fs.LocalFileSystem(), folder, sync=False), sink)

        script = begin()
        for number, page in enumerate(stream.pages):
            calm.page(page)
            script.page(page)
            for at, until, some in prods:
                if at != number:
                    continue
                before = len(sink.rows)
                script.prod(until, "g = 'a'" if some else None)
                early = sink.rows[before:]
                assert all(r["kind"] == "early" for r in early)
                closed = {(r["window_start"], r["g"]) for r in finals(sink.rows)}
                heartbeat = script.metrics()["source:s"]["heartbeat"]
                arrived = pl.concat([SAMPLE.clear(), *stream.pages[: number + 1]]).drop_nulls("t")
                wanted = [
                    r
                    for r in recompute(arrived, spec, ["g"], CHOSEN)
                    if r["window_end"] - 1 > heartbeat
                    and (until is None or r["window_end"] <= until)
                    and (not some or r["g"] == "a")
                ]
                assert not {(r["window_start"], r["g"]) for r in early} & closed
                got = [{**r, **{name: r[f"{name}_seen"] for name in CHOSEN}} for r in early]
                assert_same_rows(got, wanted, ["window_start", "g"])
            if number in stops:
                script = begin()
        calm.drain()
        script.drain()
    assert_same_rows(finals(sink.rows), finals(calm.results), ["window_start", "g"])


@settings(max_examples=40)
@given(stream=bounded_streams(), window=WINDOWS, t=st.integers(-60, 90))
def test_a_prod_at_a_time_is_for_the_open_windows_that_contain_it(
    stream: Stream, window: tuple[int, int], t: int
) -> None:
    script, spec = Script(query(stream, window)), WindowSpec(*window)
    for page in stream.pages:
        script.page(page)
    before, prod = len(script.results), Prod.at(t, spec)
    script.prod(prod.until, after=prod.after)
    arrived = pl.concat([SAMPLE.clear(), *stream.pages]).drop_nulls("t")
    heartbeat = script.metrics()["source:s"]["heartbeat"]
    wanted = {
        (r["window_start"], r["g"])
        for r in recompute(arrived, spec, ["g"], CHOSEN)
        if r["window_start"] <= t < r["window_end"] and r["window_end"] - 1 > heartbeat
    }
    assert {(r["window_start"], r["g"]) for r in script.results[before:]} == wanted


def by_the_clock(slide: str) -> Any:
    domain = TimeDomain.TIMESTAMP
    return arrow_plan(SAMPLE, "30 seconds", slide, disorder=bounded("5 seconds"), domain=domain, n="count(*)")


def test_a_prod_that_comes_too_early_or_too_late_passes_on_harmlessly() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, n="count(*)")).prod()
    assert script.results == []
    script.page(frame([[5], [25]])).prod(until=10).prod(until=-100)
    assert [(r["kind"], r["window_start"]) for r in script.results] == [("final", 0)]
    script.prod()
    assert [(r["kind"], r["window_start"], r["n_seen"]) for r in script.results[1:]] == [("early", 20, 1)]


def test_figure_3_1_a_sum_is_110_early_and_135_in_the_end() -> None:
    """S5 Figure 3.1: RANGE 50; prodded at 50, then a late tuple of volume 25, then the punctuation."""
    plan = arrow_plan(SAMPLE, 50, 50, disorder=bounded(20), total="sum(i)")
    volumes = [(11, 40), (23, 20), (32, 30), (45, 20)]
    script = Script(plan).page(frame([[t, None, None, None, v] for t, v in volumes])).prod(until=50)
    script.page(frame([[52, None, None, None, 26], [48, None, None, None, 25]])).page(frame([[75]]))
    assert [(r["kind"], r["window_start"], r["total"]) for r in script.results] == [
        ("early", 0, 110),
        ("final", 0, 135),
    ]


def test_a_prodder_prods_each_window_once_at_its_share_of_the_slide() -> None:
    plan = by_the_clock("10 seconds")
    script = Script(plan, early=sw.early(at=0.75))
    for second in range(0, 60):
        script.until(second * SECOND).page(frame([[second * SECOND]]))
    early = [r for r in script.results if r["kind"] == "early"]
    assert [(r["emitted_at"].timestamp(), r["window_end"].timestamp()) for r in early][-3:] == [
        (37.5, 40),
        (47.5, 50),
        (57.5, 60),
    ]
    assert [r["n_seen"] for r in early][-3:] == [28, 28, 28]


def test_while_a_stream_pauses_nothing_is_prodded_and_nothing_wakes_the_prodder() -> None:
    script = Script(by_the_clock("10 seconds"), early=sw.early(at=0.75))
    for second in range(0, 25):
        script.until(second * SECOND).page(frame([[second * SECOND]]))
    script.until(48 * SECOND)  # the last window with a row ends at 50
    prods = script.metrics()["q/prodder"]["prods"]
    assert script.executor.wake_at() is None
    script.until(3600 * SECOND)
    assert script.metrics()["q/prodder"]["prods"] == prods
    # The first row behind the pause belongs to a window whose instant has passed.
    script.page(frame([[3599 * SECOND]]))
    early = [r for r in script.results if r["kind"] == "early"]
    assert [(r["window_end"].timestamp(), r["n_seen"]) for r in early[-2:]] == [(50, 5), (3600, 1)]


def test_a_prodder_may_prod_every_so_often() -> None:
    plan = by_the_clock("30 seconds")
    script = Script(plan, early=sw.early(every="10 seconds"))
    for second in range(1, 60):
        script.until(second * SECOND).page(frame([[second * SECOND]]))
    early = [(r["emitted_at"].timestamp(), r["n_seen"]) for r in script.results if r["kind"] == "early"]
    assert early == [(10, 10), (20, 20), (30, 29), (30, 1), (40, 11), (50, 21)]


def test_where_windows_go_by_numbers_the_prodder_follows_the_largest_seen() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, disorder=bounded(5), n="count(*)"), early=sw.early(at=0.5))
    for t in range(0, 40):
        script.page(frame([[t]]))
    early = [(r["window_start"], r["n_seen"]) for r in script.results if r["kind"] == "early"]
    assert early[1:] == [(10, 6), (20, 6), (30, 6)]


def test_the_largest_time_seen_does_not_go_back_below_zero() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, disorder=bounded(50), n="count(*)"), early=sw.early(at=0.5))
    script.page(frame([[-30], [0]])).page(frame([[-40]]))
    prodder = script.executor.graph.nodes["q/prodder"].operator
    state = prodder.state(True)
    assert state is not None and state.values["reference"]["time"] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"at": 1.5}, "between 0 and 1"),
        ({"at": float("nan")}, "between 0 and 1"),
        ({"at": True}, "as in 0.75"),
        ({"at": ""}, "as in 0.75"),
        ({"at": [0.5]}, "as in 0.75"),
        ({"every": "0 seconds"}, "positive"),
        ({"every": 5}, "not a length of time"),
        ({"every": ""}, "an empty length of time"),
        ({"season": "0 hours"}, "positive"),
        ({"season": 24}, "not a length of time"),
        ({"season": "9" * 400 + ".5 weeks"}, "cannot read"),
        ({"every": "9" * 5000 + " weeks"}, "cannot read"),
        ({"season": "9" * 30 + " weeks"}, "longer than any"),
        ({"every": "9" * 30 + " weeks"}, "longer than any"),
        ({"accuracy": np.timedelta64(1, "D")}, "accuracy=0.98"),
        ({"at": np.timedelta64(1, "D")}, "a share of the slide"),
        ({"measure": "exact"}, "must be a function"),
        ({"accuracy": 98}, "accuracy=0.98"),
        ({"accuracy": "0.9"}, "accuracy=0.98"),
        ({"coverage": 0}, "coverage=0.9"),
        ({"coverage": 1}, "coverage=0.9"),
        ({"coverage": "0.9"}, "coverage=0.9"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(settings: Any, message: str) -> None:
    (name, value), *_ = settings.items()
    with pytest.raises(sw.QueryError, match=message) as refused:
        sw.early(**settings)
    assert f"early({name}={value!r})" in str(refused.value)


def test_a_season_is_refused_where_windows_do_not_go_by_timestamps() -> None:
    with pytest.raises(sw.QueryError, match=r"season=.*timestamps.*leave it out"):
        check_early(arrow_plan(SAMPLE, 10, 10, n="count(*)"), sw.early(at=0.5, season="1 day"))


def test_a_season_is_refused_that_windows_cannot_show() -> None:
    plan = arrow_plan(SAMPLE, "1 hour", "10 minutes", domain=TimeDomain.TIMESTAMP, n="count(*)")
    check_early(plan, sw.early(at=0.5, season="20 minutes"))
    for season in ("19 minutes", "1 microsecond"):
        with pytest.raises(sw.QueryError, match=rf"season='{season}'.*two slides of '10 minutes'.*'20 minutes'"):
            check_early(plan, sw.early(at=0.5, season=season))


def test_an_accuracy_to_hold_is_refused_where_none_is_measured() -> None:
    below = arrow_plan(SAMPLE, 10, 10, group_by=["g"], n="count(*)")
    for plan, message in (
        (arrow_plan(SAMPLE, 10, 10, over=below, top="max(g)"), "none of top is a number"),
        (arrow_plan(SAMPLE, 10, 10, last="max(g)"), "none of last is a number"),
    ):
        check_early(plan, sw.early(at=0.5))
        with pytest.raises(sw.QueryError, match=f"accuracy=0.9.*{message}.*at=0.75"):
            check_early(plan, sw.early(accuracy=0.9))


#: By the size of pages. Those of one row are fewer, but more come behind the one far ahead than it is remembered.
NUMBERS = {20: range(1_200), 1: range(0, 1_200, 2)}


@cache
def asked_of_numbers(size: int, place: int | None) -> list[Any]:
    """Windows with an early answer, of pages of so many numbers; one far ahead may be in this place."""
    numbers = list(NUMBERS[size])
    if place is not None:
        numbers.insert(place, 10**9)
    script = Script(
        arrow_plan(SAMPLE, 100, 100, disorder=sw.drop_ratio(0.01), n="count(*)"), early=sw.early(at=0.5)
    )
    for begin in range(0, len(numbers), size):
        script.page(frame([[n] for n in numbers[begin : begin + size]]))
    return [r["window_start"] for r in script.results if r["kind"] == "early"]


@pytest.mark.parametrize(
    ("size", "place"), [(20, 0), (20, 600), (1, 0), pytest.param(1, 250, marks=pytest.mark.long)]
)
def test_one_number_far_ahead_costs_no_early_answer(size: int, place: int) -> None:
    # In the first page of one row it is believed until others contradict it.
    assert asked_of_numbers(size, place)[-10:] == asked_of_numbers(size, None)[-10:]


#: A prod for each window comes after prods without end, and after those that seek an accuracy.
AT = (("every", "at"), ("held", "at"))
SETTINGS = {
    "at": (sw.early(at=0.75), {7.5}),
    "sooner": (sw.early(at=0.25), {2.5}),
    "hour": (sw.early(every="1 hour"), set()),
    "every": (sw.early(every="5 seconds"), {0.0, 5.0, 10.0}),
    "held": (sw.early(accuracy=0.5), None),
}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(first, second, marks=[] if second == "every" or (first, second) in AT else [pytest.mark.long])
        for first in SETTINGS
        for second in ("at", "every", "sooner", "hour")
    ],
)
def test_after_a_restart_the_settings_are_those_that_are_written_then(first: str, second: str) -> None:
    sink = ListSink()
    plan = arrow_plan(SAMPLE, "10 seconds", "10 seconds", domain=TimeDomain.TIMESTAMP,
                      disorder=bounded("2 seconds"), n="count(*)")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for early, seconds in ((SETTINGS[first][0], range(60)), (SETTINGS[second][0], range(60, 120))):
            begun = len(sink.rows)
            script = Script(plan, FileJournal(fs.LocalFileSystem(), folder, sync=False), sink, early=early)
            script.clock.set(seconds[0] * SECOND)
            for n in seconds:
                script.until(n * SECOND).page(frame([[n * SECOND]]))
                wake = script.executor.wake_at()
                assert wake is None or wake > n * SECOND, "the loop would not sleep"
    early = [r for r in sink.rows[begun:] if r["kind"] == "early" and r["emitted_at"].timestamp() > 60]
    offsets = {(r["emitted_at"] - r["window_start"]).total_seconds() for r in early}
    assert offsets == SETTINGS[second][1]
