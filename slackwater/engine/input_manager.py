"""The input managers of all operators (S1 section 7): pages wait until the streams of a label have come to them.

Labels are assigned anew when operators come or go, or when a selectivity has changed. Between that each operator
looks at the heartbeats of its label's streams and nowhere else. A page is presented as a whole, when the least of
these heartbeats has come to its last row; what follows it on its arc keeps its place. The streams that hold it back
are asked how far they are (`Demand`), so it waits no longer than they are silent.
"""

from __future__ import annotations

from slackwater.engine.failure import OperatorError
from slackwater.engine.graph import Graph, Node
from slackwater.operators.operator import LATE
from slackwater.scheduling.heartbeats import Heartbeats, OperatorLevel, Plan, PlanStep, StreamLabel

#: A selectivity that changes by less than this share leaves the labels as they are.
_SAME = 0.01


class InputManager:
    """Assigns labels, and presents the pages whose time has come."""

    def __init__(self, graph: Graph, heartbeats: Heartbeats) -> None:
        self.heartbeats = heartbeats
        self._graph = graph
        self._changes = 0
        """`Graph.changes` when labels were last assigned."""
        self._went_by: dict[str, float | None] = {}
        """The selectivities that they were assigned by."""

    @property
    def holds_back(self) -> bool:
        """Whether pages may have to wait for the streams of a label."""
        return not isinstance(self.heartbeats, OperatorLevel)

    def ran(self, node: Node) -> None:
        """An operator has run, and may not be as selective as it was."""
        if not self.holds_back:
            return  # at operator level no label depends on it
        before, now = self._went_by.get(node.label), node.measured.selectivity
        if now is not None and (before is None or abs(now - before) > _SAME * before):
            self._changes = -1

    def present(self) -> None:
        """Present what the heartbeats have come to."""
        self.assign()
        for node in self._graph.managed:
            heartbeat = self._graph.heartbeat(node.goes_by.streams)
            for queue in node.arcs:
                if queue.held:
                    try:
                        queue.present(heartbeat)
                    except Exception as error:
                        raise OperatorError(node, error) from error

    def assign(self) -> None:
        """Assign labels, if something has changed that they depend on."""
        if self._changes == self._graph.changes:
            return
        self._changes = self._graph.changes
        plan = _plan_of(self._graph)
        self._went_by = {label: step.selectivity for label, step in plan.items()}
        labels = self.heartbeats.labels(plan)
        for node in self._graph:
            node.goes_by = labels.get(node.label, StreamLabel())
            for queue in node.arcs:
                queue.hold_back(node.goes_by.waits)
        self._graph.managed = [node for node in self._graph if node.goes_by.waits]


def holding_back(graph: Graph) -> dict[str, int]:
    """The sources of the streams that hold pages back, and how far time must come there for the first of them."""
    found: dict[str, int] = {}
    for node in graph.managed:
        times = [queue.held[0].highest(graph.pages) for queue in node.arcs if queue.held]
        for time in times:
            for stream in node.goes_by.streams if time is not None else ():
                if time is not None and graph.heartbeat([stream]) < time:
                    found[stream[0]] = min(time, found.get(stream[0], time))
    return found


def measure_waiting(graph: Graph, source: Node) -> None:
    """Have a source know the times of its pages that wait where only time helps: nothing else will run on them."""
    for node in graph:
        stuck = not node.operator.has_work(node.inputs)
        for queue in node.arcs:
            for entry in queue if stuck else queue.held:
                if entry.source == source.label and not node.is_source:
                    entry.highest(graph.pages)


def _plan_of(graph: Graph) -> Plan:
    """The operators behind sources; late rows are no part of a plan."""
    plan: dict[str, PlanStep] = {}
    for node in graph:
        if node.is_source or not node.feeds:
            continue
        feeds = [feed for feed in node.feeds if feed is not None and feed[1] != LATE]
        streams = frozenset(feed for feed in feeds if graph.nodes[feed[0]].is_source)
        inputs = tuple(feed[0] for feed in feeds if feed not in streams)
        plan[node.label] = PlanStep(inputs, streams, node.operator.ordered, node.measured.selectivity)
    return plan
