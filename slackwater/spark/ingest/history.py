"""The history of a stream: stored rows that come first, and the seam at which the live stream goes on.

The seam is the largest seam value of each source in the history. It is found at the first start, and saved next to
the checkpoints. Rows up to the seam come from the history, later rows from the live stream. So a row that both have
counts once, and rows that the history gets later do not count twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.errors import JournalError, QueryError, shown
from slackwater.plan.nodes import StreamNode
from slackwater.spark.backend.relation import time_in_ticks
from slackwater.spark.ingest.replay import Replay, read_replay
from slackwater.spark.storage.storage_dir import StorageDir, file_name
from slackwater.windows.spec import floor_division

#: The largest number of sources: Spark's plan for each batch has the end of each.
_MOST_SOURCES = 10_000
#: The name of the source, in a stream without a source column.
_ONE = ""


@dataclass(frozen=True)
class Seam:
    """Where the history of a stream ends."""

    last: int
    """The number of the last page of the history. Pages of the live stream have larger numbers."""
    ends: Mapping[str, int]
    """The largest seam value of each source."""

    def to_json(self) -> dict[str, object]:
        """As JSON values."""
        return {"last": self.last, "ends": dict(self.ends)}


def check_history(name: str, live: DataFrame, history: object) -> DataFrame:
    """The stored rows with the columns of the live stream; an error if a column is missing or has another type."""
    if not isinstance(history, DataFrame) or history.isStreaming:
        raise QueryError(
            f"stream {name!r}: history={shown(history)} is no static DataFrame; write history=spark.read.parquet(…)"
        )
    if not live.isStreaming:
        raise QueryError(
            f"stream {name!r}: history= needs a streaming DataFrame, which is read after the history; to replay a "
            "static DataFrame alone, leave out history= and give arrival="
        )
    types = {column.lower(): kind for column, kind in history.dtypes}
    for column, kind in live.dtypes:
        if types.get(column.lower()) != kind:
            found = types.get(column.lower())
            lacks = "it has none" if found is None else f"there it is of type {found}"
            raise QueryError(
                f"stream {name!r}: the history needs the column {column!r} of type {kind}, as in the live stream; "
                f"{lacks}"
            )
    return history.select(*(f"`{column}`" for column in live.columns))


def join_history(
    node: StreamNode,
    live: DataFrame,
    history: DataFrame,
    arrival: str | None,
    page: str,
    seam: str | None,
    place: StorageDir,
) -> tuple[Replay, DataFrame]:
    """The history as a replay, and the live rows after it."""
    if arrival is None:
        raise QueryError(
            f"stream {node.name!r}: say in which order the history is replayed, as in arrival='received'"
        )
    replay = cast(Replay, read_replay(node, history, arrival, page))
    value, _ = time_in_ticks(history, arrival if seam is None else seam, "seam")
    source = f"'{_ONE}'" if node.source is None else f"coalesce(CAST({node.source} AS STRING), '')"
    found = _saved_or_new_seam(replay, value, source, place, file_name(node.name))
    end = _end_of(found.ends, source)
    rows = history.where(f"({value}) IS NULL OR coalesce(({value}) <= {end}, false)")
    following = live.where(f"coalesce(({value}) > {end}, true)")
    return replace(replay, frame=rows, last=found.last), following


def _saved_or_new_seam(replay: Replay, value: str, source: str, place: StorageDir, name: str) -> Seam:
    """The seam that the first start saved; if this is the first start, find it and save it."""
    path = f"{place.path}/{name}.json"
    if f"{name}.json" in place.names():
        with place.files.open_input_file(path) as note:
            read = json.loads(note.read())
        if read["page"] != replay.page:
            raise JournalError(
                f"stream {replay.node.name!r}: its history was cut into pages of {read['page']} microseconds; "
                "declare it with the same page="
            )
        return Seam(read["last"], read["ends"])
    seam = _find_seam(replay, value, source)
    place.files.create_dir(place.path, recursive=True)
    with place.files.open_output_stream(f"{path}.new") as note:
        note.write(json.dumps({**seam.to_json(), "page": replay.page}).encode())
    place.files.move(f"{path}.new", path)
    return seam


def _find_seam(replay: Replay, value: str, source: str) -> Seam:
    cut = F.max(F.expr(floor_division(replay.arrival, replay.page)))
    groups = replay.frame.groupBy(F.expr(source).alias("s")).agg(F.max(F.expr(value)).alias("v"), cut.alias("c"))
    ends = groups.limit(_MOST_SOURCES + 1).collect()
    if len(ends) > _MOST_SOURCES:
        raise QueryError(
            f"stream {replay.node.name!r}: the history has more than {_MOST_SOURCES} sources; leave out source="
        )
    last = max((row["c"] for row in ends if row["c"] is not None), default=-1)
    return Seam(last, {row["s"]: row["v"] for row in ends if row["v"] is not None})


def _end_of(ends: Mapping[str, int], source: str) -> str:
    """Spark SQL for the end of a row's source; null if the history has no row of this source."""
    if not ends:
        return "CAST(NULL AS BIGINT)"
    if set(ends) == {_ONE}:
        return f"{ends[_ONE]}L"
    names = ", ".join("'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'" for name in ends)
    values = ", ".join(f"{value}L" for value in ends.values())
    return f"try_element_at(map_from_arrays(array({names}), array({values})), {source})"
