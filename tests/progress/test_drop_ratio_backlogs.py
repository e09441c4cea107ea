"""drop_ratio where rows come late together: at most p is lost in all, and the stretch is as long as that takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from experiments.lab import arrivals as make
from experiments.lab import backlogs
from experiments.lab.trial import Case, Paged, TrialOutcome, fixed, hindsight, run
from slackwater.progress.disorder import Tracker
from slackwater.progress.drop_ratio.cells import CELLS, LatenessCells
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.drop_ratio.tracker import SHORTEST
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import TimeDomain
from slackwater.windows.spec import WindowSpec

SECOND = 1_000_000


def case(rows: pl.DataFrame, window: int, page: int = 1) -> Case:
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), page * SECOND)
    return Case.of(paged, WindowSpec(window * SECOND, window * SECOND))


def tried(case: Case, p: float, **options: Any) -> tuple[Tracker, TrialOutcome]:
    tracker = drop_ratio(p, **options).tracker(TimeDomain.TIMESTAMP)
    return tracker, run(tracker, case)


@pytest.mark.parametrize("p", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("kind", [pytest.param(k, marks=pytest.mark.long) for k in backlogs.KINDS])
def test_at_most_p_is_lost_in_all_where_rows_come_in_backlogs(kind: str, p: float) -> None:
    rows = backlogs.KINDS[kind](12_000, np.random.default_rng(41))
    assert tried(case(rows, 20, 4), p)[1].share <= p


@pytest.mark.parametrize("kind", ["tunnels of many", "cellars"])
def test_a_short_stream_of_backlogs_loses_no_more_than_p(kind: str) -> None:
    rows = backlogs.KINDS[kind](2_000, np.random.default_rng(42))
    assert 0 < tried(case(rows, 20, 4), 0.02)[1].share <= 0.02


def test_a_stretch_grows_until_dozens_of_backlogs_fall_into_it() -> None:
    alike = case(make.arrivals(make.exponential(2), seconds=600, rate=100, seed=1), 10)
    held = case(backlogs.ferries(4_000, np.random.default_rng(43)), 20, 4)
    steady, grown = (tried(each, 0.01)[0].metrics()["stretch"] for each in (alike, held))
    assert steady <= 2 * SHORTEST < 4 * SHORTEST < grown


@pytest.mark.parametrize(("far", "rate"), [(60, 10), (600, 10), (60, 50), (600, 50)])
def test_rare_late_rows_are_not_waited_for_where_more_may_be_lost(far: int, rate: int) -> None:
    """0.3 % of the rows are late at all, and 1 % may be lost."""
    delay = make.mixed(make.none(), make.uniform(far), 0.003)
    rare = case(make.arrivals(delay, seconds=1_000, rate=rate, seed=1), 5)
    outcome, best = tried(rare, 0.01)[1], fixed(rare, hindsight(rare, 0.01))
    assert outcome.share <= 0.01
    assert outcome.waits().mean() <= 1.3 * best.waits().mean()


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 6, 7])
def test_clocks_that_are_ahead_and_join_one_by_one_stop_time_for_at_most_fifteen_seconds(seed: int) -> None:
    """In seeds 4 and 14 the first two sources are those that are ahead: then nobody can know of the others."""
    outcome = tried(case(backlogs.joining(seed), 5), 0.01)[1]
    assert longest_stand(outcome.heartbeats[1:]) <= 15
    assert outcome.share <= 0.01


def test_it_warns_where_the_share_allows_only_a_few_rows(caplog: pytest.LogCaptureFixture) -> None:
    few = case(make.arrivals(make.exponential(1), seconds=200, rate=20, seed=3), 5)
    tracker, _ = tried(few, 0.001)
    assert 0 < tracker.metrics()["may_lose"] < 5
    assert [r.getMessage() for r in caplog.records if "allows to lose" in r.getMessage()], "a warning"
    caplog.clear()
    tried(few, 0.05)
    assert not caplog.records


def longest_stand(heartbeats: Ints) -> int:
    """For how many pages the heartbeat has been the same at most."""
    changes = np.flatnonzero(heartbeats[1:] != heartbeats[:-1])
    return int(np.diff(changes, prepend=-1, append=len(heartbeats)).max())


def test_pages_are_put_together_behind_the_newest_and_no_row_is_forgotten() -> None:
    rng, cells, queue = np.random.default_rng(5), LatenessCells(0.01, by_time=False, timestamps=True), []
    rows = make.arrivals(make.exponential(1), seconds=400, rate=20, seed=5)
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), SECOND)
    weights = np.zeros(0)
    for k in range(400):
        cells.admit()
        cells.arrive(paged.arrival(k))
        weights = np.append(weights, rng.integers(1, 9))
        begins = cells.merge(stretch=1_000)
        weights = weights if begins is None else np.add.reduceat(weights, begins)
        queue.append(len(cells))
    assert cells.rows.sum() == pytest.approx(len(rows))
    assert len(weights) == len(cells) == len(cells.places) == len(cells.values) == queue[-1]
    assert cells.places[-CELLS:].tolist() == list(range(301, 401)), "the newest are single pages"
    assert np.diff(cells.places[: cells.merged]).tolist() == [10] * (cells.merged - 1)
    assert len(cells) < CELLS + 30 + 10
