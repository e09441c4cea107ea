"""How Spark pages begin: rows that a source hands over, rows that lie where a source has them, saved rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from slackwater.columns import NO_SOURCE, PUNCTUATION, SOURCE, TIME, UNTIL
from slackwater.operators.payload import Payload, Staged
from slackwater.operators.prod import Prod
from slackwater.plan.nodes import AggregateNode, StreamNode
from slackwater.progress.arrival import Arrival
from slackwater.progress.time import TimeDomain
from slackwater.spark.backend.compile import column, named
from slackwater.spark.backend.layout import TaskLayout
from slackwater.spark.backend.locations.location import RowLocation, source_errors_explained
from slackwater.spark.backend.locations.registry import referred
from slackwater.spark.backend.one_task import can_scan_in_one
from slackwater.spark.backend.origin import Origin
from slackwater.spark.backend.spark_page import SparkPage
from slackwater.spark.storage.types import spark_schema
from slackwater.windows.results import WINDOW_END

if TYPE_CHECKING:
    from slackwater.spark.backend.pages import SparkPages


def arrived(
    frame: DataFrame,
    node: StreamNode,
    number: int,
    at: int,
    shape: TaskLayout,
    pages: SparkPages,
    columns: Sequence[str] = ("*",),
    size: int | None = None,
) -> SparkPage:
    """A page as it comes from a source, with some of its columns."""
    hidden = _hidden(node)
    timed = _timed(frame, columns, hidden)
    return SparkPage(Origin(timed, number, at, shape, pages, tuple(hidden), size=size))


def by_reference(
    reference: RowLocation,
    node: StreamNode,
    number: int,
    at: int,
    folder: str,
    pages: SparkPages,
    columns: Sequence[str],
) -> SparkPage:
    """A page of rows that stay where they are; `folder` is where a note of it will lie, which makes it durable."""
    return load(
        pages,
        {
            "number": number,
            "folder": folder,
            "stream": node.name,
            reference.kind: reference.saved(),
            "columns": list(columns),
            "hidden": _hidden(node),
            "needs": [],
            "at": at,
            "bytes": reference.bytes,
        },
    )


def known(
    frame: DataFrame,
    number: int,
    hidden: Mapping[str, str],
    arrival: Arrival,
    shape: TaskLayout,
    pages: SparkPages,
    prod: Prod | None = None,
    saved: dict[str, Any] | None = None,
) -> SparkPage:
    """A page of which all is known that a job could tell."""
    made = {name: named(sql, name) for name, sql in hidden.items()}
    timed = frame.select(*(f"`{c}`" for c in frame.columns if c not in made), *made.values()) if made else frame
    names = tuple(c for c in (TIME, UNTIL, SOURCE, PUNCTUATION) if c in timed.columns)
    origin = Origin(timed, number, arrival.at, shape, pages, names, arrival=arrival, prod=prod, saved=saved)
    return SparkPage(origin)


def staged(
    payload: Staged, number: int, at: int, hidden: Mapping[str, str], prod: Prod | None, pages: SparkPages
) -> SparkPage:
    """A page over files that were written for it; they are safe from the beginning."""
    place = pages.root.child(payload.location)
    saved = pages.note(place, number, Arrival(payload.rows, 0, None, None, at), hidden, prod, None)
    return load(pages, {**saved, "staged": payload.rows})


def of_results(
    payload: Payload,
    node: AggregateNode,
    number: int,
    at: int,
    prod: Prod | None,
    pages: SparkPages,
    shape: TaskLayout,
) -> SparkPage:
    """A page of results: in the driver, where a sink takes them as they are, or staged as files."""
    hidden = results_hidden(node)
    if isinstance(payload, Staged):
        return staged(payload, number, at, hidden, prod, pages)
    assert isinstance(payload, pa.Table)
    low = high = None
    if payload.num_rows:
        ends = pc.min_max(payload[WINDOW_END])
        low, high = (_tick(ends[which], node.end_lag) for which in ("min", "max"))
    return _of_table(payload, number, Arrival(payload.num_rows, 0, low, high, at), hidden, prod, pages, shape)


def of_rows(payload: Payload, number: int, at: int, pages: SparkPages) -> SparkPage:
    """A page of rows that only a sink will take."""
    if isinstance(payload, Staged):
        return staged(payload, number, at, {}, None, pages)
    assert isinstance(payload, pa.Table)
    return _of_table(payload, number, Arrival(payload.num_rows, 0, None, None, at), {}, None, pages, TaskLayout())


def _of_table(
    table: pa.Table,
    number: int,
    arrival: Arrival,
    hidden: Mapping[str, str],
    prod: Prod | None,
    pages: SparkPages,
    shape: TaskLayout,
) -> SparkPage:
    """Rows in the driver. Spark gets them when it must work on them."""

    def rows() -> DataFrame:
        frame = pages.given(table, spark_schema(table.schema))
        return _timed(frame, [f"`{c}`" for c in frame.columns], hidden) if hidden else frame

    origin = Origin(rows, number, arrival.at, shape, pages, tuple(hidden), arrival=arrival, prod=prod)
    origin.table, origin.hidden_sql, origin.size = table, hidden, int(table.nbytes)
    return SparkPage(origin)


def results_hidden(node: AggregateNode) -> dict[str, str]:
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
    return hidden


def _tick(end: pa.Scalar, lag: int) -> int:
    """The time of a result, from the end of its window."""
    if pa.types.is_timestamp(end.type):
        return int(end.value) - lag
    if pa.types.is_decimal(end.type):
        return int(end.as_py().scaleb(end.type.scale)) - lag
    return int(end.as_py()) - lag


def load(pages: SparkPages, saved: dict[str, Any]) -> SparkPage:
    """A page from what `save` gave, or from a note that says where its rows are."""
    reference = referred(saved)
    if reference is not None:
        return _of_reference(pages, saved, reference)
    frame = pages.spark.read.parquet(pages.root.child(saved["folder"]).address)
    prod = None if saved["prod"] is None else Prod.load(saved["prod"])
    arrival = Arrival.load(saved["arrival"])
    return known(frame, saved["number"], saved["hidden"], arrival, TaskLayout(), pages, prod, saved)


def _of_reference(pages: SparkPages, saved: dict[str, Any], reference: RowLocation) -> SparkPage:
    stream, hidden = saved["stream"], saved["hidden"]
    reader = pages.reader(stream)

    def rows(some: RowLocation = reference) -> DataFrame:
        with source_errors_explained(some):
            read = some.read(lambda: pages.streams(stream), reader, pages.spark)
            return _timed(read, saved["columns"], hidden)

    def parts(count: int) -> list[Callable[[], DataFrame]]:
        return [partial(rows, part) for part in reference.cut(count)]

    shape = pages.shape(stream)
    origin = Origin(rows, saved["number"], saved["at"], shape, pages, tuple(hidden), saved=saved)
    origin.scanned = reference.scanned and can_scan_in_one(reader)
    origin.reference, origin.files, origin.parts = reference, reference.pieces, parts
    origin.needs = frozenset(saved["needs"])
    page = SparkPage(origin)
    return page.stamped(saved["stamp"]) if "stamp" in saved else page


def can_join(page: SparkPage, other: SparkPage) -> bool:
    """Whether the rows of two pages lie where they can be read in one go, and are not stamped at two instants."""
    first, second = page.saved, other.saved
    one, two = referred(first), referred(second)
    if first is None or second is None or one is None or two is None or one.kind != two.kind:
        return False
    return one.alike(two) and all(first.get(k) == second.get(k) for k in ("stream", "columns", "hidden", "stamp"))


def joined(pages: Sequence[SparkPage]) -> SparkPage:
    """Pages by reference that follow each other, as one page that stands where the last of them stood."""
    notes = [saved for page in pages if (saved := page.saved) is not None]
    first, *rest = (reference for saved in notes if (reference := referred(saved)) is not None)
    whole, needs = first.together(rest), sorted(set().union(*(saved["needs"] for saved in notes)))
    note = {**notes[-1], whole.kind: whole.saved(), "bytes": whole.bytes, "needs": needs}
    return load(pages[0].origin.pages, note)


def _hidden(node: StreamNode) -> dict[str, str]:
    """Spark SQL of the hidden columns of a stream's rows."""
    hidden = {TIME: node.time}
    if node.source is not None:
        hidden[SOURCE] = f"coalesce(CAST({node.source} AS STRING), '{NO_SOURCE}')"
    if node.punctuation is not None:
        hidden[PUNCTUATION] = node.punctuation
    return hidden


def _timed(frame: DataFrame, columns: Sequence[str], hidden: Mapping[str, str]) -> DataFrame:
    # One step: Spark analyses each for itself.
    return frame.select(*map(column, columns), *(named(sql, name) for name, sql in hidden.items()))
