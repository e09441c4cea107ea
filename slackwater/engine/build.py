"""From a plan to operators on arcs: a stream's source is shared, everything behind it belongs to one query."""

from __future__ import annotations

from slackwater.engine.executor import Executor
from slackwater.operators.map import Map
from slackwater.operators.operator import LATE, MAIN, Operator
from slackwater.operators.prodder import Prodder
from slackwater.operators.rolling_aggregate import RollingAggregate, SpillRecords
from slackwater.operators.select import Select
from slackwater.operators.sink import Output, Sink
from slackwater.operators.source import Source
from slackwater.operators.where import Where
from slackwater.operators.window_aggregate import Spill, WindowAggregate
from slackwater.plan.nodes import (
    MapNode,
    QueryNode,
    RollingNode,
    RowNode,
    SelectNode,
    StreamNode,
    WindowNode,
    stream_of,
)
from slackwater.progress.disorder import Disorder
from slackwater.windows.aim import Aim
from slackwater.windows.early import Early
from slackwater.windows.sideline import Sideline


def source_label(stream: str) -> str:
    """Label of a stream's source."""
    return f"source:{stream}"


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
    sideline: Sideline | None = None,
) -> list[str]:
    """Add a query's operators behind its stream's source; gives the labels of those that are its own."""
    labels: list[str] = []

    def add(operator: Operator, feeds: list[tuple[str, str]]) -> str:
        executor.add(operator, feeds)
        labels.append(operator.label)
        return operator.label

    def rows(node: RowNode) -> tuple[str, str]:
        if isinstance(node, StreamNode):
            feed = _follow(executor, node, window.label, plan.disorder, by_source)
            return feed if prodder is None else (add(prodder, [feed]), MAIN)
        feed = rows(node.input)
        if isinstance(node, SelectNode):
            return add(Select(f"{name}/select{len(labels)}", dict(node.columns)), [feed]), MAIN
        if isinstance(node, MapNode):
            spec = plan.kernel.spec if isinstance(plan, WindowNode) else None
            return add(Map(f"{name}/map{len(labels)}", node, spec, sideline), [feed]), MAIN
        return add(Where(f"{name}/where{len(labels)}", node.condition), [feed]), MAIN

    window: Operator
    prodder: Prodder | None = None
    if isinstance(plan, RollingNode):
        by_source = False
        window = RollingAggregate(
            f"{name}/window", plan, executor.clock, spill_records, resident_limit, late is not None
        )
    else:
        by_source = plan.kernel.source is not None
        spec, domain = plan.kernel.spec, stream_of(plan).domain
        # One learns how accurate early answers were, the other prods by it.
        aim = None if early is None else Aim(early.offset(spec, domain), spec.slide, early.accuracy)
        window = WindowAggregate(
            f"{name}/window", plan, executor.clock, spill, resident_limit, late is not None, early, aim
        )
        if early is not None and aim is not None:
            prodder = Prodder(f"{name}/prodder", spec, domain, aim, early.every)
    add(window, [rows(plan.input)])
    if late is not None:
        add(Sink(f"{name}/late", late), [(window.label, LATE)])
    add(Sink(f"{name}/sink", output), [(window.label, MAIN)])
    return labels


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
