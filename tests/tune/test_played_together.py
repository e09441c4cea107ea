"""Policies that are tried together, page by page: each fares as it does alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from slackwater.errors import QueryError
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.disorder import Disorder
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.learned.learned import learned
from slackwater.progress.time import TimeDomain
from slackwater.tune.arrival_pages import ArrivalPages
from slackwater.tune.comparison import Candidate, _delay, _try
from slackwater.tune.outcome import PolicyOutcome
from slackwater.windows.spec import WindowSpec
from tests.kit.backtests import backtest, backtest_by_source
from tests.kit.played_policies import paged, stream

SECOND = 1_000_000
POLICIES = (
    *(drop_ratio(p) for p in (0.001, 0.01, 0.05)),
    drop_ratio(0.01, stretch="20 seconds"),
    drop_ratio(0.01, timeout="300 milliseconds"),
    learned(),
)


def pages() -> ArrivalPages:
    """Sources of three delays; rows come later from the middle on, so that slacks and what they rest on differ."""
    dice, n = np.random.default_rng(5), 6_000
    arrival = np.sort(dice.integers(0, 300 * SECOND, n))
    source = dice.integers(0, 9, n)
    usual = np.array([1, 1, 1, 1, 1, 1, 20, 20, 60])[source]
    later = np.where(arrival > 150 * SECOND, 5, 1)
    time = arrival - (dice.exponential(usual * later) * SECOND / 4).astype(np.int64)
    spec = WindowSpec.of(TimeDomain.TIMESTAMP, "10 seconds", "5 seconds", None)
    return paged(stream(arrival.tolist(), time.tolist(), [f"s{k}" for k in source.tolist()]), SECOND, spec)


def hostile_pages() -> ArrivalPages:
    """Sources that send once, silences, corrupt times, and pages of which no row has a time."""
    dice, n = np.random.default_rng(6), 1_500
    arrival = np.sort(dice.integers(0, 150 * SECOND, n))
    arrival = arrival[(arrival // SECOND) % 50 < 35]
    n = len(arrival)
    time = (arrival - dice.exponential(2, n) * SECOND).astype(np.int64)
    corrupt = dice.random(n) < 0.01
    time[corrupt] = dice.choice([0, -(10**15), 4 * 10**15, 253_402_300_799 * SECOND], corrupt.sum())
    source = [f"s{k}" if k < 5 else f"once {place}" for place, k in enumerate(dice.integers(0, 7, n).tolist())]
    known = [None if second % 20 == 7 else t for second, t in zip(arrival // SECOND, time.tolist(), strict=True)]
    spec = WindowSpec.of(TimeDomain.TIMESTAMP, "10 seconds", "5 seconds", None)
    return paged(stream(arrival.tolist(), known, source), SECOND, spec)


@pytest.mark.parametrize(("make", "policies"), [(pages, POLICIES), (hostile_pages, POLICIES[1:5])])
def test_each_fares_as_it_does_alone(make: Callable[[], ArrivalPages], policies: tuple[Disorder, ...]) -> None:
    given = make()
    tried = [Candidate(policy, by_source=by) for policy in policies for by in (False, True)]
    for candidate, together in _try(tried, given, lambda what, done, steps: None):
        alone = (backtest_by_source if candidate.by_source else backtest)(candidate.policy, given)
        assert _all_of(together) == _all_of(alone), candidate.label


def _all_of(outcome: PolicyOutcome) -> list[list[int]]:
    found = (outcome.met, outcome.lost, outcome.lost_rows, outcome.held, outcome.ends, outcome.closed)
    return [values.tolist() for values in found]


def test_the_slacks_of_the_shares_differ_here() -> None:
    """Else the test above would show nothing."""
    given = pages()
    lost = [int(backtest(policy, given).lost.sum()) for policy in POLICIES[:3]]
    assert lost == sorted(set(lost))


def test_a_fixed_delay_is_refused_as_in_a_query() -> None:
    with pytest.raises(QueryError, match="bounded"):
        _delay(bounded("-5 seconds"))
