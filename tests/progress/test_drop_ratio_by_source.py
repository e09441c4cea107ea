"""drop_ratio by source: the ratio is kept by all sources together, and the quick do not wait for the slow."""

from __future__ import annotations

import random
from itertools import chain
from time import process_time
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.lab import arrivals as make
from experiments.lab import source_trial
from experiments.lab.source_trial import SourceOutcome, run_by_source
from slackwater.progress.arrival import Arrival, SourceArrivals, sketch_of
from slackwater.progress.disorder import Tracker
from slackwater.progress.drop_ratio.delay_classes import DelayClasses
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.time import FIRST_TIME, LAST_TIME, MIN_TICK, TimeDomain
from slackwater.progress.window_losses import RowsBySource, WindowLosses
from slackwater.windows.spec import WindowSpec
from tests.kit import streams  # noqa: F401  (the profile of all random tests)
from tests.kit.policy_checks import kept, plain

SECOND = 1_000_000
#: Pages before which nothing is asked of the share.
WARM = 100


def behind(seconds: float, delay: make.Delay) -> make.Delay:
    return lambda rng, made: seconds + delay(rng, made)


def stream(delays: list[make.Delay], seed: int, seconds: float = 300, rate: float = 15) -> pl.DataFrame:
    """A source for each delay."""
    parts = [make.arrivals(d, seconds=seconds, rate=rate, seed=seed + k, sources=1) for k, d in enumerate(delays)]
    return pl.concat(part.with_columns(source=pl.lit(f"s{k}")) for k, part in enumerate(parts))


def tried(rows: pl.DataFrame, p: float = 0.01, spec: tuple[int, int] = (10, 2)) -> SourceOutcome:
    tracker = drop_ratio(p).tracker(TimeDomain.TIMESTAMP)
    return run_by_source(tracker, rows, SECOND, WindowSpec(spec[0] * SECOND, spec[1] * SECOND))


def mean_wait(waits: dict[str, list[int]], *sources: str) -> float:
    return float(np.mean(list(chain(*(waits[s] for s in sources or waits))))) / SECOND


DELAYS = st.lists(
    st.one_of(
        st.floats(0.1, 6).map(make.exponential),
        st.floats(0.1, 10).map(make.uniform),
        st.floats(0.1, 3).map(make.pareto),
        st.floats(5, 60).map(lambda s: behind(s, make.exponential(1))),
    ),
    min_size=2,
    max_size=4,
)


@settings(max_examples=6, derandomize=True)  # what chance may do is bounded, but not to the last row
@given(DELAYS, st.sampled_from([(10, 2), (5, 5), (20, 1)]), st.sampled_from([0.01, 0.05]), st.integers(0, 10**6))
def test_all_sources_together_lose_no_more_than_the_share(
    delays: list[make.Delay], spec: tuple[int, int], p: float, seed: int
) -> None:
    outcome = tried(stream(delays, seed), p, spec)
    assert outcome.share(WARM) <= p
    assert outcome.worst(100, WARM) <= 1.1 * p


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(behind(100, make.exponential(1)), id="far behind"),
        pytest.param(make.exponential(20), id="in great disorder", marks=pytest.mark.long),
    ],
)
def test_a_slow_source_does_not_delay_the_windows_of_others(slow: make.Delay) -> None:
    quick = [make.exponential(1)] * 4
    alone, both = tried(stream(quick, 3)), tried(stream([*quick, slow], 3))
    names = [f"s{k}" for k in range(4)]
    assert mean_wait(both.waits, *names) < 1.5 * mean_wait(alone.waits, *names)
    assert mean_wait(both.waits) < 0.6 * mean_wait(both.stream_waits), "in the mean over all windows"
    assert both.share(WARM) <= 0.01


def test_a_source_that_sends_little_and_is_slow_is_not_lost() -> None:
    """One slack for all would lose it whole: it sends less than the share that may be lost."""
    rows = stream([make.exponential(1)] * 5, 5, rate=40)
    rare = make.arrivals(behind(90, make.exponential(1)), seconds=300, rate=1, seed=9, sources=1)
    outcome = tried(pl.concat([rows, rare.with_columns(source=pl.lit("rare"))]))
    kept = len(outcome.waits["rare"])
    assert kept > 80, "its windows wait for it, and close"
    assert len(outcome.stream_waits["rare"]) < kept / 2
    assert outcome.share(WARM) <= 0.01
    assert mean_wait(outcome.waits, "rare") < 130


def test_a_source_that_has_fallen_silent_is_carried_along() -> None:
    rows = stream([make.exponential(1)] * 3, 1)
    ends = stream([behind(40, make.exponential(1))], 8, seconds=150).with_columns(source=pl.lit("stops"))
    outcome = tried(pl.concat([rows, ends]))
    times = ends["time"].to_numpy() // (2 * SECOND)
    assert len(outcome.waits["stops"]) >= len(np.unique(times)), "all its windows have closed"


def test_delays_are_told_apart_and_a_straggler_moves_nobody() -> None:
    classes = DelayClasses(unit=SECOND)
    sources = classes.meet(["quick", "slow", "straggles"])
    for k in range(40):
        now = 100 + k
        lowest = np.array([now - 2, now - 50, now - (3_600 if k == 30 else 2)]) * SECOND
        classes.measure(sources, lowest, np.array([now, now - 48, now]) * SECOND, now * SECOND)
    quick, slow, straggles = classes.place.tolist()
    assert quick == straggles < slow


def test_pages_without_any_time_do_not_shift_what_later_pages_met() -> None:
    tracker = drop_ratio(0.01).tracker(TimeDomain.TIMESTAMP)
    tracker.by_source()
    one = np.array([1])
    for number in range(9):
        tracker.admit(number)
        if number % 2:
            tracker.arrive(
                Arrival(1, 1, None, None, number, sources=SourceArrivals([], *[np.zeros(0, np.int64)] * 3))
            )
        else:
            top = np.array([number * SECOND])
            sources = SourceArrivals(["a"], one, top, top)
            tracker.arrive(Arrival(1, 0, top[0], top[0], number, sketch=sketch_of(top), sources=sources))
    waiting = {name: kept for name, kept in tracker.state().items() if name.endswith("waiting")}
    assert len(waiting) == 2, "the stream, and the class of the source"
    assert all(kept == [] for kept in waiting.values())


def test_before_a_query_asks_for_sources_they_cost_nothing() -> None:
    tracker: Any = drop_ratio("1%").tracker(TimeDomain.TIMESTAMP)
    one = np.array([1], dtype=np.int64)
    for k in range(3):
        tracker.arrive(
            Arrival(1, 0, k, k, at=k, sketch=sketch_of(one * k), sources=SourceArrivals(["a"], one, one, one))
        )
    assert tracker._classes is None
    beats = tracker.by_source()
    assert (beats.names, beats.others) == ([], MIN_TICK)


def test_heartbeats_of_a_hundred_thousand_sources_are_cheap() -> None:
    rng, n, spec = np.random.default_rng(1), 100_000, WindowSpec(300 * SECOND, 60 * SECOND)
    names, usual = [f"device-{k}" for k in range(n)], rng.exponential(20, n) * SECOND
    tracker = drop_ratio("1%").tracker(TimeDomain.TIMESTAMP)
    tracker.by_source()
    ones, taken = np.ones(n, dtype=np.int64), []
    for page in range(24):
        now = (1_000 + 10 * page) * SECOND
        times = (now - usual - rng.exponential(5, n) * SECOND).astype(np.int64)
        by = RowsBySource(names, times // (60 * SECOND), ones, 0 * ones, spec.rows_by_window)
        panes, rows = np.unique(by.panes, return_counts=True)
        told = WindowLosses("q", page, *spec.rows_by_window(panes, rows), 0, lambda by=by: by)
        sources = SourceArrivals(names, ones, times, times)
        came = Arrival(n, 0, int(times.min()), int(times.max()), now, sketch=sketch_of(times), sources=sources)
        begin = process_time()
        tracker.admit(page)
        tracker.hear(told)
        tracker.arrive(came)
        tracker.tick(now)
        tracker.by_source()
        taken.append(process_time() - begin)
    # About 35 on two cores; a busy machine may take longer.
    assert np.median(taken) < 0.1


def test_a_corrupt_time_harms_no_source() -> None:
    """One row of the year 2096, while a slow source is silent: nobody is carried along to it or changes class."""
    rows = stream([make.exponential(1), make.exponential(1), behind(100, make.exponential(1))], 3)
    rows = rows.filter((pl.col("source") != "s2") | ~pl.col("arrival").is_between(140 * SECOND, 160 * SECOND))
    corrupt = pl.DataFrame({"arrival": [150 * SECOND], "time": [4 * 10**15], "source": ["broken"]})
    clean, outcome = tried(rows), tried(pl.concat([rows, corrupt]))
    assert outcome.worst(100, WARM) <= 0.01
    assert mean_wait(outcome.waits, "s0", "s1") < 1.1 * mean_wait(clean.waits, "s0", "s1")
    assert len(outcome.waits["s2"]) == len(clean.waits["s2"])


WRONG = {"twice": range(200, 202), "now and then": range(30, 400, 40), "from then on": range(200, 400)}


@pytest.mark.parametrize("ahead", [3_600, pytest.param(10**9, marks=pytest.mark.long)])
@pytest.mark.parametrize("when", WRONG)
def test_a_clock_that_is_wrong_harms_no_other_source(when: str, ahead: int) -> None:
    """Sources that are quick would wait for the slowest, or these would be lost, if delays were counted from it."""
    quick = [make.exponential(1), make.uniform(4), make.exponential(6)]
    rows = stream([*quick, behind(100, make.exponential(1))], 3, seconds=400, rate=10)
    sent = [at * SECOND for at in WRONG[when]]
    wrong = pl.DataFrame({"arrival": sent, "time": [at + ahead * SECOND for at in sent]})
    rows = pl.concat([rows, wrong.with_columns(source=pl.lit("wrong"))])
    outcome = tried(rows)
    assert outcome.worst(100, WARM) <= 0.01
    assert mean_wait(outcome.waits, "s0", "s1", "s2") < 20  # 11 without it, 100 if they wait for the slowest


def test_a_clock_that_turns_wrong_carries_no_silent_source_along() -> None:
    """Pages are small, so it is believed after a while; that jump must not move a source that is silent."""
    rows = stream([make.exponential(1)] * 30 + [behind(100, make.exponential(1))], 3, seconds=240, rate=3)
    silent = (pl.col("source") == "s30") & pl.col("arrival").is_between(140 * SECOND, 170 * SECOND)
    wrong = (pl.col("source") == "s0") & (pl.col("arrival") > 150 * SECOND)
    rows = rows.filter(~silent).with_columns(
        time=pl.when(wrong).then(pl.col("time") + 10**9 * SECOND).otherwise(pl.col("time"))
    )
    tracker = drop_ratio(0.01).tracker(TimeDomain.TIMESTAMP)
    run_by_source(tracker, rows, SECOND, WindowSpec(10 * SECOND, 2 * SECOND))
    beats = tracker.by_source()
    assert beats is not None
    found = dict(zip(beats.names, beats.ticks.tolist(), strict=True))
    assert found["s30"] <= 240 * SECOND


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])
def test_a_restart_in_the_middle_of_a_hostile_stream_changes_no_heartbeat(seed: int) -> None:
    """Sources come and go, some send one row, times are corrupt, delays grow, for longer than a stretch is."""
    dice, integers = random.Random(seed), seed % 2 == 1
    policy = drop_ratio(0.05, stretch=dice.choice([30, 100, "45 seconds"]))
    domain = TimeDomain.SEQUENCE if integers else TimeDomain.TIMESTAMP
    spec, tick = (WindowSpec(10, 2), 1) if integers else (WindowSpec(10 * SECOND, 2 * SECOND), SECOND)
    tracker, other = policy.tracker(domain), policy.tracker(domain)
    for each in (tracker, other):
        each.by_source()
    restart = dice.randrange(20, 150)
    for number in range(160):
        rows = hostile_page(dice, number, tick)
        if number == restart:
            other.restore(kept(tracker.state()))
        step(tracker, number, rows, spec)
        if number >= restart:
            step(other, number, rows, spec)
            assert beats_of(other) == beats_of(tracker)
            assert other.metrics() == tracker.metrics()
    assert plain(other.state()) == plain(tracker.state())


def test_the_smallest_and_the_largest_time_in_one_page_are_taken() -> None:
    """Their windows are further apart than 64 bits count."""
    tracker, spec = drop_ratio(0.05).tracker(TimeDomain.SEQUENCE), WindowSpec(3, 1)
    tracker.by_source()
    for number in range(40):
        rows = [(number, "a"), (number, "b"), (number - 20, "slow")]
        rows += [(FIRST_TIME, "a"), (LAST_TIME, "slow")] if number in (20, 30) else []
        step(
            tracker, number, pl.DataFrame(rows, schema={"time": pl.Int64, "source": pl.String}, orient="row"), spec
        )
    assert 0 < beats_of(tracker)["b"] < 40


def hostile_page(dice: random.Random, number: int, tick: int) -> pl.DataFrame:
    """Some rows of each source that lives, rows of sources that come once, and corrupt times."""
    rows: list[tuple[int, str]] = []
    for k, (usual, first, last) in enumerate([(1, 0, 160), (1, 40, 90), (9, 0, 160), (40, 20, 120), (1, 100, 160)]):
        later = 4 if number > 110 else 1
        count = dice.randrange(6) if first <= number < last else 0
        rows += [(int((number - dice.expovariate(1 / usual) * later) * tick), f"s{k}") for _ in range(count)]
    rows += [(number * tick, f"once {number} {k}") for k in range(dice.choice([0, 0, 3]))]
    if dice.random() < 0.05:
        rows.append((dice.choice([FIRST_TIME, 0, LAST_TIME, 2**53 + 1]), dice.choice(["s0", "s3", "broken"])))
    return pl.DataFrame(rows, schema={"time": pl.Int64, "source": pl.String}, orient="row")


def step(tracker: Tracker, number: int, rows: pl.DataFrame, spec: WindowSpec) -> None:
    """What a stream does with a page, which may be empty."""
    at = number * SECOND
    tracker.admit(number)
    if len(rows):
        told, _ = source_trial._told(number, rows, spec, beats_of(tracker), tracker.heartbeat.tick)
        tracker.hear(told)
        tracker.arrive(source_trial._arrival(rows, at))
    else:
        tracker.arrive(Arrival(0, 0, None, None, at, sources=SourceArrivals([], *[np.zeros(0, np.int64)] * 3)))
    tracker.tick(at)


def beats_of(tracker: Tracker) -> dict[str, int]:
    return {**source_trial._beats(tracker), "(stream)": tracker.heartbeat.tick}
