"""S2's claims in its own model: Example 1.1 to the digit, and what holds on all small systems."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.scheduling.strategy import Ordered
from tests.kit.unit_time import Path, Tuple, least_memory, play

EXAMPLE = Path((1, 1), (0.2, 0.0))
BURST = [Tuple(at, 0) for at in range(7)]


@pytest.mark.parametrize("strategy", [sw.greedy(), sw.chain()])
def test_example_1_1_greedy(strategy: Ordered) -> None:
    played = play(strategy, [EXAMPLE], BURST, 16)
    assert played.memory[:7] == pytest.approx([1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2])
    assert played.memory[14:] == [0, 0]


def test_example_1_1_fifo() -> None:
    played = play(sw.fifo(), [EXAMPLE], BURST, 16)
    assert played.memory[:7] == pytest.approx([1, 1.2, 2.0, 2.2, 3.0, 3.2, 4.0])
    assert played.memory[14:] == [0, 0]


@st.composite
def path(draw: st.DrawFn, longest: int = 3) -> Path:
    """Selectivities of at most 1, and few units of time."""
    n = draw(st.integers(1, longest))
    times = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    size = st.sampled_from([0.05, 0.1, 0.3, 0.5, 0.8, 0.95, 1.0])
    sizes = sorted(draw(st.lists(size, min_size=n - 1, max_size=n - 1)))
    return Path(tuple(times), (*sizes[::-1], 0.0))


PATHS = st.lists(path(), min_size=1, max_size=2)


@st.composite
def systems(draw: st.DrawFn, most: int = 6) -> tuple[list[Path], list[Tuple]]:
    """Some queries and what comes to them."""
    paths = draw(PATHS)
    one = st.builds(Tuple, st.integers(0, 8), st.integers(0, len(paths) - 1))
    return paths, sorted(draw(st.lists(one, min_size=1, max_size=most)), key=lambda t: t.at)


@settings(max_examples=60, deadline=None)
@given(systems())
def test_chain_needs_at_every_instant_at_most_a_unit_a_query_more_than_the_best_schedule(
    system: tuple[list[Path], list[Tuple]],
) -> None:
    paths, tuples = system
    mine, best = play(sw.chain(), paths, tuples, 16).memory, least_memory(paths, tuples, 16)
    assert all(m <= b + len(paths) + 1e-9 for m, b in zip(mine, best, strict=True))


@settings(deadline=None)
@given(systems(most=12))
def test_chain_keeps_the_order_of_arrival(system: tuple[list[Path], list[Tuple]]) -> None:
    paths, tuples = system
    left = play(sw.chain(), paths, tuples, 120).left
    assert len(left) == len(tuples), "nothing is left behind"
    for n in range(len(paths)):
        mine = [left[m] for m, t in enumerate(tuples) if t.path == n]
        assert mine == sorted(mine)


@settings(deadline=None)
@given(systems(most=12))
def test_chain_is_greedy_where_every_operator_is_a_chain_of_its_own(
    system: tuple[list[Path], list[Tuple]],
) -> None:
    paths, tuples = system
    chain = sw.chain()
    chosen = play(chain, paths, tuples, 120).chosen
    found = [chain.segment(f"{n}/{m}") for n, path in enumerate(paths) for m in range(len(path.times))]
    assume(
        all(
            segment is not None and len(segment.labels) == 1 + ("/source" in segment.labels[0]) for segment in found
        )
    )
    assert play(sw.greedy(), paths, tuples, 120).chosen == chosen
