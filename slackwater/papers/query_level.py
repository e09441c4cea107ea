"""Heartbeats at the level of queries (S1 section 7.1)."""

from __future__ import annotations

from typing import ClassVar

from slackwater.calls import called
from slackwater.scheduling.heartbeats import HEARTBEATS, Plan, StreamLabel, Streams, common_streams, streams_below
from slackwater.scheduling.paths import readers


class QueryLevel:
    """Section 7.1, the naïve method: all pages of a query wait for the least heartbeat of all its streams.

    They wait where they come in. A part that queries have in common goes by the streams that all of them have;
    what belongs to one of them alone waits behind it for the rest.
    """

    name: ClassVar[str] = "query level"

    def labels(self, plan: Plan) -> dict[str, StreamLabel]:
        """The streams of the whole query for each of its operators."""
        below, above, streams = streams_below(plan), readers(plan), dict[str, Streams]()
        for label in reversed(list(plan)):
            streams[label] = common_streams([streams[reader] for reader in above[label]] or [below[label]])
        enters = {
            label: bool(step.streams) or any(streams[i] != streams[label] for i in step.inputs)
            for label, step in plan.items()
        }
        return {label: StreamLabel(of, enters[label]) for label, of in streams.items()}


@called()
def query_level() -> QueryLevel:
    """All pages of a query wait for its slowest stream; to compare. For `Session(heartbeat_scope=…)`."""
    return QueryLevel()


HEARTBEATS["query_level"] = query_level
