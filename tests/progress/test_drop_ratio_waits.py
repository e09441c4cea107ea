"""How long drop_ratio waits, the start included, beside the fixed bound that hindsight would have chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.lab import arrivals as make
from experiments.lab.trial import Case, Paged, TrialOutcome, fixed, hindsight, hindsight_in_every_stretch, run
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.drop_ratio.loss_curve import STANDS_FOR, _lost_at, stands_for
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.windows.spec import WindowSpec

SECOND = 1_000_000
P = 0.01


def case(delay: make.Delay, spec: tuple[int, int] = (10, 10), **options: Any) -> Case:
    rows = make.arrivals(delay, **{"seconds": 400, "rate": 100, **options})
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), SECOND)
    return Case.of(paged, WindowSpec(spec[0] * SECOND, spec[1] * SECOND))


def tried(case: Case) -> TrialOutcome:
    return run(drop_ratio(P).tracker(TimeDomain.TIMESTAMP), case)


def start(outcome: TrialOutcome) -> int:
    """The first page behind which there is a heartbeat."""
    return int(np.argmax(outcome.heartbeats > MIN_TICK)) - 1


def test_steady_streams_wait_as_long_as_the_best_fixed_bound_that_holds_in_every_stretch() -> None:
    ratios = []
    for delay in (make.exponential(2), make.uniform(5), make.lognormal(1)):
        tried_case = case(delay, seconds=600, seed=11)
        outcome = tried(tried_case)
        best = fixed(tried_case, hindsight_in_every_stretch(tried_case, P))
        assert outcome.share <= P
        assert outcome.worst(100) <= 1.05 * P
        ratios.append(outcome.waits().mean() / best.waits().mean())
    assert np.mean(ratios) <= 1.02


@pytest.mark.parametrize("seed", [11, 12])
def test_clocks_that_are_wrong_delay_the_start_no_longer_than_they_are_wrong(seed: int) -> None:
    """The first page shows how far they are apart: the stream is as old as its oldest rows."""
    tried_case = case(make.exponential(0.3), sources=8, offset=30, seed=seed)
    outcome, best = tried(tried_case), fixed(tried_case, hindsight(tried_case, P))
    assert start(outcome) <= 25
    assert outcome.share <= P
    assert outcome.worst(100) <= 1.05 * P
    assert outcome.waits().mean() <= 1.15 * best.waits().mean()


def test_an_alarm_by_chance_ends_when_rows_come_as_before() -> None:
    """Sources with clocks of their own lie in clumps, and here one page in 600 passes for a change."""
    tried_case = case(make.exponential(0.3), seconds=600, sources=8, offset=30, seed=1)
    outcome, best = tried(tried_case), fixed(tried_case, hindsight(tried_case, P))
    assert outcome.share <= P
    assert outcome.worst(100) <= 1.05 * P
    assert outcome.waits().mean() <= 1.05 * best.waits().mean()


@pytest.mark.parametrize(("rate", "pages"), [(100, 3), (5, 10)])
def test_a_punctual_stream_starts_with_three_pages_and_half_as_many_rows_as_may_lose_one(
    rate: int, pages: int
) -> None:
    """Of 100 rows one may be lost. With 5 rows a second, 50 rows have come with the tenth page."""
    outcome = tried(case(make.exponential(0.05), (1, 1), rate=rate, seed=3))
    assert start(outcome) == pages - 1
    assert outcome.share <= P
    assert outcome.worst(100) <= 1.05 * P


def test_a_young_stream_does_not_close_its_first_windows_before_it_knows_its_slow_sources() -> None:
    """Some sources come more than a minute late, which the first half minute cannot show."""
    outcome = tried(case(make.exponential(1), seconds=600, zipf=1.5, seed=504))
    assert outcome.share <= P
    assert outcome.worst(100) <= 1.4 * P


def test_the_first_window_waits_as_long_as_the_others() -> None:
    """Before it has ended, reports know of no window that could lose anything."""
    waits = tried(case(make.exponential(2), seconds=200, seed=501)).waits()
    assert waits[0] >= 0.8 * np.median(waits)


def test_a_row_that_only_some_cells_could_show_stands_for_more_than_one() -> None:
    """Before the last of four cells the stream was 3 ticks old, so only that cell could show a row 3 ticks late."""
    spans = np.array([0.0, 1.0, 2.0, 3.0])
    found = stands_for(np.array([0.5, 2.0, 3.0, 9.0]), np.ones(4), spans)
    assert found.tolist() == [4 / 3, 2.0, 4.0, STANDS_FOR]


def test_a_few_rows_do_not_tell_how_late_one_of_a_hundred_comes() -> None:
    tried_case = case(make.lognormal(1, 2), rate=3, seed=3)
    assert tried_case.paged.begins[start(tried(tried_case))] >= 1 / P


def test_a_corrupt_time_in_the_first_page_makes_the_stream_no_older() -> None:
    tried_case = case(make.exponential(2), seconds=60, seed=5)
    times = tried_case.paged.times.copy()
    times[3] = -(10**12)
    arrived = tried_case.paged.ats.repeat(np.diff(tried_case.paged.begins))
    corrupt = Case.of(Paged.cut(arrived, times, SECOND), tried_case.spec)
    assert start(tried(corrupt)) == start(tried(tried_case))


def test_rows_from_the_far_past_do_not_hide_what_others_lose() -> None:
    """Beside a lateness of 2 ** 62 that of other rows is lost in rounding, if they are summed up together."""
    late, weights = np.array([1.0, 3.0, 30.0, 2.0**62]), np.array([5.0, 4.0, 2.0, 1.0])
    lost = _lost_at(late, weights, np.array([0.0, 2.0, 30.0]), 10)
    expected = [(weights * np.clip(late - slack, 0, 10)).sum() / 10 for slack in (0, 2, 30)]
    assert lost.tolist() == pytest.approx(expected)
