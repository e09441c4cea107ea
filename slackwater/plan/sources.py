"""Where the stream's source is among the group columns of a query (D4)."""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.columns import PLAIN_NAME
from slackwater.plan.nodes import JoinNode, MapNode, PlanNode, ResultsNode, SelectNode, StoredNode, StreamNode
from slackwater.windows.kernel import Group


def source_group(node: PlanNode, groups: Iterable[Group]) -> str | None:
    """The name of the group column that is the stream's source; None if there is none.

    A group is recognised by the text of its expression, followed through the projections before the window. What a
    Python function gives under the source's name is taken for the source: a group closes by the heartbeat of the
    source that it names. In a union it must be the source of every input.
    """
    for group in groups:
        if _is_source(node, _bare(group.sql)):
            return group.name
    return None


def _is_source(node: PlanNode, text: str) -> bool:
    if isinstance(node, StreamNode):
        return node.source is not None and text == _bare(node.source)
    if isinstance(node, JoinNode):
        return False  # a pair has come by two streams; time is kept for both together
    if isinstance(node, StoredNode):
        text = next((_bare(sql) for name, sql in node.columns if column_text(name) == text), "")
    if isinstance(node, ResultsNode):
        source = node.inputs[0].kernel.source
        return source is not None and text == column_text(source)
    if isinstance(node, (MapNode, SelectNode)):
        columns = {column_text(name): sql for name, sql in node.columns}
        if text not in columns:
            return False
        text = _bare(columns[text]) if isinstance(node, SelectNode) else text
    return all(_is_source(below, text) for below in node.inputs)


def column_text(name: str) -> str:
    """A column's name as the text that means it, the same for all ways to write it.

    >>> column_text("Station"), column_text("a.b")
    ('station', '`a.b`')
    """
    return name.lower() if PLAIN_NAME.match(name) else f"`{name.lower()}`"


def _bare(sql: str) -> str:
    """An expression; a name in the form of `column_text`."""
    text = sql.strip()
    quoted = text.startswith("`") and text.endswith("`") and "`" not in text[1:-1]
    return column_text(text[1:-1]) if quoted else text.lower() if PLAIN_NAME.match(text) else text
