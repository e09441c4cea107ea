"""A random day: queries on two streams start, are prodded, fail, stop and come back; the process restarts anywhere.

At the end each query's results equal a recomputation over what was its to see: the pages that came while it was
there, less the rows that came for windows which a drain had closed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import fs

from slackwater import bounded
from slackwater.engine.build import add_query, source_label
from slackwater.engine.executor import Executor
from slackwater.engine.settings import QuerySettings
from slackwater.operators.payload import Payload
from slackwater.operators.prod import Prod
from slackwater.plan.node import PlanNode, with_streams
from slackwater.progress.clock import ManualClock
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, arrow_page, arrow_plan
from slackwater.testing.script import ArrowPages
from tests.kit.expected_windows import NEVER, Expected

SAMPLE = pl.DataFrame({"t": [1]})
SLACK, RANGES = 4, (5, 10, 20)


def plan(stream: str, length: int) -> PlanNode:
    made = arrow_plan(SAMPLE, length, 5, disorder=bounded(SLACK), n="count(*)")
    return with_streams(made, {"s": stream})


class Flaky(ListSink):
    """Takes what it is given until it breaks."""

    broken = False

    def write(self, payload: Payload, commit_id: int) -> None:
        if self.broken:
            raise OSError("broken")
        super().write(payload, commit_id)


@dataclass
class Query:
    name: str
    stream: str
    length: int
    expected: Expected
    sink: Flaky = field(default_factory=Flaky)

    def check(self, whole: bool) -> None:
        final = [r for r in self.sink.rows if r["kind"] == "final"]
        got = {r["window_start"]: r["n"] for r in final}
        assert len(got) == len(final), f"{self.name}: a window came twice"
        assert got.items() <= self.expected.closed.items(), self.name
        assert not whole or got == self.expected.closed, self.name


class Day:
    """One run; every choice comes from a seed."""

    def __init__(self, seed: int, folder: Path | None) -> None:
        self.random, self.folder = Random(seed), folder
        self.running: dict[str, Query] = {}
        self.resumable: dict[str, Query] = {}
        self.past: list[Query] = []
        self.names = 0
        self.pages: dict[str, list[list[int]]] = {"a": [], "b": []}
        self.beats = {"a": NEVER, "b": NEVER}
        self.highest = {"a": 0, "b": 0}
        self.seen = {"a": False, "b": False}
        self.open()

    def open(self) -> None:
        journal = None if self.folder is None else FileJournal(fs.LocalFileSystem(), str(self.folder), sync=False)
        self.executor = Executor(ManualClock(), journal, pages=ArrowPages())
        self.executor.on_failed = self.failed
        self.executor.keep_only({*self.running, *self.resumable})
        for query in self.running.values():
            self.add(query)

    def add(self, query: Query) -> None:
        add_query(self.executor, query.name, plan(query.stream, query.length), query.sink, QuerySettings())

    def failed(self, name: str, error: Exception, resumable: bool) -> None:
        query = self.running.pop(name)
        (self.resumable.__setitem__(name, query) if resumable else self.past.append(query))

    # --- what can happen

    def start(self) -> None:
        self.names += 1
        stream, length = self.random.choice("ab"), self.random.choice(RANGES)
        for name, other in list(self.resumable.items()):
            if other.stream == stream:
                # The stream goes on without it: it is over.
                self.past.append(self.resumable.pop(name))
                self.executor.forget(name)
        fresh = not any(q.stream == stream for q in self.running.values())
        if fresh and self.folder is None:
            # Its source begins anew, and knows nothing of earlier pages.
            self.beats[stream], self.highest[stream], self.seen[stream] = NEVER, 0, False
        # For a new query nothing has been emitted yet, however far time has come for others.
        query = Query(f"q{self.names}", stream, length, Expected(length))
        self.running[query.name] = query
        self.add(query)

    def page(self) -> None:
        stream = self.random.choice("ab")
        if not any(q.stream == stream for q in self.running.values()):
            return
        low = max(0, self.highest[stream] - SLACK + 1)
        ticks = [self.random.randint(low, self.highest[stream] + 9) for _ in range(self.random.randint(1, 4))]
        self.pages[stream].append(ticks)
        self.seen[stream] = True
        self.highest[stream] = max(self.highest[stream], *ticks)
        self.beats[stream] = max(self.beats[stream], self.highest[stream] - SLACK)
        for query in self.running.values():
            if query.stream == stream:
                query.expected.page(ticks, self.beats[stream])
        self.send(stream)

    def send(self, stream: str) -> None:
        number = len(self.pages[stream]) - 1
        page = arrow_page(pl.DataFrame({"t": self.pages[stream][number]}), number, 0, "t")
        self.executor.admit(source_label(stream), page)
        self.executor.run_until_idle()

    def prod(self) -> None:
        if self.running:
            self.executor.prod(Prod(None, None, None, query=self.random.choice(list(self.running))))
            self.executor.run_until_idle()

    def break_a_sink(self) -> None:
        if self.running:
            self.running[self.random.choice(list(self.running))].sink.broken = True

    def stop(self) -> None:
        if self.running:
            name = self.random.choice(list(self.running))
            resumable = self.executor.retire(name)
            if name in self.running:
                self.failed(name, RuntimeError(), resumable)

    def restart(self) -> None:
        """The process ends; what the journal keeps is started again, with sinks that have been mended."""
        if self.folder is None:
            return
        self.running |= self.resumable
        self.resumable = {}
        for query in self.running.values():
            query.sink.broken = False
        consumed = {s: self.executor.consumed(source_label(s)) for s in "ab"}
        self.open()
        for stream in "ab":
            if any(q.stream == stream for q in self.running.values()):
                last = self.executor.consumed(source_label(stream))
                assert consumed[stream] is None or last == consumed[stream]
                # A page that could not be finished comes again.
                if self.pages[stream] and (last is None or last < len(self.pages[stream]) - 1):
                    self.send(stream)

    def drain(self) -> None:
        for stream in "ab":
            mine = [q for q in self.running.values() if q.stream == stream]
            if mine and self.seen[stream]:
                before, reach = self.beats[stream], max(q.length for q in mine)
                self.beats[stream] = max(before, self.highest[stream] + reach)
                for query in mine:
                    # A query without rows is not told again what it has missed.
                    if self.beats[stream] > before or query.expected.open:
                        query.expected.pass_to(self.beats[stream])
        self.executor.drain([source_label(s) for s in "ab"], for_good=False)

    def live(self, steps: int) -> None:
        acts = [self.start, *[self.page] * 6, self.prod, self.drain, self.break_a_sink, self.stop, self.restart]
        for _ in range(steps):
            self.random.choice(acts)()
            for query in (*self.running.values(), *self.resumable.values(), *self.past):
                query.check(whole=False)
        self.restart()
        self.executor.drain()
        for query in self.running.values():
            query.expected.pass_to(-NEVER)
            query.check(whole=not query.sink.broken)


@settings(deadline=None, max_examples=150)
@example(seed=217451023, steps=22)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_a_random_day_without_a_journal(seed: int, steps: int) -> None:
    Day(seed, None).live(steps)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_a_random_day_with_a_journal(seed: int, steps: int) -> None:
    with TemporaryDirectory() as folder:
        Day(seed, Path(folder)).live(steps)


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(n, marks=pytest.mark.long) for n in range(5, 20))])
def test_a_long_random_day(seed: int, tmp_path: Path) -> None:
    Day(seed, tmp_path).live(120)
