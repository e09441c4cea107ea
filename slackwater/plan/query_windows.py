"""The windows of a query: the one that answers, and those between a stream and the end of the plan."""

from __future__ import annotations

from collections.abc import Iterator

from slackwater.plan.node import PlanNode, answering
from slackwater.plan.nodes import AggregateNode, WindowNode
from slackwater.windows.spec import WindowSpec


def answering_window(plan: PlanNode) -> WindowNode | None:
    """The one window whose results a query gives, if early answers can be asked of it."""
    top = answering(plan)
    return None if top is None else top.as_window()


def specs_of(aggregates: tuple[AggregateNode, ...]) -> list[WindowSpec]:
    """The windows of some aggregates; an empty list if one of them has a window for each row."""
    windows = [window for aggregate in aggregates if (window := aggregate.as_window()) is not None]
    return [window.kernel.spec for window in windows] if len(windows) == len(aggregates) else []


def window_paths(node: PlanNode, above: tuple[AggregateNode, ...] = ()) -> Iterator[list[WindowSpec]]:
    """The windows on each path from the end of a plan to a stream."""
    above = (*above, *filter(None, [node.as_aggregate()]))
    if node.as_stream() is not None:
        yield specs_of(above)
    for below in node.inputs:
        yield from window_paths(below, above)
