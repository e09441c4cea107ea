"""The cycle (S3 section 3): Forward, Encore, Backtrack. The strategy picks among ready operators; one unit runs.

Forward and Encore are the strategy's: it goes on with what the last run has put out, or with what is left.
Backtrack is the demand: an operator that holds something and is blocked asks the sources behind the input that
blocks it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from slackwater.engine.admission import Admission
from slackwater.engine.backlog import Backlog
from slackwater.engine.demand import Demand
from slackwater.engine.failure import OperatorError
from slackwater.engine.graph import Graph, Node
from slackwater.engine.input_manager import InputManager
from slackwater.engine.ready import ReadyNodes
from slackwater.engine.records import MOST_CHOICES, Choice, Ran
from slackwater.engine.settings import EngineSettings
from slackwater.engine.statistics import Statistics
from slackwater.engine.waits import Waits
from slackwater.operators.element import Element
from slackwater.operators.operator import MAIN
from slackwater.operators.page import Page
from slackwater.operators.prod import Prod
from slackwater.progress.clock import Clock
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MIN_TICK
from slackwater.scheduling.strategy import Act, Ready, Situation


class Cycle:
    """Runs operators until nothing is left to do, and says when a commit is due."""

    def __init__(
        self, graph: Graph, admission: Admission, backlog: Backlog, inputs: InputManager, settings: EngineSettings
    ) -> None:
        self.strategy = settings.strategy
        self._inputs, self._quantum = inputs, settings.longest_run
        self.demand = Demand(graph, settings.quiet_streams)
        self._graph = graph
        self._admission = admission
        self._backlog = backlog
        self.dirty = False
        """Whether anything has happened since the last commit."""
        self.uncommitted = 0
        """Runs since then."""
        self.runs = 0
        self._ticked: dict[Clock, int] = {}
        """The time of each clock when operators last heard of it."""
        self.choices: deque[Choice] = deque(maxlen=MOST_CHOICES)
        """The last ones, for people."""
        self.on_ran: Callable[[Ran], None] = lambda run: None
        self.stopwatch: Callable[[], float] = time.perf_counter
        """Seconds by which runs are measured; a simulation has its own."""
        self._waits = Waits(lambda: self.stopwatch(), graph.pages)
        self.statistics = Statistics(graph, self.strategy, lambda: self.stopwatch())
        self._ready = ReadyNodes(graph, self._record)
        self._committed = self.stopwatch()
        """When the last commit was, or work began."""

    def begin(self) -> None:
        """Work begins: at this instant nothing has taken time yet."""
        self.demand.look_again()
        self._committed = self.stopwatch()
        self._ticked = {clock: clock.now() for clock in self._graph.clocks}

    def looked_at(self, clock: Clock) -> int:
        """The time of a clock when operators last heard of it."""
        return self._ticked.get(clock, MIN_TICK)

    def committed(self) -> None:
        """A commit is done: everything so far is durable."""
        self.dirty, self.uncommitted, self._committed = False, 0, self.stopwatch()
        self._ready.forget()
        self.demand.look_again()

    def next(self) -> Node | Act:
        """What to do: a node to run, or a commit first, or nothing but to wait."""
        self._tick()
        self.statistics.tell(self.runs)
        self._waits.look(self._admission.number)
        lull = False
        while True:
            self._inputs.present()
            if self.demand.ask(self._admission.number, lull=False):
                self.dirty = True
                self._inputs.present()
            ready = [self._with_need(node) for node in self._ready.nodes()]
            seconds = self.stopwatch() - self._committed
            situation = Situation(lull, self.dirty, self.uncommitted, len(self._admission.tickets), seconds)
            picked = self._pick(ready, situation)
            if isinstance(picked, Ready):
                return self._graph.nodes[picked.label]
            if picked is Act.COMMIT or lull:
                return picked
            # Nothing is ready: ask everybody who is waited for, once more by the clock.
            self._ticked = {}
            self._tick()
            news = self.demand.ask(self._admission.number, lull=True)
            self.dirty |= news
            lull = not news

    def _with_need(self, node: Node) -> Ready:
        record, need = self._ready.record(node), self.demand.oldest_in_need(node)
        return record if need is None else replace(record, oldest_in_need=need)

    def next_prodded(self) -> Node | None:
        """A node at which a prod waits, if there is one."""
        nodes = [n for n in self._ready.nodes() if n.prodded() and n.operator.has_work(n.inputs)]
        if not nodes:
            return None
        picked = self._pick([self._ready.record(n) for n in nodes], Situation(False, False, 0, 0))
        return self._graph.nodes[picked.label] if isinstance(picked, Ready) else nodes[0]

    def _pick(self, ready: list[Ready], now: Situation) -> Ready | Act:
        """The strategy's choice, which is kept."""
        picked = self.strategy.pick(ready, now)
        why = self.strategy.why(picked, ready, now)
        if isinstance(picked, Ready):
            self.choices.append(Choice(self.runs + 1, picked.label, len(ready), why))
        elif picked is Act.COMMIT:
            self.choices.append(Choice(self.runs, picked.value, len(ready), why))
        return picked

    def run(self, node: Node) -> None:
        """One unit of work, and the time that has passed with it."""
        try:
            self._run(node)
        finally:
            self._graph.pages.run_over()

    def _run(self, node: Node) -> None:
        self.dirty = True
        self.uncommitted += 1
        self.runs += 1
        self._cut(node)
        waiting = [len(q) for q in node.inputs]
        out, holding, pages = list[Page](), list[float](), self._graph.pages

        def admission() -> int:
            # What an operator gives belongs to the admission of what it took for it.
            taken = [q.taken for q, n in zip(node.inputs, waiting, strict=True) if q.taken and len(q) < n]
            return max((t.admission for t in taken), default=self._admission.number)

        def source() -> str | None:
            # A page is made of a page; what an aggregate gives is made of many, when time has passed.
            if node.operator.makes_rows:
                return None
            taken = [q.taken for q, n in zip(node.inputs, waiting, strict=True) if q.taken and len(q) < n]
            return next((t.source for t in taken if t.is_page), None)

        def emit(element: Element, port: str = MAIN) -> None:
            if isinstance(element, Prod) and node.is_source:  # it rides in the page, and goes by all sources
                for query in sorted(node.queries):
                    self.prod(replace(element, query=query))
                return
            if isinstance(element, Page):
                if self._will_wait(node):
                    began = self.stopwatch()
                    element = pages.materialize(element)
                    holding.append(self.stopwatch() - began)
                self._backlog.keep(element)
                pages.hold(element)
                pages.take(element)
                out.append(element)
            node.send(element, admission(), port, source())

        self.statistics.before(node)
        started = self.stopwatch()
        node.operator.run(node.inputs, emit)
        seconds = self.stopwatch() - started
        heartbeat = node.operator.output(node.registers)
        if heartbeat is not None:
            # An operator that makes a heartbeat of its own need not know of idle inputs.
            idle = Punctuation.all_idle(node.registers)
            node.send(heartbeat if heartbeat.idle == idle else replace(heartbeat, idle=idle), admission())
        self._note(node, waiting, seconds, out, sum(holding))
        origin = source()
        for report in node.operator.report():
            if origin is not None and origin in self._graph:
                self._graph.nodes[origin].operator.on_report(report)
        self._graph.touch(node)
        self.demand.worked(node)

    def _cut(self, node: Node) -> None:
        """A run that would last longer than a quantum takes a part of its page (S2 section 3)."""
        arc = node.arcs[0] if node.operator.divisible and len(node.arcs[0]) else None
        if arc is None or not arc.first.is_page or arc.first.source is None or arc.first.early:
            return
        page, pages = arc.first.page, self._graph.pages
        if node.measured.longest > self._quantum / 2:  # where pages are cut, no run is much longer than a quantum
            pages.measure(page)
            arc.cut(node.measured.parts(pages.rows(page) or 0, self._quantum))

    def _will_wait(self, node: Node) -> bool:
        """Whether an operator's work is better done now: a chain ends here (S2), and other pages go first.

        Those are pages that steeper chains have still to take, and older ones that wait for the same reader.
        """
        if not (node.operator.extends and self.strategy.ends_segment(node.label)):
            return False
        arcs = [arc.queue for arcs in node.outputs.values() for arc in arcs]
        if any(entry.is_page for queue in arcs for entry in queue):
            return True
        return any(len(queue) for source in self._graph.sources_behind(node) for queue in source.inputs)

    def _note(self, node: Node, waiting: list[int], seconds: float, out: Sequence[Page], holding: float) -> None:
        took = [q.taken for q, n in zip(node.inputs, waiting, strict=True) if q.taken and len(q) < n]
        pages = [t.page for t in took if t.is_page]
        rows_in, rows_out = _sizes(pages, out, self._graph.pages.rows)
        rows_out += node.operator.counted()
        sizes = _sizes(pages, out, lambda page: page.size)
        run = Ran(node.label, seconds, rows_in, rows_out, *sizes, holding)
        node.measured.ran(run)
        node.measured.last_run = self.runs
        self._inputs.ran(node)
        self.statistics.ran(run)
        self.on_ran(run)

    def emitter(self, node: Node) -> Callable[..., None]:
        """For what an operator says without having been run."""

        def emit(element: Element, port: str = MAIN) -> None:
            self.demand.worked(node)
            if isinstance(element, Prod):
                self.prod(element)
            else:
                self.dirty |= node.send(element, node.last_admission(self._admission.number), port)

        return emit

    def prod(self, prod: Prod) -> None:
        """Ask a query for an answer now.

        The request goes back to its sources; from there the prod travels behind what these have sent.
        """
        admission = self._admission.next()
        for node, port in self._graph.prod_sources(prod.query):
            node.send(prod, admission, port)
        self.dirty = True

    def _tick(self) -> None:
        """Time has passed: what watches the clock need not wait until all is done."""
        for clock in self._graph.clocks:
            now = clock.now()
            if now != self._ticked.get(clock):
                self._ticked[clock] = now
                for node in self._graph.watching[clock]:
                    try:
                        node.operator.tick(now, self.emitter(node))
                    except Exception as error:
                        raise OperatorError(node, error) from error

    def _record(self, node: Node) -> Ready:
        operator, inputs = node.operator, node.inputs
        rows, size = node.waiting()
        expensive = operator.expensive(inputs)
        # That may have measured a page.
        self.demand.worked(node)
        return Ready(
            node.label,
            oldest=node.oldest(),
            results=node.has_results(),
            depth=node.depth,
            waiting=sum(len(q) for q in inputs),
            rows=rows,
            bytes=size,
            cost=node.measured.cost,
            selectivity=node.measured.selectivity,
            last_run=node.measured.last_run,
            seconds=node.measured.seconds,
            prodded=node.prodded() and operator.has_work(inputs),
            spare=not operator.has_work(inputs),
            expensive=expensive,
            unsaved=any(e.unsaved and not e.page.held for q in node.arcs for e in islice(q, 2)),
            waits=self._waits.of(node) if self.strategy.watches else (),
        )


def _sizes(taken: Sequence[Page], out: Sequence[Page], size: Callable[[Page], int | None]) -> tuple[int, int]:
    """Rows or bytes of the pages that came in and went out; 0 of both where some are not known."""
    sums = []
    for pages in (taken, out):
        known = [found for page in pages if (found := size(page)) is not None]
        if len(known) < len(pages):
            return 0, 0
        sums.append(sum(known))
    return sums[0], sums[1]
