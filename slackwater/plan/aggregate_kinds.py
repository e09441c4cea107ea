"""The plan node of an aggregate, by its window."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from slackwater.aggregates.aggregate import AggregateFunction
from slackwater.plan import logical as L
from slackwater.plan.group_source import punctuated_group, source_group
from slackwater.plan.node import PlanNode, streams_of
from slackwater.plan.nodes import AggregateNode, WindowNode
from slackwater.plan.window_kinds import RollingNode, SessionNode, TotalNode
from slackwater.plan.window_specs import fill_of
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.per_row.rolling import RollingKernel, RollingSpec
from slackwater.windows.results import result_schema
from slackwater.windows.sessions import SessionSpec
from slackwater.windows.spec import WindowSpec
from slackwater.windows.totals import EndlessSpec, read_forget


def aggregate_node(
    node: PlanNode,
    spec: WindowSpec | RollingSpec,
    window: L.Window,
    groups: tuple[Group, ...],
    aggregates: tuple[AggregateFunction, ...],
    kinds: Callable[[PaneKernel], list[pa.DataType]],
) -> AggregateNode:
    """The node over these rows; `kinds` checks a kernel, and gives the types of its groups."""
    own = None if window.wattr is not None else window.disorder
    if own is not None:
        own = next((s.policy(own) for s in streams_of(node) if s.live), own)
    own = None if all(stream.disorder == own for stream in streams_of(node)) else own
    panes = WindowSpec(1, 1) if isinstance(spec, RollingSpec) else spec
    source = source_group(node, groups)
    if own is None and window.wattr is None and not isinstance(spec, (RollingSpec, EndlessSpec)):
        source, own = punctuated_group(node, groups) or (source, None)
    kernel = PaneKernel(panes, groups, aggregates, source)
    schema = result_schema(kernel, node.domain, kinds(kernel))
    if isinstance(spec, EndlessSpec):
        return TotalNode((node,), kernel, schema, forget=read_forget(window.forget, groups, node.domain))
    fill = fill_of(node, window, spec)
    if isinstance(spec, SessionSpec):
        return SessionNode((node,), kernel, schema, own)
    if isinstance(spec, RollingSpec):
        return RollingNode((node,), RollingKernel(spec, groups, aggregates, source), schema, own)
    return WindowNode((node,), kernel, schema, own, fill)
