"""Where the stream's source is among the group columns of a query (D4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slackwater.plan.identifiers import bare
from slackwater.plan.node import PlanNode, streams_of
from slackwater.progress.bounds.punctuated import Punctuated
from slackwater.windows.kernel import Group


def source_group(node: PlanNode, groups: Iterable[Group]) -> str | None:
    """The name of the group column that is the stream's source; None if there is none.

    A group is recognised by the text of its expression, followed through the projections before the window. What a
    Python function gives under the source's name is taken for the source: a group closes by the heartbeat of the
    source that it names. In a union it must be the source of every input.
    """
    return next((group.name for group in groups if node.is_source(bare(group.sql))), None)


def punctuated_group(node: PlanNode, groups: Sequence[Group]) -> tuple[str, Punctuated] | None:
    """The first attribute of which punctuations speak that is a group column, and the policy that goes by it.

    In a union the punctuations of all streams speak of it in the same way.
    """
    policies = {stream.disorder for stream in streams_of(node)}
    policy = policies.pop() if len(policies) == 1 and not node.over_results else None
    for attribute in policy.on if isinstance(policy, Punctuated) else ():
        assert isinstance(policy, Punctuated)
        if (name := source_group(_with_source(node, attribute), groups)) is not None:
            return name, replace(policy, by=attribute)
    return None


def _with_source(node: PlanNode, attribute: str) -> PlanNode:
    stream = node.as_stream()
    if stream is not None:
        return replace(stream, source=attribute)
    return node.over(tuple(_with_source(below, attribute) for below in node.inputs))
