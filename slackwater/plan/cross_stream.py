"""Checks bounds between streams (S1 section 2): are the streams declared, of the same time, and of one clock?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slackwater.errors import QueryError, did_you_mean
from slackwater.plan.nodes import StreamNode
from slackwater.progress.bounds.between_streams import StreamBounds, read_stream_bounds
from slackwater.progress.disorder import Disorder
from slackwater.progress.time_kinds import Latent, is_stamped


def with_bounds(
    declared: Mapping[str, StreamNode], policy: Disorder, streams: Sequence[str] | None
) -> dict[str, StreamNode]:
    """The streams that bounds speak of, each with what they say of it; refuses bounds that cannot hold.

    A stream whose rows the session stamps is only a source of promises: its own time is the clock's.
    """
    first = next((node for name, node in declared.items() if streams is None or name in streams), None)
    if first is None:
        raise QueryError("bounds: no stream is declared; declare the streams first, with s.stream(…)")
    policy, names = read_stream_bounds(policy, streams, first.domain, first.live)
    nodes = [_declared(declared, name) for name in names]
    _check_alike(nodes)
    return {
        node.name: node
        if is_stamped(node.disorder)
        else replace(node, bounds=StreamBounds(node.name, names, policy))
        for node in nodes
    }


def _declared(declared: Mapping[str, StreamNode], name: str) -> StreamNode:
    if name not in declared:
        raise QueryError(
            f"bounds: there is no stream {name!r}{did_you_mean(name, declared)}; declare all streams before their "
            "bounds"
        )
    node = declared[name]
    if isinstance(node.disorder, Latent):
        raise QueryError(f"bounds: the rows of {name!r} have latent time, which promises nothing of others")
    if node.bounds is not None:
        raise QueryError(f"bounds: stream {name!r} has bounds already; write all bounds of a stream in one call")
    return node


def _check_alike(nodes: Sequence[StreamNode]) -> None:
    first = nodes[0]
    for other in nodes[1:]:
        if other.domain != first.domain:
            raise QueryError(
                f"bounds: times must be of one kind, but {first.name!r} has {first.domain.value}s and "
                f"{other.name!r} has {other.domain.value}s"
            )
        if other.live != first.live:
            raise QueryError(
                f"bounds: {first.name!r} and {other.name!r}: a replay has a clock of its own; replay all streams, "
                "or none"
            )
