"""Where the stream's source is among the group columns of a query (D4)."""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.plan.identifiers import bare
from slackwater.plan.node import PlanNode
from slackwater.windows.kernel import Group


def source_group(node: PlanNode, groups: Iterable[Group]) -> str | None:
    """The name of the group column that is the stream's source; None if there is none.

    A group is recognised by the text of its expression, followed through the projections before the window. What a
    Python function gives under the source's name is taken for the source: a group closes by the heartbeat of the
    source that it names. In a union it must be the source of every input.
    """
    return next((group.name for group in groups if node.is_source(bare(group.sql))), None)
