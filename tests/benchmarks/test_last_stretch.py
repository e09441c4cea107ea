"""The policy that takes the next stretch to be like the last one: its slack is the least that then keeps to 1 %."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.lab import arrivals as make
from experiments.lab.trial import Case, Paged, required
from slackwater.windows.spec import WindowSpec

# Benchmarks are programs, and import one another as such.
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from last_stretch import LastStretch, planned
from progress import STRETCH, P

SECOND = 1_000_000


def case(seed: int, delay: make.Delay) -> Case:
    rows = make.arrivals(delay, seconds=300, rate=50, seed=seed)
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), SECOND)
    return Case.of(paged, WindowSpec(SECOND, SECOND))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_takes_the_least_slack_that_keeps_every_stretch_to_come(seed: int) -> None:
    """With no room for chance: what the newest pages lost, put once more behind those that stay."""
    tried = case(seed, make.exponential(2))
    lost = np.random.default_rng(seed).integers(0, 2, len(tried.paged)) * (np.arange(len(tried.paged)) % 4 == 0)
    pages, needed, pairs = required(tried)
    all_pairs = np.array([r.all for r in tried.reports])
    for k in (150, 220, 299):
        found = LastStretch(tried, 1.0, 0.0).slack(k, lost)

        def kept(slack: int, k: int = k) -> bool:
            would = np.bincount(pages, pairs * (needed > slack), len(tried.paged))
            for ahead in (1, 2, 5, 10, 20, 35, 50, 70, 85, 100):
                stays, again = slice(k + 1 - STRETCH + ahead, k + 1), slice(k + 1 - ahead, k + 1)
                allowed = P * (all_pairs[stays].sum() + all_pairs[again].sum())
                if lost[stays].sum() + would[again].sum() > allowed:
                    return False
            return True

        tried_slacks = sorted({max(0, int(n)) for n in needed[(pages > k - STRETCH) & (pages <= k)]})
        assert found == next((slack for slack in tried_slacks if kept(slack)), None)


def test_on_a_steady_stream_it_loses_about_what_may_be_lost() -> None:
    outcome = planned(case(1, make.uniform(3)), 1.0, 0.0)
    assert 0.005 <= outcome.lost[100:].sum() / outcome.pairs[100:].sum() <= 0.0105


def test_more_room_for_chance_never_takes_a_shorter_slack() -> None:
    tried = case(2, make.exponential(2))
    lost = np.zeros(len(tried.paged), np.int64)
    bold, careful = LastStretch(tried, 1.0, 0.0), LastStretch(tried, 0.94, 1.5)
    for k in range(110, 290, 20):
        short, long = (
            np.inf if slack is None else slack for slack in (bold.slack(k, lost), careful.slack(k, lost))
        )
        assert short <= long
