"""Intervals of few errors: some come in runs, and some are far from all others."""

from __future__ import annotations

import numpy as np

from slackwater.estimates.conformal import Conformal
from slackwater.progress.source_numbers import Floats

FIVE_PERCENT = np.array([0.05])


def learned(errors: Floats) -> Conformal:
    interval = Conformal(kinds=1)
    for error in errors.tolist():
        interval.learn(np.array([[error]]), np.ones((1, 1)), 0.05, 0.05)
    return interval


def ends(interval: Conformal, below: Floats = FIVE_PERCENT) -> tuple[float, float]:
    low, high = interval.bounds(np.array([0]), below, FIVE_PERCENT)
    return float(low[0, 0]), float(high[0, 0])


def test_errors_that_come_in_runs_tell_less_so_intervals_are_wider() -> None:
    rng = np.random.default_rng(1)
    apart = rng.permutation(np.linspace(-1, 1, 100))
    runs = np.sort(apart).reshape(10, 10)[rng.permutation(10)].ravel()
    widths = [high - low for low, high in (ends(learned(e)) for e in (apart, runs))]
    assert widths[1] > 1.25 * widths[0]


def test_intervals_of_runs_hold_nearly_what_was_asked() -> None:
    """The next error, which stands alone, after sixty that overlap five times; without it they held 87.5 %."""
    rng = np.random.default_rng(2)
    held = []
    for _ in range(400):
        errors = np.convolve(rng.normal(0, 1, 64), np.ones(5) / 5**0.5, "valid")
        low, high = ends(learned(errors))
        held.append(low <= rng.normal() <= high)
    assert 0.91 < np.mean(held) < 0.96


def test_one_far_error_among_thirty_is_a_surprise_and_not_the_tail() -> None:
    errors = np.random.default_rng(3).normal(0, 1, 40)
    errors[30] = 50.0
    low, high = ends(learned(errors))
    assert low > -4 and 1.5 < high < 8
    assert ends(learned(errors), np.zeros(1))[1] > 12  # where most errors may be nothing, the others are the tail


def test_a_restart_knows_the_runs_too() -> None:
    runs = np.repeat(np.random.default_rng(4).normal(0, 1, 10), 8)
    before, after = learned(runs[:50]), Conformal(kinds=1)
    after.unpack(before.pack())
    for error in runs[50:].tolist():
        for interval in (before, after):
            interval.learn(np.array([[error]]), np.ones((1, 1)), 0.05, 0.05)
    assert ends(before) == ends(after)
