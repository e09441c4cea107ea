"""Intervals of few errors are wide, and those of many hold as often as is asked; a restart knows them again."""

from __future__ import annotations

import numpy as np

from slackwater.estimates.conformal import ENOUGH, Conformal
from slackwater.progress.source_numbers import Floats

FIVE_PERCENT = np.array([0.05])


def learned(errors: Floats) -> Conformal:
    interval = Conformal(columns=1, kinds=1)
    for error in errors.tolist():
        interval.learn(np.array([[[error]]]), np.ones((1, 1, 1)), FIVE_PERCENT, FIVE_PERCENT)
    return interval


def ends(interval: Conformal, below: Floats = FIVE_PERCENT) -> tuple[float, float]:
    low, high = interval.ends(below[None], FIVE_PERCENT[None])
    return float(low[0, 0, 0]), float(high[0, 0, 0])


def test_five_errors_make_an_interval_and_four_do_not() -> None:
    errors = np.array([-1.0, 2.0, 0.5, 0.0, 1.0])
    assert not learned(errors[: ENOUGH - 1]).ready and learned(errors).ready
    low, high = ends(learned(errors))
    assert low < -2 and high > 4


def test_however_few_errors_are_known_intervals_hold_what_was_asked() -> None:
    rng = np.random.default_rng(2)
    for count, most in ((5, 1.0), (10, 0.99), (40, 0.97), (200, 0.93)):
        held = []
        for _ in range(600):
            low, high = ends(learned(rng.normal(0, 1, count)))
            held.append(low <= rng.normal() <= high)
        assert 0.875 < np.mean(held) <= most, (count, np.mean(held))


def test_a_sharper_kind_counts_more() -> None:
    interval, rng = Conformal(columns=1, kinds=2), np.random.default_rng(3)
    for error in rng.normal(0, 1, 100).tolist():
        sizes = np.array([[[1.0, 0.9]]])
        interval.learn(np.array([[[error, error]]]), sizes, FIVE_PERCENT, FIVE_PERCENT)
    assert interval.weights()[0, 1] > 0.9


def test_a_restart_goes_on_with_the_same_errors() -> None:
    errors = np.random.default_rng(4).normal(0, 1, 80)
    before, after = learned(errors[:50]), Conformal(columns=1, kinds=1)
    after.restore(before.state())
    for error in errors[50:].tolist():
        for interval in (before, after):
            interval.learn(np.array([[[error]]]), np.ones((1, 1, 1)), FIVE_PERCENT, FIVE_PERCENT)
    assert ends(before) == ends(after)
