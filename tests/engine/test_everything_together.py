"""Queries of all kinds on one stream, in any order of work, prodded at any time, with a process that dies.

Maps, sidelines, filters, nested queries and sources meet here. Finals are those of a calm run, each once and with
nothing late; early answers are what a recomputation over the rows that had come to the aggregate gives.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import polars as pl
import pyarrow as pa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.settings import EngineSettings, QuerySettings
from slackwater.operators.map import MapPages
from slackwater.operators.prod import Prod
from slackwater.plan import steps
from slackwater.plan.map_node import MapNode
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import WindowNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.clock import ManualClock
from slackwater.progress.disorder import Disorder
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.strategy import Strategy
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.script import ArrowPages
from slackwater.windows.results import row_columns
from tests.kit.bursts import Chance, watched
from tests.kit.faults import Died, Fate, MortalFiles, MortalSink
from tests.kit.streams import SAMPLE, WINDOWS, assert_same_rows, bounded_streams, finals, frame
from tests.kit.witness import AGGREGATES, OVER_RESULTS, Witness

ROWS = pa.schema([("t", pa.int64()), ("g", pa.string()), ("h", pa.int64()), ("i", pa.int64())])


def same(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


def mapped(node: PlanNode, schema: pa.Schema) -> MapNode:
    return MapNode((node,), steps.Map(same, tuple((f.name, str(f.type)) for f in schema), schema))


@dataclass(frozen=True)
class Query:
    """What is asked of the stream."""

    window: tuple[int, int]
    keys: tuple[str, ...]
    where: bool = False
    maps: int = 0
    outer: tuple[int, int] | None = None
    """Windows over the results of the others."""
    maps_results: bool = False
    ratio: int | None = None
    """Of the sideline."""

    def plan(self, policy: Disorder) -> WindowNode:
        plan: Any = arrow_plan(
            SAMPLE,
            *self.window,
            group_by=self.keys,
            where="h > 0" if self.where else None,
            disorder=policy,
            source="g" if isinstance(policy, type(BY_SOURCE)) else None,
            **{name: text for name, (text, _) in AGGREGATES.items()},
        )
        for _ in range(self.maps):
            plan = replace(plan, inputs=(mapped(plan.inputs[0], ROWS),), kernel=replace(plan.kernel, source=None))
        if self.outer is None:
            return plan
        texts = {name: text for name, (text, _) in OVER_RESULTS.items()}
        above: Any = arrow_plan(SAMPLE, *self.outer, over=plan, group_by=self.top, **texts)
        if self.maps_results:
            schema = pa.schema([plan.schema.field(c) for c in row_columns(plan.kernel)])
            above = replace(
                above, inputs=(mapped(above.inputs[0], schema),), kernel=replace(above.kernel, source=None)
            )
        return above

    @property
    def top(self) -> tuple[str, ...]:
        """Groups of the topmost aggregate."""
        return self.keys if self.outer is None else self.keys[:1]


#: Short ones too: windows are closed ahead only where there are many.
SHORT = st.one_of(st.sampled_from([(2, 2), (3, 1), (5, 5), (4, 2)]), WINDOWS)
QUERIES = st.builds(
    Query,
    window=SHORT,
    keys=st.sampled_from([(), ("g",), ("h",), ("g", "h")]),
    where=st.booleans(),
    maps=st.sampled_from([1, 0, 1, 2]),
    outer=st.one_of(st.none(), SHORT),
    maps_results=st.booleans(),
    ratio=st.sampled_from([50, None, 2, 50]),
)

# --- streams

BY_SOURCE = punctuated("i")
Stream = tuple[Disorder, list[pl.DataFrame]]


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Rows within a bound, or of three sources that keep to the punctuations which their rows carry in `i`."""
    if draw(st.booleans()):
        stream = draw(bounded_streams(most=20))
        rows = stream.rows.iter_slices(1) if draw(st.booleans()) else stream.pages
        return bounded(stream.slack), list(rows)
    highest = {source: draw(st.integers(-20, 20)) for source in "abc"}
    promised = dict.fromkeys("abc", -1000)
    pages = [frame([[highest[source], source, 1] for source in "abc"])]
    row = st.tuples(st.sampled_from("abc"), st.integers(-5, 12), st.integers(0, 1), st.sampled_from([0, 2, None]))
    for page in draw(st.lists(st.lists(row, min_size=1, max_size=3), max_size=12)):
        rows = []
        for source, step, h, behind in page:
            t = max(highest[source] + step, promised[source] + 1)
            highest[source] = max(highest[source], t)
            said = None if behind is None else highest[source] - behind
            promised[source] = promised[source] if said is None else max(promised[source], said)
            rows.append([t, source, h, None, said])
        pages.append(frame(rows))
    return BY_SOURCE, pages


# --- lives


class Life:
    """One process with some queries; calm if it has no journal: without a sideline, and page by page."""

    def __init__(
        self,
        policy: Disorder,
        queries: Sequence[Query],
        sinks: Sequence[ListSink],
        journal: FileJournal | None = None,
        strategy: Strategy | None = None,
        commit_every: int = 64,
    ) -> None:
        self.executor = Executor(
            ManualClock(), journal, ArrowPages(), EngineSettings(strategy or Fifo(commit_every))
        )
        self.queries, self.columns = queries, ("g", "i") if policy is BY_SOURCE else ()
        for n, (query, sink) in enumerate(zip(queries, sinks, strict=True)):
            sideline = None if journal is None or query.ratio is None else sw.sideline(query.ratio)
            add_query(self.executor, f"q{n}", query.plan(policy), sink, QuerySettings(sideline=sideline))

    def watch(self) -> None:
        """Check every early answer."""
        for n, query in enumerate(self.queries):
            operators = [self.executor.graph.nodes[label].operator for label in self.aggregates(n)]
            first = Witness(operators[-1], query.keys)
            if query.outer is not None:
                Witness(operators[0], query.top, first)

    def aggregates(self, n: int) -> list[str]:
        """Labels of a query's aggregates, the topmost first."""
        return [f"q{n}/window"] if self.queries[n].outer is None else [f"q{n}/window", f"q{n}/inner1"]

    def live(self, pages: Sequence[pl.DataFrame], at_once: int = 1) -> Life:
        """Take all pages, so many at once, and come to the end; nothing was late and nothing is left."""
        for number, page in enumerate(pages):
            self.executor.admit(source_label("s"), arrow_page(page, number, 0, "t", *self.columns))
            if number % at_once == at_once - 1:
                self.executor.run_until_idle()
        self.executor.drain()
        figures = self.executor.metrics()
        assert not any(of["queued"] for of in figures.values())
        assert all(figures[a]["late_rows"] == 0 for n in range(len(self.queries)) for a in self.aggregates(n))
        return self


#: Which query, until which twelfth of the stream, how much of the time before, and whether for all groups.
PRODS = st.tuples(
    st.integers(0, 2),
    st.one_of(st.integers(0, 16), st.integers(2, 8), st.integers(2, 8), st.none()),
    st.one_of(st.none(), st.none(), st.integers(1, 40)),
    st.sampled_from([True, True, True, False]),
)


def prod_of(query: Query, pages: list[pl.DataFrame], share: int | None, back: int | None, everyone: bool) -> Prod:
    times = [t for page in pages for t in page["t"].drop_nulls()]
    low, high = min(times, default=0), max(times, default=0)
    until = None if share is None else low + (high - low + 12) * share // 12
    where = None if everyone or "g" not in query.top else "g = 'a'"
    return Prod(until, None if until is None or back is None else until - back, where)


def burst(query: Query) -> Any:
    """A window is prodded when its pages wait before the map; later ones go first."""
    pages = [frame([[t, "a", 1, None, 2**n]]) for n, t in enumerate([0, 1, 3, 5, 7, 15, 25, 35])]
    prods = {8: (0, 4, None, True)}
    return example(
        stream=(bounded(0), pages),
        queries=[query],
        prods=prods,
        numbers=[0],
        deaths=[],
        at_once=50,
        commit_every=64,
    )


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(
    stream=streams(),
    queries=st.lists(QUERIES, min_size=1, max_size=3),
    prods=st.dictionaries(st.integers(1, 40), PRODS, min_size=1, max_size=6),
    numbers=st.one_of(st.just([0]), st.lists(st.sampled_from([0, 0, 1, 2, 3]), min_size=1, max_size=8)),
    deaths=st.one_of(st.just([]), st.lists(st.tuples(st.booleans(), st.integers(1, 120)), max_size=3)),
    at_once=st.sampled_from([50, 50, 7, 3, 1]),
    commit_every=st.sampled_from([1, 5, 64]),
)
@burst(Query((5, 5), ("g",), maps=1, outer=(5, 5), ratio=50))
@burst(Query((5, 5), ("g",), maps=1, outer=(10, 5), maps_results=True, ratio=2))
def test_finals_are_those_of_a_calm_run_and_early_answers_those_of_the_rows_that_have_come(
    stream: Stream,
    queries: list[Query],
    prods: dict[int, Any],
    numbers: list[int],
    deaths: list[tuple[bool, int]],
    at_once: int,
    commit_every: int,
) -> None:
    policy, pages = stream
    wanted, sinks = [ListSink() for _ in queries], [MortalSink() for _ in queries]
    Life(policy, queries, wanted).live(pages)
    asked: dict[int, Any] = {}
    for pick, (n, *more) in prods.items():
        asked[pick] = n % len(queries), prod_of(queries[n % len(queries)], pages, *more)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(MapPages, "run", watched):
        for in_a_file, point in [*deaths, (True, None)]:
            fate = Fate(point if in_a_file else None)
            chance = Chance(numbers, asked, None if in_a_file else point)
            for sink in sinks:
                sink.fate = fate
            try:
                journal = FileJournal(MortalFiles(fate), folder)
                life = Life(policy, queries, sinks, journal, chance, commit_every)
                chance.ask = lambda a, life=life: life.executor.prod(replace(a[1], query=f"q{a[0]}"))
                if not deaths:
                    life.watch()
                life.live(pages, at_once)
                break
            except Died:
                continue
    for query, sink, calm in zip(queries, sinks, wanted, strict=True):
        assert_same_rows(finals(sink.rows), finals(calm.rows), ["window_start", *query.top])
