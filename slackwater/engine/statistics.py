"""What operators have cost of late, told to the strategy once a statistics window (S2 section 3)."""

from __future__ import annotations

from slackwater.engine.graph import Graph
from slackwater.operators.operator import LATE
from slackwater.scheduling.paths import Plan, Work
from slackwater.scheduling.strategy import Strategy

#: A statistics window is so many runs; the first ones are shorter.
WINDOW = 32


class Statistics:
    """Tells the strategy when operators come or go, and once a window."""

    def __init__(self, graph: Graph, strategy: Strategy) -> None:
        self._graph = graph
        self._strategy = strategy
        self._changes = -1
        """Of the graph, when the strategy was last told."""
        self._due = 0
        """The number of runs at which it is told again."""
        self._window = 1

    def tell(self, runs: int) -> None:
        """Tell it, if it is time: there have been so many runs."""
        if self._changes != self._graph.changes:
            self._changes, self._window = self._graph.changes, 1
        elif runs < self._due:
            return
        # The first pages teach most.
        self._due, self._window = runs + self._window, min(WINDOW, 2 * self._window)
        self._strategy.learn(plan_of(self._graph))


def plan_of(graph: Graph) -> Plan:
    """The operators on arcs, with what they have cost; late rows are no part of a plan."""
    plan: dict[str, Work] = {}
    for node in graph:
        feeds = [feed[0] for feed in node.feeds if feed is not None and feed[1] != LATE and feed[0] in plan]
        if node.is_source or feeds:
            of = node.measured
            plan[node.label] = Work(tuple(feeds), of.cost, of.selectivity, of.growth, of.width, of.longest)
    return plan
