"""Checks a stream that is bounded by another one (S1 section 2): is that one declared, and of the same time?"""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.errors import QueryError, did_you_mean
from slackwater.plan.nodes import StreamNode
from slackwater.progress.bounds.behind import Behind
from slackwater.progress.time_kinds import Latent


def check_behind(stream: StreamNode, others: Iterable[tuple[StreamNode, bool]], replayed: bool) -> None:
    """Refuse a bound by a stream that cannot give one.

    `others` are the declared streams, and whether each is replayed.
    """
    policy = stream.disorder
    if not isinstance(policy, Behind):
        return
    declared = {node.name: (node, of_replay) for node, of_replay in others if node.name != stream.declared}
    what = f"stream {stream.declared!r}: {policy.describe()}"
    if policy.stream == stream.declared:
        raise QueryError(
            f"{what} names the stream itself; write what its own rows promise as own=, as in "
            "own=sw.bounded('5 seconds')"
        )
    if policy.stream not in declared:
        hint = did_you_mean(policy.stream, declared)
        raise QueryError(
            f"{what} names no stream that is declared{hint}; declare {policy.stream!r} before {stream.declared!r}, "
            "so that promises cannot go in a circle"
        )
    if stream.of and stream.name.partition("#")[0] != stream.of:
        raise QueryError(f"{what} speaks of the stream's time, not of another attribute; write another disorder=")
    other, of_replay = declared[policy.stream]
    if other.domain != stream.domain:
        raise QueryError(
            f"{what}: times must be of one kind, but {stream.declared!r} has {stream.domain.value}s and "
            f"{other.name!r} has {other.domain.value}s"
        )
    if isinstance(other.disorder, Latent):
        raise QueryError(f"{what}: the rows of {other.name!r} have latent time, which promises nothing of others")
    if of_replay != replayed:
        raise QueryError(f"{what}: a replay has a clock of its own; replay both streams, or none")
