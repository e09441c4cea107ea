"""Spark SQL expressions as polars takes them, for pages in process."""

from __future__ import annotations

import polars as pl

from slackwater.aggregates.user_text import arguments


def expression(sql: str) -> pl.Expr:
    """The polars expression of a Spark SQL text; polars' own SQL has no structs.

    >>> pl.select(expression("named_struct('a', 1, 'b', 'x')")).to_series().to_list()
    [{'a': 1, 'b': 'x'}]
    """
    if not sql.startswith("named_struct("):
        return pl.sql_expr(sql)
    parts = arguments(sql)
    fields = zip(parts[::2], parts[1::2], strict=True)
    return pl.struct(expression(part).alias(name.strip("'")) for name, part in fields)
