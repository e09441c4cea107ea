"""A step looks at the operators that have changed, however many there are."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import polars as pl
import pytest

from slackwater.engine.build import add_query
from slackwater.engine.executor import Executor
from slackwater.engine.graph import Node
from slackwater.operators.operator import Operator
from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.plan.nodes import StreamNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.time import TimeDomain
from slackwater.testing import ListSink, arrow_page
from slackwater.testing.script import ArrowPages
from slackwater.testing.types import SampleRelation, SampleTypes

SAMPLE = pl.DataFrame({"t": [0], "v": [1.0]})
#: What the cycle asks of an operator to see whether it can run, waits for time, or has something to say.
QUESTIONS = (
    "has_work",
    "has_idle_work",
    "expensive",
    "waits_for_time",
    "blocking",
    "due",
    "tick",
    "wake_at",
    "wake_for",
)


def executor_of(streams: int, clock: ManualClock) -> Executor:
    """Streams that nobody joins, each with a query of a filter, a window and a sink."""
    relation, columns = SampleRelation(SAMPLE), tuple((n, str(t)) for n, t in SAMPLE.schema.items())
    stream = StreamNode("s", columns, "t", "t", TimeDomain.SEQUENCE, bounded(0), None, None, relation.schema)
    types = SampleTypes({f"s{n}": (replace(stream, name=f"s{n}"), relation) for n in range(streams)})
    executor = Executor(clock, pages=ArrowPages())
    for n in range(streams):
        rows = L.Where((L.Scan(f"s{n}"),), "v > 0")
        counts = L.Aggregate((rows,), L.Window(10, 10), (), (("n", "count(*)"),))
        add_query(executor, f"q{n}", analyse(counts, types), ListSink())
    return executor


def questions_a_step(streams: int, moves: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """How many operators a step asks something: the median. Pages come to one stream, and every window holds rows.

    Steps after a lull do not count: then all sources are asked for whom somebody waits.
    """
    clock = ManualClock()
    executor = executor_of(streams, clock)
    sources = [node.label for node in executor.graph if node.is_source]
    for source in sources:
        executor.admit(source, arrow_page(pl.DataFrame({"t": [5], "v": [1.0]}), 0, 0, "t"))
    executor.run_until_idle()
    cycle, looked, counts, lulls = executor._cycle, set[str](), list[int](), list[bool]()
    run, ask = cycle.run, cycle.demand.ask

    def counted_run(node: Node) -> None:
        if not any(lulls):
            counts.append(len(looked))
        run(node)
        looked.clear()
        lulls.clear()
        clock.advance(moves)

    def noted_ask(admission: int, lull: bool) -> bool:
        lulls.append(lull)
        return ask(admission, lull)

    with monkeypatch.context() as patch:
        for name in QUESTIONS:
            for node in executor.graph:
                patch.setattr(node.operator, name, _counted(node.operator, name, looked))
        patch.setattr(cycle, "run", counted_run)
        patch.setattr(cycle.demand, "ask", noted_ask)
        for number in range(1, 6):
            looked.clear()
            executor.admit(sources[0], arrow_page(pl.DataFrame({"t": [5 + number], "v": [1.0]}), number, 0, "t"))
            executor.run_until_idle()
    assert len(counts) >= 10
    return median(counts)


def _counted(operator: Operator, name: str, looked: set[str]) -> Any:
    asked = getattr(operator, name)

    def ask(*args: Any) -> Any:
        looked.add(operator.label)
        return asked(*args)

    return ask


def test_a_step_looks_at_as_few_of_four_hundred_operators_as_of_forty(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (questions_a_step(streams, 0, monkeypatch) for streams in (8, 80))
    assert few == many < 6


def test_when_the_clock_has_moved_a_step_looks_at_the_sources_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 80 <= questions_a_step(80, 1, monkeypatch) < 80 + 6
