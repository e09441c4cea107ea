"""Random queries over several streams: unions of unions, of windows, diamonds, nested aggregates over them.

Pages of the streams come in any interleaving, queries come and go, processes end and go on from the journal.
- Each query's results equal a recomputation over the pages that came while it was there.
- The heartbeat of no arc is violated, and none goes back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

import slackwater as sw
from slackwater.engine.build import Settings, add_query, remove_query, source_label
from slackwater.engine.executor import Executor
from slackwater.operators.prod import Prod
from slackwater.plan import logical as L
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ArrowPage, ListSink
from slackwater.testing.script import ArrowPages
from slackwater.windows.spec import WindowSpec
from tests.kit.arcs import watched_arcs
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.streams import SAMPLE, Stream, assert_same_rows, bounded_streams, finals, frame
from tests.kit.streams_of_samples import A, B, C, plan, union, where, windows

COUNT = {"n": AGGREGATES["n"], "whole": AGGREGATES["whole"]}
#: What has come of each stream.
Came = dict[str, pl.DataFrame]


@dataclass(frozen=True)
class Kind:
    """A query, its results over what has come, and the columns that name a result; none for plain rows."""

    query: L.Logical
    wanted: Callable[[Came], list[dict[str, Any]]]
    keys: tuple[str, ...]


def over(rows: L.Logical, of: Callable[[Came], pl.DataFrame], window: tuple[int, int], *groups: str) -> Kind:
    return Kind(
        windows(rows, *window, *groups),
        lambda came: recompute(of(came), WindowSpec(*window), groups, COUNT),
        ("window_start", *groups),
    )


def both(came: Came) -> pl.DataFrame:
    return pl.concat([came["a"], came["b"]])


def every(came: Came) -> pl.DataFrame:
    return pl.concat([came["a"], came["b"].filter(pl.sql_expr("h >= 1")), came["c"], came["c"]])


EVERY = union(union(A, where(B, "h >= 1")), union(C, C))
HALVES = union(where(A, "g = 'a'"), where(A, "g <> 'a' OR g IS NULL"), B)
RESULTS = union(windows(A, 7, 3, "g"), windows(where(B, "h >= 1"), 10, 5, "g"), windows(A, 7, 3, "g"))


def results(came: Came) -> list[dict[str, Any]]:
    a = recompute(came["a"], WindowSpec(7, 3), ["g"], COUNT)
    return [*a, *recompute(came["b"].filter(pl.sql_expr("h >= 1")), WindowSpec(10, 5), ["g"], COUNT), *a]


def over_results(came: Came) -> list[dict[str, Any]]:
    rows = [{"t": r["window_end"] - 1, "g": r["g"], "n": r["n"]} for r in results(came)]
    made = pl.DataFrame(rows, schema={"t": pl.Int64, "g": pl.String, "n": pl.Int64})
    most = {"most": ("max(n)", pl.col("n").max()), "m": ("count(*)", pl.len().cast(pl.Int64))}
    return recompute(made, WindowSpec(6, 6), ["g"], most)


KINDS = [
    over(union(A, B), both, (7, 3), "g"),
    over(union(A, B), both, (12, 8), "g"),
    over(HALVES, both, (10, 10), "g", "h"),
    over(EVERY, every, (10, 5), "g"),
    over(EVERY, every, (5, 1)),
    Kind(windows(RESULTS, 6, 6, "g", most="max(n)", m="count(*)"), over_results, ("window_start", "g")),
    Kind(RESULTS, results, ()),
    Kind(where(union(A, B), "h >= 1"), lambda came: both(came).filter(pl.sql_expr("h >= 1")).to_dicts(), ()),
]


@dataclass
class Seen:
    """A query that runs or ran: its sink, and what had come of each stream when it came, and when it went."""

    kind: Kind
    first: dict[str, int]
    sink: ListSink = field(default_factory=ListSink)
    parts: dict[str, str] = field(default_factory=dict)
    last: dict[str, int] | None = None


class World:
    """Processes one after another on one journal."""

    def __init__(self, folder: str, streams: dict[str, Stream], strategy: Any) -> None:
        self.folder, self.streams, self.strategy = folder, streams, strategy
        self.queries: dict[str, Seen] = {}
        self.came = dict.fromkeys(streams, 0)
        self.begin()

    def begin(self) -> None:
        journal = FileJournal(fs.LocalFileSystem(), self.folder, sync=False)
        self.executor = Executor(ManualClock(), journal, self.strategy, ArrowPages())
        for name, query in self.queries.items():
            if query.last is None:
                self.build(name)

    def build(self, name: str) -> None:
        query, policies = self.queries[name], {n: bounded(s.slack) for n, s in self.streams.items()}
        others = [q.parts.values() for n, q in self.queries.items() if n != name and q.last is None]
        settings = Settings(labels=query.parts, reserved=frozenset(label for parts in others for label in parts))
        query.parts = add_query(self.executor, name, plan(query.kind.query, policies), query.sink, settings)

    def do(self, event: tuple[str, int]) -> None:
        what, which = event
        running = [name for name, q in self.queries.items() if q.last is None]
        if what == "add":
            name = f"q{len(self.queries)}"
            self.queries[name] = Seen(KINDS[which % len(KINDS)], dict(self.came))
            self.build(name)
        elif what == "remove" and running:
            name = running[which % len(running)]
            remove_query(self.executor, name)
            self.queries[name].last = dict(self.came)
        elif what == "prod" and running:
            self.executor.prod(Prod(query=running[which % len(running)]))
        elif what == "restart":
            self.executor.commit()
            self.begin()
        elif what in self.streams and self.came[what] < len(self.streams[what].pages):
            number, label = self.came[what], source_label(what)
            if label in self.executor.graph:
                self.executor.admit(label, ArrowPage(self.streams[what].pages[number], number, 0, "t"))
            self.came[what] += 1
            if which % 3:
                self.executor.run_until_idle()

    def rows(self, query: Seen) -> Came:
        last = query.last or self.came
        cut = {name: s.pages[query.first[name] : last[name]] for name, s in self.streams.items()}
        return {name: pl.concat([SAMPLE.clear(), *pages]) for name, pages in cut.items()}


EVENTS = st.tuples(
    st.sampled_from(["a", "a", "a", "b", "b", "c", "add", "remove", "prod", "restart"]), st.integers(0, 40)
)


@settings(max_examples=60)
@given(
    streams=st.fixed_dictionaries({name: bounded_streams(most=14) for name in "abc"}),
    first=st.integers(0, 40),
    events=st.lists(EVENTS, max_size=25),
    strategy=st.sampled_from([None, sw.fifo(), sw.round_robin()]),
)
def test_queries_over_several_streams_see_what_is_theirs(
    streams: dict[str, Stream], first: int, events: list[tuple[str, int]], strategy: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder, watched_arcs():
        world = World(folder, streams, strategy)
        for event in [("add", first), *events]:
            world.do(event)
        for name, stream in streams.items():
            for _ in range(len(stream.pages)):
                world.do((name, 1))
        world.executor.drain()
    for query in world.queries.values():
        check(query, query.kind.wanted(world.rows(query)))


def check(query: Seen, wanted: list[dict[str, Any]]) -> None:
    rows = query.sink.rows
    got = finals(rows) if rows and "kind" in rows[0] else rows
    keys = query.kind.keys
    if keys and query.last is not None:
        # What was final by then is right; the rest is gone with the query.
        named = {tuple(r[k] for k in keys) for r in got}
        wanted = [r for r in wanted if tuple(r[k] for k in keys) in named]
    if keys:
        assert_same_rows(got, wanted, keys)
        return
    plain = sorted(repr({k: r[k] for k in wanted[0]}) for r in got) if wanted else [repr(r) for r in got]
    told = sorted(map(repr, wanted))
    assert plain == told if query.last is None else not set(plain) - set(told)


def test_what_waits_at_a_union_outlives_a_restart_at_every_step() -> None:
    """Step by step: after each run the process dies, the next one goes on, and no row is lost or comes twice."""
    times = {"a": (1, 8, 21), "b": (3, 14)}
    pages = {name: [frame([[t, "x", 0]]) for t in of] for name, of in times.items()}
    kind = over(union(where(A, "h = 0"), B), both, (10, 5), "g")
    for steps in (1, 2, 3, 5):
        with tempfile.TemporaryDirectory() as folder:
            streams = {name: Stream(pages.get(name, []), 0) for name in "abc"}
            world = World(folder, streams, None)
            world.queries["q"] = Seen(kind, dict(world.came))
            world.build("q")
            for name, number in (("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2)):
                world.executor.admit(source_label(name), ArrowPage(pages[name][number], number, 0, "t"))
            world.came = {name: len(pages.get(name, [])) for name in "abc"}
            for _ in range(60):
                for _ in range(steps):
                    node = world.executor._cycle.next()
                    if hasattr(node, "operator"):
                        world.executor._cycle.run(node)
                world.executor.commit()
                world.begin()
            world.executor.drain()
            check(world.queries["q"], kind.wanted(world.rows(world.queries["q"])))
