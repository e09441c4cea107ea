"""From a plan to operators on arcs: a stream's source is shared, everything behind it belongs to one query."""

from __future__ import annotations

from slackwater.engine.executor import Executor
from slackwater.operators.operator import LATE, MAIN, Operator
from slackwater.operators.rolling_aggregate import RollingAggregate, SpillRecords
from slackwater.operators.select import Select
from slackwater.operators.sink import Output, Sink
from slackwater.operators.source import Source
from slackwater.operators.where import Where
from slackwater.operators.window_aggregate import Spill, WindowAggregate
from slackwater.plan.nodes import QueryNode, RollingNode, RowNode, SelectNode, StreamNode


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
) -> list[str]:
    """Add a query's operators behind its stream's source; gives the labels of those that are its own."""
    labels: list[str] = []

    def add(operator: Operator, feeds: list[tuple[str, str]]) -> str:
        executor.add(operator, feeds)
        labels.append(operator.label)
        return operator.label

    def rows(node: RowNode) -> str:
        if isinstance(node, StreamNode):
            label = source_label(node.name)
            if label not in executor.graph:
                executor.add(Source(label, node.disorder.tracker(node.domain)))
            return label
        feed = rows(node.input)
        if isinstance(node, SelectNode):
            return add(Select(f"{name}/select{len(labels)}", dict(node.columns)), [(feed, MAIN)])
        return add(Where(f"{name}/where{len(labels)}", node.condition), [(feed, MAIN)])

    feed = rows(plan.input)
    window: Operator
    if isinstance(plan, RollingNode):
        window = RollingAggregate(
            f"{name}/window", plan, executor.clock, spill_records, resident_limit, late is not None
        )
    else:
        window = WindowAggregate(f"{name}/window", plan, executor.clock, spill, resident_limit, late is not None)
    add(window, [(feed, MAIN)])
    if late is not None:
        add(Sink(f"{name}/late", late), [(window.label, LATE)])
    add(Sink(f"{name}/sink", output), [(window.label, MAIN)])
    return labels
