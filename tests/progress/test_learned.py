"""Learned bounds as a policy (S1 section 6): what slow, silent, new and very many sources may do.

That the estimates are those of Figure 4 is tested in `test_figure_4.py`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.errors import JournalError
from slackwater.progress.arrival import Arrival
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.learned.estimator import Settings, SkewEstimator
from slackwater.progress.learned.learned import Learned, LearnedTracker, learned
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.testing import Script, arrow_plan
from tests.kit.arrivals import Rows, beats, page, plain
from tests.kit.streams import SAMPLE, frame

SEQUENCE, TIMESTAMP = TimeDomain.SEQUENCE, TimeDomain.TIMESTAMP
SECOND = 1_000_000
HOUR = 3600 * SECOND


def seen_of(tracker: LearnedTracker) -> tuple[Any, ...]:
    by_source = tracker.by_source()
    few = None if by_source is None else (by_source.names, by_source.ticks.tolist(), by_source.others)
    return tracker.heartbeat, few, tracker.wake_at()


def kept(tracker: LearnedTracker) -> dict[str, Any]:
    """The state as a journal keeps it: arrays as they are, the rest as JSON."""
    state = tracker.state()
    arrays = {k: v for k, v in state.items() if isinstance(v, np.ndarray)}
    assert all(a.dtype in (np.int64, np.float64) and a.ndim == 1 for a in arrays.values())
    return {**json.loads(json.dumps({k: v for k, v in state.items() if k not in arrays})), **arrays}


# --- whatever comes


@st.composite
def events(draw: st.DrawFn) -> list[tuple[int, Rows | None]]:
    """Pages of several sources, some without rows, and ticks (None)."""
    now, happened = 0, []
    for _ in range(draw(st.integers(1, 15))):
        now += draw(st.integers(0, 40))
        names = draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4))
        rows = {n: [now - d for d in draw(st.lists(st.integers(0, 120), max_size=3))] for n in names}
        happened.append((now, draw(st.sampled_from([rows, rows, None]))))
    return happened


POLICIES = st.builds(
    learned,
    window=st.sampled_from([2, 5, "30 us"]),
    alpha=st.sampled_from([0, 0.5, 0.9]),
    tmax=st.sampled_from(["0 us", "30 us"]),
    unit=st.just("10 us"),
    timeout=st.sampled_from([None, "50 us"]),
    adaptive=st.booleans(),
    groups=st.sampled_from([None, 1, 5]),
    initial=st.sampled_from([None, "0 us", "25 us"]),
)


def happen(tracker: LearnedTracker, now: int, rows: Rows | None) -> tuple[Any, ...]:
    if rows is None:
        tracker.tick(now)
    else:
        tracker.arrive(page(now, rows))
    return seen_of(tracker)


@settings(max_examples=50, deadline=None)
@example(
    policy=learned(window=2, alpha=0, tmax="30 us", unit="10 us"),
    happened=[(1, {"a": [1]}), (2, {"a": [2, 1]}), (10, {"b": [1]})],
)
@given(POLICIES, events())
def test_no_heartbeat_goes_back_and_the_stream_is_past_no_source_but_new_ones(
    policy: Learned, happened: list[tuple[int, Rows | None]]
) -> None:
    tracker = policy.tracker(TIMESTAMP)
    last, last_of = tracker.heartbeat, dict[str, int]()
    for now, rows in happened:
        happen(tracker, now, rows)
        before, last = last, tracker.heartbeat
        assert last >= before
        few = tracker.by_source()
        if few is not None and few.names:
            assert few.others == MIN_TICK
            ticks = beats(tracker)
            # With the page of a new source the clock has gone on: until then the others alone held time back.
            known = [tick for name, tick in ticks.items() if name in last_of] or list(ticks.values())
            assert max(before.tick, min(ticks.values())) <= last.tick <= max(before.tick, min(known))
            for name, beat in ticks.items():
                assert beat >= last_of.get(name, MIN_TICK)
            last_of = ticks


@settings(max_examples=30, deadline=None)
@given(POLICIES, events(), events(), st.integers(1, 5))
def test_a_restored_tracker_has_the_same_future(
    policy: Learned, before: list[tuple[int, Rows | None]], after: list[tuple[int, Rows | None]], few: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slackwater.progress.learned.learned.SOURCES", few)
        tracker, other = policy.tracker(TIMESTAMP), policy.tracker(TIMESTAMP)
        for now, rows in before:
            happen(tracker, now, rows)
        other.restore(kept(tracker))
        assert seen_of(other) == seen_of(tracker)
        for now, rows in after:
            assert happen(other, now + before[-1][0], rows) == happen(tracker, now + before[-1][0], rows)
        assert other.metrics() == tracker.metrics()


@settings(max_examples=30, deadline=None)
@given(POLICIES, events())
def test_when_a_promise_falls_due_the_tracker_wants_to_be_woken(
    policy: Learned, happened: list[tuple[int, Rows | None]]
) -> None:
    """Between now and `wake_at` a tick changes nothing."""
    tracker = policy.tracker(TIMESTAMP)
    for now, rows in happened:
        happen(tracker, now, rows)
    now, last = happened[-1][0], seen_of(tracker)
    for later in range(now, now + 120):
        wake = tracker.wake_at()
        tracker.tick(later)
        if wake is None or later < wake:
            assert seen_of(tracker) == last
        last = seen_of(tracker)
    wake = tracker.wake_at()
    assert wake is None or wake > now + 119


def test_times_at_the_ends_of_the_scale_do_no_harm() -> None:
    tracker = learned().tracker(SEQUENCE)
    for at, rows in enumerate([{"a": [2**63 - 1]}, {"b": [-(2**63) + 1]}, {"a": [0], "b": [2**62]}]):
        tracker.arrive(page(at, rows))
    assert beats(tracker) == {"a": 2**63 - 1, "b": 2**62}
    assert tracker.heartbeat == Heartbeat(2**63 - 1), "it does not go back for a source that is new"
    tracker = learned(initial=2**60).tracker(SEQUENCE)
    tracker.arrive(page(0, {"a": [-(2**63) + 5]}))
    assert tracker.heartbeat == Heartbeat.NONE


# --- slow, silent, new


def steady(tracker: LearnedTracker, seconds: range, lags: dict[str, int]) -> None:
    """A page a second, in which each source has the row of a second some lag ago."""
    for s in seconds:
        tracker.arrive(page(s * SECOND, {name: [s * SECOND - lag] for name, lag in lags.items()}))


def test_a_source_that_is_late_by_an_hour_delays_only_its_own_heartbeat() -> None:
    tracker = learned().tracker(TIMESTAMP)
    steady(tracker, range(100), {"a": 0, "b": 2 * SECOND, "late": HOUR})
    of = beats(tracker)
    assert of["a"] >= 98 * SECOND and of["b"] >= 95 * SECOND
    assert of["late"] == 100 * SECOND - HOUR - 1, "its next row may just come"
    assert tracker.heartbeat == Heartbeat(of["late"])


def test_a_source_far_ahead_that_comes_later_promises_nothing_of_those_behind() -> None:
    tracker = learned().tracker(TIMESTAMP)
    steady(tracker, range(10), {"late": HOUR})
    tracker.arrive(page(10 * SECOND, {"ahead": [10 * SECOND]}))
    assert beats(tracker)["late"] == 9 * SECOND - HOUR
    steady(tracker, range(11, 60), {"ahead": 0, "late": HOUR})
    assert beats(tracker) == {"late": 60 * SECOND - HOUR - 1, "ahead": 59 * SECOND}


def test_with_an_initial_estimate_of_0_it_does_as_in_figure_4() -> None:
    tracker = learned(initial="0 seconds").tracker(TIMESTAMP)
    steady(tracker, range(10), {"late": HOUR})
    tracker.arrive(page(10 * SECOND, {"ahead": [10 * SECOND]}))
    assert beats(tracker)["late"] == 10 * SECOND


def test_an_initial_estimate_spares_the_rows_of_the_second_page() -> None:
    careful, bold = learned(initial=20).tracker(SEQUENCE), learned().tracker(SEQUENCE)
    for tracker in (careful, bold):
        tracker.arrive(plain(0, 100, 80))
    assert (careful.heartbeat, bold.heartbeat) == (Heartbeat(80), Heartbeat(100))


def test_a_source_that_stops_is_carried_along_by_the_others() -> None:
    tracker = learned(timeout=None).tracker(TIMESTAMP)
    steady(tracker, range(30), {"a": 0, "b": 0, "stops": 5 * SECOND})
    steady(tracker, range(30, 1000), {"a": 0, "b": 0})
    assert beats(tracker)["stops"] >= 990 * SECOND
    assert tracker.heartbeat >= Heartbeat(990 * SECOND)


def test_a_new_source_begins_with_its_own_time_and_takes_nothing_back() -> None:
    tracker = learned().tracker(TIMESTAMP)
    steady(tracker, range(30), {"a": 0, "b": 3 * SECOND})
    before = tracker.heartbeat
    few = tracker.by_source()
    assert few is not None and few.others == MIN_TICK
    tracker.arrive(page(30 * SECOND, {"new": [30 * SECOND - HOUR]}))
    assert tracker.heartbeat == before
    assert beats(tracker)["new"] == 30 * SECOND - HOUR
    steady(tracker, range(31, 60), {"a": 0, "b": 3 * SECOND, "new": HOUR})
    assert tracker.heartbeat == before, "its rows are an hour behind what had been promised of the stream"
    assert beats(tracker)["a"] >= 57 * SECOND
    assert 50 * SECOND - HOUR <= beats(tracker)["new"] < 60 * SECOND - HOUR


def test_a_new_source_in_a_group_does_not_take_what_was_promised_without_it() -> None:
    """Lags of 40 and 60 minutes are in one group; when the second comes, the group is past its rows."""
    tracker = learned(groups=24, unit="1 second").tracker(TIMESTAMP)
    steady(tracker, range(30), {"a": 0, "behind": 2_400 * SECOND})
    assert beats(tracker)["behind"] >= (25 - 2_400) * SECOND
    steady(tracker, range(30, 90), {"a": 0, "behind": 2_400 * SECOND, "new": HOUR})
    assert beats(tracker)["new"] < 90 * SECOND - HOUR
    steady(tracker, range(90, 1_500), {"a": 0, "behind": 2_400 * SECOND, "new": HOUR})
    assert 1_480 * SECOND - HOUR <= beats(tracker)["new"] < 1_500 * SECOND - HOUR


def test_when_all_pause_the_timeout_promises_what_was_seen() -> None:
    tracker = learned(timeout="1 minute", tmax="0 seconds").tracker(TIMESTAMP)
    steady(tracker, range(30), {"a": 0, "late": HOUR})
    assert tracker.wake_at() == 89 * SECOND
    tracker.tick(89 * SECOND - 1)
    assert tracker.heartbeat == Heartbeat(30 * SECOND - HOUR - 1)
    tracker.tick(89 * SECOND)
    assert beats(tracker) == {"a": 29 * SECOND, "late": 29 * SECOND}
    assert tracker.wake_at() is None


def test_a_page_without_rows_does_not_put_the_timeout_off_and_one_without_times_does() -> None:
    tracker = learned(timeout="1 minute", tmax="0 seconds", initial=4).tracker(SEQUENCE)
    assert tracker.wake_at() is None
    tracker.arrive(plain(0, 7, 9))
    assert (tracker.heartbeat, tracker.wake_at()) == (Heartbeat(5), 60 * SECOND)
    tracker.arrive(Arrival(rows=0, missing=0, lowest=None, highest=None, at=50 * SECOND))
    assert tracker.wake_at() == 60 * SECOND
    tracker.arrive(Arrival(rows=1, missing=1, lowest=None, highest=None, at=50 * SECOND))
    assert tracker.wake_at() == 110 * SECOND
    tracker.tick(110 * SECOND)
    assert tracker.heartbeat == Heartbeat(9)
    assert tracker.by_source() is None


def test_a_source_that_only_sent_a_punctuation_is_not_among_the_sources() -> None:
    tracker = learned().tracker(SEQUENCE)
    tracker.arrive(page(0, {"a": [5], "quiet": []}))
    assert beats(tracker) == {"a": 5}


def test_heartbeats_that_were_given_away_do_not_change() -> None:
    tracker = learned().tracker(SEQUENCE)
    tracker.arrive(page(0, {"a": [5]}))
    given = tracker.by_source()
    tracker.arrive(page(0, {"a": [9], "b": [7]}))
    assert given is not None and (given.names, given.ticks.tolist()) == (["a"], [5])


def test_in_a_running_query_the_learned_skew_keeps_windows_open() -> None:
    plan = arrow_plan(SAMPLE, 10, 10, disorder=learned(timeout="1 second"), n="count(*)")
    script = Script(plan).page(frame([[0], [19]])).page(frame([[15], [35]])).page(frame([[36], [40]]))
    counted = [(r["window_start"], r["n"]) for r in script.results]
    assert counted == [(0, 1), (10, 1)], "15 came too late, once; since then δ is 5, and 39 may still come"
    assert script.metrics()["q/window"]["late_rows"] == 1
    script.page(frame([[36], [49]]))
    assert [(r["window_start"], r["n"]) for r in script.results][2:] == [(30, 3)]
    script.advance(SECOND)
    assert [(r["window_start"], r["n"]) for r in script.results][3:] == [(40, 2)]


# --- many sources


def crowd(n: int, lag: int) -> dict[str, int]:
    return {f"s{k}": lag for k in range(n)}


@pytest.mark.parametrize("policy", [learned(), learned(groups=24)])
def test_among_many_sources_a_late_one_delays_only_its_own_kind(policy: Learned) -> None:
    tracker = policy.tracker(TIMESTAMP)
    steady(tracker, range(60), {**crowd(100, 0), "late": HOUR, "later": HOUR + 20 * SECOND})
    of = beats(tracker)
    assert len(tracker._estimator) == 24
    assert all(of[name] >= 57 * SECOND for name in crowd(100, 0))
    assert of["late"] == of["later"] <= 60 * SECOND - HOUR
    assert of["later"] >= 30 * SECOND - HOUR


def test_when_sources_become_too_many_they_are_grouped_and_nothing_is_taken_back() -> None:
    tracker = learned().tracker(TIMESTAMP)
    steady(tracker, range(30), {**crowd(30, 0), "late": HOUR})
    before, measured = beats(tracker), tracker._estimator.delta.max()
    assert len(tracker._estimator) == 31
    steady(tracker, range(30, 31), {**crowd(40, 0), "late": HOUR})
    assert len(tracker._estimator) == 24
    assert tracker._estimator.delta.max() >= measured, "the weakest of what was measured stays"
    assert all(beats(tracker)[name] >= beat for name, beat in before.items())
    steady(tracker, range(31, 60), {**crowd(40, 0), "late": HOUR})
    assert beats(tracker)["s39"] >= 57 * SECOND
    assert beats(tracker)["late"] >= 50 * SECOND - HOUR


def test_a_source_moves_up_at_once_and_down_after_a_window() -> None:
    tracker = learned(window="20 seconds", groups=24).tracker(TIMESTAMP)
    steady(tracker, range(10), {**crowd(5, 0), "x": 0})

    def group() -> int:
        return int(tracker._lags.place[tracker._lags.names.index("x")])

    assert group() <= 1
    steady(tracker, range(10, 11), {**crowd(5, 0), "x": 100 * SECOND})
    assert group() == 7, "100 seconds lie between 64 and 128"
    assert beats(tracker)["s0"] >= 9 * SECOND, "the others are where they were"
    steady(tracker, range(11, 31), {**crowd(5, 0), "x": 5 * SECOND})
    assert group() == 7
    steady(tracker, range(31, 32), {**crowd(5, 0), "x": 0})
    assert group() == 3, "the highest that it had meanwhile"


def test_a_source_that_keeps_up_but_sends_old_rows_too_counts_as_lagging() -> None:
    tracker = learned(groups=24).tracker(TIMESTAMP)
    steady(tracker, range(10), {**crowd(5, 0), "x": 0})
    tracker.arrive(page(10 * SECOND, {"s0": [10 * SECOND], "x": [10 * SECOND, 9 * SECOND - HOUR]}))
    assert int(tracker._lags.place[tracker._lags.names.index("x")]) == 12, "an hour: from 2048 to 4096 seconds"
    assert beats(tracker)["s0"] >= 9 * SECOND
    steady(tracker, range(11, 20), {**crowd(5, 0), "x": 0})
    assert beats(tracker)["s0"] >= 18 * SECOND and beats(tracker)["x"] <= 10 * SECOND


def test_one_group_has_one_heartbeat() -> None:
    tracker = learned(groups=1).tracker(TIMESTAMP)
    steady(tracker, range(60), {"a": 0, "late": 30 * SECOND})
    assert len(set(beats(tracker).values())) == 1
    assert beats(tracker)["a"] <= 30 * SECOND


def test_an_estimator_of_groups_holds_the_weakest_of_their_members() -> None:
    """Section 5.2: the entry of two groups is the ⊔ of the entries of their members."""
    rng = np.random.default_rng(1)
    estimator = SkewEstimator(Settings(tmax=2))
    everyone = estimator.add(6)
    for c in range(20):
        tau = rng.integers(0, 100, 6)
        estimator.arrive(everyone, np.ones(6, dtype=np.int64), tau, tau + 5, c, c)
    place = np.array([0, 2, 0, 2, 3, 3])
    grouped = estimator.grouped(place, 4)
    for a in (0, 2, 3):
        for b in (0, 2, 3):
            of = estimator.delta[place == a][:, place == b]
            assert grouped.delta[a, b].tolist() == of.max(axis=(0, 1)).tolist()
    assert grouped.seen[0].tolist()[0] == estimator.seen[0][place == 0].max()
    assert grouped.tuples.tolist() == [40, 0, 40, 40]


# --- said to a person


@pytest.mark.parametrize(
    "other", [{"unit": "2 seconds"}, {"tmax": "3 seconds"}, {"window": 5}, {"adaptive": True}, {"groups": 3}]
)
def test_estimates_that_were_kept_with_other_settings_are_refused(other: dict[str, Any]) -> None:
    tracker = learned().tracker(TIMESTAMP)
    steady(tracker, range(3), {"a": 0})
    with pytest.raises(JournalError, match="continue with the unit, tmax, kind of window and groups"):
        learned(**other).tracker(TIMESTAMP).restore(kept(tracker))


def test_metrics_show_the_estimates_and_the_window() -> None:
    tracker = learned().tracker(TIMESTAMP)
    assert tracker.metrics() == {"sources": 0, "estimates": {}, "exceeded": 0}
    steady(tracker, range(5), {"a": 0, "b": 3 * SECOND})
    assert tracker.metrics() == {
        "sources": 2,
        "estimates": {"a": "0", "b": "2000001 microseconds"},
        "exceeded": 0,
        "window": "10 minutes",
    }
    tracker.arrive(page(5 * SECOND, {"b": [SECOND - 1]}))
    assert tracker.metrics()["exceeded"] == 1
    tracker = learned(groups=4).tracker(SEQUENCE)
    tracker.arrive(page(0, {"a": [10], "b": [2], "c": [1]}))
    assert tracker.metrics()["estimates"] == {"group 0 of 1": "0", "group 3 of 2": "8"}
