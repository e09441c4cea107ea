"""From a plan to operators on arcs: a stream's source is shared, everything behind it belongs to one query."""

from __future__ import annotations

from itertools import count

from slackwater.engine.executor import Executor
from slackwater.estimates.early import Early
from slackwater.estimates.prod_timing import ProdTiming
from slackwater.operators.map import Map
from slackwater.operators.nested_aggregate import NestedAggregate
from slackwater.operators.operator import LATE, MAIN, Operator
from slackwater.operators.prodder import Prodder
from slackwater.operators.results_as_rows import Nesting, ResultsAsRows
from slackwater.operators.rolling_aggregate import RollingAggregate, SpillRecords
from slackwater.operators.select import Select
from slackwater.operators.sink import Output, Sink
from slackwater.operators.source import Source
from slackwater.operators.where import Where
from slackwater.operators.window_aggregate import Spill, WindowAggregate
from slackwater.plan.nodes import (
    MapNode,
    QueryNode,
    ResultsNode,
    RollingNode,
    RowNode,
    SelectNode,
    StreamNode,
    WindowNode,
    first_query,
    inner_query,
    stream_of,
)
from slackwater.progress.disorder import Disorder
from slackwater.windows.sideline import Sideline
from slackwater.windows.spec import WindowSpec


def source_label(stream: str) -> str:
    """Label of a stream's source."""
    return f"source:{stream}"


def aggregate_labels(name: str, plan: QueryNode) -> list[str]:
    """Labels of a query's aggregates, the topmost first."""
    labels, inner = [f"{name}/window"], inner_query(plan)
    while inner is not None:
        labels.append(f"{name}/inner{len(labels)}")
        inner = inner_query(inner)
    return labels


def add_query(
    executor: Executor,
    name: str,
    plan: QueryNode,
    output: Output,
    late: Output | None = None,
    spill: Spill | None = None,
    resident_limit: int = 256 * 2**20,
    spill_records: SpillRecords | None = None,
    early: Early | None = None,
    nesting: Nesting | None = None,
    sideline: Sideline | None = None,
) -> list[str]:
    """Add a query's operators behind its stream's source; gives the labels of those that are its own."""
    labels: list[str] = []
    places = count()

    def add(operator: Operator, feeds: list[tuple[str, str]]) -> str:
        executor.add(operator, feeds)
        labels.append(operator.label)
        return operator.label

    def rows(node: RowNode, level: int) -> tuple[str, str]:
        if isinstance(node, StreamNode):
            feed = _follow(executor, node, names[-1], first.disorder, by_source)
            return feed if prodder is None else (add(prodder, [feed]), MAIN)
        if isinstance(node, ResultsNode):
            assert nesting is not None
            feed = aggregate(node.input, level + 1)
            return add(ResultsAsRows(f"{name}/rows{level}", node, executor.clock, nesting), [feed]), MAIN
        feed = rows(node.input, level)
        if isinstance(node, SelectNode):
            return add(Select(f"{name}/select{next(places)}", dict(node.columns)), [feed]), MAIN
        if isinstance(node, MapNode):
            return add(Map(f"{name}/map{next(places)}", node, specs[level::-1], sideline), [feed]), MAIN
        return add(Where(f"{name}/where{next(places)}", node.condition), [feed]), MAIN

    def aggregate(node: QueryNode, level: int) -> tuple[str, str]:
        label, clock, inner = names[level], executor.clock, level > 0
        own = nesting.spill(level) if inner and nesting is not None else spill
        operator: Operator
        if isinstance(node, RollingNode):
            operator = RollingAggregate(label, node, clock, spill_records, resident_limit, late is not None)
        elif node is first:
            operator = WindowAggregate(
                label, node, clock, own, resident_limit, late is not None, early, timing, inner
            )
        else:
            operator = NestedAggregate(label, node, clock, own, resident_limit, inner)
        return add(operator, [rows(node.input, level)]), MAIN

    names, first = aggregate_labels(name, plan), first_query(plan)
    specs = _window_specs(plan)
    by_source = isinstance(first, WindowNode) and first.kernel.source is not None
    prodder: Prodder | None = None
    timing: ProdTiming | None = None
    if isinstance(plan, WindowNode):
        # It is there also without early=: what waits on the arcs of a journal must find them all again.
        spec, domain, wanted = plan.kernel.spec, stream_of(plan).domain, early or Early()
        # The aggregate learns how accurate early answers were, the prodder prods by it.
        timing = ProdTiming(wanted.offset(spec, domain), spec.slide, wanted.accuracy)
        prodder = Prodder(f"{name}/prodder", specs[::-1], domain, timing, wanted)
    try:
        top = aggregate(plan, 0)
        if late is not None:
            add(Sink(f"{name}/late", late), [(names[-1], LATE)])
        add(Sink(f"{name}/sink", output), [top])
    except BaseException:
        # A sink may fail at what a crash has left for it; the query can be started again.
        for label in [label for label in executor.graph.nodes if label.startswith(f"{name}/")]:
            executor.graph.remove(label)
        raise
    return labels


def _window_specs(plan: QueryNode) -> list[WindowSpec]:
    """Windows of a query's aggregates, the topmost first; none where that has a window for each row."""
    specs, query = list[WindowSpec](), plan if isinstance(plan, WindowNode) else None
    while query is not None:
        specs.append(query.kernel.spec)
        query = inner_query(query)
    return specs


def _follow(
    executor: Executor, stream: StreamNode, query: str, own: Disorder | None, by_source: bool
) -> tuple[str, str]:
    """The stream's source, made if it is not there, and the port with the punctuations of a query's policy."""
    label = source_label(stream.name)
    if label not in executor.graph:
        executor.add(Source(label, stream.disorder.tracker(stream.domain), stream.disorder.needs))
    source = executor.graph.nodes[label].operator
    assert isinstance(source, Source)
    policy = stream.disorder if own is None else own
    port = MAIN if policy == stream.disorder else policy.describe()
    source.follow(query, port, policy.tracker(stream.domain), policy.needs, by_source)
    return label, port
