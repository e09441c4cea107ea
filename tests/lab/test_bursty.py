"""Arrivals of S2's experiments: as much work as was asked for, in bursts, and how much of it waits at most."""

from __future__ import annotations

import numpy as np
import pytest

import slackwater as sw
from experiments.lab.bursty import Pattern, load, most_work, on_off, poisson, trace
from experiments.lab.simulation import Case, Virtual, simulate

CASE = Case(("s",), (Virtual("fast", ("s",), 1.0, 0.2), Virtual("slow", ("fast",), 20.0)))
SEVERAL = Case(("r", "s"), (Virtual("a", ("r",), 3.0), Virtual("b", ("s",), 5.0)))
PATTERNS = [poisson(), on_off(), trace([0, 1, 1, 1, 1, 1, 1, 1, 50, 90, 91, 91, 200] * 20)]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("case", [CASE, SEVERAL])
def test_the_work_takes_the_share_of_the_time_that_was_asked_for(pattern: Pattern, case: Case) -> None:
    comes = load(case, pattern, 200, 0.8, seed=1)
    work = sum(page.rows * case.work(page.stream) for page in comes)
    assert work / max(page.at for page in comes) == pytest.approx(0.8, rel=0.02)
    assert comes == load(case, pattern, 200, 0.8, seed=1) != load(case, pattern, 200, 0.8, seed=2)


def test_flows_that_come_and_go_are_burstier_than_chance() -> None:
    def spread(pattern: Pattern) -> float:
        instants = [page.at for page in load(CASE, pattern, 2_000, 0.9, seed=3)]
        counts, _ = np.histogram(instants, bins=200)
        return float(counts.var() / counts.mean())

    assert spread(poisson()) < 2 < 2 * spread(poisson()) < spread(on_off())


@pytest.mark.parametrize("seed", range(4))
def test_the_most_work_that_waits_is_how_long_a_page_waits_under_fifo(seed: int) -> None:
    comes = load(CASE, on_off(), 150, 0.9, seed)
    assert max(simulate(CASE, comes, sw.fifo()).latencies) == pytest.approx(most_work(CASE, comes), rel=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_with_a_bound_that_the_load_fits_into_no_page_waits_longer(seed: int) -> None:
    comes = load(SEVERAL, on_off(), 100, 0.95, seed)
    longest = 2 * 5.0 * 100
    bound = most_work(SEVERAL, comes) + longest
    out = simulate(SEVERAL, comes, sw.chain(max_wait=f"{bound:.0f} us"))
    assert max(out.latencies) <= bound
