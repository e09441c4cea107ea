"""Streams of a test: their columns and their policy, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from slackwater.columns import bad_name
from slackwater.errors import QueryError
from slackwater.estimates.early import Early
from slackwater.plan.analyse import Analysis
from slackwater.plan.corrections import with_corrections
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import StreamNode
from slackwater.plan.signals import pattern_columns, prod_columns, read_condition, time_of_rows
from slackwater.plan.sql_type import arrow_schema
from slackwater.plan.step import Columns
from slackwater.progress.bounds.punctuated import Punctuated
from slackwater.progress.disorder import Disorder
from slackwater.progress.silence import with_default_timeout
from slackwater.progress.time import Span, TimeDomain
from slackwater.sql import statements as S
from slackwater.sql.parse import parse
from slackwater.sql.scope import Scope
from slackwater.testing.types import SampleRelation, SampleTypes

#: Rows as a test writes them.
RowsLike: TypeAlias = pl.DataFrame | pa.Table | Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class StreamSpec:
    """A stream of a test: what `s.stream(…)` declares, without a DataFrame."""

    columns: pa.Schema | str
    """Arrow's schema, or text as for Spark: `"ts TIMESTAMP, device STRING"`."""

    disorder: Disorder
    time: str | None = None
    """The column of the time; left out, the first timestamp, or the first column if there is none."""
    source: str | None = None
    live: bool = False
    """Whether it goes on for ever, as a streaming DataFrame does: then its policy has the default timeout."""

    partitioned: bool = False
    """Whether its sources are the partitions of a log, such as Kafka."""

    prods: str | None = None
    """When a row is a prod."""
    ahead: Span | None = None
    """How far ahead of the clock rows are believed; one day if left out, where time is a timestamp."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns."""
        return arrow_schema(self.columns) if isinstance(self.columns, str) else self.columns

    @property
    def time_column(self) -> str:
        """The column of the time."""
        stamps = [field.name for field in self.schema if pa.types.is_timestamp(field.type)]
        return self.time or next(iter(stamps), self.schema.names[0])

    def node(self, name: str) -> tuple[StreamNode, SampleRelation]:
        """The declared stream, and a row like its own."""
        if self.time_column not in self.schema.names:
            names = ", ".join(self.schema.names)
            raise QueryError(f"stream {name!r}: there is no column {self.time_column!r}; there are {names}")
        if wrong := next((wrong for column in self.schema.names if (wrong := bad_name(column))), None):
            raise QueryError(f"stream {name!r}: {wrong}")
        if len({column.lower() for column in self.schema.names}) < len(self.schema.names):
            raise QueryError(f"stream {name!r}: two columns have one name (capitals do not count); rename one")
        kind, relation = self.schema.field(self.time_column).type, SampleRelation.like(self.plain)
        if not (is_number(kind) or pa.types.is_temporal(kind)):
            raise QueryError(
                f"stream {name!r}: the time {self.time_column!r} is of type {kind}; take a time or a number"
            )
        self._check(f"stream {name!r}: ", relation)
        domain = TimeDomain.TIMESTAMP if pa.types.is_timestamp(kind) else TimeDomain.SEQUENCE
        columns = tuple((field.name, str(field.type)) for field in self.plain)
        disorder = with_default_timeout(self.disorder) if self.live else self.disorder
        punctuation, time = getattr(disorder, "column", None), self.time_column
        asks = read_condition(self.prods, relation, name)
        node = StreamNode(
            name,
            columns,
            time_of_rows(asks, f"`{time}`"),
            time,
            domain,
            disorder,
            self.source,
            punctuation,
            relation.schema,
            (*patterns_of(disorder), *prod_columns(asks, f"`{time}`")),
            ahead=self.ahead,
            live=self.live,
            partitioned=self.partitioned,
        )
        return node, relation

    def _check(self, what: str, relation: SampleRelation) -> None:
        """Refuse settings that speak of columns which there are not, before rows come."""
        if self.source is not None:
            relation.type_of(self.source, f"{what}source")
        if isinstance(self.disorder, Punctuated):
            for column in self.disorder.on:
                relation.type_of(column, f"{what}punctuated")
            since = self.disorder.since
            for column in [self.disorder.column, *([] if since is None else [since])]:
                kind = relation.type_of(column, f"{what}punctuated")
                if not (is_number(kind) or pa.types.is_temporal(kind)):
                    raise QueryError(f"{what}punctuated {column!r} is of type {kind}; take a time or a number")

    @property
    def plain(self) -> pa.Schema:
        """The columns, timestamps in microseconds UTC as Slackwater counts them."""
        fields = [pa.field(f.name, _MICROS if pa.types.is_timestamp(f.type) else f.type) for f in self.schema]
        return pa.schema(fields)

    def rows(self, rows: RowsLike) -> pl.DataFrame:
        """Rows with these columns in these types; a column that a row lacks is null."""
        if isinstance(rows, pl.DataFrame):
            rows = rows.to_arrow()
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=self.plain)
        unknown = sorted(set(table.schema.names) - set(self.schema.names))
        if unknown:
            raise QueryError(
                f"rows have a column {unknown[0]!r}, the stream has none; there are {', '.join(self.schema.names)}"
            )
        return pl.DataFrame(table.select(self.schema.names).cast(self.plain))


def is_number(kind: pa.DataType) -> bool:
    """Whether a time may be counted in it, beside timestamps and dates."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def patterns_of(policy: Disorder) -> Columns:
    """The columns of patterns in punctuations."""
    return pattern_columns(policy.since, policy.on) if isinstance(policy, Punctuated) else ()


_MICROS = pa.timestamp("us", "UTC")


def read_specs(streams: Mapping[str, StreamSpec | tuple[pa.Schema | str, Disorder]]) -> dict[str, StreamSpec]:
    """Streams by name; a pair is columns and a policy."""
    return {name: spec if isinstance(spec, StreamSpec) else StreamSpec(*spec) for name, spec in streams.items()}


def sql_plan(
    text: str, specs: Mapping[str, StreamSpec], tables: Mapping[str, pl.DataFrame]
) -> tuple[PlanNode, Early | None]:
    """The plan of one SELECT over these streams and tables, and when its EMIT asks for answers."""
    types = SampleTypes({name: spec.node(name) for name, spec in specs.items()}, tables)
    analysis = Analysis(types)
    scope = Scope(frozenset(specs), tables=frozenset(tables), analysis=analysis)
    statements = parse(text, scope).statements
    if len(statements) != 1 or not isinstance(statements[0], S.SelectStatement):
        raise QueryError("Script.from_sql takes one SELECT; sinks and streams are the script's")
    statements[0].locations.check(statements[0].query, analysis)
    node = with_corrections(analysis.of(statements[0].query).node, statements[0].corrections)
    return node, statements[0].early
