"""Gives the strategy the recent costs of operators, once a statistics window (S2 section 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from slackwater.engine.calibration import Calibration, SampleSums
from slackwater.engine.graph import Graph, Node
from slackwater.engine.records import Ran
from slackwater.figures import Figures
from slackwater.operators.operator import LATE
from slackwater.scheduling.paths import PathWork, Plan, unit
from slackwater.scheduling.strategy import Strategy

#: A statistics window is this many runs, or one for each operator if there are more; the first ones are shorter.
WINDOW = 32
#: The figures that charts are made of.
CHARTED = ("cost", "selectivity", "growth", "width")


class Statistics:
    """Lets the strategy learn when operators come or go, and once a window."""

    def __init__(self, graph: Graph, strategy: Strategy, stopwatch: Callable[[], float]) -> None:
        self._calibration = Calibration(graph, stopwatch)
        self._graph = graph
        self._strategy = strategy
        self._plan: Plan = {}
        self._changes = -1
        """`Graph.changes` when the strategy last learned."""
        self._due = 0
        """The number of runs at which the strategy learns again."""
        self._window = 1

    def tell(self, runs: int) -> None:
        """Let the strategy learn, if enough runs have passed since it last did."""
        if self._changes != self._graph.changes:
            self._changes, self._window = self._graph.changes, 1
            self._calibration.forget_others()
        elif runs < self._due:
            return
        # The first pages teach most.
        longest = max(WINDOW, len(self._graph.nodes))
        self._due, self._window = runs + self._window, min(longest, 2 * self._window)
        plan = plan_of(self._graph, self._calibration.of)
        self._plan = with_jobs(self._graph, plan, self._calibration.job) if self._strategy.charts else plan
        self._strategy.learn(self._plan)

    def figures(self, label: str) -> Figures:
        """For a person: the strategy, the chain of an operator, and what is charted of it."""
        segment, work = self._strategy.segment(label), self._plan.get(label)
        return {
            "strategy": self._strategy.name,
            "chain": [] if segment is None else list(segment.labels),
            "slope": None if segment is None else segment.slope,
            "unit": unit(self._plan),
            "charted": {} if work is None else {name: getattr(work, name) for name in CHARTED},
        }

    def before(self, node: Node) -> None:
        """An operator is about to run."""
        if node.is_source and self._strategy.charts:
            self._calibration.look(node)

    def ran(self, run: Ran) -> None:
        """An operator has run."""
        self._calibration.worked(run.seconds)


def plan_of(graph: Graph, sampled: Mapping[str, SampleSums] | None = None) -> Plan:
    """The operators on arcs, with what they have cost; late rows are no part of a plan."""
    plan: dict[str, PathWork] = {}
    counted: dict[str, float] = {}
    """Rows before each operator, as pages count them, for each that a source has let in."""
    for node in graph:
        feeds = [feed[0] for feed in node.feeds if feed is not None and feed[1] != LATE and feed[0] in plan]
        if not node.is_source and not feeds:
            continue
        work = plan[node.label] = _work(node, feeds)
        below = [counted[label] * (plan[label].selectivity or 1.0) for label in feeds if plan[label].inputs]
        counted[node.label] = max(below, default=1.0)
        sample = (sampled or {}).get(node.label)
        if sample is not None and sample.growth is not None:
            # What its own runs take, and what it adds to those of others.
            cost = (work.cost or 0.0) + sample.cost / counted[node.label]
            plan[node.label] = replace(work, cost=cost, growth=sample.growth, width=sample.width)
    for source in [label for label, work in plan.items() if not work.inputs and work.width is None]:
        widths = [work.width for work in plan.values() if source in work.inputs and work.width is not None]
        plan[source] = replace(plan[source], width=max(widths, default=None))
    return plan


def with_jobs(graph: Graph, plan: Plan, job: float) -> Plan:
    """The plan with the fixed cost of jobs where it belongs; `job` is the seconds of an empty one.

    The job of the reader does the work of operators that extend pages. If a chain ends between them, they need a
    job of their own. So the first of them has the cost of that job, and the reader only what is left of its own.
    Together they cost what they cost in one job. They become one chain if that frees more a second than two.
    """
    adjusted = dict(plan)
    for node in [n for n in graph if n.label in plan and not (n.is_source or n.operator.extends)]:
        extending = _extending_before(graph, node)
        rows, cost = node.measured.page_rows, plan[node.label].cost
        if not extending or not rows or not cost:
            continue
        first = extending[-1]
        page = first.measured.page_rows or rows
        alone = max(job, *((each.measured.hold_cost or 0.0) * page for each in extending))
        share = max(each.measured.held_share for each in extending)
        left = max(0.05 * cost, cost - (share * job + (1 - share) * alone) / rows)
        adjusted[node.label] = replace(adjusted[node.label], cost=left)
        before = plan[first.label].cost or 0.0
        adjusted[first.label] = replace(adjusted[first.label], cost=before + alone / page)
    return adjusted


def _extending_before(graph: Graph, node: Node) -> list[Node]:
    """The operators before one that only extend its pages, the nearest first."""
    extending = list[Node]()
    while True:
        before = (graph.nodes[feed[0]] for feed in node.feeds if feed is not None)
        nearest = next((each for each in before if each.operator.extends), None)
        if nearest is None:
            return extending
        extending.append(nearest)
        node = nearest


def _work(node: Node, feeds: Sequence[str]) -> PathWork:
    measured = node.measured
    return PathWork(
        tuple(feeds), _cost(node), measured.selectivity, measured.growth, measured.width, measured.longest
    )


def _cost(node: Node) -> float | None:
    """Seconds a row. Where rows had not been counted yet, they were by an operator behind it, on the same pages."""
    behind = [node]
    for each in behind:
        rows = each.measured.rows_of_late
        if rows:
            return node.measured.seconds_of_late / rows
        behind += [arc.to for arcs in each.outputs.values() for arc in arcs]
    return None
