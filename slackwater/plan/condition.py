"""The condition of a prod: which groups it speaks of (S5 section 3.2)."""

from __future__ import annotations

from functools import lru_cache

import polars as pl
import sqlglot
from polars.exceptions import PanicException
from sqlglot import exp

from slackwater.errors import QueryError

#: What a condition is made of beside operators and functions.
_WORDS = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Interval, exp.Var),
    *(exp.In, exp.Between, exp.DataType, exp.DataTypeParam),
)
#: Functions of one row alone, by sqlglot's names.
_FUNCTIONS = frozenset(
    (
        *("and", "or", "xor", "not", "cast", "trycast", "case", "if", "coalesce", "nullif", "greatest", "least"),
        *("lower", "upper", "initcap", "trim", "ltrim", "rtrim", "length", "char_length", "substring", "left"),
        *("right", "replace", "concat", "reverse", "startswith", "starts_with", "endswith", "ends_with"),
        *("strposition", "regexplike", "regexpilike", "abs", "sign", "round", "floor", "ceil", "mod", "pow"),
        *("sqrt", "date", "extract", "datepart", "date_part", "year", "month", "day", "hour", "minute", "second"),
    )
)


def meeting(groups: pl.DataFrame, where: str) -> pl.DataFrame:
    """The groups that meet a condition; QueryError if it is none, or fails on them.

    >>> meeting(pl.DataFrame({"k": ["1", "x"], "n": [1, 2]}), "k::int = 1")["n"].to_list()
    [1]
    """
    try:
        return groups.filter(pl.sql_expr(_by_row(where)))
    except (Exception, PanicException) as error:
        raise QueryError((str(error).strip().splitlines() or [type(error).__name__])[0]) from error


@lru_cache(maxsize=256)
def _by_row(where: str) -> str:
    """The condition as polars reads it, with casts that give null where they fail.

    Aggregates, subqueries and the like are refused: what they say depends on which windows happen to be open.
    """
    parsed = sqlglot.parse(where) if isinstance(where, str) else []
    if len(parsed) != 1 or parsed[0] is None:
        raise QueryError("that is no condition")
    for node in parsed[0].walk():
        if not _of_one_row(node):
            raise QueryError(f"{node.sql()} cannot be used here")
    return parsed[0].transform(_lenient).sql(comments=False)


def _of_one_row(node: object) -> bool:
    if isinstance(node, exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else node.key
        return name.lower() in _FUNCTIONS
    return isinstance(node, (*_WORDS, exp.Binary, exp.Unary))


def _lenient(node: exp.Expression) -> exp.Expression:
    return exp.TryCast(**node.args) if type(node) is exp.Cast else node
