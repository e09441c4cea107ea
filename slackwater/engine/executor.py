"""The executor: a graph, a clock, a journal and a strategy, worked by one thread.

Its parts are in files of their own: what comes in (`admission`), what runs next (`cycle`), whom a blocked
operator asks (`demand`), and what becomes durable (`commit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from slackwater.engine.admission import Admission, Ticket
from slackwater.engine.backlog import Backlog
from slackwater.engine.commit import Commits
from slackwater.engine.cycle import Cycle
from slackwater.engine.graph import Feed, Graph, Node
from slackwater.engine.journal import Journal, NoJournal
from slackwater.engine.parts import Parts
from slackwater.engine.records import Snapshot
from slackwater.errors import RunError
from slackwater.operators.operator import MAIN, Operator
from slackwater.operators.page import Page, Pages
from slackwater.operators.prod import Prod
from slackwater.operators.sink import Sink
from slackwater.progress.clock import Clock
from slackwater.progress.punctuation import Punctuation
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.strategy import Act, Strategy


class Executor:
    """Not to be called from two threads at once."""

    def __init__(
        self,
        clock: Clock,
        journal: Journal | None = None,
        strategy: Strategy | None = None,
        pages: Pages | None = None,
    ) -> None:
        self.graph = Graph()
        self.clock = clock
        self.pages = pages
        self._backlog = Backlog(self.graph, pages)
        self._admission = Admission(self.graph)
        self._commits = Commits(self.graph, journal or NoJournal(), pages, self._backlog)
        self._admission.consumed, self._admission.number = self._commits.consumed(), self._commits.admission
        self._cycle = Cycle(self.graph, clock, self._admission, self._backlog, strategy or Fifo())
        self.between: Callable[[], None] = lambda: None
        """Called after each expensive run: a chance to admit pages and to prod in the middle of a backlog."""
        self.on_commit: Callable[[], None] = lambda: None
        """Called when a commit is over, before those who wait for it are told."""
        self.parts = Parts()
        self._failed: BaseException | None = None
        self.held = False
        """Whether to take elements in but not to run: what the journal knows of queries to come must not be
        overwritten."""

    # --- the graph

    def add(
        self, operator: Operator, feeds: Sequence[Feed] | None = (), query: str | None = None, about: str = ""
    ) -> Node:
        """Add an operator behind others' ports, with what the journal knows of it; `about` says what it does."""
        since = self._commits.since(operator.label)
        node = self.graph.add(operator, feeds, self._admission.number + 1 if since is None else since)
        node.about = about
        if query is not None:
            node.queries.add(query)
        self._commits.restore(node)
        if isinstance(operator, Sink):
            self._commits.finish(operator)
            self._feed_back()
        return node

    def remove(self, query: str) -> list[str]:
        """Take a query out, and the operators that work for no other; what they hold is forgotten.

        A source stays: it knows which pages have been taken.
        """
        gone = []
        for node in reversed(list(self.graph)):
            node.queries.discard(query)
            node.operator.unfollow(query)
            if not node.queries and not node.is_source and not any(node.outputs.values()):
                self.graph.remove(node.label)
                node.operator.leave()
                gone.append(node.label)
        self._commits.changed()
        self._cycle.dirty = True
        return gone

    def forget(self, prefix: str) -> None:
        """Rows that a crash has left for operators of these labels are not wanted any more."""
        self._commits.forget(prefix)

    # --- input

    def consumed(self, source: str) -> int | None:
        """Number of the last page that a source has taken for good."""
        return self._admission.consumed.get(source)

    def admit(self, source: str, page: Page, saved: dict[str, Any] | None = None) -> Ticket:
        """Let a page in. One that was taken before a crash is acknowledged at once.

        `saved` says where its rows are durable already; they are deleted when they are not needed any more.
        """
        self._check()
        self._commits.begin()
        ticket = self._admission.admit(source, page, saved)
        if not ticket.done:
            self._cycle.dirty = True
            if saved is not None:
                self._backlog.keep(saved)
        return ticket

    def prod(self, prod: Prod) -> None:
        """Ask a query for an answer now."""
        self._check()
        self._cycle.prod(prod)

    def resume(self) -> None:
        """All queries of a journal are back on a clock that has gone on without them."""
        for node in self.graph:
            node.operator.resume(self.clock.now())

    def wake_at(self) -> int | None:
        """When the clock alone could move something."""
        times = [t for node in self.graph if (t := node.operator.wake_at()) is not None]
        return min(times, default=None)

    # --- work

    def run_until_idle(self) -> None:
        """Work until nothing is ready and no source has anything to say; then commit.

        While the journal holds rows of a query that has not been added again, nothing runs: they go out first.
        """
        self._check()
        if self._commits.unwritten or self.held:
            return
        self._work()
        self.commit()
        while self._cycle.dirty:
            # A sink has asked for more.
            self._work()
            self.commit()

    def _work(self) -> None:
        with self._whole_or_failed():
            self._cycle.begin()
            while (chosen := self._cycle.next()) is not Act.WAIT:
                if isinstance(chosen, Act):
                    self._commit()
                    continue
                expensive = chosen.operator.expensive(chosen.inputs)
                self._cycle.run(chosen)
                if expensive:
                    self.between()
                    self._check()

    def answer_prods(self) -> None:
        """Run only where prods wait, and commit: their answers need not wait for the end of a backlog."""
        self._check()
        if self._commits.unwritten or self.held:
            return
        with self._whole_or_failed():
            while node := self._cycle.next_prodded():
                self._cycle.run(node)
        self.commit()

    def drain(self) -> None:
        """There is no more input: close every window."""
        self._commits.check_written()
        self.run_until_idle()
        for node in list(self.graph):
            node.operator.end(self._cycle.emitter(node))
        self._cycle.dirty = True
        self.run_until_idle()

    def _check(self) -> None:
        if self._failed is not None:
            raise RunError(
                f"the executor has failed: {self._failed}; start again from the journal"
            ) from self._failed

    @contextmanager
    def _whole_or_failed(self) -> Iterator[None]:
        """An error leaves half a step behind, such as a page on no arc: nothing after it may be committed."""
        try:
            yield
        except BaseException as error:
            self._failed = error
            raise

    # --- the commit

    def commit(self) -> None:
        """Journal what has changed, write the sinks, mark it done, and acknowledge what is safe."""
        self._check()
        self._commits.check_written()
        with self._whole_or_failed():
            self._commit()

    def _commit(self) -> None:
        cycle = self._cycle
        if cycle.dirty:
            cycle.dirty, cycle.uncommitted = False, 0
            self._commits.commit(self._admission, self._backlog.settle)
            self._feed_back()
            self.on_commit()
        durable = self._commits.journal.durable
        waiting = (e for _, q in self.graph.queues() for e in q if e.is_page)
        self._admission.acknowledge(e.admission for e in waiting if e.saved is None or not durable)

    def _feed_back(self) -> None:
        """Send the prods that sinks ask for."""
        for sink, prod in self._commits.feedback.take(self._admission.pages):
            for query in self.graph.nodes[sink].queries:
                self._cycle.prod(replace(prod, query=query))

    # --- figures

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Figures of every operator, of what waits before it, and of how far time has come behind it."""
        return {node.label: _figures(node) for node in self.graph}

    def snapshot(self) -> Snapshot:
        """The same at this instant, with what runs have cost, for other threads."""
        figures = {
            label: {**of, **self.graph.nodes[label].measured.figures()} for label, of in self.metrics().items()
        }
        return Snapshot(self.clock.now(), figures)


#: Figures that every operator has.
ENGINE_FIGURES = (
    *("runs", "run_seconds", "cost", "selectivity", "heartbeat", "heartbeats", "registers"),
    *("queued", "queued_rows", "queued_bytes", "queries", "about", "feeds"),
)


def _figures(node: Node) -> dict[str, Any]:
    said = node.times.get(MAIN, Punctuation.NONE)
    if not node.outputs and not node.is_source and node.feeds:
        said = min(node.registers, key=lambda time: time.heartbeat)  # nothing is behind a sink
    return {
        **node.operator.metrics(),
        "heartbeat": said.heartbeat.tick,
        "heartbeats": {port: time.heartbeat.tick for port, time in node.times.items()},
        "registers": [time.heartbeat.tick for time in node.registers],
        "queued": sum(len(q) for q in node.inputs),
        "queued_rows": node.waiting()[0],
        "queued_bytes": node.waiting()[1],
        "queries": sorted(node.queries),
        "about": node.about,
        "feeds": [feed[0] for feed in node.feeds if feed is not None],
    }
