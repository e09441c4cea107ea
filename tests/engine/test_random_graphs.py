"""Random graphs: fan-out, diamonds, nested aggregates, several sinks, queries that come and go, restarts anywhere.

- Each query's results equal a recomputation over the pages that came while it was there.
- The heartbeat of no arc is violated, and none goes back.
- A demand reaches just the sources that the blocked input depends on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.engine.build import add_query, source_label
from slackwater.engine.demand import Demand
from slackwater.engine.executor import Executor
from slackwater.engine.graph import Node
from slackwater.engine.queue import Entry
from slackwater.engine.settings import EngineSettings, QuerySettings
from slackwater.operators.extend import Extend
from slackwater.operators.prod import Prod
from slackwater.operators.sink import Sink
from slackwater.operators.source import Source
from slackwater.operators.stream_union import StreamUnion
from slackwater.operators.window_aggregate import WindowAggregate
from slackwater.plan.steps import Where
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import TimeDomain
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.script import ArrowPages
from slackwater.windows.spec import WindowSpec
from tests.kit.arcs import watched_arcs
from tests.kit.labels import LEVELS
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.strategies import STRATEGIES
from tests.kit.streams import SAMPLE, Stream, assert_same_rows, bounded_streams, finals, frame
from tests.kit.union import Collect, sorted_stream

COUNT = {"n": AGGREGATES["n"], "whole": AGGREGATES["whole"]}
TEXTS = {name: text for name, (text, _) in COUNT.items()}


@dataclass(frozen=True)
class Kind:
    """A kind of query: its plan over a stream of this slack, and its results over some rows."""

    plan: Callable[[int], Any]
    wanted: Callable[[pl.DataFrame], list[dict[str, Any]]]
    keys: tuple[str, ...]


def windows(window: tuple[int, int], keys: list[str], where: str | None = None) -> Kind:
    def wanted(rows: pl.DataFrame) -> list[dict[str, Any]]:
        kept = rows if where is None else rows.filter(pl.sql_expr(where))
        return recompute(kept, WindowSpec(*window), keys, COUNT)

    def plan(slack: int) -> Any:
        return arrow_plan(SAMPLE, *window, group_by=keys, where=where, disorder=bounded(slack), **TEXTS)

    return Kind(plan, wanted, ("window_start", *keys))


def having(window: tuple[int, int]) -> Kind:
    """An expression over aggregates, and a filter on it."""
    plain = windows(window, ["g"])

    def plan(slack: int) -> Any:
        texts = {**TEXTS, "twice": "count(*) + count(*)"}
        return arrow_plan(SAMPLE, *window, group_by=["g"], disorder=bounded(slack), having="twice > 2", **texts)

    def wanted(rows: pl.DataFrame) -> list[dict[str, Any]]:
        return [{**r, "twice": 2 * r["n"]} for r in plain.wanted(rows) if r["n"] > 1]

    return Kind(plan, wanted, ("window_start", "g"))


def nested(inner: tuple[int, int], outer: tuple[int, int]) -> Kind:
    """Windows over results of windows end where those end, if the lengths of their slides allow it."""
    below = windows(inner, ["g", "h"])
    offset = 0 if outer[1] % inner[1] else (inner[0] - outer[0]) % inner[1]
    in_step = WindowSpec(*outer, offset=offset)
    most = {"most": ("max(n)", pl.col("n").max()), "n": ("count(*)", pl.len().cast(pl.Int64))}

    def plan(slack: int) -> Any:
        return arrow_plan(SAMPLE, *outer, over=below.plan(slack), group_by=["g"], most="max(n)", n="count(*)")

    def wanted(rows: pl.DataFrame) -> list[dict[str, Any]]:
        results = [{"t": r["window_end"] - 1, "g": r["g"], "n": r["n"]} for r in below.wanted(rows)]
        made = pl.DataFrame(results, schema={"t": pl.Int64, "g": pl.String, "n": pl.Int64})
        return recompute(made, in_step, ["g"], most)

    return Kind(plan, wanted, ("window_start", "g"))


def filtered(condition: str) -> Kind:
    def plan(slack: int) -> Any:
        return arrow_plan(SAMPLE, where=condition, select={"t": "t", "g": "g", "x": "x"}, disorder=bounded(slack))

    def wanted(rows: pl.DataFrame) -> list[dict[str, Any]]:
        return rows.filter(pl.sql_expr(condition)).select("t", "g", "x").to_dicts()

    return Kind(plan, wanted, ())


KINDS = [
    windows((7, 3), ["g"]),
    windows((7, 3), ["g"]),
    windows((12, 8), ["g"]),
    windows((10, 10), ["g", "h"], "h >= 1"),
    windows((5, 1), [], "h >= 1"),
    having((10, 5)),
    nested((7, 3), (6, 6)),
    nested((10, 5), (20, 5)),
    filtered("h >= 1"),
    filtered("g = 'a'"),
]


@dataclass
class Seen:
    """A query that runs or ran: its sink, and the pages that were its to see."""

    kind: Kind
    first: int
    sink: ListSink = field(default_factory=ListSink)
    parts: dict[str, str] = field(default_factory=dict)
    last: int | None = None


class World:
    """Processes one after another on one journal, with queries that come and go."""

    def __init__(self, folder: str, slack: int, strategy: Any, heartbeats: Any) -> None:
        self.folder, self.slack, self.strategy, self.heartbeats = folder, slack, strategy, heartbeats
        self.queries: dict[str, Seen] = {}
        self.begin()

    def begin(self, backwards: bool = False) -> None:
        journal = FileJournal(fs.LocalFileSystem(), self.folder, sync=False)
        self.executor = Executor(
            ManualClock(),
            journal,
            ArrowPages(),
            EngineSettings(self.strategy, heartbeat_scope=self.heartbeats, batch_pages=True),
        )
        running = [name for name, q in self.queries.items() if q.last is None]
        for name in reversed(running) if backwards else running:
            self.build(name)

    def build(self, name: str) -> None:
        query = self.queries[name]
        others = [q.parts.values() for n, q in self.queries.items() if n != name and q.last is None]
        settings = QuerySettings(
            labels=query.parts, reserved=frozenset(label for parts in others for label in parts)
        )
        query.parts = add_query(self.executor, name, query.kind.plan(self.slack), query.sink, settings)

    def do(self, event: tuple[str, int], number: int) -> None:
        what, which = event
        running = [name for name, q in self.queries.items() if q.last is None]
        if what == "add":
            name = f"q{len(self.queries)}"
            self.queries[name] = Seen(KINDS[which % len(KINDS)], number)
            self.build(name)
        elif what == "remove" and running:
            name = running[which % len(running)]
            self.executor.remove(name)
            self.queries[name].last = number
        elif what == "prod" and running:
            self.executor.prod(Prod(query=running[which % len(running)]))
        elif what == "restart":
            self.executor.commit()
            self.begin(backwards=bool(which % 2))

    def take(self, rows: pl.DataFrame, number: int, work: bool) -> None:
        if source_label("s") in self.executor.graph:
            self.executor.admit(source_label("s"), arrow_page(rows, number, 0, "t"))
        if work:
            self.executor.run_until_idle()


EVENTS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "remove", "prod", "restart"]), st.integers(0, 40)), max_size=3
)


@settings(max_examples=120)
@given(
    stream=bounded_streams(most=20),
    events=st.lists(EVENTS, max_size=12),
    work=st.lists(st.booleans(), min_size=1, max_size=5),
    strategy=st.sampled_from(STRATEGIES),
    heartbeats=st.sampled_from(LEVELS),
)
def test_queries_that_come_and_go_share_their_work_and_see_what_is_theirs(
    stream: Stream, events: list[list[tuple[str, int]]], work: list[bool], strategy: Any, heartbeats: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder, watched_arcs():
        world = World(folder, stream.slack, strategy, heartbeats)
        world.do(("add", len(events)), 0)
        for number, rows in enumerate(stream.pages):
            for event in events[number] if number < len(events) else ():
                world.do(event, number)
            world.take(rows, number, work[number % len(work)])
        world.executor.drain()
    for query in world.queries.values():
        rows = pl.concat([SAMPLE.clear(), *stream.pages[query.first : query.last]])
        got, wanted = finals(query.sink.rows) if query.kind.keys else query.sink.rows, query.kind.wanted(rows)
        if query.last is not None:
            # What was final by then is right; the rest is gone with the query.
            named = [tuple(r[k] for k in query.kind.keys or r) for r in got]
            wanted = [r for r in wanted if tuple(r[k] for k in query.kind.keys or r) in named]
        if query.kind.keys:
            assert_same_rows(got, wanted, query.kind.keys)
        elif query.last is None:
            assert sorted(map(repr, got)) == sorted(map(repr, wanted))
        else:
            assert not {repr(r) for r in got} - {repr(r) for r in wanted}


def test_equal_parts_are_one_operator_and_stay_while_somebody_needs_them() -> None:
    executor, sinks = Executor(ManualClock(), pages=ArrowPages()), [ListSink() for _ in range(3)]
    for n, sink in enumerate(sinks):
        add_query(executor, f"q{n}", windows((10 + n, 5), ["g"], "h >= 1").plan(0), sink)
    assert [label for label in executor.graph.nodes if "where" in label] == ["q0/where0"]
    executor.admit("source:s", arrow_page(frame([[1, "a", 1], [2, "a", 0]]), 0, 0, "t"))
    executor.run_until_idle()
    executor.remove("q0")
    assert "q0/where0" in executor.graph and "q0/window" not in executor.graph
    executor.drain()
    assert [sum(r["n"] for r in sink.rows) for sink in sinks[1:]] == [2, 3]
    for name in ("q1", "q2"):
        executor.remove(name)
    assert not executor.graph.nodes


def test_a_prod_reaches_its_own_query_only() -> None:
    executor, sinks = Executor(ManualClock(), pages=ArrowPages()), [ListSink(), ListSink()]
    for n, sink in enumerate(sinks):
        add_query(executor, f"q{n}", windows((10, 10), ["g"], "h >= 1").plan(0), sink)
    executor.admit("source:s", arrow_page(frame([[1, "a", 1]]), 0, 0, "t"))
    executor.run_until_idle()
    executor.prod(Prod(query="q1"))
    executor.run_until_idle()
    assert [[r["kind"] for r in sink.rows] for sink in sinks] == [[], ["early"]]


# --- diamonds


@settings(max_examples=60)
@given(
    bounded_streams(most=20),
    st.sampled_from([(7, 3), (10, 10), (5, 1)]),
    st.sampled_from(STRATEGIES),
    st.sampled_from(LEVELS),
)
def test_a_diamond_gives_what_a_line_gives(
    stream: Stream, window: tuple[int, int], strategy: Any, heartbeats: Any
) -> None:
    """Both halves of a stream, filtered apart, united again, and once more beside the whole."""
    plan = arrow_plan(SAMPLE, *window, group_by=["g"], disorder=bounded(stream.slack), **TEXTS)
    executor, sink = (
        Executor(ManualClock(), None, ArrowPages(), EngineSettings(strategy, heartbeat_scope=heartbeats)),
        ListSink(),
    )
    with watched_arcs():
        executor.add(Source("source", bounded(stream.slack).tracker(TimeDomain.SEQUENCE)))
        executor.add(Extend("a", Where("g = 'a'")), [("source", "main")])
        executor.add(Extend("rest", Where("g <> 'a' OR g IS NULL")), [("source", "main")])
        executor.add(StreamUnion("both"), [("a", "main"), ("rest", "main")])
        executor.add(WindowAggregate("window", plan, executor.clock), [("both", "main")])
        executor.add(Sink("sink", sink), [("window", "main")])
        for number, rows in enumerate(stream.pages):
            executor.admit("source", arrow_page(rows, number, 0, "t"))
            executor.run_until_idle()
        executor.drain()
    wanted = recompute(stream.rows, WindowSpec(*window), ["g"], COUNT)
    assert_same_rows(finals(sink.rows), wanted, ["window_start", "g"])


# --- demand


@dataclass
class Tree:
    """A random tree of unions over sources; registers are set as if punctuations had come."""

    executor: Executor
    sources: list[str]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    executor = Executor(ManualClock(), pages=ArrowPages())
    sources = [f"s{n}" for n in range(draw(st.integers(1, 6)))]
    for source in sources:
        executor.add(Source(source, sorted_stream()))
    open_ends = list(sources)
    while len(open_ends) > 1:
        width = draw(st.integers(2, min(3, len(open_ends))))
        feeds, open_ends = open_ends[:width], open_ends[width:]
        label = f"u{len(executor.graph.nodes)}"
        executor.add(StreamUnion(label), [(feed, "main") for feed in feeds])
        open_ends.append(label)
    executor.add(Collect("end", waits=draw(st.booleans())), [(open_ends[0], "main")])
    for node in executor.graph:
        for queue in node.arcs:
            queue.time = Punctuation(Heartbeat(draw(st.integers(0, 2))))
        if node.feeds and draw(st.integers(0, 5)) == 0:
            executor.graph.nodes[node.label].inputs[0].push(Entry(Punctuation(Heartbeat(9)), 1))
    return Tree(executor, sources)


def paths(tree: Tree, node: Node) -> Iterator[list[tuple[Node, int]]]:
    """Every way from a node back to a source, as the inputs that it goes by."""
    for n, feed in enumerate(node.feeds):
        if feed is None:
            yield [(node, n)]
        else:
            for rest in paths(tree, tree.executor.graph.nodes[feed[0]]):
                yield [(node, n), *rest]


@given(trees())
def test_a_demand_reaches_just_the_sources_that_the_blocked_input_depends_on(tree: Tree) -> None:
    graph = tree.executor.graph
    end = graph.nodes["end"]
    wanted = set()
    for path in paths(tree, end) if end.operator.waits_for_time(end.arcs) else ():
        least = all(node.arcs[n].time.heartbeat == min(q.time.heartbeat for q in node.arcs) for node, n in path)
        if least and not any(len(node.arcs[n]) for node, n in path):
            wanted.add(path[-1][0].label)
    assert {node.label for node in Demand(graph).sources()} == wanted


def test_a_quiet_source_is_asked_while_another_has_a_backlog() -> None:
    """Its timeout runs out in the middle of the other stream's work, and its window closes then."""
    clock, ran = ManualClock(), dict[tuple[str, bool], int]()

    class Slow(Collect):
        def on_page(self, page: Any, emit: Any) -> None:
            clock.advance(1_000_000)

    executor = Executor(clock, None, ArrowPages(), EngineSettings(strategy=sw.fifo()))
    executor._cycle.on_ran = lambda run: ran.setdefault((run.node, run.rows_in > 0), clock.now())
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(5, timeout="3 seconds"), n="count(*)")
    add_query(executor, "q", plan, ListSink())
    executor.add(Source("busy", sorted_stream()))
    executor.add(Slow("slow"), [("busy", "main")])
    executor.admit("source:s", arrow_page(frame([[9]]), 0, 0, "t"))
    for number in range(10):
        executor.admit("busy", arrow_page(frame([[number]]), number, 0, "t"))
    executor.run_until_idle()
    assert executor.metrics()["q/window"]["windows"] == 1
    assert (ran["q/sink", True], clock.now()) == (3_000_000, 10_000_000), "answered in the middle of the backlog"
