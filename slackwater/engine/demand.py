"""Demand (S3 section 3): from an operator that holds something, back along the input that blocks it.

It stops where something waits, for that is run first; it ends at sources with nothing in them, and these send an
enabling timestamp. Nobody else is asked. A demand says how far time must come, so that a source whose time goes on
with the clock need not speak, nor the thread wake up, before that helps. An operator before which pages are held
back (S1 section 7) asks the streams that hold them back.
"""

from __future__ import annotations

from collections.abc import Iterator

from slackwater.engine.enabling import Enabling
from slackwater.engine.failure import OperatorError
from slackwater.engine.graph import Graph, Node
from slackwater.engine.input_manager import holding_back, measure_waiting
from slackwater.engine.queue import Entry
from slackwater.operators.element import Element
from slackwater.operators.operator import MAIN, Wanted
from slackwater.progress.clock import Clock
from slackwater.progress.punctuation import Punctuation


class Demand:
    """Finds the sources that somebody waits for, and asks them."""

    def __init__(self, graph: Graph, enabling: Enabling | None = None) -> None:
        self._graph = graph
        self._enabling = enabling or Enabling()
        self._turns: dict[Clock, int] = {}
        """Of punctuation at regular intervals: the last turn of each clock."""

    def ask(self, admission: int, lull: bool) -> bool:
        """Ask the sources that operators wait for; whether one had something to say.

        While others are busy, a source is asked only if it is likely to know something new.
        """
        asking, sources = self._look()
        for source in map(self._graph.nodes.__getitem__, holding_back(self._graph)):
            try:
                measure_waiting(self._graph, source)
            except Exception as error:
                raise OperatorError(source, error) from error
        said = [self._tell_again(node, admission) for node in asking]
        asked = [(s, wanted) for s, wanted in sources if lull or s.operator.due(s.clock.now(), wanted)]
        said += [self._enable(source, admission, wanted) for source, wanted in asked]
        said += [self._enable(source, admission, _any) for source in self._in_turn()]
        return any(said)

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
        return [source for source, _ in self._look()[1]]

    def wakes(self) -> Iterator[tuple[Clock, int]]:
        """When clocks alone bring time as far as somebody waits for it."""
        for source, wanted in self._look()[1]:
            wake = source.operator.wake_for(wanted)
            if wake is not None:
                yield source.clock, wake
        if (every := self._enabling.every) is not None:
            for clock in self._graph.clocks:
                yield clock, (self._turns.get(clock, clock.now() // every) + 1) * every

    def _look(self) -> tuple[list[Node], list[tuple[Node, Wanted]]]:
        """Backtrack from all that hold something: the nodes on the way, and the sources at its ends.

        With each source comes what is wanted of it.
        """
        way: dict[str, Node] = {}
        asked: dict[str, list[Wanted]] = {}

        def back(node: Node, wanted: Wanted, seen: set[str]) -> None:
            if node.label in seen:
                return
            seen.add(node.label)
            way[node.label] = node
            for n in node.operator.blocking(node.arcs):
                feed = node.feeds[n]
                if node.inputs[n].waiting:
                    continue
                if node.operator.answers or (feed is None and self._enabling.asked):
                    asked.setdefault(node.label, []).append(wanted)
                elif feed is not None:
                    feeder = self._graph.nodes[feed[0]]
                    back(feeder, feeder.operator.asks(wanted), seen)

        for node in self._graph:
            if node.operator.holds(node.arcs):
                back(node, node.operator.wanted, set())
        for label, tick in holding_back(self._graph).items():
            if self._enabling.asked and not len(self._graph.nodes[label].inputs[0]):
                asked.setdefault(label, []).append(_as_far_as(tick))
        return list(way.values()), [(self._graph.nodes[s], _least_of(wants)) for s, wants in asked.items()]

    def _tell_again(self, node: Node, admission: int) -> bool:
        """A query that came later has missed what was said before: tell it what its feeder knows."""
        told = False
        for queue, feed in zip(node.arcs, node.feeds, strict=True):
            if feed is None or queue.waiting:
                continue
            known = self._graph.nodes[feed[0]].times.get(feed[1], Punctuation.NONE)
            if queue.time.joined(known) is not queue.time:
                queue.push(Entry(known, admission))
                told = True
        return told

    def _enable(self, source: Node, admission: int, wanted: Wanted) -> bool:
        said, admission = False, source.last_admission(admission)

        def emit(element: Element, port: str = MAIN) -> None:
            nonlocal said
            said |= source.send(element, admission, port)

        try:
            source.operator.enable(source.clock.now(), emit, wanted)
        except Exception as error:
            raise OperatorError(source, error) from error
        return said


def _any(tick: int) -> int | None:
    """All the clock allows, whoever waits for it."""
    return tick + 1


def _as_far_as(held: int) -> Wanted:
    """The last row of a page that is held back."""
    return lambda tick: held if held > tick else None


def _least_of(wants: list[Wanted]) -> Wanted:
    """What is wanted first by some of them."""
    if len(wants) == 1:
        return wants[0]
    return lambda tick: min((found for wanted in wants if (found := wanted(tick)) is not None), default=None)
