"""Random days with queries over several streams: pages in any interleaving, queries that come and go, restarts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.settings import EngineSettings, QuerySettings
from slackwater.operators.prod import Prod
from slackwater.plan import logical as L
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock
from slackwater.scheduling.fifo import fifo
from slackwater.scheduling.heartbeats import operator_level
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, arrow_page
from slackwater.testing.script import ArrowPages
from slackwater.windows.spec import WindowSpec
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.streams import SAMPLE, Stream, assert_same_rows, finals
from tests.kit.streams_of_samples import CODES, plan, windows

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

    def __init__(
        self,
        folder: str,
        streams: dict[str, Stream],
        strategy: Any,
        kinds: Sequence[Kind],
        heartbeats: Any = None,
    ) -> None:
        self.folder, self.streams, self.strategy, self.kinds = folder, streams, strategy, kinds
        self.heartbeats = heartbeats
        self.queries: dict[str, Seen] = {}
        self.past: list[Seen] = []
        """Removed queries whose names others have now."""
        self.came = dict.fromkeys(streams, 0)
        self.begin()

    def begin(self) -> None:
        journal = FileJournal(fs.LocalFileSystem(), self.folder, sync=False)
        pages = ArrowPages({"codes": CODES})
        self.executor = Executor(
            ManualClock(),
            journal,
            pages,
            EngineSettings(
                self.strategy or fifo(), heartbeat_scope=self.heartbeats or operator_level(), batch_pages=True
            ),
        )
        for name, query in self.queries.items():
            if query.last is None:
                self.build(name)

    def build(self, name: str) -> None:
        query, policies = self.queries[name], {n: bounded(s.slack) for n, s in self.streams.items()}
        others = [q.parts.values() for n, q in self.queries.items() if n != name and q.last is None]
        settings = QuerySettings(
            labels=query.parts, reserved=frozenset(label for parts in others for label in parts)
        )
        query.parts = add_query(self.executor, name, plan(query.kind.query, policies), query.sink, settings)

    def do(self, event: tuple[str, int]) -> None:
        what, which = event
        running = [name for name, q in self.queries.items() if q.last is None]
        if what == "add":
            self.add(self.free_name(which), self.kinds[which % len(self.kinds)])
        elif what == "remove" and running:
            name = running[which % len(running)]
            self.executor.remove(name)
            self.queries[name].last = dict(self.came)
        elif what == "prod" and running:
            self.executor.prod(Prod(query=running[which % len(running)]))
        elif what == "restart":
            self.executor.commit()
            self.begin()
        elif what in self.streams and self.came[what] < len(self.streams[what].pages):
            number, label = self.came[what], source_label(what)
            if label in self.executor.graph:
                self.executor.admit(label, arrow_page(self.streams[what].pages[number], number, 0, "t"))
            self.came[what] += 1
            if which % 3:
                self.executor.run_until_idle()

    def free_name(self, which: int) -> str:
        """A name that no query has now: at times that of one that was removed."""
        gone = [name for name, q in self.queries.items() if q.last is not None]
        return gone[-1] if gone and which % 2 else f"q{len(self.queries)}"

    def add(self, name: str, kind: Kind) -> None:
        if name in self.queries:
            self.past.append(self.queries[name])
        self.queries[name] = Seen(kind, dict(self.came))
        self.build(name)

    def rows(self, query: Seen) -> Came:
        last = query.last or self.came
        cut = {name: s.pages[query.first[name] : last[name]] for name, s in self.streams.items()}
        return {name: pl.concat([SAMPLE.clear(), *pages]) for name, pages in cut.items()}

    def do_all(self, events: Sequence[tuple[str, int]]) -> None:
        for event in events:
            self.do(event)

    def play(self, events: Sequence[tuple[str, int]]) -> None:
        """Some events, then the rest of all streams, and their end."""
        self.do_all(events)
        for name, stream in self.streams.items():
            for _ in range(len(stream.pages)):
                self.do((name, 1))
        self.executor.drain()

    def check(self) -> None:
        """All queries have given what is theirs."""
        for query in (*self.past, *self.queries.values()):
            check(query, query.kind.wanted(self.rows(query)))


#: What may happen.
EVENTS = st.tuples(
    st.sampled_from(["a", "a", "a", "b", "b", "c", "add", "remove", "prod", "restart"]), st.integers(0, 80)
)


def check(query: Seen, wanted: list[dict[str, Any]]) -> None:
    got = finals(query.sink.rows)
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
