"""How pages begin on Spark: rows that a source hands over, rows that stay where it has them, results."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from slackwater.columns import NO_SOURCE, PUNCTUATION, SOURCE, TIME
from slackwater.engine.build import source_label
from slackwater.operators.page import CachedRows, DriverRows, Origin, Page, SavedRows, SourceRows
from slackwater.operators.payload import Payload, Staged
from slackwater.operators.prod import Prod
from slackwater.plan.nodes import AggregateNode, StreamNode
from slackwater.plan.step import Columns
from slackwater.progress.arrival import Arrival
from slackwater.progress.time import TimeDomain
from slackwater.spark.backend.locations.location import RowLocation
from slackwater.spark.backend.opened import timed
from slackwater.windows.results import WINDOW_END


def arrived(
    frame: DataFrame,
    node: StreamNode,
    number: int,
    at: int,
    columns: Sequence[str] = ("*",),
    size: int | None = None,
) -> Page:
    """A page as it comes from a source, with some of its columns."""
    hidden = _hidden(node)
    rows = CachedRows(timed(frame, columns, hidden), tuple(name for name, _ in hidden))
    return Page(Origin(source_label(node.name), number), rows, at=at, size=size)


def by_reference(
    reference: RowLocation,
    node: StreamNode,
    number: int,
    at: int,
    folder: str,
    columns: Sequence[str],
    needs: frozenset[str] = frozenset(),
) -> Page:
    """A page of rows that stay where they are; `folder` is where a note of it will lie, which makes it durable."""
    where = json.dumps(reference.saved())
    location = SourceRows(node.name, reference.kind, where, tuple(columns), _hidden(node), folder)
    origin = Origin(source_label(node.name), number)
    return Page(origin, location, at=at, needs=needs, size=reference.bytes)


def of_payload(origin: Origin, payload: Payload, at: int, hidden: Columns = (), prod: Prod | None = None) -> Page:
    """A page of rows that were made for it: in the driver, where a sink takes them as they are, or as files."""
    if isinstance(payload, Staged):
        location, arrival = SavedRows(payload.location, hidden, True), Arrival(payload.rows, 0, None, None, at)
        return Page(origin, location, prod=prod, at=at, arrival=arrival)
    assert isinstance(payload, pa.Table)
    arrival = Arrival(payload.num_rows, 0, None, None, at)
    return Page(origin, DriverRows(payload, hidden), (), prod, at, arrival=arrival, size=int(payload.nbytes))


def times_of(results: Payload, node: AggregateNode) -> tuple[int, int] | None:
    """The lowest and the highest time of results in the driver."""
    if not isinstance(results, pa.Table) or results[WINDOW_END].null_count == results.num_rows:
        return None  # totals have no time
    ends = pc.min_max(results[WINDOW_END])
    return _tick(ends["min"], node.end_lag), _tick(ends["max"], node.end_lag)


def results_hidden(node: AggregateNode) -> Columns:
    """Spark SQL of the hidden columns of results: the last tick of a window, or the time of a row of its own."""
    domain = node.domain
    ends = f"CAST({WINDOW_END} AS BIGINT)"
    if domain is TimeDomain.TIMESTAMP:
        ends = f"unix_micros({WINDOW_END})"
    elif domain.scale is not None:
        ends = f"CAST({WINDOW_END} * {10**domain.scale}BD AS BIGINT)"
    hidden = {TIME: f"{ends} - {node.end_lag}L" if node.end_lag else ends}
    source = node.kernel.source
    if source is not None:
        hidden[SOURCE] = f"coalesce(CAST(`{source}` AS STRING), '{NO_SOURCE}')"
    return tuple(hidden.items())


def _tick(end: pa.Scalar, lag: int) -> int:
    """The time of a result, from the end of its window."""
    if pa.types.is_timestamp(end.type):
        return int(end.value) - lag
    if pa.types.is_decimal(end.type):
        return int(end.as_py().scaleb(end.type.scale)) - lag
    return int(end.as_py()) - lag


def _hidden(node: StreamNode) -> Columns:
    """Spark SQL of the hidden columns of a stream's rows."""
    hidden = {TIME: node.time}
    if node.source is not None:
        hidden[SOURCE] = f"coalesce(CAST({node.source} AS STRING), '{NO_SOURCE}')"
    if node.punctuation is not None:
        hidden[PUNCTUATION] = node.punctuation
    return tuple(hidden.items())
