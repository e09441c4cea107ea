"""S2's claims in its own model: Example 1.1 to the digit, and what holds on all small systems."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import assume, given, settings

import slackwater as sw
from slackwater.scheduling.chart import chart
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


def differences(path: Path) -> float:
    """S2's sum of deltas: on each segment, by how much the chart lies above its lower envelope at most."""
    points = [(0.0, 1.0), *zip(map(float, accumulate(path.times)), path.sizes, strict=True)]
    drawn = chart([str(n) for n in range(len(path.times))], points)
    total = 0.0
    for (begin, size), (end, left) in pairwise(drawn.envelope):
        slope = (size - left) / (end - begin)
        inside = [n for n, (at, _) in enumerate(points) if begin <= at < end]
        # A row keeps its size until an operator is done: the difference is largest just before that.
        tops = [points[n][1] - (size - slope * (points[n + 1][0] - begin)) for n in inside]
        total += max(tops)
    return total


@settings(max_examples=60)
@given(systems(largest=2.0))
def test_lemma_4_1_whatever_the_selectivities_chain_is_within_the_sum_of_deltas(system: System) -> None:
    paths, tuples = system.paths, system.tuples
    mine, best = play(sw.chain(), paths, tuples, 16).memory, least_memory(paths, tuples, 16)
    slack = sum(map(differences, paths))
    assert all(m <= b + slack + 1e-9 for m, b in zip(mine, best, strict=True))


def test_with_selectivities_above_1_a_unit_a_query_is_not_enough() -> None:
    # Chain leaves the first tuple, of size 2, a unit of time before its end, and makes the second as large.
    path, tuples = Path((1, 1, 2, 2), (2.0, 0.5, 2.0, 0.0)), [Tuple(0, 0), Tuple(5, 0)]
    mine, best = play(sw.chain(), [path], tuples, 12).memory, least_memory([path], tuples, 12)
    assert (mine[6], best[6], differences(path)) == (4.0, 1.0, 3.5)


@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("segments", [2, 4, 8])
def test_the_analysis_is_tight_chain_can_be_nearly_a_unit_a_query_above_the_best(
    queries: int, segments: int
) -> None:
    """Each tuple comes when the one before it lacks one unit of time to the end of a segment.

    So chain leaves a tuple in the middle of each segment. FIFO has used the same time to finish all but the last.
    """
    long = 400
    # Later segments, and later queries, are a little flatter.
    times = [[long + n * queries + q for n in range(segments)] for q in range(queries)]
    sizes = tuple(1 - (n + 1) / segments for n in range(segments - 1))
    paths = [Path(tuple(of), (*sizes, 0.0)) for of in times]
    instants, tuples = 0, list[Tuple]()
    for last in reversed(range(segments)):
        for q in reversed(range(queries)):
            tuples.append(Tuple(instants, q))
            instants += sum(times[q][: last + 1]) - 1
    chain, fifo = (play(strategy, paths, tuples, instants + 1).memory for strategy in (sw.chain(), sw.fifo()))
    assert chain[instants] - fifo[instants] == pytest.approx(queries - 1 / segments)


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
