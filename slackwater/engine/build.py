"""From a plan to operators on arcs: equal parts of running queries are one part.

A filter or projection of the same rows runs once, however many queries have it. Each window aggregate belongs to
its query, because it begins with the pages after the query's start; it shares the work on a page (`SharedFold`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar

from slackwater.engine.executor import Executor
from slackwater.engine.graph import Feed
from slackwater.engine.prodders import mark_early_pairs, prodders
from slackwater.engine.query_labels import labels_of
from slackwater.engine.result_sink import result_sink
from slackwater.engine.settings import QuerySettings
from slackwater.errors import RunError
from slackwater.operators.asof_join import AsofJoin
from slackwater.operators.correcting_aggregate import CorrectingAggregate
from slackwater.operators.deduplicate import Deduplicate
from slackwater.operators.extend import Extend, ExtendAnswers
from slackwater.operators.in_order import InOrder
from slackwater.operators.label import Label
from slackwater.operators.map import MapPages
from slackwater.operators.nested_aggregate import NestedAggregate
from slackwater.operators.operator import LATE, MAIN, Operator
from slackwater.operators.pages import Pages
from slackwater.operators.policy_port import Subscription
from slackwater.operators.rolling_aggregate import RollingAggregate
from slackwater.operators.rows_join import RowsJoin
from slackwater.operators.running_totals import RunningTotals
from slackwater.operators.session_aggregate import SessionAggregate
from slackwater.operators.shared_fold import SharedFold
from slackwater.operators.signal_reader import SignalReader
from slackwater.operators.sink import Output, Sink
from slackwater.operators.source import Source
from slackwater.operators.stamp import ClockStamp
from slackwater.operators.stream_union import StreamUnion
from slackwater.operators.window_aggregate import WindowAggregate
from slackwater.operators.window_join import WindowJoin
from slackwater.operators.window_settings import WindowSettings
from slackwater.plan.asof import AsofNode
from slackwater.plan.column_use import columns_of_joins, narrowed
from slackwater.plan.distinct import DistinctNode
from slackwater.plan.join_node import JoinNode
from slackwater.plan.map_node import MapNode
from slackwater.plan.node import PlanNode, expensive_nodes, first_aggregates, reach_of, walk
from slackwater.plan.nodes import (
    AggregateNode,
    StampNode,
    StepNode,
    StreamNode,
    WindowNode,
)
from slackwater.plan.query_windows import specs_of
from slackwater.plan.step import Columns
from slackwater.plan.union_node import OrderNode, UnionNode
from slackwater.plan.window_kinds import GapNode, RollingNode, SessionNode, TotalNode
from slackwater.progress.ahead import read_ahead
from slackwater.progress.clock import Clock

A = TypeVar("A", bound=AggregateNode)
#: The aggregates above a node, the topmost first.
Above = tuple[AggregateNode, ...]


def source_label(stream: str) -> Label:
    """Label of a stream's source."""
    return Label.of_source(stream)


def add_query(
    executor: Executor, name: str, plan: PlanNode, output: Output, settings: QuerySettings | None = None
) -> dict[str, Label]:
    """Add a query's operators behind its streams' sources.

    Gives the labels of the parts that it may share with others, by their place in the plan.
    """
    build = QueryBuild(executor, name, plan, settings or QuerySettings())
    try:
        return build.all(output)
    except BaseException:
        # A sink may fail at what a crash has left for it; the query can be started again.
        executor.withdraw(name)
        raise


class QueryBuild:
    """The building of one query."""

    def __init__(self, executor: Executor, name: str, plan: PlanNode, settings: QuerySettings) -> None:
        self._executor = executor
        self._shared = executor.shared
        self._name = name
        self._plan = plan
        self._settings = settings
        self._places = count()
        self._labels: dict[str, Label] = {}
        self._sources: dict[Label, None] = {}
        self._windows = labels_of(name, plan)
        self._of_joins = columns_of_joins(plan)
        self._built: dict[int, Feed] = {}
        """The aggregates that are there already, by identity."""
        self._overtaken = set[int]() if settings.sideline is None else {id(n) for n in expensive_nodes(plan)}
        """The nodes that prods overtake, by identity."""
        self._answers = {id(node) for node in plan.answers()}
        self._prodders, self._timings = prodders(name, plan, settings.early, self.label_of)

    def all(self, output: Output) -> dict[str, Label]:
        asks = "asks only when prodded" if self._settings.early is None else self._settings.early.describe()
        for prodder in self._prodders:
            self._executor.add(prodder, None, self._name, asks, self._settings.clock)
        clock = self.clock
        # Rows without a time have no order: they get one where order is asked for.
        stamped = self._settings.ordered and self._plan.latent
        top = self.feed(mark_early_pairs(StampNode((self._plan,)) if stamped else self._plan), ())
        if self._settings.late is not None:
            late = Sink(Label(self._name, LATE), self._settings.late, clock)
            self._executor.add(late, [(label, LATE) for label in self._take_rows()], self._name, "late rows")
        if self._settings.ordered:
            top = self._in_order(top, clock)
        sink = result_sink(self._name, self._plan, output, clock)
        self._executor.add(sink, [top], self._name, "sink")
        for source in self._sources:
            watchers = self._executor.graph.nodes[source].watchers
            watchers += [self._executor.graph.nodes[prodder.label] for prodder in self._prodders]
        return self._labels

    def _take_rows(self) -> list[Label]:
        """The operators with late rows: an ordered union, joins, the aggregate of streams, `drop_duplicates`."""
        order = [label for place, label in self._labels.items() if place.startswith("union-order")]
        if order:
            return order
        distinct = [label for place, label in self._labels.items() if place.startswith("distinct")]
        (first,) = {None if node is None else id(node) for _, node in first_aggregates(self._plan)}
        if first is not None:
            return [self._windows[first], *distinct]
        return [label for place, label in self._labels.items() if place.startswith("join")] + distinct

    def _in_order(self, feed: Feed, clock: Clock) -> Feed:
        label = Label(self._name, "order")
        rows = self.pages.stores.in_order(label, self._plan.schema)
        self._executor.add(InOrder(label, clock, rows), [feed], self._name, "in the order of time")
        return label, MAIN

    def feed(self, node: PlanNode, above: Above) -> Feed:
        """The operators of a node and all below it, under these aggregates, the topmost first."""
        return _BUILDERS[type(node)](self, node, above)

    def _feeds(self, node: PlanNode, above: Above) -> list[Feed]:
        return [self.feed(below, above) for below in node.inputs]

    @property
    def clock(self) -> Clock:
        """That of the replay that the query reads, or the executor's."""
        return self._settings.clock or self._executor.clock

    @property
    def pages(self) -> Pages:
        """What makes pages and stores."""
        return self._executor.pages

    def label_of(self, aggregate: AggregateNode) -> str:
        """The label of an aggregate's operator."""
        return self._windows[id(aggregate)]

    def union(self, node: UnionNode, above: Above) -> Feed:
        """One union for the same inputs."""
        feeds = self._feeds(node, above)
        return self.part(self.place("union"), feeds, node, StreamUnion)

    def order(self, node: OrderNode, above: Above) -> Feed:
        """Rows in order, in the middle of a plan."""
        late, feeds = self._settings.late is not None, self._feeds(node, above)
        label = self.place("union-order")

        def make(label: Label) -> Operator:
            return InOrder(label, self.clock, self.pages.stores.in_order(label, node.schema), False, late)

        return self.part(label, feeds, node, make, self._name if late else None)

    def stamp(self, node: StampNode, above: Above) -> Feed:
        """By the query's clock."""
        feeds = self._feeds(node, above)
        return self.part(self.place("stamp"), feeds, node, lambda label: ClockStamp(label, self.clock))

    def step(self, node: StepNode, above: Above) -> Feed:
        """Every step has the same operator."""
        if id(node) in self._overtaken:
            return self.map(node, above)
        feeds = self._feeds(node, above)
        place = self._rows_place(len(above) - 1) if node.step.makes_rows else self.place(node.step.kind)
        make = ExtendAnswers if node.inputs[0].answers() else Extend
        return self.part(place, feeds, node, lambda label: make(label, node.step))

    def distinct(self, node: DistinctNode, above: Above) -> Feed:
        """Once for the same rows and keys, unless a query takes its late rows."""
        feeds, limit, late = self._feeds(node, above), self._settings.resident_limit, self._settings.late
        make = partial(Deduplicate, node=node, limit=limit, route_late=late is not None)
        return self.part(self.place("distinct"), feeds, node, make, None if late is None else self._name)

    def map(self, node: MapNode | StepNode, above: Above) -> Feed:
        """With a sideline it depends on the windows of one query, so no other query shares it."""
        sideline, specs, feeds = self._settings.sideline, specs_of(above)[::-1], self._feeds(node, above)
        owner = self._name if sideline is not None else None
        return self.part(
            self.place(node.step.kind), feeds, node, lambda label: MapPages(label, node, specs, sideline), owner
        )

    def place(self, role: str) -> Label:
        """The label of the query's next node of a kind, if nobody shares it."""
        return Label(self._name, role, next(self._places))

    def _rows_place(self, level: int) -> Label:
        """Where results become rows of the aggregate at this level; a union has several such places."""
        first = Label(self._name, "rows", level)
        return first if first.place not in self._labels else self.place(f"{first.place}.")

    def part(
        self,
        own: Label,
        feeds: list[Feed],
        node: PlanNode,
        make: Callable[[Label], Operator],
        owner: str | None = None,
    ) -> Feed:
        """The operator for a node behind some feeds: the one that is there, or a new one.

        `own` is its label if it is new.
        """
        part, graph = (tuple(feeds), node.same_work(), owner), self._executor.graph
        label = self._shared.labels.get(part)
        if label is None or not self._may_share(label, self._settings.labels.get(own.place), node):
            label = self._new_label(own)
            self._executor.add(make(label), feeds, self._name, node.describe())
            self._shared.labels[part] = label
        graph.nodes[label].queries.add(self._name)
        self._labels[own.place] = label
        return label, MAIN

    def _may_share(self, label: Label, journaled: Label | None, node: PlanNode) -> bool:
        """Whether a part that is there may be this query's too; the journal may know it by another label.

        A join keeps rows, and a query sees none that came before it: it shares a join that has not seen any either.
        """
        if journaled is not None:
            return journaled == label
        return not node.keeps_rows or self._executor.is_new(label)

    def _new_label(self, own: Label) -> Label:
        """The label that the journal knows a part by, or one that nobody has."""
        journaled, graph = self._settings.labels.get(own.place), self._executor.graph
        if journaled is not None:
            if journaled in graph:
                others = ", ".join(sorted(graph.nodes[journaled].queries))
                raise RunError(
                    f"query {self._name!r}: by the journal it shares {journaled} with {others}, but these now do "
                    "something else there; start the queries as they were, with the same functions and settings"
                )
            return journaled
        while own in graph or own in self._settings.reserved:
            own = Label(own.query, f"{own.place}'")  # a query of the same name has been here
        return own

    def join(self, node: JoinNode, above: Above) -> Feed:
        """It gives the columns that its queries ask for: more than before if one more query shares it now."""
        feeds, wanted, joins = self._feeds(node, above), self._of_joins[id(node)], self._shared.joins
        late, owner = None, None
        if self._settings.late is not None:  # late rows have all columns, and go to a sink of this query
            late, owner = [node.late_columns(side) for side in (0, 1)], self._name
        feed = self.part(
            self.place("join"), feeds, node, lambda label: self._joining(label, narrowed(node, wanted), late), owner
        )
        label = feed[0]
        before = joins.get(label)
        joins[label] = narrowed(node, wanted if before is None else {*wanted, *before.schema.names})
        if before is not None and joins[label] != before:
            self._executor.exchange(self._joining(label, joins[label]))
        return feed

    def _joining(self, label: str, node: JoinNode, late: Sequence[Columns] | None = None) -> Operator:
        stores, asof = self.pages.stores, node.as_asof()
        if asof is not None:
            return AsofJoin(label, asof, self.clock, stores.asof_join(label, asof), late)
        if node.by_count:
            return RowsJoin(label, self.clock, stores.ordered_join(label, node))
        return WindowJoin(label, node, self.clock, stores.join(label, node), late)

    def window(self, node: WindowNode, above: Above) -> Feed:
        """Over results it is another operator: these come when windows close."""
        return self.aggregate(node, above, self._window)

    def rolling(self, node: RollingNode, above: Above) -> Feed:
        """A window for each row."""
        return self.aggregate(node, above, self._rolling)

    def aggregate(self, node: A, above: Above, make: Callable[[A, Above, Feed], Operator]) -> Feed:
        """The feed of an aggregate, made once: it belongs to its query, and may be read in two places of it."""
        if id(node) not in self._built:
            feed = self.feed(node.inputs[0], (*above, node))
            self._executor.add(make(node, above, feed), [feed], self._name, node.describe())
            self._built[id(node)] = self.label_of(node), MAIN
        return self._built[id(node)]

    def sessions(self, node: SessionNode, above: Above) -> Feed:
        """Sessions, over rows or results."""
        late, inner = self._settings.late is not None, id(node) not in self._answers
        label = self.label_of(node)
        return self.aggregate(node, above, lambda *_: SessionAggregate(label, node, self.clock, late, inner))

    def totals(self, node: TotalNode, above: Above) -> Feed:
        """Of rows without a window."""
        limit, label, folds = self._settings.resident_limit, self.label_of(node), self._shared.folds

        def make(node: TotalNode, above: Above, feed: Feed) -> Operator:
            return RunningTotals(label, node, self.clock, limit, folds.setdefault(feed, SharedFold()))

        return self.aggregate(node, above, make)

    def _rolling(self, node: RollingNode, above: Above, feed: Feed) -> Operator:
        limit, late = self._settings.resident_limit, self._settings.late is not None
        inner = id(node) not in self._answers
        return RollingAggregate(self.label_of(node), node, self.clock, limit, late, inner)

    def _window(self, node: WindowNode, above: Above, feed: Feed) -> Operator:
        query, label, inner = self._settings, self.label_of(node), id(node) not in self._answers
        late = query.late is not None and not node.passes_early_rows
        ahead = any(below.looks_ahead for below in walk(self._plan))
        settings = WindowSettings(
            query.resident_limit, late, query.early, None if inner else self._timings[label], inner, asks_all=ahead
        )
        if node.passes_early_rows:
            return NestedAggregate(label, node, self.clock, settings)
        kind = WindowAggregate if node.corrections is None else CorrectingAggregate
        return kind(label, node, self.clock, settings, self._shared.folds.setdefault(feed, SharedFold()))

    def source(self, stream: StreamNode, above: Above) -> Feed:
        """The stream's source, made if it is not there, and the port of the query's policy."""
        label, executor = source_label(stream.name), self._executor
        if label not in executor.graph:
            tracker, ahead = stream.fresh_tracker(stream.disorder), read_ahead(stream.ahead, stream.domain)
            needs, batching = stream.disorder.needs, executor.batching()
            reader = SignalReader.of(stream.punctuation, stream.signals)
            source = Source(label, tracker, needs, batching, ahead, stream.policy_text(), reader)
            executor.add(source, about=stream.describe(), clock=self._settings.clock)
        node = executor.graph.nodes[label]
        node.queries.add(self._name)
        operator = node.operator
        assert isinstance(operator, Source)
        first = above[-1] if above else None
        policy = stream.disorder if first is None or first.disorder is None else first.disorder
        by_source = first is not None and first.kernel.source is not None
        port = MAIN if policy == stream.disorder else policy.describe()
        reporter = self._name if first is None else self.label_of(first)
        follower = Subscription(reporter, policy.needs, by_source, reach_of(self._plan, stream) or 0)
        play = stream.name.removeprefix(stream.declared)  # in a replay the other streams are of the same play
        streams = stream.bounds.streams if stream.bounds else ()
        bound: dict[str, str] = {source_label(name + play): name for name in streams}
        operator.follow(self._name, port, stream.fresh_tracker(policy), follower, bound)
        sources: dict[str, Source] = {n.label: n.operator for n in executor.graph if isinstance(n.operator, Source)}
        for other in sources.values():
            other.listen(sources)
        self._sources[label] = None
        return label, port


#: Builds the operators of a node and all below it.
Builder = Callable[[Any, Any, Above], Feed]
#: The builder of each kind of node: the one table from kinds to operators.
_BUILDERS: dict[type[PlanNode], Builder] = {
    StreamNode: QueryBuild.source,
    StepNode: QueryBuild.step,
    GapNode: QueryBuild.step,
    MapNode: QueryBuild.map,
    DistinctNode: QueryBuild.distinct,
    StampNode: QueryBuild.stamp,
    OrderNode: QueryBuild.order,
    UnionNode: QueryBuild.union,
    JoinNode: QueryBuild.join,
    AsofNode: QueryBuild.join,
    WindowNode: QueryBuild.window,
    RollingNode: QueryBuild.rolling,
    SessionNode: QueryBuild.sessions,
    TotalNode: QueryBuild.totals,
}


def register(kind: type[PlanNode], builder: Builder) -> None:
    """Say how a kind of node is built."""
    _BUILDERS[kind] = builder


def node_kinds() -> list[type[PlanNode]]:
    """The kinds of nodes that can be built."""
    return list(_BUILDERS)
