"""Chain with a bound on waiting: what it promises, on all small systems whose load fits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from experiments.lab.operator_work import FactoredChain, memory_factor
from slackwater.errors import QueryError
from slackwater.scheduling.chain import BoundedChain, Chain
from tests.kit.systems import System, systems
from tests.kit.unit_time import Path, Tuple, plan_of, play

UNTIL = 160


def bound(system: System, whole: bool) -> int:
    """The shortest that the load fits into: the most work that ever waits, and two of the longest runs."""
    longest = max(time for path in system.paths for time in path.times) if whole else 1
    return max(play(sw.fifo(), system.paths, system.tuples, UNTIL, whole).backlog) + 2 * longest


@settings(max_examples=200)
@given(systems(most=16), st.booleans())
def test_no_tuple_waits_longer_than_the_bound_under_any_load_that_fits(system: System, whole: bool) -> None:
    strategy = BoundedChain(bound(system, whole))
    played = play(strategy, system.paths, system.tuples, UNTIL, whole)
    waits = [played.left[n] - t.at for n, t in enumerate(system.tuples)]
    assert max(waits) <= strategy.max_wait


@settings(max_examples=200)
@given(systems(most=16), st.integers(1, 40))
def test_memory_stays_within_the_factor_of_chains_whatever_the_bound(system: System, max_wait: int) -> None:
    mine = play(BoundedChain(max_wait), system.paths, system.tuples, UNTIL, whole=True)
    chains = play(Chain(), system.paths, system.tuples, UNTIL, whole=True)
    factor = memory_factor(plan_of(system.paths))
    assert mine.backlog == chains.backlog, "neither ever rests"
    assert all(m <= factor * c + 1 + 1e-9 for m, c in zip(mine.memory, chains.memory, strict=True))


@given(systems(most=16))
def test_it_is_chain_as_long_as_no_tuple_has_to_hurry(system: System) -> None:
    longest = 2 * UNTIL
    mine, chains = (play(of, system.paths, system.tuples, UNTIL).chosen for of in (BoundedChain(longest), Chain()))
    assert mine == chains


def test_without_it_a_tuple_may_wait_for_as_long_as_others_come() -> None:
    system = [Path((2,), (0.0,)), Path((1,), (0.0,))]
    tuples = [Tuple(0, 0), *(Tuple(at, 1) for at in range(60))]
    assert play(Chain(), system, tuples, 80).left[0] == 62
    assert play(BoundedChain(10), system, tuples, 80).left[0] <= 10


def test_an_overload_is_worked_off_oldest_first() -> None:
    system = [Path((1, 3), (0.1, 0.0))]
    tuples = [Tuple(0, 0) for _ in range(20)]
    left = play(BoundedChain(3), system, tuples, 100).left
    assert [left[n] for n in range(20)] == [4 * (n + 1) for n in range(20)]


@pytest.mark.parametrize("wrong", ["soon", "0 seconds", "-1 second", 10])
def test_a_bound_must_be_a_length_of_time(wrong: object) -> None:
    with pytest.raises(QueryError, match=r"chain\(max_wait="):
        sw.chain(max_wait=wrong)  # type: ignore[arg-type]


def test_a_bound_is_kept_in_seconds() -> None:
    strategy = sw.chain(max_wait="10 seconds")
    assert isinstance(strategy, BoundedChain) and strategy.max_wait == 10


def test_it_says_how_much_more_memory_it_may_take() -> None:
    strategy = FactoredChain(10)
    strategy.learn(plan_of([Path((1, 1), (0.2, 0.0))]))
    # A tuple of size 1 stands for two seconds of work, one of size 0.2 for one second.
    assert strategy.factor == pytest.approx(2.5)
