"""A plan as text: for people, for errors, and as the signature that a journal remembers."""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.plan.nodes import (
    MapNode,
    QueryNode,
    ResultsNode,
    RollingNode,
    RowNode,
    SelectNode,
    StreamNode,
    WhereNode,
    stream_of,
)
from slackwater.progress.time import TimeDomain
from slackwater.windows.per_row.rolling import RollingSpec
from slackwater.windows.spec import WindowSpec


def describe(node: QueryNode | RowNode) -> str:
    """One line a node, from the stream to the answer; equal plans give equal text."""
    if isinstance(node, StreamNode):
        columns = ", ".join(f"{name} {kind}" for name, kind in node.columns)
        return (
            f"stream {node.name} ({columns}) time {node.written_time} [{node.domain.value}] "
            f"disorder {node.disorder.describe()}" + (f" source {node.source}" if node.source else "")
        )
    above = describe(node.input)
    if isinstance(node, ResultsNode):
        return above
    if isinstance(node, WhereNode):
        return f"{above}\nwhere {node.condition}"
    if isinstance(node, SelectNode):
        return f"{above}\nselect " + _named(node.columns)
    if isinstance(node, MapNode):
        return f"{above}\nmap {node.name} to " + ", ".join(f"{name} {kind}" for name, kind in node.columns)
    groups = _named((g.name, g.sql) for g in node.kernel.groups)
    aggregates = _named((a.name, a.text) for a in node.kernel.aggregates)
    by = f" group by {groups}" if groups else ""
    domain = stream_of(node).domain
    if isinstance(node, RollingNode):
        window = _rolling(node.kernel.spec, domain)
    else:
        window = _window(node.kernel.spec, domain)
    own = "" if node.disorder is None else f" disorder {node.disorder.describe()}"
    return f"{above}\nwindow {window}{own}{by}\nagg {aggregates}"


def _named(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(name if sql in (name, f"`{name}`") else f"{name} = {sql}" for name, sql in columns)


def _window(spec: WindowSpec, domain: TimeDomain) -> str:
    offset = f" offset {domain.show_span(spec.offset)}" if spec.offset else ""
    return f"range {domain.show_span(spec.range)} slide {domain.show_span(spec.slide)}{offset}"


def _rolling(spec: RollingSpec, domain: TimeDomain) -> str:
    length = f"{spec.rows} rows" if spec.range is None else f"range {domain.show_span(spec.range)}"
    return f"{length}, for each row"
