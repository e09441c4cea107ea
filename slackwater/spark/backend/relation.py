"""Asks Spark what an expression means before anything runs, and says in the user's words what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from slackwater.columns import EXPLODED, TIME, unquoted
from slackwater.errors import QueryError, did_you_mean
from slackwater.plan.relation import no_column
from slackwater.progress.time import FIRST_TIME, LAST_TIME, TimeDomain
from slackwater.spark.storage.spark_errors import JAVA_ERRORS, briefly
from slackwater.spark.storage.types import arrow_of

#: The number of a row of the driver.
NUMBER = "__number"

# PySpark logs every such error at length; ours say it in the user's words.
_quiet: ContextVar[bool] = ContextVar("quiet", default=False)
for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_name).addFilter(lambda record: not _quiet.get())


@contextmanager
def _explained(frame: DataFrame, what: str, text: str) -> Iterator[None]:
    """Turns what Spark says of an expression into an error of ours."""
    token = _quiet.set(True)
    try:
        yield
    except PySparkException as error:
        raise _explain(error, frame, what, text) from None
    except JAVA_ERRORS as error:
        advice = "; for a field of JSON write get_json_object(column, '$.field')" if "->" in text else ""
        raise QueryError(f"{_said(what, text)}: Spark cannot read this: {briefly(error)}{advice}") from None
    finally:
        _quiet.reset(token)


def columns_of(
    frame: DataFrame, expressions: Iterable[str], what: str, written: str | None = None
) -> list[tuple[str, DataType]]:
    """Names and types that some Spark SQL expressions give; errors show what was `written`, if it is another."""
    texts = list(expressions)
    for text in texts:
        _check_text(text, what)
    with _explained(frame, what, ", ".join(texts) if written is None else written):
        return [(f.name, f.dataType) for f in frame.selectExpr(*texts).schema.fields]


def fields_of(schema: str, what: str) -> list[tuple[str, DataType]]:
    """Names and types of a schema written as Spark SQL."""
    token = _quiet.set(True)
    try:
        read = DataType.fromDDL(schema) if isinstance(schema, str) else None
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        raise QueryError(f"{what} schema={schema!r}: {first}; write it as in schema='a INT, b DOUBLE'") from None
    finally:
        _quiet.reset(token)
    if not isinstance(read, StructType) or not read.fields:
        raise QueryError(f"{what} schema={schema!r}: write names and types, as in schema='a INT, b DOUBLE'")
    return [(f.name, f.dataType) for f in read.fields]


def to_arrow(kind: DataType, what: str) -> pa.DataType:
    """Arrow type of a Spark type."""
    made = arrow_of(kind)
    if made is None:
        raise QueryError(f"{what}: type {kind.simpleString()} cannot be a result; cast it, to string for example")
    return made


#: Gives Spark SQL for the ticks of a time of this type, and their domain; None if a time cannot have it.
TimeType = Callable[[str, Any], tuple[str, TimeDomain] | None]


def _timestamp_ntz(time: str, kind: TimestampNTZType) -> tuple[str, TimeDomain]:
    since = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01', {time})"
    return within_reach(since), TimeDomain.TIMESTAMP


def _decimal(time: str, kind: DecimalType) -> tuple[str, TimeDomain] | None:
    if kind.precision > 18:
        return None
    return f"CAST(({time}) * {10**kind.scale}BD AS BIGINT)", TimeDomain.decimal(kind.precision, kind.scale)


def _double(time: str, kind: DataType) -> tuple[str, TimeDomain]:
    """Ticks of a millionth: a number of seconds is exact to the microsecond, for some 280 years."""
    near = f"abs({time}) <= {LAST_TIME}D / 1e6"  # false for NaN, which is larger than any number in Spark
    return f"CASE WHEN {near} THEN CAST(round(({time}) * 1e6D) AS BIGINT) END", TimeDomain.decimal(18, 6)


def _whole_number(time: str, kind: DataType) -> tuple[str, TimeDomain]:
    return f"CAST({time} AS BIGINT)", TimeDomain.SEQUENCE


#: The types that a time may have. To add one, put its reader here.
TIME_TYPES: dict[type[DataType], TimeType] = {
    TimestampType: lambda time, kind: (within_reach(f"unix_micros({time})"), TimeDomain.TIMESTAMP),
    TimestampNTZType: _timestamp_ntz,
    DateType: lambda time, kind: (f"unix_date({time}) * 86400000000L", TimeDomain.TIMESTAMP),
    DecimalType: _decimal,
    LongType: lambda time, kind: (within_reach(f"({time})"), TimeDomain.SEQUENCE),
    ByteType: _whole_number,
    ShortType: _whole_number,
    IntegerType: _whole_number,
    DoubleType: _double,
    FloatType: _double,
}


def time_in_ticks(frame: DataFrame, time: str, what: str = "time") -> tuple[str, TimeDomain]:
    """Spark SQL that gives the time in ticks, and the domain, for a time column or expression."""
    ((_, kind),) = columns_of(frame, [time], what)
    read = TIME_TYPES.get(type(kind))
    found = None if read is None else read(time, kind)
    if found is not None:
        return found
    remedy = f"try_to_timestamp({time})" if isinstance(kind, StringType) else f"CAST({time} AS BIGINT)"
    raise QueryError(
        f"{what}={time!r} is of type {kind.simpleString()}; a time is a timestamp, a date, or a number of at most "
        f"18 digits: write for example {what}={remedy!r}"
    )


def within_reach(ticks: str) -> str:
    """Null for what is further out than the time of a row can be."""
    return f"CASE WHEN {ticks} BETWEEN {FIRST_TIME}L AND {LAST_TIME}L THEN {ticks} END"


@dataclass(frozen=True)
class FrameRelation:
    """Rows of a DataFrame's shape, for `slackwater.plan.analyse`."""

    frame: DataFrame

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.frame.columns

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Names and types, in Spark's words."""
        return tuple((f.name, f.dataType.simpleString()) for f in self.frame.schema.fields)

    def cross_join(self, other: FrameRelation) -> FrameRelation:
        """Rows that have the columns of both."""
        return FrameRelation(self.frame.crossJoin(other.frame))

    def where(self, condition: str, what: str = "where") -> FrameRelation:
        """The rows that meet a condition."""
        _check_text(condition, what)
        with _explained(self.frame, what, condition):
            self.frame.where(
                f"({condition}\n)"
            )  # alone, Spark takes `a > 1 AND` for a condition by the name of AND
            return FrameRelation(self.frame.where(condition))

    def select(self, columns: Sequence[tuple[str, str]], what: str) -> FrameRelation:
        """The rows with these columns."""
        columns_of(self.frame, [sql for _, sql in columns], what)
        with _explained(self.frame, what, ", ".join(sql for _, sql in columns)):
            return FrameRelation(self.frame.select(*(F.expr(sql).alias(name) for name, sql in columns)))

    def exploded(self, call: str, what: str) -> tuple[FrameRelation, list[str], list[str]]:
        """The rows after a generator, its columns under hidden names, and the names that Spark gives them."""
        names = [name for name, _ in columns_of(self.frame, [call], what)]
        hidden = [f"{EXPLODED}{n}" for n in range(len(names))]
        return FrameRelation(self.frame.select("*", F.expr(call).alias(*hidden))), hidden, names

    def name_of(self, sql: str, what: str) -> str:
        """The name that an expression gives its column."""
        return columns_of(self.frame, [sql], what)[0][0]

    def type_of(self, sql: str, what: str, written: str | None = None) -> pa.DataType:
        """Arrow type of an expression; aggregates are allowed."""
        ((_, kind),) = columns_of(self.frame, [sql], what, written)
        return to_arrow(kind, _said(what, sql if written is None else written))

    def compared_type_of(self, sql: str, what: str, written: str | None = None) -> pa.DataType:
        """The same; text with a collation is refused, the driver goes by its bytes."""
        ((_, kind),) = columns_of(self.frame, [sql], what, written)
        said = _said(what, sql if written is None else written)
        if " collate " in kind.simpleString():
            raise QueryError(f"{said}: {sql} has a collation; write ({sql}) COLLATE UTF8_BINARY")
        return to_arrow(kind, said)

    def aggregate_type_of(self, sql: str, what: str, written: str | None = None) -> pa.DataType:
        """Arrow type of an aggregate call; refused if it is none, for that cannot be had beside a count."""
        kind = self.type_of(sql, what, written)
        self.type_of(f"named_struct('n', count(1), 'v', {sql})", what, written)
        return kind

    def check(self, expressions: Iterable[str], what: str) -> None:
        """Refuse expressions that make no sense; the hidden time of a row is there too."""
        columns_of(self.frame.withColumn(TIME, F.lit(0)), expressions, what)

    def united(self, others: Sequence[FrameRelation]) -> tuple[FrameRelation, list[dict[str, str]]]:
        """The types that Spark's union gives; text goes with text only, for other text would fail row by row."""
        fields = [relation.frame.schema.fields for relation in (self, *others)]
        for same in zip(*fields, strict=True):
            kinds = {f.dataType.simpleString() for f in same if not isinstance(f.dataType, NullType)}
            if len(kinds) > 1 and any(isinstance(f.dataType, StringType) for f in same):
                raise _no_union(same[0].name, kinds)
        session = self.frame.sparkSession
        empty = [session.createDataFrame([], StructType(of)) for of in fields]
        token = _quiet.set(True)
        try:
            made = reduce(lambda one, other: one.union(other), empty)
        except AnalysisException:
            wrong = next(same for same in zip(*fields, strict=True) if len({f.dataType for f in same}) > 1)
            raise _no_union(wrong[0].name, {f.dataType.simpleString() for f in wrong}) from None
        finally:
            _quiet.reset(token)
        types = {f.name: f.dataType for f in made.schema.fields}
        casts = [{f.name: types[f.name].simpleString() for f in of if f.dataType != types[f.name]} for of in fields]
        return FrameRelation(made), casts

    def ticks(self, sql: str, what: str) -> tuple[str, TimeDomain]:
        """Spark SQL that gives a time in ticks, and its domain."""
        return time_in_ticks(self.frame, sql, what)

    def schema(self) -> pa.Schema:
        """Arrow types of the columns; null for those that Arrow has no type for, which cannot be results."""
        return pa.schema([(f.name, arrow_of(f.dataType) or pa.null()) for f in self.frame.schema.fields])


def numbers_of_rows(frame: DataFrame, condition: str) -> list[int]:
    """The numbers of the rows that meet a condition."""
    with _explained(frame, "condition", condition):
        return [row[0] for row in frame.where(condition).select(NUMBER).collect()]


def _no_union(name: str, kinds: set[str]) -> QueryError:
    shown = " and ".join(sorted(kinds))
    return QueryError(f"union(): the column {name!r} is {shown}; cast one of them with select(…)")


def _check_text(sql: object, what: str) -> None:
    if not isinstance(sql, str):
        raise QueryError(f"{what} {sql!r}: write Spark SQL as text, as in {what}('delay > 15')")


def _said(what: str, text: str) -> str:
    return f"{what}{text!r}" if what.endswith("=") else f"{what} {text!r}"


def _explain(error: PySparkException, frame: DataFrame, what: str, text: str) -> QueryError:
    said = _said(what, text)
    names = [c for c in frame.columns if not c.startswith("__")]
    bare = unquoted(text, names)
    if bare is not None:
        return QueryError(f"{said}: {bare!r} is no plain name; write it in backticks, `{bare}`")
    condition = (error.getCondition() or "") if isinstance(error, (AnalysisException, ParseException)) else ""
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = (error.getMessageParameters() or {}).get("objectName", "?").replace("`", "")
        return no_column(said, name, frame.columns)
    if condition.startswith("UNRESOLVED_ROUTINE"):
        name = (error.getMessageParameters() or {}).get("routineName", "?").replace("`", "")
        known = [row[0] for row in frame.sparkSession.sql("SHOW FUNCTIONS").collect()]
        return QueryError(f"{said}: Spark knows no function {name!r}{did_you_mean(name, known)}")
    if "FILTER_NOT_BOOLEAN" in condition:
        return QueryError(f"{said}: this is no condition; compare it, as in {f'{text} > 0'!r}")
    return QueryError(f"{said}: {str(error).strip().splitlines()[0]}")
