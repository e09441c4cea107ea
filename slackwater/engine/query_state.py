"""The state of a query as a table: its open windows and groups, their values, and the heartbeat."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from slackwater.engine.graph import Graph
from slackwater.errors import RunError
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.windows.results import COMPLETENESS, EMITTED_AT, KIND

HEARTBEAT = "heartbeat"


def query_state(graph: Graph, query: str) -> pa.Table:
    """The open windows of the last aggregate of a query, with values as of now.

    `heartbeat` is the time up to which the aggregate has all rows, with the type of `window_end`. It is null before
    the first heartbeat and after the end of the stream.
    """
    found: tuple[pa.Table, int] | None = None
    for node in graph:
        if query in node.queries and (rows := node.operator.open_rows()) is not None:
            found = rows, min(queue.time.heartbeat.tick for queue in node.arcs)
    if found is None:
        raise RunError(
            f"state({query!r}): the query has no windows that end by time; see run.metrics() for what it keeps"
        )
    rows, beat = found
    rows = rows.drop_columns([c for c in (KIND, EMITTED_AT, COMPLETENESS) if c in rows.schema.names])
    kind = rows.schema.field("window_end").type
    return rows.append_column(pa.field(HEARTBEAT, kind), _constant(beat, kind, rows.num_rows))


def _constant(tick: int, kind: pa.DataType, rows: int) -> pa.Array:
    if tick in (MIN_TICK, MAX_TICK):
        return pa.nulls(rows, kind)
    if pa.types.is_decimal(kind):
        return pa.repeat(pa.scalar(Decimal(tick).scaleb(-kind.scale), kind), rows)
    return pa.repeat(pa.scalar(tick, kind), rows)
