"""The executor (S3 section 3): run the operator that the strategy picks; where one starves, ask its sources.

Admission is apart from processing: a page is let in, waits on an arc as long as the strategy likes, and is
acknowledged once a commit has made durable either what became of it or the page itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from slackwater.engine.backlog import Backlog, PageStore
from slackwater.engine.feedback import Feedback
from slackwater.engine.graph import Graph, Node
from slackwater.engine.journal import Emission, Journal, NoJournal, Record, Recovered
from slackwater.engine.queue import Entry
from slackwater.errors import RunError
from slackwater.operators.element import Element, Prod, Staged
from slackwater.operators.operator import MAIN, Operator
from slackwater.operators.page import Page
from slackwater.operators.sink import Sink
from slackwater.progress.clock import Clock
from slackwater.scheduling.fifo import Fifo
from slackwater.scheduling.strategy import Ready, Strategy


class Ticket:
    """Says when an admitted page is safe."""

    def __init__(self, admission: int, saved: dict[str, Any] | None = None) -> None:
        self.admission = admission
        self.saved = saved
        self.done = False
        self.on_done: Callable[[], None] = lambda: None


class Executor:
    """One thread's work: a graph, a clock, a journal and a strategy. Not to be called from two threads at once."""

    def __init__(
        self,
        clock: Clock,
        journal: Journal | None = None,
        strategy: Strategy | None = None,
        pages: PageStore | None = None,
        commit_every: int = 64,
    ) -> None:
        self.graph = Graph()
        self.clock = clock
        self.journal: Journal = journal or NoJournal()
        self.strategy: Strategy = strategy or Fifo()
        self._pages = pages
        self._backlog = Backlog(self.graph, pages)
        self._commit_every = commit_every
        self._recovered = self.journal.recover()
        self._step = self._recovered.records[-1].step if self._recovered.records else 0
        self._consumed: dict[str, int] = {}
        for record in self._recovered.records:
            self._consumed.update(record.consumed)
        self._redo = [] if self._recovered.committed else list(self._recovered.records[-1].emissions)
        if pages is not None:
            pages.sweep(self._recovered.records[-1] if self._recovered.records else None)
        self._admissions = 0
        self._tickets: list[Ticket] = []
        self._dirty = False
        self._everything = False
        self._arrived = 0
        """Pages let in."""
        self._feedback = Feedback()
        self._ticked = 0
        self.between: Callable[[], None] = lambda: None
        """Called after each expensive run: a chance to admit pages and to prod in the middle of a backlog."""
        self._failed: BaseException | None = None
        self.held = False
        """Whether to take elements in but not to run: what the journal knows of queries to come must not be
        overwritten."""

    # --- the graph

    def add(self, operator: Operator, feeds: Sequence[tuple[str, str]] = ()) -> None:
        """Add an operator behind others' ports, with what the journal knows of it."""
        node = self.graph.add(operator, feeds)
        states = _states_of(self._recovered, operator.label)
        if states:
            operator.restore(states)
        waiting = self._recovered.records[-1].queues if self._recovered.records else {}
        for n, queue in enumerate(node.inputs):
            for saved in waiting.get(f"{operator.label}#{n}", ()):
                entry = self._backlog.revive(saved)
                self._admissions = max(self._admissions, entry.admission)
                queue.push(entry)
        if isinstance(operator, Sink):
            self._finish(operator)

    def remove(self, labels: Sequence[str]) -> None:
        """Take operators out; what they hold is forgotten."""
        for label in labels:
            self.graph.remove(label)
            self._consumed.pop(label, None)
        self._everything = True
        self._dirty = True

    def forget(self, prefix: str) -> None:
        """Answers that a crash has left for operators of these labels are not wanted any more."""
        left = [e for e in self._redo if not e.sink.startswith(prefix)]
        if self._redo and not left:
            self.journal.commit(self._recovered.records[-1])
        self._redo = left

    def _finish(self, sink: Sink) -> None:
        """Write answers that a crash left between the two halves of a commit."""
        mine = [e for e in self._redo if e.sink == sink.label]
        for emission in mine:
            self._write(emission)
        self._redo = [e for e in self._redo if e.sink != sink.label]
        if mine and not self._redo:
            self.journal.commit(self._recovered.records[-1])
        self._feed_back()

    # --- input

    def consumed(self, source: str) -> int | None:
        """Number of the last page that a source has taken for good."""
        return self._consumed.get(source)

    def admit(self, source: str, page: Page, saved: dict[str, Any] | None = None) -> Ticket:
        """Let a page in. One that was taken before a crash is acknowledged at once.

        `saved` says where its rows are durable already; they are deleted when they are not needed any more.
        """
        self._check()
        self._check_answered()
        self._check_revived()
        self._recovered = Recovered()
        known = self._consumed.get(source)
        self._admissions += 1
        ticket = Ticket(self._admissions, saved)
        if known is not None and page.number <= known:
            ticket.done = True
            return ticket
        node = self.graph.nodes[source]
        node.operator.announce(page)
        node.inputs[0].push(Entry(page, ticket.admission, saved))
        if saved is not None and self.journal.durable:
            self._backlog.keep(saved)
        self._consumed[source] = page.number
        self._arrived += 1
        self._tickets.append(ticket)
        self._dirty = True
        return ticket

    def prod(self, labels: Sequence[str], prod: Prod) -> None:
        """Ask operators that read a source for an answer now: the prod travels behind what waits on their arcs."""
        self._check()
        self._admissions += 1
        for label in labels:
            node = self.graph.nodes[label]
            for queue, feed in zip(node.inputs, node.feeds, strict=False):
                if feed is not None and self.graph.nodes[feed].feeds == [None]:
                    queue.push(Entry(prod, self._admissions))
        self._dirty = True

    def resume(self) -> None:
        """All queries of a journal are back on a clock that has gone on without them."""
        for node in self.graph:
            node.operator.resume(self.clock.now())

    def answer_prods(self) -> None:
        """Run only where prods wait, and commit: their answers need not wait for the end of a backlog."""
        self._check()
        if self._redo or self.held:
            return
        with self._whole_or_failed():
            while nodes := {n.label: n for n in self.graph if n.prodded()}:
                self._run(nodes[self.strategy.pick([_ready(n) for n in nodes.values()]).label])
        self.commit()

    def wake_at(self) -> int | None:
        """When the clock alone could move something."""
        times = [t for node in self.graph if (t := node.operator.wake_at()) is not None]
        return min(times, default=None)

    # --- the cycle

    def run_until_idle(self) -> None:
        """Work until nothing is ready and no source has anything to say; then commit.

        While the journal holds answers of a query that has not been added again, nothing runs: they go out first.
        """
        self._check()
        if self._redo or self.held:
            return
        self._work()
        self.commit()
        while self._dirty:
            # A sink has asked for more.
            self._work()
            self.commit()

    def _work(self) -> None:
        with self._whole_or_failed():
            runs = 0
            self._ticked = self.clock.now()
            while node := self._next():
                expensive = node.operator.expensive(node.inputs)
                if expensive:
                    self._commit()
                self._run(node)
                runs += 1
                if expensive:
                    self.between()
                    self._check()
                if runs % self._commit_every == 0 and self._tickets and self.journal.durable:
                    self._commit()
                self._tick()

    def _next(self) -> Node | None:
        """The node to run: where a prod waits, else what the strategy picks, else, in a lull, what can wait."""
        while True:
            ready = [n for n in self.graph if n.ready()]
            lull = not ready and not self._demand()
            if lull:
                ready = [n for n in self.graph if n.operator.spare(n.inputs)]
                if not ready:
                    return None
            if ready:
                nodes = {n.label: n for n in ready if n.prodded()} or {n.label: n for n in ready}
                return nodes[self.strategy.pick([_ready(n) for n in nodes.values()]).label]

    def _tick(self) -> None:
        """Work has taken time: what watches the clock need not wait until all is done."""
        now = self.clock.now()
        if now != self._ticked:
            self._ticked = now
            for node in self.graph:
                node.operator.tick(now, self._emitter(node, self._admissions))

    def drain(self) -> None:
        """There is no more input: close every window."""
        self._check_answered()
        self.run_until_idle()
        for node in list(self.graph):
            node.operator.end(self._emitter(node, self._admissions))
            self._dirty = True
        self.run_until_idle()

    def _check(self) -> None:
        if self._failed is not None:
            raise RunError(
                f"the executor has failed: {self._failed}; start again from the journal"
            ) from self._failed

    def _check_answered(self) -> None:
        if self._redo:
            missing = ", ".join(sorted({e.sink for e in self._redo}))
            raise RunError(
                f"the journal holds answers for {missing}; start that query again first, with the sinks it had"
            )

    def _check_revived(self) -> None:
        """What waits in the journal for a query that is back must have found its arc."""
        queues = self._recovered.records[-1].queues if self._recovered.records else {}
        present = {label.partition("/")[0] for label in self.graph.nodes}
        for arc in queues:
            label = arc.rpartition("#")[0]
            if label not in self.graph and "/" in label and label.partition("/")[0] in present:
                raise RunError(
                    f"the journal holds pages that wait for {label}, which this query does not have; "
                    "start it as it was"
                )

    @contextmanager
    def _whole_or_failed(self) -> Iterator[None]:
        """An error leaves half a step behind, such as a page on no arc: nothing after it may be committed."""
        try:
            yield
        except BaseException as error:
            self._failed = error
            raise

    def _run(self, node: Node) -> None:
        self._dirty = True
        waiting = [len(q) for q in node.inputs]

        def emit(element: Element, port: str = MAIN) -> None:
            # What an operator gives belongs to the admission of what it took for it.
            taken = [q.taken for q, n in zip(node.inputs, waiting, strict=True) if q.taken and len(q) < n]
            saved = next((t.saved for t in taken if t.element is element), None)
            node.send(element, max((t.admission for t in taken), default=self._admissions), port, saved)

        node.operator.run(node.inputs, emit)
        for report in node.operator.report():
            for source in self.graph.sources_behind(node, range(len(node.feeds))):
                source.operator.hear(report)

    def _demand(self) -> bool:
        """Send the demands of starving operators back to their sources; whether any had something to say."""
        asked: dict[str, Node] = {}
        for node in self.graph:
            for source in self.graph.sources_behind(node, node.operator.starving(node.inputs)):
                asked[source.label] = source
        before = sum(len(q) for _, q in self.graph.arcs())
        now = self.clock.now()
        for node in self.graph:
            node.operator.tick(now, self._emitter(node, self._admissions))
        for source in asked.values():
            source.operator.answer(now, self._emitter(source, self._admissions))
        said = sum(len(q) for _, q in self.graph.arcs()) > before
        self._dirty |= said
        return said

    def _emitter(self, node: Node, admission: int) -> Callable[..., None]:
        def emit(element: Element, port: str = MAIN) -> None:
            node.send(element, admission, port)

        return emit

    # --- the commit

    def commit(self) -> None:
        """Journal what has changed, write the sinks, mark it done, and acknowledge what is safe."""
        self._check()
        self._check_answered()
        with self._whole_or_failed():
            self._commit()

    def _commit(self) -> None:
        if self._dirty:
            for node in self.graph:
                while node.behind_answers and node.ready():
                    self._run(node)
            self._dirty = False
            record = self._record()
            self.journal.prepare(record)
            for emission in record.emissions:
                self._write(emission)
            self.journal.commit(record)
            self._settle(record)
            self._feed_back()
        durable = self.journal.durable
        waiting = (e for _, q in self.graph.arcs() for e in q if e.is_page)
        exposed = {e.admission for e in waiting if e.saved is None or not durable}
        for ticket in [t for t in self._tickets if t.admission not in exposed]:
            self._tickets.remove(ticket)
            if ticket.saved is not None and not durable and self._pages is not None:
                self._pages.drop(ticket.saved)
            ticket.done = True
            ticket.on_done()

    def _write(self, emission: Emission) -> None:
        sink = self.graph.nodes[emission.sink].operator
        assert isinstance(sink, Sink)
        asked = sink.output.write(emission.payload, emission.commit_id)
        if asked is not None:
            self._feedback.ask(emission, asked)

    def _feed_back(self) -> None:
        """Send the prods that sinks ask for."""
        for sink, prod in self._feedback.take(self._arrived):
            self.prod(self.graph.behind(sink), prod)

    def _settle(self, record: Record) -> None:
        """What the record before needed and this one does not may go."""
        for node in self.graph:
            node.operator.settle()
        if self.journal.durable:
            self._backlog.settle()
        for emission in record.emissions:
            if isinstance(emission.payload, Staged) and self._pages is not None:
                self._pages.drop_staged(emission.payload)

    def _record(self) -> Record:
        emissions = [
            Emission(node.label, commit_id, answer.payload, answer.early)
            for node in self.graph
            if isinstance(node.operator, Sink)
            for commit_id, answer in node.operator.take()
        ]
        if not self.journal.durable:
            return Record(self._step, False, emissions=emissions)
        self._step += 1
        whole = self._everything or self.journal.wants_whole()
        self._everything = False
        queues = self._backlog.record()
        states = {n.label: s for n in self.graph if (s := n.operator.state(whole)) is not None}
        return Record(self._step, whole, dict(self._consumed), states, queues, emissions)

    # --- figures

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Figures of every operator, and of what waits before it."""
        return {
            node.label: {
                **node.operator.metrics(),
                "queued": sum(len(q) for q in node.inputs),
                "queued_rows": sum(q.rows for q in node.inputs),
            }
            for node in self.graph
        }


def _ready(node: Node) -> Ready:
    return Ready(node.label, node.oldest(), node.depth, sum(len(q) for q in node.inputs))


def _states_of(recovered: Recovered, label: str) -> list[Any]:
    states = [r.states[label] for r in recovered.records if label in r.states]
    for n in range(len(states) - 1, -1, -1):
        if states[n].whole:
            return states[n:]
    return states
