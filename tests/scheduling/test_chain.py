"""S2's claims in its own model: Example 1.1 to the digit, and what holds on all small systems."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings

import slackwater as sw
from slackwater.scheduling.strategy import Ordered
from tests.kit.systems import System, systems
from tests.kit.unit_time import Path, Tuple, least_memory, play

EXAMPLE = Path((1, 1), (0.2, 0.0))
BURST = [Tuple(at, 0) for at in range(7)]


@pytest.mark.parametrize("strategy", [sw.papers.greedy(), sw.chain()])
def test_example_1_1_greedy(strategy: Ordered) -> None:
    played = play(strategy, [EXAMPLE], BURST, 16)
    assert played.memory[:7] == pytest.approx([1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2])
    assert played.memory[14:] == [0, 0]


def test_example_1_1_fifo() -> None:
    played = play(sw.fifo(), [EXAMPLE], BURST, 16)
    assert played.memory[:7] == pytest.approx([1, 1.2, 2.0, 2.2, 3.0, 3.2, 4.0])
    assert played.memory[14:] == [0, 0]


@settings(max_examples=60)
@given(systems())
def test_chain_needs_at_every_instant_at_most_a_unit_a_query_more_than_the_best_schedule(
    system: System,
) -> None:
    paths, tuples = system.paths, system.tuples
    mine, best = play(sw.chain(), paths, tuples, 16).memory, least_memory(paths, tuples, 16)
    assert all(m <= b + len(paths) + 1e-9 for m, b in zip(mine, best, strict=True))


@given(systems(most=12))
def test_chain_keeps_the_order_of_arrival(system: System) -> None:
    paths, tuples = system.paths, system.tuples
    left = play(sw.chain(), paths, tuples, 120).left
    assert len(left) == len(tuples), "nothing is left behind"
    for n in range(len(paths)):
        mine = [left[m] for m, t in enumerate(tuples) if t.path == n]
        assert mine == sorted(mine)


@given(systems(most=12))
def test_chain_is_greedy_where_every_operator_is_a_chain_of_its_own(
    system: System,
) -> None:
    paths, tuples = system.paths, system.tuples
    chain = sw.chain()
    chosen = play(chain, paths, tuples, 120).chosen
    found = [chain.segment(f"{n}/{m}") for n, path in enumerate(paths) for m in range(len(path.times))]
    assume(
        all(
            segment is not None and len(segment.labels) == 1 + ("/source" in segment.labels[0]) for segment in found
        )
    )
    assert play(sw.papers.greedy(), paths, tuples, 120).chosen == chosen
