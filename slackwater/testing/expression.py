"""Spark SQL expressions as polars takes them, for pages in process."""

from __future__ import annotations

import re
from functools import lru_cache

import polars as pl
import sqlglot
from sqlglot import exp

from slackwater.aggregates.over import has_over
from slackwater.aggregates.user_text import arguments
from slackwater.errors import QueryError

#: Where Spark gives something else than polars: whole numbers of these functions, NULL if the divisor is zero.
_OTHERWISE = re.compile(r"\b(floor|ceil|ceiling)\s*\(|[/%]", re.IGNORECASE)


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
    """The text with what makes polars give Spark's values and types.

    >>> with_spark_types("floor(t / 10)"), with_spark_types("t / n")
    ('CAST(FLOOR(t / 10) AS BIGINT)', 't / NULLIF(n, 0)')
    """
    over = has_over(sql)
    if not over and not _OTHERWISE.search(sql):
        return sql
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return sql
    return (tree.transform(_over) if over else tree).transform(_as_on_spark).sql(dialect="spark")


#: Window functions that work here: those that number rows, those that look at others, and those of whole windows.
_NUMBERS = (exp.RowNumber, exp.Rank, exp.DenseRank)
_NEIGHBOURS = (exp.Lag, exp.Lead)
_TOTALS = (exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Count)


def _over(node: exp.Expression) -> exp.Expression:
    """A window function as polars understands it: where nulls come is a key of its own."""
    if not isinstance(node, exp.Window):
        return node
    order, function = node.args.get("order"), node.this
    known = isinstance(function, (*_NUMBERS, *_NEIGHBOURS)) or (order is None and isinstance(function, _TOTALS))
    if not known or node.args.get("spec") is not None:
        raise QueryError(
            f"{node.sql(dialect='spark')}: in process OVER has row_number, rank, dense_rank, lag, lead, and "
            "sum, avg, min, max and count without ORDER BY; run the query on Spark"
        )
    keys = []
    for key in [] if order is None else order.expressions:
        empty = exp.paren(exp.Is(this=exp.paren(key.this.copy()), expression=exp.Null()))
        first = key.args.get("nulls_first")
        keys += [exp.Ordered(this=exp.paren(exp.not_(empty)) if first else empty, nulls_first=True), key]
    if order is not None:
        order.set("expressions", keys)
    return exp.cast(node, "INT") if isinstance(function, _NUMBERS) else node


def _as_on_spark(node: exp.Expression) -> exp.Expression:
    if isinstance(node, (exp.Div, exp.Mod)) and not isinstance(node.expression, (exp.Literal, exp.Nullif)):
        node.set("expression", exp.Nullif(this=node.expression, expression=exp.Literal.number(0)))
    whole = isinstance(node, (exp.Floor, exp.Ceil)) and not isinstance(node.parent, exp.Cast)
    return exp.cast(node, "BIGINT") if whole else node
