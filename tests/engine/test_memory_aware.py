"""Memory-aware heartbeats (S1 section 7.3): labels follow what is measured; Figure 5; answers and memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from experiments.lab.figure_5 import BOTH, PROLIFERATIVE, SELECTIVE, Below, Figure5Outcome, lagging, run
from experiments.lab.growing_union import GrowingUnion
from slackwater.engine.executor import Executor
from slackwater.engine.settings import EngineSettings
from slackwater.operators.source import Source
from slackwater.progress.clock import ManualClock
from slackwater.testing.script import ArrowPages
from tests.kit.pages import known_page
from tests.kit.strategies import STRATEGIES
from tests.kit.streams import frame
from tests.kit.union import Collect, sorted_stream

LEVELS = {"operator": sw.operator_level(), "query": sw.papers.query_level(), "memory": sw.memory_aware()}


def test_labels_follow_the_selectivities_that_are_measured() -> None:
    executor = Executor(ManualClock(), None, ArrowPages(), EngineSettings(heartbeat_scope=sw.memory_aware()))
    for source in ("S1", "S2", "S3"):
        executor.add(Source(source, sorted_stream()))
    first = GrowingUnion("O1", growth=3)
    executor.add(first, [("S1", "main"), ("S2", "main")])
    executor.add(GrowingUnion("O2"), [("O1", "main"), ("S3", "main")])
    executor.add(Collect("end"), [("O2", "main")])
    numbers = count()

    def come(tick: int, *sources: str) -> dict[str, Any]:
        for source in sources:
            executor.admit(source, known_page(frame([[tick, "x", 1, 1.0]] * 4), next(numbers)))
        executor.run_until_idle()
        return executor.metrics()["O1"]

    assert come(1, "S1", "S2")["label"] == ["S1", "S2", "S3"], "the first page has tripled"
    assert come(2, "S1", "S2")["held"] == 3
    assert come(3, "S3")["held"] == 2
    first._growth = 0.25
    for tick in range(4, 200):
        figures = come(tick, "S1", "S2", "S3")
    assert (figures["label"], figures["held"]) == (["S1", "S2"], 0), "what it was once has faded"


def of_levels(
    below: dict[str, Below], pages: int, rows: int, every: int, burst: int, **how: Any
) -> dict[str, Figure5Outcome]:
    streams = ["S3", *(stream for of in below.values() for stream in of.streams)]
    come = lagging(streams, pages, rows, every, burst)
    return {name: run(come, below, level, **how) for name, level in LEVELS.items()}


def test_figure_5_with_a_proliferative_operator_needs_no_more_memory_than_the_query_level() -> None:
    out = of_levels({"O1": PROLIFERATIVE}, pages=32, rows=8, every=400, burst=8)
    assert out["memory"].peak <= out["query"].peak + 4 * 8
    assert 2 * out["memory"].peak < out["operator"].peak
    assert out["operator"].latency < out["memory"].latency <= out["query"].latency


def test_figure_5_with_a_selective_operator_is_as_fast_as_the_operator_level() -> None:
    out = of_levels({"O1": SELECTIVE}, pages=32, rows=8, every=400, burst=8)
    assert out["memory"] == out["operator"]
    assert out["memory"].latency < out["query"].latency / 2 and out["memory"].peak < out["query"].peak


def test_of_two_operators_only_the_proliferative_one_waits() -> None:
    out = of_levels(BOTH, pages=32, rows=8, every=400, burst=8)
    assert out["memory"].peak <= out["query"].peak + 4 * 8 < out["operator"].peak
    assert out["operator"].latency < out["memory"].latency < out["query"].latency


@settings(max_examples=30)
@given(
    growth=st.sampled_from([0.25, 0.5, 1, 2, 4]),
    rows=st.integers(1, 6),
    burst=st.integers(1, 6),
    every=st.integers(20, 120),
    cost=st.integers(0, 2),
    strategy=st.sampled_from(STRATEGIES),
)
def test_results_are_the_same_at_each_level_and_memory_is_bounded(
    growth: float, rows: int, burst: int, every: int, cost: int, strategy: Any
) -> None:
    below = {"O1": Below(("S1", "S2"), growth)}
    out = of_levels(below, pages=14, rows=rows, every=every, burst=burst, cost=cost, strategy=strategy)
    kept = [t for number in range(14) for t in kept_of(range(number * rows, (number + 1) * rows), growth)]
    wanted = sorted([*kept, *kept, *range(14 * rows)])
    for name, outcome in out.items():
        assert sorted(outcome.rows) == wanted, name
    assert out["memory"].peak <= out["query"].peak + max(1, growth) * rows


def kept_of(times: Sequence[int], growth: float) -> list[int]:
    return list(times) * round(growth) if growth >= 1 else list(times[:: round(1 / growth)])
