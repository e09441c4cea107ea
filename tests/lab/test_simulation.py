"""S2's simulation: its example through the whole engine, and what holds under every strategy."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from experiments.lab.simulation import Case, Comes, Virtual, simulate
from slackwater.scheduling.strategy import Strategy
from tests.kit.strategies import STRATEGIES

RIVALS = (sw.fifo(), sw.papers.greedy(), sw.papers.round_robin())
#: Example 1.1 in pages of 1,000 rows; a unit of time is a millisecond.
EXAMPLE = Case(("s",), (Virtual("O1", ("s",), 1.0, 0.2), Virtual("O2", ("O1",), 5.0)))
BURST = [Comes(1_000 * t, "s", 1_000) for t in range(7)]

JOIN = Case(
    ("r", "s"),
    (
        Virtual("where", ("r",), 2.0, 0.9),
        Virtual("join", ("where", "s"), 2.0, 1.5),
        Virtual("selective", ("join",), 1.0, 0.1),
        Virtual("slow", ("selective",), 9.0),
    ),
)


def table(strategy: Strategy) -> list[float]:
    out = simulate(EXAMPLE, BURST, strategy)
    assert out.memory[-1] == 0 and out.times[-1] == 14_000
    return [out.at(1_000 * t) / 1_000 for t in range(7)]


@pytest.mark.parametrize("strategy", [sw.papers.greedy(), sw.chain()])
def test_example_1_1_greedy(strategy: Strategy) -> None:
    assert table(strategy) == [1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2]


def test_example_1_1_fifo() -> None:
    assert table(sw.fifo()) == [1, 1.2, 2.0, 2.2, 3.0, 3.2, 4.0]


#: Two branches of one stream meet again. Without the window behind the union each branch would look dull.
DIAMOND = (
    Virtual("left", ("s",), 1.0, 0.5),
    Virtual("right", ("s",), 1.0, 0.5),
    Virtual("union", ("left", "right"), 0.1, 0.3, union=True),
    Virtual("window", ("union",), 1.0),
)
OTHER = (Virtual("other", ("o",), 3.0, 0.3), Virtual("end", ("other",), 1.0))


@pytest.mark.parametrize("case", [Case(("s",), DIAMOND), Case(("s", "o"), (*DIAMOND, *OTHER))])
def test_where_branches_of_a_stream_meet_again_chain_holds_at_most_a_page_a_query_more_than_others(
    case: Case,
) -> None:
    burst = [Comes(80 * n, case.streams[n % len(case.streams)], 100) for n in range(80)]
    outs = {strategy.name: simulate(case, burst, strategy) for strategy in (*RIVALS, sw.chain())}
    chain = outs.pop("chain")
    for name, out in outs.items():
        assert out.departed == chain.departed
        more = max(chain.at(t) - out.at(t) for t in range(0, max(chain.times), 40))
        assert more <= 100 * len(case.streams), name


@st.composite
def graphs(draw: st.DrawFn, most: int) -> Case:
    """A stream, and operators that read it or each other; each reads `most` of them or fewer."""
    operators, labels = list[Virtual](), ["s"]
    for n in range(draw(st.integers(2, 7))):
        feeders = draw(st.lists(st.sampled_from(labels), min_size=1, max_size=most, unique=True))
        selectivity = draw(st.sampled_from([0.1, 0.3, 0.5, 0.8, 1.0]))
        several = len(feeders) > 1
        operators.append(Virtual(f"O{n}", tuple(feeders), draw(st.integers(1, 9)), selectivity, union=several))
        labels.append(f"O{n}")
    return Case(("s",), tuple(operators))


GAPS = st.lists(st.sampled_from([0.0, 0.2, 0.5, 5.0]), min_size=5, max_size=25)


def excess(case: Case, gaps: list[float]) -> float:
    """Pages that Chain holds at some instant above the rival that then holds least."""
    comes = [Comes(int(at * case.work("s") * 100), "s", 100) for at in accumulate(gaps)]
    chain, *others = [simulate(case, comes, strategy) for strategy in (sw.chain(), *RIVALS)]
    assert all(out.departed == chain.departed for out in others)
    instants = {at for out in (chain, *others) for at in out.times}
    return max(chain.at(t) - min(out.at(t) for out in others) for t in instants) / 100


@settings(max_examples=40)
@given(case=graphs(most=1), gaps=GAPS)
def test_s2_4_1_where_branches_part_chain_holds_at_most_a_page_for_each_end_more(
    case: Case, gaps: list[float]
) -> None:
    """An end of the graph is what a query is in S2's theorem: a page of each cannot be left in the middle."""
    read = {label for of in case.operators for label in of.inputs}
    assert excess(case, gaps) <= sum(of.label not in read for of in case.operators) + 1e-6


#: Graphs whose branches meet again: by charts in which readers share what they make, 42, 3 and 8 pages too many.
MEETING = [
    [("s", 2, 0.8), ("s", 4, 0.5), ("O0 O1 s", 1, 0.8), ("O1 O2", 8, 0.3)],
    [("s", 4, 0.8), ("O0 s", 8, 1.0), ("O1 s", 1, 1.0), ("O0 s", 1, 0.1), ("O0 O3 s", 1, 1.0), ("O2 O3", 7, 1.0)],
    [("s", 3, 0.3), ("s", 3, 0.3), ("O0 O1 s", 8, 0.8)],
]


@pytest.mark.parametrize("graph", MEETING)
def test_s2_8_where_branches_meet_again_chain_holds_hardly_more(graph: list[tuple[str, float, float]]) -> None:
    operators = [
        Virtual(f"O{n}", tuple(feeders.split()), cost, selectivity, union=" " in feeders)
        for n, (feeders, cost, selectivity) in enumerate(graph)
    ]
    assert excess(Case(("s",), tuple(operators)), [0.2] * 30) <= 1


def bursty(streams: tuple[str, ...], pages: int, seed: int) -> list[Comes]:
    rng = np.random.default_rng(seed)
    instants = np.cumsum(rng.exponential(300, pages) * rng.choice([0.1, 3.0], pages))
    return [Comes(round(at), str(rng.choice(streams)), 100) for at in instants]


def test_all_strategies_do_the_same_work_and_let_out_the_same_rows() -> None:
    comes = bursty(("r", "s"), 120, 3)
    outs = [simulate(JOIN, comes, strategy) for strategy in STRATEGIES]
    assert all(out.memory[-1] == 0 for out in outs)
    rows = [out.departed["slow"] for out in outs]
    assert rows[0] > 0 and rows == [rows[0]] * len(rows)
    busy = [max(out.times) for out in outs]
    assert max(busy) - min(busy) <= 1, "none of them rests while there is work"


def test_a_join_does_not_wait_for_a_silent_stream_while_others_are_busy() -> None:
    case = Case(("r", "s", "other"), (Virtual("join", ("r", "s"), 1.0), Virtual("busy", ("other",), 1.0)))
    comes = [Comes(50, "r", 100), *(Comes(100 * n, "other", 100) for n in range(100))]
    # Until the pages of `other` that came before it are done, and its own work.
    assert simulate(case, comes, sw.fifo()).latencies[1] == 150


def test_chain_keeps_a_burst_smaller_than_fifo() -> None:
    comes = [Comes(at, "s", 100) for at in range(0, 8_000, 100)]
    chain, fifo = (simulate(EXAMPLE, comes, strategy) for strategy in (sw.chain(), sw.fifo()))
    assert chain.peak < 0.5 * fifo.peak and chain.mean < fifo.mean


def test_no_page_waits_longer_than_the_bound_though_chain_alone_lets_it_wait() -> None:
    case = Case(("a", "b"), (Virtual("steep", ("a",), 1.0), Virtual("flat", ("b",), 10.0)))
    # The steep query takes all the time there is, for 30 ms; a page of the flat one waits for 1 ms of work.
    comes = [Comes(100 * n, "a", 100) for n in range(300)] + [Comes(50, "b", 100)]
    chain, bound = simulate(case, comes, sw.chain()), simulate(case, comes, sw.chain(max_wait="5 ms"))
    assert max(chain.latencies) > 30_000
    assert max(bound.latencies) <= 5_000
    assert all(earlier < later for earlier, later in pairwise(bound.times))
