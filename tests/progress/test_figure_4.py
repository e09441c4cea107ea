"""Estimates of skew (S1 section 6): against Figure 4 taken literally, and the rule by which W moves.

`Figure4` and `Heartbeats` are the paper's lines, one tuple at a time, on dictionaries and for all instants. They
catch a wrong index, window, order or rounding in the arrays.
"""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import timedelta
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.learned.estimator import NEVER, PARTS, Settings
from slackwater.progress.learned.learned import LearnedTracker, learned
from slackwater.progress.time import MIN_TICK, TimeDomain
from tests.kit.arrivals import beats, page, plain

SEQUENCE = TimeDomain.SEQUENCE
SECOND = 1_000_000


# --- the paper, literally


class Figure4:
    """Estimated δ(W, alpha): lines 1 to 14, for streams that are known from their first tuple on."""

    def __init__(self, tmax: int, window: float, alpha: Fraction, initial: int = 0) -> None:
        self.tmax, self.window, self.alpha, self.initial = tmax, window, alpha, initial
        self.num: dict[tuple[str, str, int], int] = {}
        self.delta: dict[tuple[str, str, int], int] = {}
        self.win: dict[tuple[str, str, int], int] = {}
        self.arrived: list[tuple[int, str, int]] = []

    def streams(self) -> list[str]:
        return list(dict.fromkeys(name for _, name, _ in self.arrived))

    def largest(self, i: str, until: int) -> float:
        return max((tau for c, name, tau in self.arrived if name == i and c <= until), default=-math.inf)

    def arrive(self, j: str, tau: int, c: int) -> None:
        known = list(dict.fromkeys([*self.streams(), j]))
        for i in known:
            for t in range(self.tmax + 1):
                for k in ((i, j, t), (j, i, t)):
                    self.num.setdefault(k, 0)
                    self.delta.setdefault(k, self.initial)
                    self.win.setdefault(k, 0)
        for i in known:
            for t in range(self.tmax + 1):
                k = (i, j, t)
                self.num[k] += 1
                est = max(self.largest(i, c - t) - tau + 1, 0)
                if est > self.delta[k]:
                    self.delta[k], self.win[k], self.num[k] = int(est), 0, 0
                else:
                    self.win[k] = max(self.win[k], int(est))
                    if self.num[k] > self.window:
                        self.delta[k] = math.floor(self.alpha * self.delta[k] + (1 - self.alpha) * self.win[k])
                        self.win[k], self.num[k] = 0, 0
        self.arrived.append((c, j, tau))


class Heartbeats:
    """Section 6's form of Figure 2: when τ arrives on S_i at c, τ_j[c + t] = τ − δ_ij[t]."""

    def __init__(self) -> None:
        self.at: dict[tuple[str, int], int] = defaultdict(lambda: MIN_TICK)

    def arrive(self, figure: Figure4, i: str, tau: int, c: int) -> None:
        for j in figure.streams():
            for t in range(figure.tmax + 1):
                self.at[j, c + t] = max(self.at[j, c + t], tau - figure.delta[i, j, t])

    def of(self, j: str, c: int) -> int:
        return max((tau for (name, at), tau in self.at.items() if name == j and at <= c), default=MIN_TICK)


@st.composite
def tuples(draw: st.DrawFn, most: int = 25) -> list[tuple[int, str, int]]:
    """(c, source, τ): sources that lag, disorder, at instants that do not go back."""
    c, came = draw(st.integers(-3, 3)), []
    for _ in range(draw(st.integers(1, most))):
        c += draw(st.integers(0, 3))
        name = draw(st.sampled_from(["a", "b", "c"]))
        came.append((c, name, 5 * c - {"a": 0, "b": 8, "c": 30}[name] - draw(st.integers(0, 20))))
    return came


UNIT = 10
WEIGHTS = st.sampled_from([0, PARTS // 4, PARTS // 2, 943_718, PARTS])


@settings(max_examples=70, deadline=None)
@given(tuples(), st.integers(0, 4), st.sampled_from([0, 1, 3, 6, NEVER]), WEIGHTS, st.sampled_from([0, 12]))
def test_pages_of_one_row_are_figure_4_to_the_letter(
    came: list[tuple[int, str, int]], tmax: int, window: int, alpha: int, initial: int
) -> None:
    tracker = LearnedTracker(
        Settings(tmax, window, alpha=alpha, initial=initial), UNIT, None, groups=None, domain=SEQUENCE
    )
    figure, heartbeats = Figure4(tmax, window, Fraction(alpha, PARTS), initial), Heartbeats()
    promised: dict[str, int] = {}
    least = MIN_TICK
    for k, (c, name, tau) in enumerate(came):
        promised = {j: max(promised[j], heartbeats.of(j, c)) for j in promised}
        least = max(least, min(promised.values(), default=MIN_TICK))
        tracker.arrive(page(c * UNIT + k % UNIT if k % 2 else c * UNIT, {name: [tau]}))
        figure.arrive(name, tau, c)
        heartbeats.arrive(figure, name, tau, c)
        names = tracker._lags.names
        delta = tracker._estimator.delta
        for (i, j, t), expected in figure.delta.items():
            assert delta[names.index(i), names.index(j), t] == expected
        promised = {j: max(promised.get(j, MIN_TICK), heartbeats.of(j, c)) for j in names}
        assert beats(tracker) == promised
        # What was promised of all is not taken back for a stream that is new.
        least = max(least, min(promised.values()))
        assert tracker.heartbeat == Heartbeat(least)
    last = came[-1][0]
    for c in range(last, last + tmax + 2):
        tracker.tick(c * UNIT)
        promised = {j: max(promised[j], heartbeats.of(j, c)) for j in promised}
        assert beats(tracker) == promised


@settings(max_examples=30, deadline=None)
@given(tuples(), st.integers(0, 3))
def test_an_endless_window_and_a_weight_of_one_both_give_the_largest_skew_ever_seen(
    came: list[tuple[int, str, int]], tmax: int
) -> None:
    """Section 6.2: W = ∞ and alpha = 1 correspond to the non-adaptive algorithm of 6.1."""
    endless = learned(window=None, tmax=timedelta(microseconds=tmax), unit="1 us", initial=0).tracker(SEQUENCE)
    stubborn = learned(window=2, alpha=1, tmax=f"{tmax} us", unit="1 us", initial=0).tracker(SEQUENCE)
    largest: dict[tuple[str, str, int], int] = {}
    before: list[tuple[int, str, int]] = []
    for c, name, tau in came:
        for tracker in (endless, stubborn):
            tracker.arrive(page(c, {name: [tau]}))
        for at, i, other in before:
            for t in range(min(c - at, tmax) + 1):
                largest[i, name, t] = max(largest.get((i, name, t), 0), other - tau + 1)
        before.append((c, name, tau))
    names = endless._lags.names
    assert np.array_equal(endless._estimator.delta, stubborn._estimator.delta)
    for (i, j, t), expected in largest.items():
        assert endless._estimator.delta[names.index(i), names.index(j), t] == expected
    assert endless._estimator.delta.sum() == sum(largest.values())


def test_an_estimate_jumps_up_at_once_and_comes_down_after_a_window() -> None:
    """The schematic view of Figure 3."""
    tracker = learned(window=3, alpha=0.5, tmax="0 seconds").tracker(SEQUENCE)

    def after(tau: int) -> int:
        tracker.arrive(plain(0, tau))
        return int(tracker._estimator.delta[0, 0, 0])

    assert [after(tau) for tau in (100, 110, 71)] == [0, 0, 40]
    assert [after(tau) for tau in (120, 111, 130, 140)] == [40, 40, 40, (40 + 10) // 2]
    assert [after(tau) for tau in (150, 160, 170, 180)] == [25, 25, 25, 12]
    assert after(80) == 101


def test_a_window_can_be_a_length_of_time() -> None:
    tracker = learned(window="3 seconds", alpha=0, tmax="0 seconds").tracker(SEQUENCE)

    def after(at: int, tau: int) -> int:
        tracker.arrive(plain(at * SECOND, tau))
        return int(tracker._estimator.delta[0, 0, 0])

    assert [after(0, 100), after(1, 81), after(1, 110), after(2, 106), after(4, 120)] == [0, 20, 20, 20, 20]
    assert after(5, 130) == 5, "the largest of the three calm seconds"


def test_rows_of_one_page_are_not_late_for_each_other() -> None:
    tracker = learned().tracker(SEQUENCE)
    tracker.arrive(plain(0, 90, 10, 50))
    tracker.arrive(plain(0, 200, 95))
    assert tracker.heartbeat == Heartbeat(200)
    tracker.arrive(plain(0, 300, 181))
    assert tracker.heartbeat == Heartbeat(280)


def test_all_rows_of_a_page_count_for_the_window() -> None:
    tracker = learned(window=5, alpha=0).tracker(SEQUENCE)
    for times in ((100,), (91,), (101, 102, 103), (104, 105)):
        tracker.arrive(plain(0, *times))
        assert tracker._estimator.delta[0, 0, 0] == (10 if times != (100,) else 0)
    tracker.arrive(plain(0, 106))
    assert tracker._estimator.delta[0, 0, 0] == 0


def test_a_later_promise_is_a_stronger_one() -> None:
    """b repeats what a has sent three seconds ago: nothing is certain at once, all of it after that."""
    tracker = learned(window=None).tracker(SEQUENCE)
    for c in range(20):
        tracker.arrive(page(c * SECOND, {"a": [c], "b": [c - 3]}))
    assert tracker._estimator.delta[0, 1].tolist() == [3, 3, 2, 1, *[0] * 7]
    tracker.arrive(page(20 * SECOND, {"a": [20]}))
    assert beats(tracker)["b"] == 17
    assert tracker.wake_at() == 22 * SECOND
    for c in (22, 23, 24):
        tracker.tick(c * SECOND)
        assert beats(tracker) == {"a": 20, "b": c - 4}


def test_what_is_promised_for_later_stays_when_a_source_joins() -> None:
    tracker = learned().tracker(SEQUENCE)
    for tau in (100, 90, 110):
        tracker.arrive(page(0, {"a": [tau]}))
    assert beats(tracker) == {"a": 100}
    tracker.arrive(page(SECOND // 2, {"b": [105]}))
    tracker.tick(SECOND)
    assert beats(tracker)["a"] == 110, "nothing of a came more than a second late"


# --- W moves


def spikes(tracker: LearnedTracker, every: int, pages: int) -> None:
    """A sorted stream in which a row that is 50 behind comes again and again."""
    base = 10_000 + int(tracker._highest if tracker._highest > MIN_TICK else 0)
    for k in range(pages):
        tracker.arrive(plain(0, base + k * 10 - (500 if every and k % every == every - 1 else 0)))


def width(tracker: LearnedTracker) -> int:
    return int(tracker._estimator.window[0, 0, 0])


def test_an_adaptive_window_grows_when_estimates_are_exceeded_too_often() -> None:
    tracker = learned(window=16, adaptive=True).tracker(SEQUENCE)
    spikes(tracker, every=40, pages=400)
    assert width(tracker) == 64, "longer than what lies between two spikes: it need not grow further"
    fixed = learned(window=16).tracker(SEQUENCE)
    spikes(fixed, every=40, pages=400)
    assert width(fixed) == 16
    assert tracker._estimator.exceeded < fixed._estimator.exceeded
    assert tracker.metrics()["window"] == "16 to 64", "nothing is older than a unit of the clock"


def test_an_adaptive_window_shrinks_when_the_estimate_falls_window_after_window() -> None:
    tracker = learned(window=16, alpha=0.9, adaptive=True).tracker(SEQUENCE)
    tracker.arrive(plain(0, 10**9))
    tracker.arrive(plain(0, 0))
    spikes(tracker, every=0, pages=16 * 8 + 7)
    assert width(tracker) == 16
    spikes(tracker, every=0, pages=10)
    assert width(tracker) == 8
    spikes(tracker, every=0, pages=1000)
    assert width(tracker) == 1, "a sixteenth is the least"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([0, 0, 0, 1, 5, 40, 200]), min_size=20, max_size=120), st.integers(1, 3), WEIGHTS)
def test_an_adaptive_window_moves_by_its_rule(lateness: list[int], window: int, alpha: int) -> None:
    """The rule in the words of `SkewEstimator`, for one stream and one tuple at a time."""
    tracker = LearnedTracker(
        Settings(0, window, alpha=alpha, adaptive=True, initial=0), UNIT, None, groups=None, domain=SEQUENCE
    )
    delta = win = num = complete = decreases = 0
    w, largest = window, None
    for k, late in enumerate(lateness):
        tau = 3 * k - late
        tracker.arrive(plain(0, tau))
        num += 1
        est = 0 if largest is None else max(largest - tau + 1, 0)
        largest = tau if largest is None else max(largest, tau)
        if est > delta:
            if 1 <= complete <= 3:
                w = min(2 * w, 16 * window)
            delta, win, num, complete, decreases = est, 0, 0, 0, 0
        else:
            win = max(win, est)
            if num > w:
                lower = math.floor(Fraction(alpha, PARTS) * delta + (1 - Fraction(alpha, PARTS)) * win)
                complete += 1
                decreases = decreases + 1 if lower < delta else 0
                if decreases == 8:
                    w, decreases = max(w // 2, window // 16, 1), 0
                delta, win, num = lower, 0, 0
        assert (width(tracker), tracker._estimator.delta[0, 0, 0]) == (w, delta)


def test_the_decreases_must_come_one_after_the_other() -> None:
    """An estimate that is exceeded every five windows goes down four times in between, never eight."""
    tracker = learned(window=4, alpha=0.9, adaptive=True).tracker(SEQUENCE)
    spikes(tracker, every=25, pages=500)
    assert width(tracker) == 4
