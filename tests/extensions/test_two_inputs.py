"""An operator of two inputs of one's own: a standby feed, whose rows count only while the first feed is behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from slackwater.engine import build
from slackwater.errors import QueryError
from slackwater.operators.operator import Emit, Input, State
from slackwater.operators.page import Page
from slackwater.operators.several import Several
from slackwater.plan import analyse
from slackwater.plan import logical as L
from slackwater.plan.node import NeverEarly, PlanNode, TimeOfInput, check_domains, describe
from slackwater.plan.nodes import StreamNode
from slackwater.plan.unite import AnalysedPlan
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MIN_TICK, Span, TimeDomain
from slackwater.testing import Script
from slackwater.testing.types import SampleRelation, SampleTypes

ROWS = pl.DataFrame({"t": [0], "level": [0.0]})


# --- what a user writes


@dataclass(frozen=True)
class Standby(L.Logical):
    """The rows of the first input; of the second, those of pages that the first is `patience` behind."""

    inputs: tuple[Any, Any]
    patience: Span


# --- what it means


@dataclass(frozen=True)
class StandbyNode(TimeOfInput, NeverEarly, PlanNode):
    inputs: tuple[PlanNode, ...]
    patience: int

    @property
    def schema(self) -> pa.Schema:
        return self.inputs[0].schema

    def describe(self) -> str:
        return f"standby after {self.domain.show_span(self.patience)}"

    def same_work(self) -> object:
        return "standby", self.patience


def analysed(analysis: analyse.Analysis, query: Standby, as_rows: bool) -> AnalysedPlan:
    first, second = (analysis.of(below, as_rows=True) for below in query.inputs)
    check_domains([first.node, second.node], "standby")
    if first.node.schema != second.node.schema:
        raise QueryError("standby: both feeds must have the same columns; select(…) those of one of them")
    return AnalysedPlan(
        StandbyNode((first.node, second.node), first.node.domain.span(query.patience, "patience")), first.relation
    )


# --- what runs it


class StandbyFeed(Several):
    """Holds no rows. Its time is the first feed's, or as far behind the second as its patience goes."""

    def __init__(self, label: str, patience: int) -> None:
        super().__init__(label)
        self._patience = patience
        self._taken = self._dropped = 0

    def on_page(self, side: int, page: Page, times: Sequence[Punctuation], emit: Emit) -> None:
        arrival = self.pages.measure(page)
        behind = times[0].heartbeat.tick < (MIN_TICK if arrival.lowest is None else arrival.lowest) - self._patience
        if side == 0 or behind:
            self._taken += side
            emit(page)
        else:
            self._dropped += 1

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        first, second = (time.heartbeat.tick for time in times)
        return Punctuation(Heartbeat(max(first, second - self._patience, MIN_TICK)))

    def blocking(self, inputs: Sequence[Input]) -> list[int]:
        return [0, 1]

    def state(self, whole: bool) -> State:
        return State({"counts": [self._taken, self._dropped]})

    def restore(self, states: Sequence[State]) -> None:
        self._taken, self._dropped = states[-1].values["counts"]

    def metrics(self) -> dict[str, Any]:
        return {"standby_pages": self._taken, "dropped_pages": self._dropped}


def built(query: build.QueryBuild, node: StandbyNode, above: build.Above) -> build.Feed:
    feeds = [query.feed(below, above) for below in node.inputs]
    return query.part(query.place("standby"), feeds, node, lambda label: StandbyFeed(label, node.patience))


analyse.register(Standby, analysed)
build.register(StandbyNode, built)


# --- tests


def stream(name: str, sample: pl.DataFrame = ROWS) -> tuple[StreamNode, SampleRelation]:
    relation = SampleRelation(sample)
    columns = tuple((n, str(t)) for n, t in sample.schema.items())
    node = StreamNode(name, columns, "t", "t", TimeDomain.SEQUENCE, bounded(0), None, None, relation.schema)
    return node, relation


def plan(query: Any, **streams: pl.DataFrame) -> PlanNode:
    found = {name: stream(name, sample) for name, sample in {"main": ROWS, "spare": ROWS, **streams}.items()}
    return analyse.analyse(query, SampleTypes(found))


FEED = Standby((L.Where((L.Scan("main"),), "level > 0"), L.Scan("spare")), 10)
COUNT = L.Aggregate((FEED,), L.Window(20, 20), (), (("n", "count(*)"), ("top", "max(level)")))  # type: ignore[arg-type]


def rows(*given: tuple[int, float]) -> pl.DataFrame:
    return pl.DataFrame(given, schema=ROWS.schema, orient="row")


def test_the_spare_feed_counts_only_while_the_first_is_behind() -> None:
    script = Script(plan(COUNT))
    script.page(rows((5, 1.0)), stream="main").page(rows((8, 100.0)), stream="spare")
    script.page(rows((16, 2.0)), stream="main")
    script.page(rows((38, 200.0)), stream="spare")
    assert script.metrics()["q/standby1"]["dropped_pages"] == 1
    assert script.metrics()["q/standby1"]["standby_pages"] == 1
    found = [(row["window_start"], row["n"], row["top"]) for row in script.results]
    assert found == [(0, 2, 2.0)], "the spare feed carries time on: 38 - 10 has passed 20"
    script.page(rows((36, 3.0)), stream="main").drain()
    assert [(row["window_start"], row["n"]) for row in script.results] == [(0, 2), (20, 2)]


def test_it_describes_itself_and_equal_ones_are_one_operator() -> None:
    assert describe(plan(COUNT)).splitlines()[-3:] == [
        "standby after 10",
        "window range 20 slide 20",
        "agg n = count(*), top = max(level)",
    ]
    script = Script(plan(COUNT))
    build.add_query(script.executor, "r", plan(FEED), script.sink)
    assert script.executor.graph.nodes["q/standby1"].queries == {"q", "r"}


def test_feeds_that_do_not_fit_are_refused() -> None:
    with pytest.raises(QueryError, match="standby: both feeds must have the same columns"):
        plan(COUNT, spare=pl.DataFrame({"t": [0], "depth": [0.0]}))
