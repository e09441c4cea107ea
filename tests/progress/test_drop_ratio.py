"""drop_ratio: the share lost stays within p in every stretch behind the warm-up, whatever the delays do."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.lab import arrivals as make
from experiments.lab.trial import Case, Paged, TrialOutcome, fixed, hindsight, report, run
from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival
from slackwater.progress.credible_time import CredibleTime
from slackwater.progress.disorder import Tracker
from slackwater.progress.drop_ratio.drop_ratio import DropRatio, drop_ratio
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import TimeDomain
from slackwater.windows.spec import WindowSpec
from tests.kit import streams  # noqa: F401  (the profile of all random tests)

SECOND = 1_000_000
SEQUENCE, TIMESTAMP = TimeDomain.SEQUENCE, TimeDomain.TIMESTAMP
#: Pages before which nothing is asked of the share; by then the tracker has seen a whole stretch.
WARM = 100


def case(delay: make.Delay, spec: tuple[float, float] = (10, 10), page: float = 1, **options: Any) -> Case:
    rows = make.arrivals(delay, **{"seconds": 400, "rate": 100, **options})
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), int(page * SECOND))
    return Case.of(paged, WindowSpec(int(spec[0] * SECOND), int(spec[1] * SECOND)))


def tracker(p: float = 0.01, **options: Any) -> Tracker:
    return drop_ratio(p, **options).tracker(TIMESTAMP)


def tried(case: Case, p: float = 0.01) -> TrialOutcome:
    return run(tracker(p), case)


DELAYS = st.one_of(
    st.floats(0.1, 8).map(make.exponential),
    st.floats(0.1, 15).map(make.uniform),
    st.floats(0.1, 4).map(make.pareto),
    st.just(make.none()),
)
WINDOWS = st.sampled_from([(1.0, 1.0), (5.0, 5.0), (20.0, 1.0), (10.0, 2.0), (0.1, 0.1)])


# --- the promise


@settings(max_examples=6, derandomize=True)  # what chance may do is bounded, but not to the last row
@given(DELAYS, WINDOWS, st.sampled_from([60, 200]), st.sampled_from([0.01, 0.05]), st.integers(0, 10**6))
def test_steady_delays_lose_at_most_p_in_every_stretch(
    delay: make.Delay, spec: tuple[float, float], rate: int, p: float, seed: int
) -> None:
    # Chance is in the last page of a stretch: it may pass p by a few standard deviations of what one page loses.
    tried_case = case(delay, spec, rate=rate, seed=seed, seconds=300)
    assert tried(tried_case, p).worst(100, WARM) <= p * 1.2


@settings(max_examples=6, derandomize=True)  # what chance may do is bounded, but not to the last row
@given(st.lists(DELAYS, min_size=2, max_size=3), WINDOWS, st.data(), st.integers(0, 10**6))
def test_delays_that_change_at_any_instant_lose_at_most_p_and_what_nobody_could_foresee(
    delays: list[make.Delay], spec: tuple[float, float], data: st.DataObject, seed: int
) -> None:
    """One page of a hundred is the whole of p = 1 %, and first pages of a new kind are lost before they are known.

    Delays that grow fifty times from one page to the next cost at most such a page and a half.
    """
    changes = sorted(data.draw(st.lists(st.floats(120, 260), min_size=len(delays) - 1, max_size=len(delays) - 1)))
    regimes = make.regimes(*zip([0.0, *changes], delays, strict=True))
    tried_case = case(regimes, spec, rate=150, seed=seed, seconds=300)
    assert tried(tried_case).worst(100, WARM) <= 0.025


@pytest.mark.parametrize("seed", range(3))
def test_a_change_for_the_worse_is_met_by_standing_still(seed: int) -> None:
    worse = make.regimes((0, make.exponential(1)), (200, make.exponential(6)))
    tried_case = case(worse, (1, 1), seed=seed)
    outcome = tried(tried_case)
    assert outcome.share <= 0.01
    assert outcome.worst(100, WARM) <= 0.0125
    # The fixed bound that fits the first half would lose a multiple of it.
    first = Case.of(Paged.cut(*_columns(make.exponential(1), seed), SECOND), tried_case.spec)
    assert fixed(tried_case, hindsight(first, 0.01)).worst(100, WARM) > 0.1


def _columns(delay: make.Delay, seed: int) -> tuple[Any, Any]:
    rows = make.arrivals(delay, seconds=200, rate=100, seed=seed)
    return rows["arrival"].to_numpy(), rows["time"].to_numpy()


def test_after_a_change_for_the_better_the_wait_comes_down_within_a_stretch() -> None:
    better = make.regimes((0, make.exponential(6)), (200, make.exponential(0.5)))
    tried_case = case(better, (1, 1), seed=5)
    behind = tried_case.paged.ats - tried(tried_case).heartbeats[1:]
    assert np.median(behind[150:200]) > 20 * SECOND
    assert np.median(behind[300:]) < 5 * SECOND


@pytest.mark.parametrize("delay", [make.exponential(2), make.uniform(5), make.lognormal(1)])
def test_the_wait_is_near_that_of_the_fixed_bound_chosen_with_hindsight(delay: make.Delay) -> None:
    tried_case = case(delay, (5, 1), seconds=600, rate=200, seed=9)
    best = fixed(tried_case, hindsight(tried_case, 0.01))
    assert tried(tried_case).waits(WARM).mean() <= 1.2 * best.waits(WARM).mean()


def test_a_sorted_stream_waits_for_nothing() -> None:
    tried_case = case(make.none(), (2, 2))
    outcome = tried(tried_case)
    assert outcome.share == 0
    assert outcome.waits(5).mean() == fixed(tried_case, 0).waits(5).mean()


# --- pages of all kinds


@pytest.mark.parametrize(("rate", "page"), [(3, 1.0), (1, 1.0), (50, 0.02)])
def test_pages_of_a_few_rows_or_none_are_taken(rate: int, page: float) -> None:
    outcome = tried(case(make.exponential(1), (5, 5), page, rate=rate, seconds=600 * page))
    assert outcome.heartbeats[-1] > 0
    assert outcome.share <= 0.02


def test_pages_without_rows_change_nothing() -> None:
    rows = make.arrivals(make.exponential(1), seconds=60, rate=50, seed=3)
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), SECOND)
    spec, plain, other = WindowSpec(SECOND, SECOND), tracker(stretch=1000), tracker(stretch=1000)
    for k in range(len(paged)):
        for each, number in ((plain, k), (other, 2 * k)):
            told = report("q", number, paged.page(k), spec, each.heartbeat.tick)
            each.admit(number)
            each.hear(told)
            each.arrive(paged.arrival(k))
        before = other.heartbeat
        other.admit(2 * k + 1)
        other.arrive(Arrival(rows=0, missing=0, lowest=None, highest=None, at=int(paged.ats[k])))
        assert other.heartbeat == before
    assert plain.heartbeat > Heartbeat.NONE
    assert other.heartbeat > Heartbeat.NONE


@pytest.mark.parametrize("stretch", ["2 minutes", "10 seconds", timedelta(minutes=5), 20, 1000])
def test_a_stretch_is_pages_or_arrival_time(stretch: Any) -> None:
    tried_case = case(make.exponential(1), (1, 1), rate=60, seed=2)
    outcome = run(tracker(stretch=stretch), tried_case)
    assert 0 < outcome.share <= 0.01
    assert outcome.heartbeats[-1] > 380 * SECOND


def test_a_sequence_works_like_time() -> None:
    tried_case = case(make.exponential(1), (1, 1), seed=4)
    same = run(drop_ratio(0.01).tracker(SEQUENCE), tried_case)
    assert (same.heartbeats == tried(tried_case).heartbeats).all()


def test_without_any_query_late_rows_are_what_counts() -> None:
    paged = case(make.exponential(1), seed=6).paged
    alone, late = tracker(), 0
    for k in range(len(paged)):
        late += int((paged.page(k) <= alone.heartbeat.tick).sum())
        alone.admit(k)
        alone.arrive(paged.arrival(k))
    assert 0 < late <= 0.01 * len(paged.times)


def test_the_query_that_needs_most_decides() -> None:
    paged = case(make.exponential(2), seed=7).paged
    wide, narrow = WindowSpec(50 * SECOND, 50 * SECOND), WindowSpec(SECOND // 10, SECOND // 10)
    both, lost, pairs = tracker(), 0, 0
    for k in range(len(paged)):
        both.admit(k)
        for name, spec in (("wide", wide), ("narrow", narrow)):
            told = report(name, k, paged.page(k), spec, both.heartbeat.tick)
            both.hear(told)
            if name == "narrow":
                lost, pairs = lost + told.lost, pairs + told.all
        both.arrive(paged.arrival(k))
    assert lost <= 0.01 * pairs
    assert both.heartbeat.tick < run(tracker(), Case.of(paged, wide)).heartbeats[-1]


# --- corrupt timestamps


@pytest.mark.parametrize("ahead", [10**9, 10**12, 10**16])
@pytest.mark.parametrize("every", [10**9, 500])
def test_rows_from_the_far_future_do_not_carry_time_away(ahead: int, every: int) -> None:
    clean = case(make.exponential(1), (1, 1), seed=8)
    times = clean.paged.times.copy()
    times[20_000 % every :: every] += ahead
    spoilt = Paged._of(times, clean.paged.begins, clean.paged.ats)
    outcome = run(tracker(), Case.of(spoilt, clean.spec))
    assert outcome.worst(100, WARM) <= 0.01
    behind = clean.paged.ats - outcome.heartbeats[1:]
    assert (outcome.heartbeats[1:] < clean.paged.ats).all()
    assert np.median(behind[300:]) < 8 * SECOND


def test_rows_from_the_far_past_do_not_stop_time() -> None:
    clean = case(make.exponential(1), (1, 1), seed=8)
    times = clean.paged.times.copy()
    times[::1000] = 0
    outcome = run(tracker(), Case.of(Paged._of(times, clean.paged.begins, clean.paged.ats), clean.spec))
    assert np.median((clean.paged.ats - outcome.heartbeats[1:])[150:]) < 8 * SECOND


def test_a_first_row_from_the_far_future_is_found_out() -> None:
    reference = CredibleTime()
    reference.pass_page(10**12, rows=1)
    for time in range(0, 1000, 10):
        reference.pass_page(time, rows=1)
    assert reference.time == 990


def test_a_gap_in_time_is_believed_when_other_rows_confirm_it() -> None:
    reference = CredibleTime()
    for time in range(0, 100, 10):
        reference.pass_page(time, rows=1)
    assert [reference.pass_page(t, rows=1) for t in (10_000, 10_010, 10_020)] == [False, False, True]
    assert reference.time == 10_020


# --- a restart


def saved(tracker: Tracker) -> dict[str, Any]:
    """The state as a journal keeps it: JSON but for the arrays."""
    state = tracker.state()
    values = {key: value for key, value in state.items() if not isinstance(value, np.ndarray)}
    arrays = {key: value.copy() for key, value in state.items() if isinstance(value, np.ndarray)}
    assert all(array.dtype in (np.int64, np.float64) and array.ndim == 1 for array in arrays.values())
    return {**json.loads(json.dumps(values)), **arrays}


@settings(max_examples=8)
@given(st.integers(1, 150), st.sampled_from([100, 300, "1 minute"]))
def test_a_restored_tracker_has_the_same_future(at: int, stretch: int | str) -> None:
    delays = make.regimes((0, make.exponential(1)), (60, make.exponential(4)))
    tried_case = case(delays, (2, 1), rate=40, seconds=160, seed=at)
    whole = run(tracker(stretch=stretch), tried_case)
    again = tracker(stretch=stretch)
    for k in range(len(tried_case.paged)):
        if k == at:
            state, again = saved(again), tracker(stretch=stretch)
            again.restore(state)
        assert again.heartbeat.tick == whole.heartbeats[k]
        again.admit(k)
        again.hear(tried_case.report(k, again.heartbeat.tick))
        again.arrive(tried_case.paged.arrival(k))


def test_the_state_stays_small() -> None:
    tried_case = case(make.exponential(3), (0.01, 0.01), rate=500, seconds=150)
    one = tracker()
    run(one, tried_case)
    assert sum(a.nbytes for a in one.state().values() if isinstance(a, np.ndarray)) < 600_000


# --- silence


def test_a_silence_of_the_timeout_promises_all_that_was_seen() -> None:
    one = tracker(timeout="1 second")
    one.arrive(Arrival(rows=1, missing=0, lowest=50, highest=50, at=7 * SECOND))
    assert one.wake_at() == 8 * SECOND
    one.tick(8 * SECOND - 1)
    assert one.heartbeat == Heartbeat.NONE
    one.tick(8 * SECOND)
    assert one.heartbeat == Heartbeat(50)
    assert one.wake_at() is None


def test_without_a_timeout_the_clock_alone_moves_nothing() -> None:
    one = tracker()
    one.arrive(Arrival(rows=1, missing=0, lowest=50, highest=50, at=0))
    one.tick(10**15)
    assert (one.heartbeat, one.wake_at()) == (Heartbeat.NONE, None)


def test_metrics_show_shares_slack_and_lateness() -> None:
    one = tracker()
    outcome = run(one, case(make.exponential(2), (1, 1), seed=1))
    shown = one.metrics()
    assert shown["lost_in_all"] == pytest.approx(outcome.share)
    assert shown["lost_in_stretch"] == pytest.approx(outcome.lost[-100:].sum() / outcome.pairs[-100:].sum())
    assert shown["slack"] == outcome.case.paged.highest_before()[-1] - one.heartbeat.tick - 1
    late = shown["lateness"]
    assert 0 < late["p50"] < late["p90"] < late["p99"] <= late["max"]
    assert late["p99"] == pytest.approx(2 * np.log(100) * SECOND, rel=0.25)
    assert json.dumps(shown)


# --- what a user writes


def test_shares_may_be_written_as_percent() -> None:
    assert drop_ratio("1%") == drop_ratio(0.01) == drop_ratio("0.01")
    assert drop_ratio("2.5 %").p == pytest.approx(0.025)


@pytest.mark.parametrize(
    ("p", "says"),
    [
        (0, r"drop_ratio\(0\) is not between 0 and 1; .*bounded"),
        (1, "is not between 0 and 1"),
        (5, "5 percent is '5%'"),
        (-0.1, "is not between 0 and 1"),
        ("150%", "is not between 0 and 1"),
        (float("nan"), "is not a share"),
        ("few", r"drop_ratio\('few'\) is not a share; write a share between 0 and 1 such as 0.01, or '1%'"),
        (None, "is not a share"),
        (True, "is not a share"),
    ],
)
def test_what_is_no_share_is_refused(p: Any, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        drop_ratio(p)


@pytest.mark.parametrize(
    ("stretch", "says"),
    [
        (0, "must be positive"),
        ("-1 minute", "must be positive"),
        (1.5, "neither pages nor time"),
        ("soon", "cannot read 'soon'"),
    ],
)
def test_what_is_no_stretch_is_refused(stretch: Any, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        drop_ratio(0.01, stretch=stretch)


def test_a_timeout_of_nothing_is_refused() -> None:
    with pytest.raises(QueryError, match="timeout='0 seconds' must be positive"):
        drop_ratio(0.01, timeout="0 seconds")


def test_a_policy_describes_itself_as_it_can_be_written_again() -> None:
    for policy in (
        drop_ratio(0.01),
        drop_ratio("3%", stretch="10 minutes"),
        drop_ratio(0.2, stretch=timedelta(minutes=1), timeout="5 seconds"),
    ):
        assert eval(policy.describe(), {"drop_ratio": drop_ratio}) == policy
    assert len({drop_ratio(0.01), drop_ratio("1%")}) == 1
    assert DropRatio.needs == {"sketch"}
