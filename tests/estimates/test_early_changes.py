"""Early answers where something changes: the pace of a stream, its delays, or who sends by day and by night."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from experiments.lab.arrivals import SECOND
from experiments.lab.early_history import answer, history, judge
from experiments.lab.early_kinds import KINDS, Random
from experiments.lab.early_streams import START, Case, dense, made, spread_out
from slackwater.estimates.season import Lasting
from slackwater.estimates.season_width import SeasonWidth

DAY = 24 * 3_600 * SECOND


def test_averages_expect_the_rows_that_were_made_before_a_silence() -> None:
    """With seed 603 the last two windows alone made the score 1.05: nothing was thought to be missing in them."""
    said = answer(history(KINDS["correlated"](600, np.random.default_rng(603))))
    assert judge(said, "mean").against_plain < 1.02
    last = said.sort("prodded").tail(2)
    assert (last["mean_high"] - last["mean_low"]).min() > 15  # type: ignore[operator]


def test_a_stream_that_always_varies_goes_by_the_usual() -> None:
    """S5's seconds are independent of each other: a slide with many rows says nothing of what comes after it."""
    case = dense(5_000, np.random.default_rng(5))
    judged = judge(answer(history(case)), "n")
    assert judged.error_against_plain < 0.97 and judged.against_plain < 0.97


def test_where_only_delays_change_the_usual_number_of_rows_is_expected() -> None:
    """Delays of 1 and 8 seconds take turns: few rows of the last slide are here, but as many as ever will be."""
    rng = np.random.default_rng(6)
    times = spread_out(np.full(12_000, 5.0), rng)
    delays = rng.exponential(np.where(times // 2_000 % 2, 8.0, 1.0)).clip(max=59.0)
    how = {"slack": "60 seconds", "page": 2_500_000}
    judged = judge(answer(history(made(times, np.ones(len(times)), delays, **how))), "n")
    assert judged.error_against_plain < 0.58 and judged.against_plain < 0.75


def two_shifts(days: int, rng: Random, people_vary: float = 0.0) -> Case:
    """Machines send at once, most at ten in the morning; people send minutes later, most after midnight.

    On some days more of these are there than on others.
    """
    hour = (START // SECOND + 60 * np.arange(days * 1_440)) % 86_400 / 3_600
    quick, slow = (np.exp(-0.5 * (((hour - at + 12) % 24 - 12) / 3) ** 2) for at in (10, 1))
    there = np.exp(people_vary * rng.choice([-1.0, 1.0], days)).repeat(1_440)
    machines, people = spread_out(4 + 30 * quick, rng), spread_out((3 + 18 * slow) * there, rng)
    delays = [rng.exponential(0.5, len(machines)).clip(max=6), rng.gamma(2, 3, len(people)).clip(max=39)]
    values = [rng.normal(70, 20, len(machines)), rng.normal(40, 15, len(people))]
    times = np.concatenate([machines, people]) * 60
    how = {"range": "30 minutes", "slide": "10 minutes", "slack": "40 minutes", "page": 150 * SECOND}
    return made(times, np.concatenate(values), np.concatenate(delays) * 60, **how)


def test_averages_know_the_time_of_the_day() -> None:
    """Late rows lower an average by 0.5 in the morning and by 1.8 at night."""
    said = answer(history(two_shifts(7, np.random.default_rng(31))))
    later = said.filter(pl.col("prodded") >= pl.col("prodded").min() + 2 * DAY)
    part = pl.col("prodded") // (DAY // 6) % 6
    by_part = later.group_by(part).agg((pl.col("mean_final") - pl.col("mean")).mean())
    assert by_part.height == 6
    assert by_part["mean_final"].abs().max() < 0.3, by_part  # type: ignore[operator]
    assert judge(later, "mean").error_against_plain < 0.4


def test_what_a_day_has_more_than_others_is_expected_again_within_hours() -> None:
    """On each day there are half or twice as many slow senders. Without it errors are 0.31 and 0.35 of plain."""
    said = answer(history(two_shifts(8, np.random.default_rng(32), people_vary=0.7)))
    later = said.filter(pl.col("prodded") >= pl.col("prodded").min() + 2 * DAY)
    for column, most in (("n", 0.28), ("total", 0.31)):
        assert judge(later, column).error_against_plain < most, (column, judge(later, column))


def test_what_was_left_lately_is_expected_only_as_far_as_it_lasts() -> None:
    rng, lasting = np.random.default_rng(3), Lasting(columns=2)
    day = np.repeat(rng.normal(0, 0.1, 20), 100)
    for window, left in enumerate(np.stack([day, rng.normal(0, 0.1, 2_000)], axis=1)):
        lasting.learn(window, left, behind=4)
    expected = lasting.expected()
    assert expected[0] == pytest.approx(day[-1], rel=0.3) and abs(expected[1]) < 0.01
    again = Lasting(columns=2)
    again.unpack(lasting.pack())
    assert (again.expected() == expected).all()
    for window in range(2_000, 2_004):
        for one in (lasting, again):
            one.learn(window, np.array([0.1, 0.2]), behind=4)
    assert (again.pack() == lasting.pack()).all()


def test_answers_that_wait_for_too_long_tell_nothing_of_what_lasts() -> None:
    lasting = Lasting(columns=1)
    for window in range(300):
        lasting.learn(window, np.array([0.1]), behind=100)
    assert lasting.expected() == [0.0]


def test_intervals_are_wider_where_errors_have_been_larger_and_chance_is_not_taken_for_it() -> None:
    rng, places = np.random.default_rng(4), np.arange(1_440.0, 1_584.0)
    width = SeasonWidth(144, columns=2)
    for window in range(1_440):
        busy = 1 + 0.6 * np.cos(2 * np.pi * (window - 100) / 144)
        width.learn(window, np.abs(rng.normal(0, [busy, 1.0])), behind=4)
    found = width.at(places)
    assert 1.3 < found[100, 0] < 1.8 and 0.5 <= found[28, 0] < 0.7
    assert np.abs(found[:, 1] - 1).max() < 0.15
    again, other = SeasonWidth(144, columns=2), SeasonWidth(48, columns=2)
    again.unpack(width.pack())
    other.unpack(width.pack())
    assert (again.at(places) == found).all() and (other.at(places) == 1).all()


@pytest.mark.parametrize(("windows", "behind"), [(144, 4), (1_440, 60)])
def test_nothing_is_wider_before_a_season_has_passed_or_where_errors_come_late(windows: int, behind: int) -> None:
    """Quakes become final a day later, and windows overlap twenty times: averages scored worse by a tenth."""
    width = SeasonWidth(144, columns=1)
    for window in range(windows):
        width.learn(window, np.array([1.0 + (window % 144 > 100)]), behind)
    assert (width.at(np.arange(144.0, 288.0)) == 1).all()
