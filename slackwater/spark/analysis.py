"""Asks Spark what an expression means before anything runs, and says in the user's words what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from slackwater.errors import QueryError
from slackwater.progress.time import TimeDomain

_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def columns_of(frame: DataFrame, expressions: Iterable[str], what: str) -> list[tuple[str, DataType]]:
    """Names and types that some Spark SQL expressions give."""
    texts = list(expressions)
    try:
        return [(f.name, f.dataType) for f in frame.selectExpr(*texts).schema.fields]
    except PySparkException as error:
        raise _explain(error, frame, what, ", ".join(texts)) from None


def filtered(frame: DataFrame, condition: str) -> DataFrame:
    """The frame with a filter, or a clear error."""
    try:
        return frame.where(condition)
    except PySparkException as error:
        raise _explain(error, frame, "where", condition) from None


def arrow_type(frame: DataFrame, sql: str, what: str) -> pa.DataType:
    """Arrow type of an expression; aggregates are allowed."""
    ((_, kind),) = columns_of(frame, [f"{sql} AS x"], what)
    return to_arrow(kind, what)


def to_arrow(kind: DataType, what: str) -> pa.DataType:
    """Arrow type of a Spark type."""
    try:
        return to_arrow_type(kind, timezone="UTC")
    except PySparkException:
        raise QueryError(
            f"{what}: type {kind.simpleString()} cannot be a result; cast it, to string for example"
        ) from None


def time_in_ticks(frame: DataFrame, time: str) -> tuple[str, TimeDomain]:
    """Spark SQL that gives the time in ticks, and the domain, for a time column or expression."""
    ((_, kind),) = columns_of(frame, [time], "time")
    if isinstance(kind, TimestampType):
        return f"unix_micros({time})", TimeDomain.TIMESTAMP
    if isinstance(kind, TimestampNTZType):
        return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01', {time})", TimeDomain.TIMESTAMP
    if isinstance(kind, DateType):
        return f"unix_date({time}) * 86400000000L", TimeDomain.TIMESTAMP
    if isinstance(kind, (ByteType, ShortType, IntegerType, LongType)):
        return f"CAST({time} AS BIGINT)", TimeDomain.SEQUENCE
    remedy = (
        f"time='try_to_timestamp({time})'" if isinstance(kind, StringType) else f"time='CAST({time} AS BIGINT)'"
    )
    raise QueryError(
        f"time={time!r} is of type {kind.simpleString()}; a time is a timestamp, a date or a whole number: "
        f"write for example {remedy}"
    )


def simple_name(name: str) -> bool:
    """Whether a name needs no quoting."""
    return _SIMPLE.match(name) is not None


def _explain(error: PySparkException, frame: DataFrame, what: str, text: str) -> QueryError:
    condition = (error.getCondition() or "") if isinstance(error, (AnalysisException, ParseException)) else ""
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = (error.getMessageParameters() or {}).get("objectName", "?").replace("`", "")
        return QueryError(f"{what} {text!r}: there is no column {name!r}; there are {', '.join(frame.columns)}")
    if condition.startswith("UNRESOLVED_ROUTINE"):
        name = (error.getMessageParameters() or {}).get("routineName", "?").replace("`", "")
        return QueryError(f"{what} {text!r}: Spark knows no function {name!r}")
    first = str(error).strip().splitlines()[0]
    return QueryError(f"{what} {text!r}: {first}")
