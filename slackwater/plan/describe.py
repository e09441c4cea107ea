"""A plan as text: for people, for errors, and as the signature that a journal remembers."""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.columns import TWIN
from slackwater.plan.nodes import (
    Alive,
    JoinNode,
    MapNode,
    PlanNode,
    ResultsNode,
    RollingNode,
    SelectNode,
    StampNode,
    StoredNode,
    StreamNode,
    UnionNode,
    WhereNode,
    WindowNode,
)
from slackwater.progress.time import TimeDomain
from slackwater.windows.per_row.rolling import RollingSpec
from slackwater.windows.spec import WindowSpec


def describe(node: PlanNode) -> str:
    """A plan, inputs first, one line a step; equal plans give equal text."""
    lines = [describe(below) for below in node.inputs]
    return "\n".join([*lines, *([] if isinstance(node, ResultsNode) else [line(node)])])


def line(node: PlanNode) -> str:
    """What one node does."""
    if isinstance(node, StreamNode):
        columns = ", ".join(f"{name} {kind}" for name, kind in node.columns)
        return (
            f"stream {node.name} ({columns}) time {node.written_time} [{node.domain.value}] "
            f"disorder {node.disorder.describe()}" + (f" source {node.source}" if node.source else "")
        )
    if isinstance(node, ResultsNode):
        return "results as rows"
    if isinstance(node, WhereNode):
        return f"where {node.condition}"
    if isinstance(node, StampNode):
        return "stamp with the clock's time"
    if isinstance(node, UnionNode):
        return f"union of {len(node.inputs)}"
    if isinstance(node, JoinNode):
        alive = " and ".join(_alive(side, node.domain) for side in node.sides)
        return f"{node.how} join on {node.written} of {alive}"
    if isinstance(node, StoredNode):
        columns = _named((name.removeprefix(TWIN), sql) for name, sql in node.stored)
        columns = f" ({columns})" if " = " in columns else ""
        return f"{node.how} join with {node.table}{columns} on {node.written}"
    if isinstance(node, SelectNode):
        return "select " + _named(node.columns)
    if isinstance(node, MapNode):
        return f"map {node.name} to " + ", ".join(f"{name} {kind}" for name, kind in node.columns)
    assert isinstance(node, (WindowNode, RollingNode))
    groups = _named((g.name, g.sql) for g in node.kernel.groups)
    aggregates = _named((a.name, a.text) for a in node.kernel.aggregates)
    by = f" group by {groups}" if groups else ""
    if isinstance(node, RollingNode):
        window = _rolling(node.kernel.spec, node.domain)
    else:
        window = _window(node.kernel.spec, node.domain)
    own = "" if node.disorder is None else f" disorder {node.disorder.describe()}"
    return f"window {window}{own}{by}\nagg {aggregates}"


def _alive(side: Alive, domain: TimeDomain) -> str:
    if side.rows is not None:
        return f"{side.rows} rows"
    return "pairs" if side.range is None else f"range {domain.show_span(side.range)}"


def _named(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(name if sql in (name, f"`{name}`") else f"{name} = {sql}" for name, sql in columns)


def _window(spec: WindowSpec, domain: TimeDomain) -> str:
    offset = f" offset {domain.show_span(spec.offset)}" if spec.offset else ""
    return f"range {domain.show_span(spec.range)} slide {domain.show_span(spec.slide)}{offset}"


def _rolling(spec: RollingSpec, domain: TimeDomain) -> str:
    length = f"{spec.rows} rows" if spec.range is None else f"range {domain.show_span(spec.range)}"
    return f"{length}, for each row"
