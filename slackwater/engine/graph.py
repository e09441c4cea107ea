"""The graph that runs: operators as nodes, queues as arcs, and how far time has come on each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from slackwater.engine.idle_waiting import IdleWaiting
from slackwater.engine.queue import Entry, Queue
from slackwater.engine.records import Measured
from slackwater.errors import RunError
from slackwater.operators.element import Element, of_prod
from slackwater.operators.label import Label
from slackwater.operators.operator import MAIN, Operator
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.progress.clock import Clock
from slackwater.progress.punctuation import Punctuation
from slackwater.scheduling.heartbeats import Stream, StreamLabel

#: An operator and the port by which it feeds another.
Feed = tuple[str, str]
#: An operator and the number of one of its inputs: the same after a restart.
Place = tuple[Label, int]


@dataclass
class Arc:
    """What leads from a node to another."""

    to: Node
    queue: Queue


@dataclass(eq=False)
class Node:
    """An operator with its arcs."""

    operator: Operator
    inputs: list[Queue]
    """Arcs that come in, then the operator's own shelves."""
    feeds: list[Feed | None]
    """The operator and port behind each arc that comes in; None for an inbox."""
    depth: int
    clock: Clock
    """Its wall clock: the machine's, or that of the replay it belongs to."""
    about: str = ""
    """What it does, for people."""
    since: int = 0
    """Pages of earlier admissions are not for it: it was not there yet."""
    outputs: dict[str, list[Arc]] = field(default_factory=dict)
    """Arcs that leave, by port."""
    times: dict[str, Punctuation] = field(default_factory=dict)
    """How far time has come on each port, by the punctuations sent there."""
    queries: set[str] = field(default_factory=set)
    """The queries that it works for."""
    watchers: list[Node] = field(default_factory=list)
    """Operators on no arc that are shown its pages."""
    measured: Measured = field(default_factory=Measured)
    idle_waiting: IdleWaiting = field(default_factory=IdleWaiting)
    goes_by: StreamLabel = field(default_factory=StreamLabel)
    """The streams whose heartbeats it waits for (S1 section 7)."""
    place: int = 0
    """Nodes that were added later have a larger one."""

    @property
    def label(self) -> Label:
        """The operator's label."""
        return self.operator.label

    @property
    def arcs(self) -> list[Queue]:
        """Arcs that come in."""
        return self.inputs[: len(self.feeds)]

    @property
    def is_source(self) -> bool:
        """Whether pages are admitted here."""
        return self.feeds == [None]

    @property
    def registers(self) -> list[Punctuation]:
        """How far time has come on each input."""
        return [q.time for q in self.arcs]

    def oldest(self) -> int:
        """Admission of the oldest element that waits on an arc; what is set aside makes nobody hurry."""
        return min(q.oldest for q in (self.arcs if any(map(len, self.arcs)) else self.inputs) if len(q))

    def has_results(self) -> bool:
        """Whether the first element on an arc is a page that has come by no source."""
        first = (next(iter(queue)) for queue in self.arcs if len(queue))
        return any(entry.is_page and entry.source is None for entry in first)

    def waiting(self) -> tuple[int, int]:
        """Rows and bytes of the pages that wait here, as far as they are known."""
        sizes = [queue.size() for queue in self.inputs]
        return sum(rows for rows, _ in sizes), sum(size for _, size in sizes)

    def last_admission(self, otherwise: int) -> int:
        """What a source says by itself belongs to its last page: it need not wait for later ones."""
        taken = self.inputs[0].taken if self.is_source else None
        return otherwise if taken is None else taken.admission

    def prodded(self) -> bool:
        """Whether a prod waits."""
        return any(q.prods for q in self.inputs)

    def send(self, element: Element, admission: int, port: str = MAIN, source: str | None = None) -> bool:
        """Put an element on the arcs that leave by a port; whether there was anything to say.

        A punctuation goes out only if it is news, a prod only towards its query, and early pages with it.
        """
        prod, arcs = of_prod(element), self.outputs.get(port, ())
        if prod is not None and prod.query is not None:
            arcs = [arc for arc in arcs if prod.query in arc.to.queries]
        if isinstance(element, Punctuation):
            before = self.times.get(port, Punctuation.NONE)
            element = before.joined(element)
            if element is before:
                return False
            self.times[port] = element
        elif isinstance(element, Page):
            # A reader also gets pages of an older admission if their producer was added together with it.
            arcs = [arc for arc in arcs if arc.to.since <= max(admission, self.since)]
            for watcher in self.watchers:
                watcher.operator.observe(element)
        for arc in arcs:
            arc.queue.push(Entry(element, admission, source))
        return bool(arcs)


class Graph:
    """Operators by label, in the order they were added: feeders first."""

    def __init__(self, pages: Pages | None = None) -> None:
        self.pages = pages or Pages()
        self.nodes: Mapping[str, Node] = {}
        """Other threads look labels up in it: it is replaced, never changed."""
        self.clocks: list[Clock] = []
        """The clocks of all operators, each once."""
        self.watching: dict[Clock, list[Node]] = {}
        """The operators that watch each clock."""
        self.managed: list[Node] = []
        """Operators before which pages may be held back."""
        self.changes = 0
        """How often an operator has come or gone."""
        self._places = count()
        self._observers: list[set[Node]] = []
        self._sources_behind: dict[Node, list[Node]] = {}

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __contains__(self, label: str) -> bool:
        return label in self.nodes

    def add(self, operator: Operator, feeds: Sequence[Feed] | None, clock: Clock, since: int = 0) -> Node:
        """Add an operator behind the ports of others; with an empty list it gets an inbox for admitted pages.

        With `feeds=None` it has no arcs. Pages of admissions before `since` do not reach it.
        """
        if operator.label in self.nodes:
            raise RunError(f"there is already an operator {operator.label!r}")
        operator.pages = self.pages
        depth = 1 + max((self.nodes[label].depth for label, _ in feeds or ()), default=-1)
        behind: list[Feed | None] = [] if feeds is None else list(feeds) or [None]
        queues = [Queue(self.pages) for _ in range(len(behind) + operator.shelves)]
        node = Node(operator, queues, behind, depth, clock, since=since, place=next(self._places))
        for queue in queues:
            queue.on_change = partial(self.touch, node)
        for queue, (label, port) in zip(node.inputs, feeds or (), strict=False):
            self.nodes[label].outputs.setdefault(port, []).append(Arc(node, queue))
        self.nodes = {**self.nodes, operator.label: node}
        self._arrange()
        return node

    def remove(self, label: str) -> None:
        """Take an operator out, with the arcs that lead to it."""
        gone = self.nodes[label]
        for queue in gone.inputs:
            queue.clear()
        self.nodes = {other: node for other, node in self.nodes.items() if other != label}
        self._arrange()
        for node in self.nodes.values():
            node.watchers = [w for w in node.watchers if w is not gone]
            for port, arcs in list(node.outputs.items()):
                node.outputs[port] = [arc for arc in arcs if arc.to is not gone]

    def exchange(self, operator: Operator) -> None:
        """Replace the operator that has this label."""
        operator.pages = self.pages
        self.nodes[operator.label].operator = operator
        self._arrange()

    def _arrange(self) -> None:
        self.changes += 1
        self.clocks = list(dict.fromkeys(n.clock for n in self))
        self.watching = {clock: [] for clock in self.clocks}
        for node in self:
            if node.operator.watches_clock:
                self.watching[node.clock].append(node)
        self.managed = [node for node in self.managed if self.nodes.get(node.label) is node]
        self._sources_behind.clear()

    def observe(self) -> set[Node]:
        """A set that gets each node whose queues change, or which has run; its reader takes them out again.

        Readers also look at `changes`: operators that come or go are not in it.
        """
        changed = set[Node]()
        self._observers.append(changed)
        return changed

    def touch(self, node: Node) -> None:
        """Tell observers that a node may have other work, or wait for something else, than before."""
        for changed in self._observers:
            changed.add(node)

    def sources_behind(self, node: Node) -> list[Node]:
        """The sources whose pages a node's input is made of, each once."""
        if node not in self._sources_behind:
            self._sources_behind[node] = self._find_sources(node)
        return self._sources_behind[node]

    def _find_sources(self, node: Node) -> list[Node]:
        found: dict[str, Node] = {}

        def back(node: Node) -> None:
            for feed in node.feeds:
                if feed is None:
                    found[node.label] = node
                else:
                    back(self.nodes[feed[0]])

        back(node)
        return list(found.values())

    def prod_sources(self, query: str | None) -> Iterator[tuple[Node, str]]:
        """The sources and ports that a sink's request reaches, arc by arc (S5 3.2 d): of one query, or of all."""
        passed, found = set[Node](), set[Feed]()

        def back(node: Node) -> None:
            passed.add(node)
            for label, port in filter(None, node.feeds):
                found.add((label, port))
                if self.nodes[label] not in passed:
                    back(self.nodes[label])

        for node in self:
            if not any(node.outputs.values()) and (query is None or query in node.queries):
                back(node)
        for node in self:
            if node.is_source:
                yield from ((node, port) for port in node.outputs if (node.label, port) in found)

    def apart(self, first: int, last: int) -> bool:
        """Whether pages of two admissions are not for the same operators: one has come in between."""
        return any(first < node.since <= last for node in self)

    def heartbeat(self, streams: Iterable[Stream]) -> int:
        """How far time has come on all of these streams, by what their sources have said."""
        times = [self.nodes[source].times.get(port, Punctuation.NONE) for source, port in streams]
        return Punctuation.common(times).heartbeat.tick

    def pages_behind(self, source: Node) -> set[int]:
        """Numbers of a source's pages that wait on arcs; those of other streams may have the same numbers."""
        waiting = (e for _, queue in self.queues() for e in queue if e.source == source.label)
        return {e.element.number for e in waiting if isinstance(e.element, Page)}

    def queues(self) -> Iterator[tuple[Place, Queue]]:
        """Every queue with its place."""
        for node in self:
            for n, queue in enumerate(node.inputs):
                yield (node.label, n), queue
