"""Demand (S3 section 3): from an operator that holds something, back along the input that blocks it.

It stops where something waits, for that is run first; it ends at sources with nothing in them, and these send an
enabling timestamp. Nobody else is asked.
"""

from __future__ import annotations

from slackwater.engine.failure import OperatorError
from slackwater.engine.graph import Graph, Node
from slackwater.engine.queue import Entry
from slackwater.operators.element import Element
from slackwater.operators.operator import MAIN
from slackwater.progress.punctuation import Punctuation


class Demand:
    """Finds the sources that somebody waits for, and asks them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def ask(self, admission: int, lull: bool) -> bool:
        """Ask the sources that operators wait for; whether one had something to say.

        While others are busy, a source is asked only if it is likely to know something new.
        """
        asking, sources = self._look()
        said = [self._tell_again(node, admission) for node in asking]
        asked = [s for s in sources if lull or s.operator.due(s.clock.now())]
        said += [self._enable(source, admission) for source in asked]
        return any(said)

    def sources(self) -> list[Node]:
        """The sources at the ends of all demands, each once."""
        return self._look()[1]

    def _look(self) -> tuple[list[Node], list[Node]]:
        """Backtrack from all that hold something: the nodes on the way, and the sources at its ends."""
        way: dict[str, Node] = {}
        sources: dict[str, Node] = {}

        def back(node: Node) -> None:
            if node.label in way:
                return
            way[node.label] = node
            for n in node.operator.blocking(node.arcs):
                feed = node.feeds[n]
                if len(node.inputs[n]):
                    continue
                if feed is None:
                    sources[node.label] = node
                else:
                    back(self._graph.nodes[feed[0]])

        for node in self._graph:
            if node.operator.holds(node.arcs):
                back(node)
        return list(way.values()), list(sources.values())

    def _tell_again(self, node: Node, admission: int) -> bool:
        """A query that came later has missed what was said before: tell it what its feeder knows."""
        told = False
        for queue, feed in zip(node.arcs, node.feeds, strict=True):
            if feed is None or len(queue):
                continue
            known = self._graph.nodes[feed[0]].times.get(feed[1], Punctuation.NONE)
            if queue.time.joined(known) is not queue.time:
                queue.push(Entry(known, admission))
                told = True
        return told

    def _enable(self, source: Node, admission: int) -> bool:
        said, admission = False, source.last_admission(admission)

        def emit(element: Element, port: str = MAIN) -> None:
            nonlocal said
            said |= source.send(element, admission, port)

        try:
            source.operator.enable(source.clock.now(), emit)
        except Exception as error:
            raise OperatorError(source, error) from error
        return said
