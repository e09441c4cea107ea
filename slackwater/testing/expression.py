"""Spark SQL expressions as polars takes them, for pages in process."""

from __future__ import annotations

import re
from functools import lru_cache

import polars as pl
import sqlglot
from sqlglot import exp

from slackwater.aggregates.user_text import arguments

#: Functions that give whole numbers on Spark, and floating-point ones in polars.
_WHOLE = re.compile(r"\b(floor|ceil|ceiling)\s*\(", re.IGNORECASE)


def expression(sql: str) -> pl.Expr:
    """The polars expression of a Spark SQL text; polars' own SQL has no structs.

    >>> pl.select(expression("named_struct('a', 1, 'b', 'x')")).to_series().to_list()
    [{'a': 1, 'b': 'x'}]
    >>> pl.select(expression("floor(25 / 10)")).to_series()[0]
    2
    """
    if not sql.startswith("named_struct("):
        return pl.sql_expr(with_spark_types(sql))
    parts = arguments(sql)
    fields = zip(parts[::2], parts[1::2], strict=True)
    return pl.struct(expression(part).alias(name.strip("'")) for name, part in fields)


@lru_cache(maxsize=1_024)
def with_spark_types(sql: str) -> str:
    """The text with casts where Spark gives another type than polars.

    >>> with_spark_types("floor(t / 10)"), with_spark_types("t / 10")
    ('CAST(FLOOR(t / 10) AS BIGINT)', 't / 10')
    """
    if not _WHOLE.search(sql):
        return sql
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return sql
    return tree.transform(_cast).sql(dialect="spark")


def _cast(node: exp.Expression) -> exp.Expression:
    whole = isinstance(node, (exp.Floor, exp.Ceil)) and not isinstance(node.parent, exp.Cast)
    return exp.cast(node, "BIGINT") if whole else node
