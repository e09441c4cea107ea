"""The executor: a graph, a clock, a journal and a strategy, worked by one thread.

Its parts are in files of their own: what comes in (`admission`), what runs next (`cycle`), whom a blocked
operator asks (`demand`), and what becomes durable (`commit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace

from slackwater.engine.admission import Admission, Ticket
from slackwater.engine.backlog import Backlog
from slackwater.engine.commit import Commits, Refusal
from slackwater.engine.cycle import Cycle
from slackwater.engine.failure import OperatorError
from slackwater.engine.figures import figures, rows_before_sinks
from slackwater.engine.graph import Feed, Graph, Node
from slackwater.engine.input_manager import InputManager
from slackwater.engine.journal import Emission, Journal, NoJournal
from slackwater.engine.records import Snapshot
from slackwater.engine.settings import EngineSettings
from slackwater.engine.shared_operators import SharedOperators
from slackwater.errors import RunError
from slackwater.figures import Figures
from slackwater.operators.batching import AdaptiveBatches, Batching, SinglePages, needs_at
from slackwater.operators.operator import Operator
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.prod import Prod
from slackwater.operators.sink import Sink
from slackwater.progress.clock import Clock
from slackwater.scheduling.strategy import Act

#: In seconds: no thread can wait for some centuries, and to look once a day costs nothing.
LONGEST_SLEEP = 86_400.0


class Executor:
    """Not to be called from two threads at once."""

    def __init__(
        self,
        clock: Clock,
        journal: Journal | None = None,
        pages: Pages | None = None,
        settings: EngineSettings | None = None,
    ) -> None:
        settings = settings or EngineSettings()
        self.pages = pages or Pages()
        self.graph = Graph(self.pages)
        self.clock = clock
        self._batch_pages = settings.batch_pages
        self._backlog = Backlog(self.graph, self.pages)
        self._admission = Admission(self.graph)
        self._commits = Commits(self.graph, journal or NoJournal(), self._backlog)
        self._admission.consumed, self._admission.number = self._commits.consumed(), self._commits.admission
        self._inputs = InputManager(self.graph, settings.heartbeat_scope)
        self._cycle = Cycle(self.graph, self._admission, self._backlog, self._inputs, settings)
        self.between: Callable[[], None] = lambda: None
        """Called after each run: a chance to admit pages, to prod or to stop in the middle of a backlog."""
        self.on_commit: Callable[[], None] = lambda: None
        """Called when a commit is over, before those who wait for it go on."""
        self.on_failed: Callable[[str, Exception, bool], None] | None = None
        """Called with a query that has failed alone, and whether the journal keeps what it needs to go on."""
        self.ends_all: Callable[[Exception], bool] = lambda error: False
        """Whether an error is not one query's alone: it is raised, nothing more is journaled, a restart goes on."""
        self.shared = SharedOperators()
        self._failed: BaseException | None = None
        self.held = False
        """Whether to take elements in but not to run: the journal's queries are not all back."""
        self.stopping = False
        """Whether to end after the run under way; set by another thread."""

    # --- the graph

    def add(
        self,
        operator: Operator,
        feeds: Sequence[Feed] | None = (),
        query: str | None = None,
        about: str = "",
        clock: Clock | None = None,
    ) -> Node:
        """Add an operator behind others' ports, with what the journal knows of it; `about` says what it does.

        Its clock is that of what feeds it, else `clock`, else the executor's own.
        """
        since = self._commits.since(operator.label)
        if feeds:
            clock = self.graph.nodes[feeds[0][0]].clock
        number = self._admission.number + 1 if since is None else since
        node = self.graph.add(operator, feeds, clock or self.clock, number)
        node.about = about
        if query is not None:
            node.queries.add(query)
        self._commits.restore(node)
        if isinstance(operator, Sink):
            self._commits.finish(operator)
            self._feed_back()
        return node

    def exchange(self, operator: Operator) -> None:
        """Replace the operator of the same label; the new one goes on with its state."""
        if (state := self.graph.nodes[operator.label].operator.state(whole=True)) is not None:
            operator.restore([state])
        self.graph.exchange(operator)

    def is_new(self, label: str) -> bool:
        """Whether nothing has come since an operator was added."""
        return self.graph.nodes[label].since > self._admission.number

    def remove(self, query: str) -> None:
        """Take a query out for good, with the operators that work for no other; their state is dropped."""
        self._commits.took_out(self._take_out({query}))

    def withdraw(self, query: str) -> None:
        """Take out a query that could not be started. The journal keeps what it has of it."""
        self._take_out({query})
        self._commits.changed()

    def retire(self, query: str) -> bool | None:
        """Take out a query that may come back in a later process; returns whether it may.

        It may if no other query reads its sources: they would go on without it. None if its sink has failed at the
        last rows: then `on_failed` was called. An executor that is held has run nothing, and commits nothing.
        """
        if not self.held:
            self.commit()
        if query not in set().union(*(node.queries for node in self.graph)):
            return None
        return self._retire({query}, RunError(f"query {query!r} has been stopped"))

    def _retire(self, queries: Set[str], error: Exception, unwritten: Sequence[Emission] = ()) -> bool:
        nodes = [node for node in self.graph if node.queries & queries]
        sources = [node for node in nodes if node.is_source]
        resumable = self._commits.journal.durable and all(s.queries <= queries for s in sources)
        if resumable:
            labels = [s.label for s in sources]
            pages = self._commits.set_aside({node.label for node in nodes}, labels, unwritten)
            self._admission.withdraw({label: pages.get(label) for label in labels}, error)
        self._commits.took_out(self._take_out(queries))
        if resumable:
            self._backlog.let_go()
        return resumable

    def _take_out(self, queries: Set[str]) -> set[str]:
        """Gives the labels of the operators that are gone."""
        gone = set[str]()
        for node in reversed([n for n in self.graph if n.queries & queries]):
            node.queries -= queries
            for query in queries:
                node.operator.unsubscribe(query)
            if not node.queries and not any(node.outputs.values()):
                self.graph.remove(node.label)
                node.operator.detach()
                gone.add(node.label)
        self.shared.forget(gone)
        for source in [n for n in self.graph if n.is_source]:
            source.operator.drop_pending(self.graph.pages_behind(source), source.clock.now())
        self._cycle.demand.look_again()
        self._cycle.dirty = True
        return gone

    def forget(self, query: str, shared: Set[str] = frozenset()) -> None:
        """Drop what the journal holds for a query, except for parts that it shares with others."""
        self._commits.forget(lambda name: name == query, shared)
        self._cycle.dirty = True

    def keep_only(self, queries: Set[str], shared: Set[str] = frozenset()) -> None:
        """Drop what a crash has left, except for that of these queries, and the parts that they share."""
        self._commits.forget(lambda name: name not in queries, shared)

    def batching(self) -> Batching:
        """How a new source takes pages."""
        return AdaptiveBatches(self.graph.apart) if self._batch_pages else SinglePages()

    # --- input

    def consumed(self, source: str) -> int | None:
        """Number of the last page that a source has taken for good. For any thread."""
        return self._admission.consumed.get(source)

    def asked(self, source: str, place: int) -> frozenset[str] | None:
        """What a source asks of the page at a place of its stream; None if no query reads it. For any thread."""
        node = self.graph.nodes.get(source)
        return None if node is None else needs_at(node.operator.asked, place)

    def known_sources(self) -> list[str]:
        """Sources that have taken pages, here or before a restart."""
        return list(self._admission.consumed)

    def admit(self, source: str, page: Page) -> Ticket:
        """Let a page in. One that was taken before a crash is acknowledged at once."""
        self._check()
        self._commits.begin()
        ticket = self._admission.admit(source, page)
        if not ticket.done:
            self._cycle.dirty = True
            self._backlog.keep(page)
        return ticket

    def prod(self, prod: Prod, at_once: bool = False) -> None:
        """Ask a query for an answer now; with `at_once` it is given before all other work."""
        self._check()
        self._cycle.prod(prod)
        if at_once:
            self.answer_prods()

    @property
    def holds_back(self) -> bool:
        """Whether pages may have to wait for the streams of a label."""
        return self._inputs.holds_back

    @property
    def counts_rows(self) -> bool:
        """Whether levels of heartbeats, or the charts of a strategy, need to know how many rows operators give."""
        return self.holds_back or self._cycle.strategy.charts

    def resume(self) -> None:
        """All queries of a journal are back on a clock that has gone on without them."""
        for node in self.graph:
            if node.clock is self.clock:
                node.operator.resume(self.clock.now())

    def wake_at(self, clock: Clock | None = None) -> int | None:
        """The next instant at which a clock alone, or the executor's own, could move something."""
        # Past wake-ups have already been ticked and produced nothing.
        return min((t for c, t in self._wakes() if c is (clock or self.clock) and t > c.now()), default=None)

    def seconds_to_sleep(self) -> float | None:
        """How long nothing can happen by clocks alone; None where none of them goes on by itself."""
        # Wake-ups before the last look at the clock have been ticked, or nobody waits for them.
        left = [clock.until(t) for clock, t in self._wakes() if t > self._cycle.looked_at(clock)]
        lengths = [seconds for seconds in left if seconds is not None]
        return min(*lengths, LONGEST_SLEEP) if lengths else None

    def _wakes(self) -> Iterator[tuple[Clock, int]]:
        """Instants at which a clock alone could give an operator something to say."""
        for node in self.graph:
            wake = node.operator.wake_at()
            if wake is not None:
                yield node.clock, wake
        yield from self._cycle.demand.wakes()

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
            while not self.stopping and (chosen := self._next()) is not Act.WAIT:
                if isinstance(chosen, Act):
                    self._commit()
                    continue
                self._run(chosen)
                self.between()
                self._check()

    def _next(self) -> Node | Act:
        while True:
            try:
                return self._cycle.next()
            except OperatorError as error:
                self._fail(error.node, error.cause)

    def _run(self, node: Node) -> None:
        try:
            self._cycle.run(node)
        except Exception as error:
            self._fail(node, error)

    def _fail(self, node: Node, error: Exception) -> None:
        """An operator has failed, and with it the queries that it works for."""
        if not node.queries or self.on_failed is None or self.ends_all(error):
            raise error
        self._tell_failed(queries := frozenset(node.queries), error, self._retire(queries, error))

    def _refused(self, refused: dict[str, Refusal]) -> None:
        """Queries whose sinks have raised an error."""
        if fatal := [refusal.error for refusal in refused.values() if self.ends_all(refusal.error)]:
            raise fatal[0]
        for query, refusal in refused.items():
            self._tell_failed({query}, refusal.error, self._retire({query}, refusal.error, refusal.unwritten))

    def _tell_failed(self, queries: Set[str], error: Exception, resumable: bool) -> None:
        assert self.on_failed is not None
        for query in sorted(queries):
            self.on_failed(query, error, resumable)

    def answer_prods(self) -> None:
        """Run only where prods wait, and commit: their answers need not wait for the end of a backlog."""
        self._check()
        if self._commits.unwritten or self.held:
            return
        with self._whole_or_failed():
            while not self.stopping and (node := self._cycle.next_prodded()):
                self._run(node)
        self.commit()

    def fail(self, label: str, error: Exception) -> None:
        """An operator, such as a source whose stream has ended with an error, cannot go on."""
        with self._whole_or_failed():
            self._fail(self.graph.nodes[label], error)

    def drain(self, sources: Sequence[str] | None = None, for_good: bool = True) -> None:
        """All, or these sources, have no more input for now, or for good: close every window."""
        self._commits.check_written()
        self.run_until_idle()
        ended = [n for n in self.graph if sources is None or n.label in sources]
        tops = {n.label: n.operator.highest for n in ended}
        for node in ended:
            # Sources of one query go on together: the one that is behind would keep the others' windows open.
            among = (tops[n.label] for n in ended if n.queries & node.queries or n is node)
            last = max((top for top in among if top is not None), default=None)
            node.operator.end(self._cycle.emitter(node), for_good, last)
        for watcher in dict.fromkeys(watcher for node in ended for watcher in node.watchers):
            watcher.operator.end(self._cycle.emitter(watcher), for_good)
        self._cycle.dirty = True
        self.run_until_idle()

    def _check(self) -> None:
        if self._failed is not None:
            again = "; start again from the journal" if self._commits.journal.durable else ""
            raise RunError(f"the executor has failed: {self._failed}{again}") from self._failed

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
            cycle.committed()
            self._commits.on_refused = None if self.on_failed is None else self._refused
            self._commits.commit(self._admission, self._backlog.settle)
            self._feed_back()
            self.on_commit()
        durable = self._commits.journal.durable
        # Without a journal a page that waits for time is as safe as the rows of an open window.
        held = set() if durable else {id(e) for _, q in self.graph.queues() for e in q.held}
        waiting = (e for _, q in self.graph.queues() for e in q if e.is_page and id(e) not in held)
        self._admission.acknowledge(e.admission for e in waiting if e.unsaved or not durable)

    def _feed_back(self) -> None:
        """Send the prods that sinks ask for."""
        for sink, prod in self._commits.feedback.take(self._admission.pages):
            for query in self.graph.nodes[sink].queries if sink in self.graph else ():
                self._cycle.prod(replace(prod, query=query))

    # --- figures

    def metrics(self) -> dict[str, Figures]:
        """Figures of every operator, of what waits before it, and of its heartbeat."""
        self._inputs.assign()
        level = self._inputs.heartbeats.name
        return {node.label: {**figures(node), "level": level} for node in self.graph}

    def measure_by(self, stopwatch: Callable[[], float]) -> None:
        """Measure what runs take by other seconds than the machine's, as a simulation does."""
        self._cycle.stopwatch = stopwatch

    def snapshot(self) -> Snapshot:
        """All figures at this instant, for other threads."""
        nodes, chains, counted = self.graph.nodes, self._cycle.statistics.figures, rows_before_sinks(self.graph)
        figures = {
            label: {**nodes[label].measured.figures(), **counted.get(label, {}), **waiting, **chains(label)}
            for label, waiting in self.metrics().items()
        }
        cycle, size = self._cycle, self._commits.journal.size
        return Snapshot(self.clock.now(), figures, cycle.strategy.name, tuple(cycle.choices), size)
