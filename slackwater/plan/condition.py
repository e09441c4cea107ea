"""The condition of a prod: which groups it speaks of (S5 section 3.2).

It is Spark SQL, which sqlglot reads and polars answers: what polars would answer otherwise is rewritten or refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache, reduce

import polars as pl
import sqlglot
from polars.exceptions import PanicException
from sqlglot import exp

from slackwater.errors import QueryError
from slackwater.plan.spark_sql import SparkSQL
from slackwater.plan.text import date_of, number_of, timestamp_of

#: What a condition is made of beside operators and functions.
_WORDS = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Interval, exp.Var),
    *(exp.In, exp.Between, exp.DataType, exp.DataTypeParam),
)
#: Functions of one row alone, by sqlglot's names.
_FUNCTIONS = frozenset(
    (
        *("and", "or", "xor", "not", "cast", "trycast", "case", "if", "coalesce", "nullif", "greatest", "least"),
        *("lower", "upper", "trim", "ltrim", "rtrim", "length", "char_length", "substring", "left"),
        *("right", "replace", "concat", "reverse", "startswith", "starts_with", "endswith", "ends_with"),
        *("regexplike", "regexpilike", "abs", "sign", "round", "floor", "ceil", "mod", "pow"),
        *("sqrt", "date", "extract", "datepart", "date_part", "year", "month", "day", "hour", "minute", "second"),
        "tsordstodate",
    )
)
#: Parts of a date that polars counts as Spark does: not seconds, which have a fraction, nor days of the week.
_PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_DATE, _TIMESTAMP = exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP
_STAMPS = (_TIMESTAMP, *(exp.DataType.Type[f"TIMESTAMP{kind}"] for kind in ("TZ", "LTZ", "NTZ")))


Columns = tuple[tuple[str, pl.DataType], ...]


def matching_groups(groups: pl.DataFrame, where: str, keys: Sequence[str] | None = None) -> pl.DataFrame:
    """The groups that meet a condition on their keys; QueryError if it is none, or fails on them.

    >>> matching_groups(pl.DataFrame({"k": ["1", "x"], "n": [1, 2]}), "K::int = 1")["n"].to_list()
    [1]
    """
    keys = groups.columns if keys is None else keys
    zones = {k: z for k in keys if (z := getattr(groups.schema[k], "time_zone", None)) is not None}
    try:
        # Where sessions are in UTC, as ours are, timestamps with and without a zone say the same.
        plain = groups.with_columns(pl.col(k).dt.convert_time_zone("UTC").dt.replace_time_zone(None) for k in zones)
        columns = tuple((key, plain.schema[key]) for key in keys)
        met = plain.filter(pl.sql_expr(_by_row(where, columns)))
    except (Exception, PanicException) as error:
        raise QueryError((str(error).strip().splitlines() or [type(error).__name__])[0]) from error
    return met.with_columns(pl.col(k).dt.replace_time_zone("UTC").dt.convert_time_zone(z) for k, z in zones.items())


@lru_cache(maxsize=256)
def _by_row(where: str, columns: Columns) -> str:
    """The condition as polars reads it, with casts that give null where they fail.

    Aggregates, subqueries and the like are refused: what they say depends on which windows happen to be open.
    """
    parsed = sqlglot.parse(where, dialect=SparkSQL) if isinstance(where, str) else []
    if len(parsed) != 1 or parsed[0] is None:
        raise QueryError("that is no condition")
    for node in parsed[0].walk():
        if not _of_one_row(node):
            raise _refusal(node)
    whole = exp.Paren(this=parsed[0])
    for node in reversed(list(parsed[0].walk())):  # what a node is made of comes before it
        node.replace(_rewritten(node, columns))
    return _sql(whole.this)


def _of_one_row(node: object) -> bool:
    if isinstance(node, exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else node.key
        return name.lower() in _FUNCTIONS
    return isinstance(node, (*_WORDS, exp.Binary, exp.Unary))


def _refusal(node: exp.Expr) -> QueryError:
    return QueryError(f"{node.sql('spark')} cannot be used here")


def _sql(node: exp.Expr) -> str:
    return node.sql(identify=True, comments=False)


def _kind(node: exp.Expr, columns: Columns) -> pl.DataType:
    return pl.LazyFrame(schema=dict(columns)).select(pl.sql_expr(_sql(node))).collect_schema().dtypes()[0]


def _rewritten(node: exp.Expr, columns: Columns) -> exp.Expr:
    """The same for polars; QueryError where it would answer something else than Spark."""
    match node:
        case exp.Column():
            node.parts[0].set("this", _named(node.parts[0].name, columns))
        case exp.TsOrDsToDate():
            return _cast(exp.TryCast(this=node.this, to=exp.DataType(this=_DATE)), columns)
        case exp.Cast():
            return _cast(node, columns)
        case exp.In():
            node.set("expressions", [_beside(e, node.this, columns, alike=True) for e in node.expressions])
        case exp.Between():
            for bound in ("low", "high"):
                node.set(bound, _beside(node.args[bound], node.this, columns))
        case exp.Is() if isinstance(node.expression, exp.Boolean):  # polars gives null for null
            return exp.paren(exp.NullSafeEQ(this=exp.paren(node.this), expression=node.expression))
        case exp.IntDiv():
            whole = exp.DataType(this=exp.DataType.Type.BIGINT)
            return exp.TryCast(this=exp.Div(this=node.this, expression=node.expression, safe=True), to=whole)
        case exp.Concat():  # polars passes over nulls
            return exp.paren(reduce(lambda a, b: exp.DPipe(this=a, expression=b), node.expressions))
        case exp.Substring() | exp.Left() | exp.Right():
            if not all(_counts(e) for key, e in node.args.items() if key != "this" and e is not None):
                raise _refusal(node)
        case exp.Extract() | exp.Anonymous():
            if node.key == "extract" or node.name.lower() == "date_part":
                part = node.this if node.key == "extract" else node.expressions[0]
                if part.name.upper() not in _PARTS:
                    raise _refusal(node)
        case exp.Like() | exp.ILike() if "\\" in node.expression.name:
            raise _refusal(node)
        case _ if isinstance(node, _COMPARISONS):
            node.set("this", _beside(node.this, node.expression, columns))
            node.set("expression", _beside(node.expression, node.this, columns))
    return node


def _counts(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_int and int(node.name) > 0


def _named(name: str, columns: Columns) -> str:
    """The column of that name, whatever its capitals."""
    names = [column for column, _ in columns]
    found = [name] if name in names else [n for n in names if n.lower() == name.lower()]
    if len(found) != 1:
        raise QueryError(f"{name!r} names {'more than one column' if found else 'none of the columns'}")
    return found[0]


def _cast(node: exp.Cast, columns: Columns) -> exp.Expr:
    """A cast that gives null where it fails; between times and the rest only what polars does as Spark does."""
    text, to = node.this.unnest(), node.to.this
    in_time = to is _DATE or to in _STAMPS
    if text.is_string and in_time:
        value = date_of(text.name) if to is _DATE else timestamp_of(text.name, zoned=to is not _STAMPS[-1])
        if value is None and not isinstance(node, exp.TryCast):
            raise QueryError(f"{node.sql('spark')} is no time")
        return _literal(value)
    kind = _kind(node.this, columns)
    if in_time != kind.is_temporal() and not (kind == pl.Date and to is exp.DataType.Type.TEXT):
        raise _refusal(node)
    # Numbers may have blanks about them.
    this = exp.Trim(this=node.this) if kind == pl.String and to in exp.DataType.NUMERIC_TYPES else node.this
    return exp.TryCast(this=this, to=exp.DataType(this=_TIMESTAMP) if to in _STAMPS else node.to)


def _beside(node: exp.Expr, other: exp.Expr, columns: Columns, alike: bool = False) -> exp.Expr:
    """Text that is compared, read as what it is compared with; `alike` where Spark may compare as text instead."""
    text = node.unnest()
    if other.unnest().is_string:
        return node
    kind = _kind(other, columns)
    if not text.is_string:
        if kind.is_temporal() and _kind(node, columns).is_numeric():
            raise QueryError(f"{other.sql('spark')} cannot be compared with {node.sql('spark')}")
        return node
    value: object
    if kind == pl.Date:
        value = date_of(text.name)
    elif isinstance(kind, pl.Datetime):
        value = timestamp_of(text.name, zoned=False)
    elif kind.is_integer() or kind == pl.Float64 or kind.is_decimal():
        value = number_of(text.name, kind)
    else:
        return node
    if alike and str(value) != text.name:
        raise QueryError(
            f"{text.sql('spark')} among others: write it without quotes, or as DATE '…' or TIMESTAMP '…'"
        )
    return _literal(value)


def _literal(value: object) -> exp.Expr:
    match value:
        case datetime():
            return exp.cast(exp.Literal.string(value.isoformat(" ", "microseconds")), _TIMESTAMP)
        case float():
            return exp.cast(exp.Literal.string(repr(value)), exp.DataType.Type.DOUBLE)
        case date():
            return exp.cast(exp.Literal.string(value.isoformat()), _DATE)
    return exp.convert(value)
