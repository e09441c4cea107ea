"""Early answers whose final values come many windows later: what is learned in between is old, or nothing.

The stream is made of slots, one for each slide; windows overlap, and are answered when their last slot is over.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa
import pytest

from slackwater.aggregates.growth import Growth
from slackwater.estimates.age_profile import AgeProfile
from slackwater.estimates.conformal import LATEST
from slackwater.estimates.early_guess import Guess
from slackwater.estimates.fit_to_type import fit_to_type
from slackwater.estimates.traffic import FIGURES
from slackwater.progress.source_numbers import Floats

COLUMNS = [Growth.COUNTS, Growth.COUNTS, Growth.ADDS, Growth.RISES]
ONE = np.zeros(1, np.uint64)
UNKNOWN = np.full((1, FIGURES), np.nan)


def windows_of(rng: np.random.Generator, count: int, overlap: int, later: int) -> tuple[Floats, Floats]:
    """What is seen of each window and its final values, by column; rows that come later than that are lost."""
    slots = count + overlap
    slot = np.repeat(np.arange(slots), rng.poisson(3, slots) + 1)
    delay = rng.lognormal(1.5, 1.2, len(slot))
    delay[np.diff(slot, prepend=-1) > 0] = 0  # no window is asked before its first row
    value = rng.exponential(5, len(slot))
    seen, final = np.zeros((count, 4)), np.zeros((count, 4))
    for w in range(count):
        inside = (slot >= w) & (slot < w + overlap) & (delay < later)
        here = inside & (slot + delay < w + overlap)
        for values, some in ((seen, here), (final, inside)):
            rows = np.count_nonzero(some)
            values[w] = rows, rows, value[some].sum(), value[some].max(initial=0)
    return seen, final


def play(seen: Floats, final: Floats, behind: int) -> tuple[list[Guess], AgeProfile]:
    """Answers of all windows; each window's final values are known when `behind` more have been answered."""
    profile, said, waiting = AgeProfile(COLUMNS, 0.9), [], deque[int]()
    curve = np.full(1, np.nan)
    for w in range(len(seen)):
        guess = profile.guess(np.array([float(w)]), ONE, seen[w : w + 1], curve, UNKNOWN)
        ends = guess.low[:, 1], guess.high[:, 1]
        guess.center[:, 1], *ends = fit_to_type(pa.int64(), seen[w : w + 1, 1], guess.center[:, 1], *ends)
        guess.low[:, 1], guess.high[:, 1] = ends
        said.append(guess)
        waiting.append(w)
        if len(waiting) > behind:
            known = waiting.popleft()
            profile.learn(known, said[known], final[known : known + 1], curve, behind)
    return said, profile


def covered(said: list[Guess], final: Floats, column: int) -> list[bool]:
    ends = [(g.low[0, column], g.high[0, column]) for g in said]
    return [low <= f <= high for (low, high), f in zip(ends, final[:, column], strict=True) if not np.isnan(low)]


LONG = [pytest.param(*how, marks=pytest.mark.long) for how in ((3, 100), (12, 12), (3, 3))]


@pytest.mark.parametrize(("overlap", "behind"), [(12, 150), *LONG])
def test_intervals_hold_however_late_the_errors_are_known(overlap: int, behind: int) -> None:
    held: dict[int, list[bool]] = {1: [], 2: [], 3: []}
    for seed in range(4):  # windows that overlap err together: one stream alone says little
        seen, final = windows_of(np.random.default_rng(seed), 1_200, overlap, behind)
        said, _ = play(seen, final, behind)
        for column in held:
            held[column] += covered(said, final, column)
    for column, all_of_them in held.items():
        assert len(all_of_them) > 4_000
        assert 0.88 <= np.mean(all_of_them) <= 0.94, COLUMNS[column]


def test_answers_before_anything_is_known_do_no_harm() -> None:
    seen, final = windows_of(np.random.default_rng(5), 600, 3, 100)
    said, _ = play(seen, final, 100)
    for guess in said[:100]:
        assert guess.center[0, 1] == guess.seen[0, 1] and np.isnan(guess.low[0, 1])
    first = next(i for i, g in enumerate(said) if not np.isnan(g.low[0, 1]))
    assert first < 130
    off = [abs(g.center[0, 1] - f) for g, f in zip(said, final[:, 1], strict=True)]
    assert np.mean(off[first:]) < 0.5 * np.mean(off[:100])
    widths = [g.high[0, 1] - g.low[0, 1] for g in said[first:]]
    assert max(widths) < 4 * np.median(widths) < 4 * final[:, 1].max()


def test_a_value_that_is_always_the_same_is_known_exactly() -> None:
    rng = np.random.default_rng(6)
    rows = rng.integers(10, 15, 300)
    seen = np.stack([rows, rows, rows * 2.0, rows * 0.0 + 9], axis=1).astype(np.float64)
    final = np.tile([16.0, 16.0, 32.0, 9.0], (300, 1))
    said, _ = play(seen, final, 2)
    for guess in said[100:]:
        assert (guess.low[0, 1], guess.center[0, 1], guess.high[0, 1]) == (16, 16, 16)


def test_with_one_group_an_interval_is_made_of_errors_as_they_were() -> None:
    """A few wild errors are in the tail of the others that are kept; they do not make all others wild, too."""
    rng = np.random.default_rng(8)
    errors = rng.normal(0, 1, 120)
    errors[[30, 31, 32]] = 40.0, -40.0, 40.0
    final = np.stack([np.full(120, 100.0), errors], axis=1)
    profile, curve = AgeProfile([Growth.COUNTS, Growth.SETTLES], 0.9), np.full(1, np.nan)
    for w in range(120):
        guess = profile.guess(np.array([float(w)]), ONE, np.array([[80.0, 0.0]]), curve, UNKNOWN)
        if w >= 60:
            known = errors[6:w][-int(LATEST * (w - 6)) :]
            assert guess.low[0, 1] >= 1.25 * np.quantile(known, 0.03), w
            assert guess.high[0, 1] <= 1.25 * np.quantile(known, 0.97), w
        profile.learn(w, guess, final[w : w + 1], curve, 0)


def test_errors_of_a_wild_beginning_are_given_up_before_others() -> None:
    """The first twelve windows that count are a hundred times as far off as those after them."""
    rng = np.random.default_rng(9)
    errors = rng.normal(0, 1, 120)
    errors[6:18] *= 100
    final = np.stack([np.full(120, 100.0), errors], axis=1)
    profile, curve = AgeProfile([Growth.COUNTS, Growth.SETTLES], 0.9), np.full(1, np.nan)
    for w in range(120):
        guess = profile.guess(np.array([float(w)]), ONE, np.array([[80.0, 0.0]]), curve, UNKNOWN)
        if w >= 100:  # 94 errors are known; with the first ones among them the ends would be 100 or more away
            assert guess.high[0, 1] - guess.low[0, 1] < 10, w
        profile.learn(w, guess, final[w : w + 1], curve, 0)
