"""Demand (S3 section 3): from an operator that holds something, back along the input that blocks it.

It stops where something waits, which a strategy may run first (`oldest_in_need`). It ends at sources with nothing
in them, and these send an enabling timestamp. Nobody else is asked. A demand says how far time must come, so that a
source whose time goes on with the clock need not speak, nor the thread wake up, before that helps. An operator
before which pages are held back (S1 section 7) asks the streams that hold them back.

The way of a demand depends on the queues and registers along it. So it is kept, and found again only when one of
its nodes has changed. An asked source is looked at again when it may know something new, or when its time has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from slackwater.engine.enabling import Enabling, on_demand
from slackwater.engine.failure import OperatorError
from slackwater.engine.graph import Graph, Node
from slackwater.engine.idle_waiting import waits_for_one_of
from slackwater.engine.input_manager import holding_back, measure_waiting
from slackwater.engine.queue import Entry
from slackwater.operators.element import Element
from slackwater.operators.operator import MAIN, Wanted
from slackwater.progress.clock import Clock
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MIN_TICK

_ON_DEMAND = on_demand()


@dataclass
class DemandPath:
    """The nodes that one operator's demand passes, and where it ends."""

    nodes: list[Node] = field(default_factory=list)
    ends: list[tuple[Node, Wanted]] = field(default_factory=list)
    """The sources that it comes to, and what is wanted of each."""
    busy: list[Node] = field(default_factory=list)
    """The nodes at which it stops, because elements wait on the input that blocks."""
    behind: list[tuple[Node, Wanted]] = field(default_factory=list)
    """As `ends`, with the sources that may not be asked."""


class Demand:
    """Finds the sources that somebody waits for, and asks them."""

    def __init__(self, graph: Graph, enabling: Enabling = _ON_DEMAND) -> None:
        self._graph = graph
        self._enabling = enabling
        self._turns: dict[Clock, int] = {}
        """The last turn of each clock, where sources punctuate at regular intervals."""
        self._changed = graph.observe()
        self._changes = -1
        """`Graph.changes` when all ways were last found."""
        self._ways: dict[Node, DemandPath] = {}
        """The ways back from the operators that hold something."""
        self._passing: dict[Node, set[Node]] = {}
        """For each node the operators whose demands pass it."""
        self._asked: dict[Node, dict[Node, Wanted]] = {}
        """For each source at an end, what the operators want that wait for it."""
        self._busy: dict[Node, set[Node]] = {}
        """For each node at which demands stop, the operators whose demands these are."""
        self._new: dict[Node, None] = {}
        """Nodes on ways that were found since the last question."""
        self._due: dict[Node, float] = {}
        """When an asked source may have something new to say; it is not in here if that may be now."""
        self._listeners: dict[str, list[Node]] = {}
        """The sources whose time depends on pages of another, by its label."""

    def ask(self, admission: int, lull: bool) -> bool:
        """Ask the sources that operators wait for; whether one had something to say.

        While others are busy, a source is asked only if it is likely to know something new.
        """
        self._follow_changes()
        held, new = holding_back(self._graph), list(self._new)
        self._new.clear()
        for source in map(self._graph.nodes.__getitem__, held):
            self._due.pop(source, None)
            try:
                measure_waiting(self._graph, source)
            except Exception as error:
                raise OperatorError(source, error) from error
        sources = self._sources(held, lull)
        news = [self._tell_again(node, admission) for node in new]
        due = [(source, wanted) for source, wanted in sources if lull or self._is_due(source, wanted)]
        news += [self._enable(source, admission, wanted) for source, wanted in due]
        news += [self._enable(source, admission, _any) for source in self._in_turn()]
        return any(news)

    def oldest_in_need(self, node: Node) -> int | None:
        """Of pages that have not left their source yet, the oldest that gains if this node runs first.

        An operator that waits for one of several streams holds the rows of the others back. So what waits on the
        way of that one stream is as urgent as the oldest page of all of them (S3 section 3.2, Backtrack).
        """
        holders = self._busy.get(node, ())
        sources = {source for holder in holders for source in self._graph.sources_behind(holder)}
        waiting = [source.inputs[0].oldest for source in sources if len(source.inputs[0])]
        return min(waiting) if len(sources) > 1 and waiting else None

    def look_again(self) -> None:
        """Any source may know something new."""
        self._due.clear()

    def worked(self, node: Node) -> None:
        """An operator has worked on a page, or a source has spoken: it, or the sources behind it, may know more."""
        self._due.pop(node, None)
        for source in self._graph.sources_behind(node):
            self._due.pop(source, None)
            for listener in self._listeners.get(source.label, ()):
                self._due.pop(listener, None)

    def _is_due(self, source: Node, wanted: Wanted) -> bool:
        if source.operator.due(source.clock.now(), wanted):
            return True
        wakes = (source.operator.wake_at(), source.operator.wake_for(wanted))
        self._due[source] = min((wake for wake in wakes if wake is not None), default=inf)
        return False

    def _in_turn(self) -> list[Node]:
        """The sources that punctuate now because their time has come; pages that wait at one go first."""
        every, turn = self._enabling.every, list[Node]()
        if every is None:
            return turn
        for clock in self._graph.clocks:
            now = clock.now() // every
            if now > self._turns.setdefault(clock, now):
                turn += [n for n in self._graph if n.is_source and n.clock is clock and not len(n.inputs[0])]
            self._turns[clock] = now
        return turn

    def sources(self) -> list[Node]:
        """The sources at the ends of all demands, each once."""
        self._follow_changes()
        return [source for source, _ in self._sources(holding_back(self._graph), lull=True)]

    def wakes(self) -> Iterator[tuple[Clock, int]]:
        """When clocks alone bring time as far as somebody waits for it."""
        self._follow_changes()
        for source, wanted in self._sources(holding_back(self._graph), lull=True):
            wake = source.operator.wake_for(wanted)
            if wake is not None:
                yield source.clock, wake
        if (every := self._enabling.every) is not None:
            for clock in self._graph.clocks:
                yield clock, (self._turns.get(clock, clock.now() // every) + 1) * every

    def _sources(self, held: Mapping[str, int], lull: bool) -> list[tuple[Node, Wanted]]:
        """The sources at the ends of demands, in the order of the operators that wait; with what is wanted of each.

        While others are busy, only those that may have something new to say. `held` are the sources that hold
        pages back, and how far time must come there.
        """
        now = {clock: clock.now() for clock in self._graph.clocks}
        wants: dict[Node, list[Wanted]] = {}
        for source, waiting in self._asked.items():
            if lull or source not in self._due or self._due[source] <= now[source.clock]:
                wants[source] = list(waiting.values())
        if len(wants) > 1:
            first = {source: min(map(self._order_of(source), self._asked[source])) for source in wants}
            wants = {source: wants[source] for source in sorted(wants, key=first.__getitem__)}
        for label, tick in held.items():
            source = self._graph.nodes[label]
            if self._enabling.asked and not len(source.inputs[0]):
                wants.setdefault(source, []).append(_as_far_as(tick))
        return [(source, _least_of(wanted)) for source, wanted in wants.items()]

    def _order_of(self, source: Node) -> Callable[[Node], tuple[int, int]]:
        """The place of an operator, and of a source among the ends of its demand."""
        return lambda holder: (holder.place, [end for end, _ in self._ways[holder].ends].index(source))

    def _follow_changes(self) -> None:
        """Find the ways again of the operators whose demands may have changed."""
        if self._changes != self._graph.changes:
            self._changes = self._graph.changes
            for table in (self._ways, self._passing, self._asked, self._busy, self._new, self._due):
                table.clear()
            holders = set(self._graph)
            self._listeners.clear()
            for node in self._graph:
                for label in node.operator.hears_from:
                    self._listeners.setdefault(label, []).append(node)
        else:
            holders = self._changed.union(*(self._passing.get(node, ()) for node in self._changed))
        self._changed.clear()
        for holder in sorted(holders, key=lambda node: node.place):
            self._leave(holder)
            if holder.operator.waits_for_time(holder.arcs):
                self._enter(holder)
            self._note_waiting(holder)

    def _note_waiting(self, holder: Node) -> None:
        """Whether it waits because one of several streams is behind another."""
        way, sources = self._ways.get(holder), self._graph.sources_behind(holder)
        if len(sources) > 1 and (way is not None or holder.idle_waiting.began is not None):
            behind = [] if way is None or way.busy else [(_come_to(end), wanted) for end, wanted in way.behind]
            waits = waits_for_one_of([_come_to(source) for source in sources], behind)
            holder.idle_waiting.note(waits, holder.clock.now())

    def _leave(self, holder: Node) -> None:
        way = self._ways.pop(holder, None)
        if way is None:
            return
        for node in way.nodes:
            self._passing[node].discard(holder)
        for node in way.busy:
            self._busy[node].discard(holder)
        for source, _ in way.ends:
            del self._asked[source][holder]
            self._due.pop(source, None)
            if not self._asked[source]:
                del self._asked[source]

    def _enter(self, holder: Node) -> None:
        way = self._ways[holder] = self._way(holder)
        for node in way.nodes:
            self._passing.setdefault(node, set()).add(holder)
            self._new[node] = None
        for node in way.busy:
            self._busy.setdefault(node, set()).add(holder)
        for source, wanted in way.ends:
            self._asked.setdefault(source, {})[holder] = wanted
            self._due.pop(source, None)

    def _way(self, holder: Node) -> DemandPath:
        """Backtrack from an operator that holds something."""
        way, ends, busy = dict[Node, None](), dict[Node, list[Wanted]](), dict[Node, None]()

        def back(node: Node, wanted: Wanted) -> None:
            if node in way:
                return
            way[node] = None
            for n in node.operator.blocking(node.arcs):
                feed = node.feeds[n]
                if node.inputs[n].waiting:
                    busy[node] = None
                    continue
                if node.operator.ends_demand or feed is None:
                    ends.setdefault(node, []).append(wanted)
                elif feed is not None:
                    feeder = self._graph.nodes[feed[0]]
                    back(feeder, feeder.operator.map_demand(wanted))

        back(holder, holder.operator.next_useful_time)
        behind = [(source, _remembered(_least_of(wants))) for source, wants in ends.items()]
        asked = [(node, wanted) for node, wanted in behind if self._enabling.asked or node.operator.ends_demand]
        return DemandPath(list(way), asked, list(busy), behind)

    def _tell_again(self, node: Node, admission: int) -> bool:
        """A query that came later has missed what was said before: tell it what its feeder knows."""
        news = False
        for queue, feed in zip(node.arcs, node.feeds, strict=True):
            if feed is None or queue.waiting:
                continue
            passed = self._graph.nodes[feed[0]].times.get(feed[1], Punctuation.NONE)
            if queue.time.idle and passed.idle and queue.time.heartbeat >= passed.heartbeat:
                continue  # it knows; its register has been lifted since, and may differ by source
            if queue.time.joined(passed) is not queue.time:
                queue.push(Entry(passed, admission))
                news = True
        return news

    def _enable(self, source: Node, admission: int, wanted: Wanted) -> bool:
        news, admission = False, source.last_admission(admission)
        self.worked(source)

        def emit(element: Element, port: str = MAIN) -> None:
            nonlocal news
            news |= source.send(element, admission, port)

        try:
            source.operator.enable(source.clock.now(), emit, wanted)
        except Exception as error:
            raise OperatorError(source, error) from error
        return news


def _come_to(source: Node) -> int:
    """How far time has come there by any policy."""
    return max((time.heartbeat.tick for time in source.times.values()), default=MIN_TICK)


def _any(tick: int) -> int | None:
    """All the clock allows, whoever waits for it."""
    return tick + 1


def _as_far_as(held: int) -> Wanted:
    """The last row of a page that is held back."""
    return lambda tick: held if held > tick else None


def _least_of(wants: list[Wanted]) -> Wanted:
    """The earliest time that one of them wants."""
    if len(wants) == 1:
        return wants[0]
    return lambda tick: min((found for wanted in wants if (found := wanted(tick)) is not None), default=None)


def _remembered(wanted: Wanted) -> Wanted:
    """The same, asked once for each tick: the way that it belongs to is found again when an answer may change."""
    answers: dict[int, int | None] = {}

    def answer(tick: int) -> int | None:
        if tick not in answers:
            answers[tick] = wanted(tick)
        return answers[tick]

    return answer
