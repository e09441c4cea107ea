"""The operators that could run now. A step looks at those whose queues have changed, not at all of them."""

from __future__ import annotations

from collections.abc import Callable

from slackwater.engine.graph import Graph, Node
from slackwater.scheduling.strategy import Ready


class ReadyNodes:
    """Ready nodes in the order of the graph, with their records for the strategy."""

    def __init__(self, graph: Graph, describe: Callable[[Node], Ready]) -> None:
        self._graph = graph
        self._describe = describe
        self._changed = graph.observe()
        self._changes = -1
        """`Graph.changes` when all nodes were last looked at."""
        self._nodes: list[Node] = []
        self._records: dict[Node, Ready] = {}
        """Records that stay valid until the node changes."""

    def nodes(self) -> list[Node]:
        """The operators that have something to do."""
        if self._changes != self._graph.changes:
            self._changes = self._graph.changes
            self._records.clear()
            self._nodes = [node for node in self._graph if _ready(node)]
        elif self._changed:
            for node in self._changed:
                self._records.pop(node, None)
            same = [node for node in self._nodes if node not in self._changed]
            self._nodes = sorted([*same, *filter(_ready, self._changed)], key=lambda node: node.place)
        self._changed.clear()
        return self._nodes

    def forget(self) -> None:
        """A commit may have saved pages that wait: records are made anew."""
        self._records.clear()

    def record(self, node: Node) -> Ready:
        """What a strategy sees of a ready node."""
        record = self._records.get(node)
        if record is None:
            record = self._describe(node)
            # Without a change of this queue, waits become longer, and a page that another operator works on may
            # become known in size.
            if not record.waits and all(entry.sized for queue in node.inputs for entry in queue):
                self._records[node] = record
        return record


def _ready(node: Node) -> bool:
    return node.operator.has_work(node.inputs) or node.operator.has_idle_work(node.inputs)
