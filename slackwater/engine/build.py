"""From a plan to operators on arcs: equal parts of running queries are one part.

A filter or projection of the same rows runs once, however many queries have it. Each window aggregate belongs to
its query, because it begins with the pages that come after the query's start. It shares the work on a page
(`SharedFold`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from slackwater.engine.executor import Executor
from slackwater.engine.graph import Feed
from slackwater.errors import RunError
from slackwater.estimates.early import Early
from slackwater.estimates.prod_timing import ProdTiming
from slackwater.operators.map import Map
from slackwater.operators.nested_aggregate import NestedAggregate
from slackwater.operators.operator import LATE, MAIN, Operator
from slackwater.operators.prodder import Prodder
from slackwater.operators.results_as_rows import ResultsAsRows
from slackwater.operators.rolling_aggregate import RollingAggregate
from slackwater.operators.rolling_by_source import RollingBySource
from slackwater.operators.select import Select
from slackwater.operators.shared_fold import SharedFold
from slackwater.operators.sink import Output, Sink
from slackwater.operators.source import Follower, Source
from slackwater.operators.where import Where
from slackwater.operators.window_aggregate import WindowAggregate
from slackwater.plan.describe import line
from slackwater.plan.nodes import (
    MapNode,
    PlanNode,
    ResultsNode,
    RollingNode,
    SelectNode,
    StreamNode,
    WhereNode,
    WindowNode,
    aggregates_of,
    answering,
)
from slackwater.progress.clock import Clock
from slackwater.windows.sideline import Sideline


def source_label(stream: str) -> str:
    """Label of a stream's source."""
    return f"source:{stream}"


def aggregate_labels(name: str, plan: PlanNode) -> list[str]:
    """Labels of a query's aggregates, the topmost first."""
    return [_aggregate_label(name, level) for level in range(len(aggregates_of(plan)))]


def _aggregate_label(name: str, level: int) -> str:
    return f"{name}/inner{level}" if level else f"{name}/window"


@dataclass(frozen=True)
class Settings:
    """How a query is run."""

    late: Output | None = None
    resident_limit: int = 256 * 2**20
    clock: Clock | None = None
    """That of the replay that it reads; without it, the executor's own."""
    early: Early | None = None
    sideline: Sideline | None = None
    labels: dict[str, str] = field(default_factory=dict)
    """Labels that the journal knows the query's parts by; some may be another query's."""
    reserved: frozenset[str] = frozenset()
    """Labels that the journal keeps for other queries."""


def add_query(
    executor: Executor, name: str, plan: PlanNode, output: Output, settings: Settings | None = None
) -> dict[str, str]:
    """Add a query's operators behind its streams' sources.

    Gives the labels of the parts that it may share with others, by their place in the plan.
    """
    build = _Build(executor, name, plan, settings or Settings())
    try:
        return build.all(output)
    except BaseException:
        # A sink may fail at what a crash has left for it; the query can be started again.
        remove_query(executor, name)
        raise


def remove_query(executor: Executor, name: str) -> None:
    """Take a query out; parts that others have too stay."""
    executor.remove(name)


class _Build:
    """The building of one query."""

    def __init__(self, executor: Executor, name: str, plan: PlanNode, settings: Settings) -> None:
        self._executor = executor
        self._parts = executor.parts
        self._name = name
        self._plan = plan
        self._settings = settings
        self._places = count()
        self._labels: dict[str, str] = {}
        self._sources: list[str] = []
        self._aggregates = aggregates_of(plan)
        self._specs = [a.kernel.spec for a in self._aggregates if isinstance(a, WindowNode)]
        """Windows of the aggregates, the topmost first; none where that has a window for each row."""
        if len(self._specs) < len(self._aggregates):
            self._specs = []
        self._timing, self._prodder = self._early()

    def _early(self) -> tuple[ProdTiming | None, Prodder | None]:
        top = answering(self._plan)
        if not isinstance(top, WindowNode):
            return None, None
        # It is there also without early=: a restart may add or leave that out.
        wanted = self._settings.early or Early()
        # The aggregate learns how accurate early answers were, the prodder prods by it.
        timing = ProdTiming(wanted.offset(top.kernel.spec, top.domain), top.kernel.spec.slide, wanted.accuracy)
        label = f"{self._name}/prodder"
        return timing, Prodder(label, self._name, self._specs[::-1], top.domain, timing, wanted)

    def all(self, output: Output) -> dict[str, str]:
        if self._prodder is not None:
            asks = "asks only when prodded" if self._settings.early is None else self._settings.early.describe()
            self._executor.add(self._prodder, None, self._name, asks, self._settings.clock)
        top, clock = self._node(self._plan, 0), self._settings.clock or self._executor.clock
        if self._settings.late is not None:
            label = _aggregate_label(self._name, len(self._aggregates) - 1)
            late = Sink(f"{self._name}/late", self._settings.late, clock)
            self._executor.add(late, [(label, LATE)], self._name, "late rows")
        sink = Sink(f"{self._name}/sink", output, clock)
        self._executor.add(sink, [top], self._name, "sink")
        if self._prodder is not None:
            watcher = self._executor.graph.nodes[self._prodder.label]
            for source in self._sources:
                self._executor.graph.nodes[source].watchers.append(watcher)
        return self._labels

    def _node(self, node: PlanNode, level: int) -> Feed:
        """The operators of a node and all below it, at this level of nested aggregates."""
        if isinstance(node, StreamNode):
            return self._source(node)
        if isinstance(node, (WindowNode, RollingNode)):
            return self._aggregate(node, level)
        below = level + 1 if isinstance(node, ResultsNode) else level
        feed = self._node(node.inputs[0], below)
        if isinstance(node, WhereNode):
            return self._part(f"where{next(self._places)}", feed, node, lambda label: Where(label, node.condition))
        if isinstance(node, SelectNode):
            early = None if node.early is None else dict(node.early)
            return self._part(
                f"select{next(self._places)}", feed, node, lambda label: Select(label, dict(node.columns), early)
            )
        if isinstance(node, ResultsNode):
            return self._part(f"rows{level}", feed, node, lambda label: ResultsAsRows(label, node))
        assert isinstance(node, MapNode)
        sideline = self._settings.sideline
        specs = self._specs[level::-1]
        # What is set aside goes by the windows of one query.
        mine = self._name if sideline is not None else None
        place = f"map{next(self._places)}"
        return self._part(place, feed, node, lambda label: Map(label, node, specs, sideline), mine)

    def _part(
        self, place: str, feed: Feed, node: PlanNode, make: Callable[[str], Operator], mine: str | None = None
    ) -> Feed:
        """The operator for a node behind a feed: the one that is there, or a new one."""
        part, graph = (feed, _alone(node), mine), self._executor.graph
        label, known = self._parts.labels.get(part), self._settings.labels.get(place)
        if label is None or (known is not None and known != label):
            label = self._new_label(place)
            self._executor.add(make(label), [feed], self._name, line(node))
            self._parts.labels[part] = label
        graph.nodes[label].queries.add(self._name)
        self._labels[place] = label
        return label, MAIN

    def _new_label(self, place: str) -> str:
        """The label that the journal knows a part by, or one that nobody has."""
        known, graph = self._settings.labels.get(place), self._executor.graph
        if known is not None:
            if known in graph:
                others = ", ".join(sorted(graph.nodes[known].queries))
                raise RunError(
                    f"query {self._name!r}: by the journal it shares {known} with {others}, where it is something "
                    "else now; start the queries as they were, with the same functions and settings"
                )
            return known
        label = f"{self._name}/{place}"
        while label in graph or label in self._settings.reserved:
            label += "'"  # a query of the same name has been here
        return label

    def _aggregate(self, node: WindowNode | RollingNode, level: int) -> Feed:
        executor, label, settings = self._executor, _aggregate_label(self._name, level), self._settings
        feed = self._node(node.inputs[0], level)
        pages, limit, inner = executor.pages, settings.resident_limit, level > 0
        clock = settings.clock or executor.clock
        assert pages is not None
        late = settings.late is not None
        operator: Operator
        if isinstance(node, RollingNode):
            rolling = RollingAggregate if node.kernel.source is None else RollingBySource
            operator = rolling(label, node, clock, pages, limit, late)
        elif node is self._aggregates[-1]:
            fold = self._parts.folds.setdefault(feed, SharedFold())
            operator = WindowAggregate(
                label, node, clock, pages, limit, late, settings.early, self._timing, inner, fold
            )
        else:
            operator = NestedAggregate(label, node, clock, pages, limit, inner)
        executor.add(operator, [feed], self._name, line(node))
        return label, MAIN

    def _source(self, stream: StreamNode) -> Feed:
        """The stream's source, made if it is not there, and the port of the query's policy."""
        label, executor = source_label(stream.name), self._executor
        if label not in executor.graph:
            source = Source(label, stream.disorder.tracker(stream.domain), stream.disorder.needs)
            executor.add(source, about=line(stream), clock=self._settings.clock)
        node = executor.graph.nodes[label]
        node.queries.add(self._name)
        operator = node.operator
        assert isinstance(operator, Source)
        first = self._aggregates[-1] if self._aggregates else None
        policy = stream.disorder if first is None or first.disorder is None else first.disorder
        by_source = first is not None and first.kernel.source is not None
        port = MAIN if policy == stream.disorder else policy.describe()
        teller = self._name if first is None else _aggregate_label(self._name, len(self._aggregates) - 1)
        reach = sum(a.kernel.spec.range for a in self._aggregates if isinstance(a, WindowNode))
        follower = Follower(teller, policy.needs, by_source, reach)
        operator.follow(self._name, port, policy.tracker(stream.domain), follower)
        self._sources.append(label)
        return label, port


def _alone(node: PlanNode) -> object:
    """What a node does, without where its rows come from: that is said by its feed."""
    if isinstance(node, WhereNode):
        return "where", node.condition
    if isinstance(node, SelectNode):
        return "select", node.columns, node.early
    if isinstance(node, ResultsNode):
        return "rows"
    assert isinstance(node, MapNode)
    return "map", id(node.function), node.columns
