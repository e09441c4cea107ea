"""The streams that a session knows, and what analysis may ask of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import QueryError, UnknownTableError, did_you_mean
from slackwater.plan.cross_stream import with_bounds
from slackwater.plan.nodes import StreamNode
from slackwater.progress.bounds.between_streams import written_bounds
from slackwater.spark.api.declare import check_policy, check_table
from slackwater.spark.api.plays import Reads
from slackwater.spark.backend.relation import FrameRelation, fields_of, to_arrow
from slackwater.spark.ingest.replay import Replay
from slackwater.spark.ingest.topics import Topics
from slackwater.spark.storage.embedded import moved_to
from slackwater.spark.storage.types import spark_schema


@dataclass(frozen=True)
class Declaration:
    """A stream as it was declared."""

    node: StreamNode
    frame: DataFrame
    """As the user gave it: a stream of Spark runs in the user's session."""
    replay: Replay | None
    trigger: str | None
    topics: Topics | None = None
    """The topics that it is read from by `read_kafka`, which can leave fields of messages out."""

    @property
    def first_page(self) -> int:
        """The number of the first page that is read live: pages of a history come before it."""
        return 0 if self.replay is None or self.replay.last is None else self.replay.last + 1

    @property
    def reads(self) -> Reads:
        """Where its rows come from."""
        if self.replay is None:
            return Reads.LIVE
        return Reads.REPLAY if self.replay.last is None else Reads.HISTORY


class Catalogue:
    """Declared streams by name; expressions are tried in the session that pages run in."""

    def __init__(self, spark: SparkSession, users: SparkSession) -> None:
        self._spark = spark
        self._users = users
        """Knows tables and views that the user makes while the session is there."""
        self._streams: Mapping[str, Declaration] = {}
        """Replaced, never changed: the executor's thread looks streams up."""
        self.tables: Mapping[str, DataFrame] = {}
        """Stored relations that were given a name. Replaced, never changed, too."""
        self.functions: dict[str, Callable[[], DataFrame]] = {}
        """What gives some of them anew; the executor's thread looks single names up."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __contains__(self, name: str) -> bool:
        return name in self._streams

    def __getitem__(self, name: str) -> Declaration:
        return self._streams[name]

    def frame(self, name: str, columns: Sequence[str]) -> DataFrame:
        """A declared stream as the user gave it; of messages, only the fields among these columns."""
        declared = self._streams[name.partition("#")[0]]  # a source of a later play has its number behind the name
        return declared.frame if declared.topics is None else declared.topics.frame(columns)

    @property
    def live(self) -> list[str]:
        """The streams whose rows arrive by themselves."""
        return [name for name, declared in self._streams.items() if declared.replay is None]

    def declare(self, stream: Declaration) -> None:
        """Add a stream."""
        self._streams = {**self._streams, stream.node.name: stream}

    def register(self, name: str, given: DataFrame | Callable[[], Any]) -> DataFrame:
        """Add a stored relation, or what gives one anew for each page; gives the rows of now."""

        def frame(table: Any) -> DataFrame:
            rows = self._users.createDataFrame(table) if isinstance(table, pa.Table) else table
            check_table(name, rows, list(self))
            return rows

        def now(function: Callable[[], Any]) -> DataFrame:
            return moved_to(self._spark, frame(function()))

        static = isinstance(given, DataFrame) or not callable(given)
        table = frame(given) if static else frame(given())  # type: ignore[operator]
        self.functions.pop(name, None)
        if not static:
            self.functions[name] = partial(now, given)  # type: ignore[arg-type]
        self.tables = {**self.tables, name: moved_to(self._spark, table)}
        return table

    def stream(self, name: str) -> tuple[StreamNode, FrameRelation]:
        """A declared stream and its rows."""
        if name not in self._streams:
            names = ", ".join(self._streams) or "none"
            raise QueryError(f"there is no stream {name!r}{did_you_mean(name, self._streams)}; there are {names}")
        return self._streams[name].node, FrameRelation(moved_to(self._spark, self._streams[name].frame))

    def relation(self, schema: pa.Schema) -> FrameRelation:
        """Rows of this shape."""
        return FrameRelation(self._spark.createDataFrame(schema.empty_table(), spark_schema(schema)))

    def stored(self, name: str) -> FrameRelation:
        """A stored relation: one that was named in this session, or a table or view that Spark knows."""
        return FrameRelation(self.table(name))

    def table(self, name: str) -> DataFrame:
        """The stream as a DataFrame."""
        if name in self.tables:
            return self.tables[name]
        try:
            table = moved_to(self._spark, self._users.table(name))
        except PySparkException:
            names = ", ".join([*self.tables, *self._streams]) or "none"
            hint = did_you_mean(name, [*self.tables, *self._streams])
            raise UnknownTableError(f"there is no stream or table {name!r}{hint}; there are {names}") from None
        if table.isStreaming:
            raise QueryError(f"{name!r} is a stream for Spark; declare it with s.stream(…), which says its time")
        return table

    def declared(self, schema: str | pa.Schema, what: str) -> tuple[tuple[tuple[str, str], ...], pa.Schema]:
        """Columns that a user has written down."""
        assert not isinstance(schema, pa.Schema)
        fields = fields_of(schema, what)
        arrow_schema = pa.schema([(name, to_arrow(kind, f"{what}: {name}")) for name, kind in fields])
        return tuple((name, kind.simpleString()) for name, kind in fields), arrow_schema

    def check_policy(self, stream: StreamNode) -> None:
        """Refuse a disorder policy that does not fit its stream."""
        check_policy(stream)

    def bind(self, bounds: Any, streams: Sequence[str] | None, settings: Sequence[Any]) -> None:
        """Add bounds between declared streams; settings that are None were not written."""
        policy = written_bounds(bounds, streams, settings)
        nodes = {name: declared.node for name, declared in self._streams.items()}
        for name, node in with_bounds(nodes, policy, streams).items():
            self._streams = {**self._streams, name: replace(self._streams[name], node=node)}
