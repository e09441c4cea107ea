"""Where the stream's source is among the group columns of a query (D4)."""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.plan.nodes import MapNode, PlanNode, ResultsNode, SelectNode, StreamNode
from slackwater.windows.kernel import Group


def source_group(node: PlanNode, groups: Iterable[Group]) -> str | None:
    """The name of the group column that is the stream's source; None if there is none.

    A group is recognised by the text of its expression, followed through the projections before the window. What a
    Python function gives under the source's name is taken for the source: a group closes by the heartbeat of the
    source that it names.
    """
    for group in groups:
        if _is_source(node, _bare(group.sql)):
            return group.name
    return None


def _is_source(node: PlanNode, text: str) -> bool:
    while not isinstance(node, StreamNode):
        if isinstance(node, ResultsNode):
            return text == node.inputs[0].kernel.source
        if isinstance(node, MapNode) and text not in dict(node.columns):
            return False
        if isinstance(node, SelectNode):
            columns = dict(node.columns)
            if text not in columns:
                return False
            text = _bare(columns[text])
        node = node.inputs[0]
    return node.source is not None and text == _bare(node.source)


def _bare(sql: str) -> str:
    text = sql.strip()
    return text[1:-1] if text.startswith("`") and text.endswith("`") and "`" not in text[1:-1] else text
