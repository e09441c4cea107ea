"""The limits for a policy are limits: brute force over all choices never waits less, and often just as long."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from experiments.lab import arrivals as make
from experiments.lab.trial import Case, Paged, fixed, hindsight_in_every_stretch, required
from slackwater.windows.spec import WindowSpec

# Benchmarks are programs, and import one another as such.
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from foreseen import Choices, judged, least_wait, sums

SECOND = 1_000_000


def case(seed: int, seconds: int, rate: float, length: int = 4) -> Case:
    rows = make.arrivals(make.exponential(2), seconds=seconds, rate=rate, seed=seed)
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), SECOND)
    return Case.of(paged, WindowSpec(length * SECOND, length * SECOND))


def shortest(tried: Case, p: float, stretch: int) -> float:
    """The least mean wait of all closings of windows that keep to p in every stretch, by trying them all."""
    ats, before = tried.paged.ats, tried.paged.highest_before()
    came, _, pairs = required(tried)
    ends, window = np.unique(np.concatenate([r.last_ticks for r in tried.reports]), return_inverse=True)
    counts, allowed = judged(tried, ends), p * sums(np.array([r.all for r in tried.reports]), stretch)
    first = np.searchsorted(before[1:], ends + 1)
    best = np.inf
    for closed in product(*(range(f, max(f, len(ats) - 1) + 1) for f in first)):
        lost = np.bincount(came, pairs * (came > np.array(closed)[window]), len(ats))
        if (sums(lost, stretch) <= allowed).all():
            waits = ats[np.minimum(closed, len(ats) - 1)] - (ends + 1)
            best = min(best, float(waits[counts].mean()))
    return best


@pytest.mark.parametrize("seed", range(6))
def test_no_choice_waits_less_than_the_limit(seed: int) -> None:
    tried = case(seed, seconds=16, rate=6)
    for p in (0.03, 0.1, 0.3):
        reached = shortest(tried, p, stretch=8)
        limit = least_wait(Choices.of(tried, 0, p, stretch=8), reached)
        assert 0.5 * reached <= limit <= reached * (1 + 1e-9)


@pytest.mark.parametrize("together", [0, 10, 25, 1000])
def test_the_bound_that_holds_in_every_stretch_is_one_of_the_choices(together: int) -> None:
    tried = case(1, seconds=300, rate=50, length=10)
    every = fixed(tried, hindsight_in_every_stretch(tried, 0.01, 100)).waits().mean()
    assert least_wait(Choices.of(tried, together), every) <= every * (1 + 1e-9)


def test_the_more_slacks_may_be_chosen_the_shorter_is_the_wait() -> None:
    tried = case(2, seconds=300, rate=50, length=10)
    every = fixed(tried, hindsight_in_every_stretch(tried, 0.01, 100)).waits().mean()
    one, some, each = (least_wait(Choices.of(tried, together), every) for together in (1000, 50, 0))
    assert 0.9 * every < one
    assert each < some < one


def test_where_nothing_may_be_lost_each_window_waits_for_its_last_row() -> None:
    tried = case(3, seconds=60, rate=20)
    came, _, _ = required(tried)
    ends, window = np.unique(np.concatenate([r.last_ticks for r in tried.reports]), return_inverse=True)
    first = np.searchsorted(tried.paged.highest_before()[1:], ends + 1)
    last = np.maximum(first, [came[window == number].max() for number in range(len(ends))])
    waits = tried.paged.ats[np.minimum(last, len(tried.paged) - 1)] - (ends + 1)
    expected = float(waits[judged(tried, ends)].mean())
    assert least_wait(Choices.of(tried, 0, p=0.0), expected) == pytest.approx(expected, rel=0.02)
