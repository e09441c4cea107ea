"""What analysis asks of expressions, answered by polars over a sample row: no Spark in here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

import polars as pl
import pyarrow as pa
import sqlglot
from polars.exceptions import PanicException
from sqlglot import exp

from slackwater.aggregates.over import has_over
from slackwater.errors import QueryError, UnknownTableError
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import StreamNode
from slackwater.plan.relation import no_column
from slackwater.plan.spark_sql import SparkSQL
from slackwater.progress.time import TimeDomain
from slackwater.testing.explode import exploded
from slackwater.testing.expression import expression, with_spark_types
from slackwater.testing.kept_aggregates import kept_type

_SQL_TYPES: dict[pl.DataType, str] = {pl.Int32(): "INT", pl.Int64(): "BIGINT", pl.Float64(): "DOUBLE"}
_CALL = re.compile(r"\s*(count|sum|avg|mean)\s*\((.*)\)\s*\Z", re.IGNORECASE | re.DOTALL)

#: Types that polars gave, by expression and columns: asking again takes milliseconds.
_TOLD: dict[tuple[object, ...], pa.DataType] = {}

_WORD = re.compile(r"\w+")
_MISSING = re.compile(r'unable to find column "([^"]+)"')


@contextmanager
def _explained(frame: pl.DataFrame, what: str, text: str) -> Iterator[None]:
    """What polars says of an expression, as an error of ours."""
    said = f"{what}{text!r}" if what.endswith("=") else f"{what} {text!r}"
    try:
        yield
    except (pl.exceptions.PolarsError, PanicException) as error:
        first = str(error).splitlines()[0]
        missing = _MISSING.search(first)
        raise no_column(said, missing[1], frame.columns) if missing else QueryError(f"{said}: {first}") from None


@dataclass(frozen=True)
class SampleRelation:
    """Rows like those of a sample, which has one at least."""

    frame: pl.DataFrame

    @staticmethod
    @cache
    def like(schema: pa.Schema) -> SampleRelation:
        """A row of nulls of this shape."""
        empty = pl.DataFrame(schema.empty_table())
        nulls = pl.DataFrame({c: [None] for c in empty.columns}, schema=empty.schema)
        return SampleRelation(pl.concat([empty, nulls]))

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.frame.columns

    @property
    def schema(self) -> pa.Schema:
        """Arrow types of the columns."""
        return pa.schema([(name, self.type_of(f"`{name}`", name)) for name in self.names])

    def cross_join(self, other: SampleRelation) -> SampleRelation:
        """A row of both."""
        return SampleRelation(pl.concat([self.frame.head(1), other.frame.head(1)], how="horizontal"))

    def where(self, condition: str, what: str = "where") -> SampleRelation:
        """A relation of the same shape."""
        rows = self.frame.with_columns(_in_other_case(condition, self.names))
        kind = SampleRelation(rows).type_of(condition, what)
        if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise QueryError(f"{what} {condition!r}: this is {kind}, not a condition")
        return self

    def select(self, columns: Sequence[tuple[str, str]], what: str) -> SampleRelation:
        """The rows with these columns."""
        with _explained(self.frame, what, ", ".join(sql for _, sql in columns)):
            return SampleRelation(self.frame.select(expression(sql).alias(name) for name, sql in columns))

    def exploded(self, call: str, what: str) -> tuple[SampleRelation, list[str], list[str]]:
        """The rows after a generator, its columns under hidden names, and the names that Spark gives them."""
        with _explained(self.frame, what, call):
            made, names = exploded(self.frame.clear(), call)
        return SampleRelation.like(made.to_arrow().schema), made.columns[-len(names) :], names

    def name_of(self, sql: str, what: str) -> str:
        """The name that an expression gives its column."""
        with _explained(self.frame, what, sql):
            return expression(sql).meta.output_name()

    def compared_type_of(self, sql: str, what: str, written: str | None = None) -> pa.DataType:
        """All values of polars can be compared."""
        return self.type_of(sql, what, written)

    def type_of(self, sql: str, what: str, written: str | None = None) -> pa.DataType:
        """Arrow type; those of counts, sums and averages are Spark's, not polars'."""
        call = None if has_over(sql) else _CALL.match(sql)
        if call is not None:
            return self._type_of_call(call[1].lower(), call[2], what)
        asked = sql, *self.frame.schema.items()
        if asked not in _TOLD:
            with _explained(self.frame, what, sql):
                made = pl.SQLContext(f=self.frame).execute(
                    f"SELECT {with_spark_types(sql)} AS x FROM f", eager=True
                )
                kind = made.to_arrow().schema.field("x").type
            _TOLD[asked] = pa.string() if kind == pa.large_string() else kind
        return _TOLD[asked]

    def _type_of_call(self, function: str, argument: str, what: str) -> pa.DataType:
        if function == "count":
            return pa.int64()
        kind = self.type_of(argument, what)
        if pa.types.is_decimal(kind):
            more, behind = (10, 0) if function == "sum" else (4, 4)
            return pa.decimal128(min(kind.precision + more, 38), min(kind.scale + behind, 38))
        return pa.int64() if function == "sum" and pa.types.is_integer(kind) else pa.float64()

    def aggregate_type_of(self, sql: str, what: str, written: str | None = None) -> pa.DataType:
        """Of the functions that are computed in process."""
        kind = kept_type(sql, lambda argument: self.type_of(argument, what, written))
        if kind is None:
            shown = sql if written is None else written
            raise QueryError(f"{what}{shown!r}: the kit does not compute {sql}; test it with a Session on Spark")
        return kind

    def check(self, expressions: Iterable[str], what: str) -> None:
        """Spark's aggregates are Spark's to check."""

    def united(self, others: Sequence[SampleRelation]) -> tuple[SampleRelation, list[dict[str, str]]]:
        """The types that polars puts above those of all; text goes with text only, as on Spark."""
        frames = [self.frame, *(other.frame for other in others)]
        for name in self.names:
            kinds = {frame[name].dtype for frame in frames} - {pl.Null}
            if len(kinds) > 1 and pl.String in kinds:
                shown = " and ".join(sorted(map(str, kinds)))
                raise QueryError(f"union(): the column {name!r} is {shown}; cast one of them with select(…)")
        made = pl.concat([frame.select(self.names) for frame in frames], how="vertical_relaxed")
        casts = [
            {name: _SQL_TYPES[kind] for name, kind in made.schema.items() if frame[name].dtype != kind}
            for frame in frames
        ]
        return SampleRelation(made), casts

    def ticks(self, sql: str, what: str) -> tuple[str, TimeDomain]:
        """Times of a sample are ticks already; a column of timestamps shows of what domain."""
        stamps = pa.types.is_timestamp(self.type_of(sql, what))
        return sql, TimeDomain.TIMESTAMP if stamps else TimeDomain.SEQUENCE


def matching_rows(frame: pl.DataFrame, condition: str) -> pl.Series:
    """The numbers of the rows that meet a condition; a cast that fails gives null, as in Spark."""
    with _explained(frame, "condition", condition):
        try:
            tree = sqlglot.parse_one(f"({condition}\n)", dialect=SparkSQL)
        except sqlglot.errors.SqlglotError as error:
            raise QueryError(f"condition {condition!r}: {str(error).splitlines()[0]}") from None
        for cast in list(tree.find_all(exp.Cast)):
            cast.replace(exp.TryCast(**cast.args))
        named = frame.with_columns(_in_other_case(condition, frame.columns))
        met = named.with_columns(__met=pl.sql_expr(tree.sql(comments=False)))["__met"]
    if met.dtype not in (pl.Boolean, pl.Null):
        raise QueryError(f"condition {condition!r}: this is {met.dtype}, not a condition")
    return met.fill_null(False).arg_true()


def _in_other_case(text: str, columns: Iterable[str]) -> list[pl.Expr]:
    """Columns that a text names in other capitals, as Spark allows, under these names."""
    words = dict.fromkeys(_WORD.findall(text))
    return [pl.col(c).alias(w) for w in words for c in columns if c != w and c.lower() == w.lower()]


@dataclass(frozen=True)
class SampleTypes:
    """Streams with a sample of their rows; one may stand for the results of another query."""

    streams: Mapping[str, tuple[PlanNode, SampleRelation]]
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """Stored relations."""

    def stream(self, name: str) -> tuple[PlanNode, SampleRelation]:
        """A declared stream and its rows."""
        if name not in self.streams:
            raise QueryError(f"there is no stream {name!r}; there are {', '.join(self.streams)}")
        return self.streams[name]

    def relation(self, schema: pa.Schema) -> SampleRelation:
        """Rows of this shape."""
        return SampleRelation.like(schema)

    def stored(self, name: str) -> SampleRelation:
        """A stored relation."""
        if name not in self.tables:
            raise UnknownTableError(f"there is no table {name!r}; there are {', '.join(self.tables)}")
        return SampleRelation(self.tables[name])

    def declared(self, schema: str | pa.Schema, what: str) -> tuple[tuple[tuple[str, str], ...], pa.Schema]:
        """Columns as they were written down."""
        assert isinstance(schema, pa.Schema)
        return tuple((f.name, str(f.type)) for f in schema), schema

    def check_policy(self, stream: StreamNode) -> None:
        """Refuse a disorder policy that does not fit its stream."""
        stream.disorder.tracker(stream.domain)
