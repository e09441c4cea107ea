"""Random small systems of S2's kind: some queries, and what comes to them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.kit.unit_time import Path, Tuple


@dataclass(frozen=True)
class System:
    """Queries, and tuples in the order in which they come."""

    paths: list[Path]
    tuples: list[Tuple]


@st.composite
def paths(draw: st.DrawFn, longest: int = 3, largest: float = 1.0) -> Path:
    """Few units of time; selectivities of at most 1, unless sizes may be larger."""
    n = draw(st.integers(1, longest))
    times = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    size = st.sampled_from([s for s in (0.05, 0.1, 0.3, 0.5, 0.8, 0.95, 1.0, 1.5, 2.0) if s <= largest])
    sizes = draw(st.lists(size, min_size=n - 1, max_size=n - 1))
    return Path(tuple(times), (*(sorted(sizes, reverse=True) if largest <= 1 else sizes), 0.0))


@st.composite
def systems(draw: st.DrawFn, most: int = 6, largest: float = 1.0) -> System:
    """One query or two, `most` tuples or fewer, none of which grows beyond the `largest` size."""
    queries = draw(st.lists(paths(largest=largest), min_size=1, max_size=2))
    one = st.builds(Tuple, st.integers(0, 8), st.integers(0, len(queries) - 1))
    return System(queries, sorted(draw(st.lists(one, min_size=1, max_size=most)), key=lambda t: t.at))
