"""A running query: its results, its figures, and the way to stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.errors import RunError
from slackwater.plan.explain import explain
from slackwater.plan.nodes import PlanNode, streams_of
from slackwater.spark.storage.sinks import MemorySink

if TYPE_CHECKING:
    from slackwater.spark.api.query import Query
    from slackwater.spark.api.session import Session


class Run:
    """Made by `Query.start`."""

    def __init__(self, session: Session, name: str, query: Query, sink: object, routes_late: bool) -> None:
        self.name = name
        self.query = query
        self.plan: PlanNode = query.plan
        self.active = True
        self.ended = False
        """Whether it has been taken out of the graph."""
        self._last: dict[str, Any] | None = None
        self.routes_late = routes_late
        self._session = session
        self.sink = sink

    def results(self) -> pa.Table:
        """All results so far, for a query that was started without a sink."""
        if not isinstance(self.sink, MemorySink):
            raise RunError(
                f"query {self.name!r} writes to a sink; read the results there, or start it with sink=None"
            )
        return self.sink.table()

    def metrics(self) -> dict[str, Any]:
        """Figures of the run.

        Heartbeat and its lag, rows, how late rows come (`lateness`, in seconds for timestamps), what the disorder
        policy has to say (`policy`), what was lost and to which sources and windows, state, queues, time in Spark.
        """
        return self._session._metrics(self) if self._last is None else self._last

    def explain(self) -> str:
        """The operators of the query as text, each with its heartbeat, what waits before it and what it costs."""
        return explain(self.metrics()["operators"], self.name)

    def prod(self, until: object = None, where: str | None = None) -> None:
        """Ask for an answer now (S5): early results of the open windows, from what has arrived.

        `until` restricts it to windows that end by then (a time of the stream: a datetime or text for timestamps, a
        number else), `where` to groups, by a condition on the group columns. The answer goes to the query's sink.
        """
        self._session._prod(self, until, where)

    def await_termination(self) -> None:
        """Wait until the streams of this query end; an error that stopped it is raised."""
        for stream in self.streams:
            self._session._wait(stream)

    def stop(self) -> None:
        """Stop the query; its stream stops with the last query that reads it."""
        if self.active:
            self._last = self.metrics()
            self.active = False
            self._session._stop_run(self)

    @property
    def streams(self) -> list[str]:
        """Names of the streams that it reads."""
        return [stream.name for stream in streams_of(self.plan)]
