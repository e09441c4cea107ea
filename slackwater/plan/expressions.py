"""Checks expressions over single rows, and says what to write instead."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from slackwater.aggregates.parse import is_aggregate
from slackwater.errors import QueryError


def check_of_one_row(name: str, sql: str, what: str) -> None:
    """Refuse aggregates, window functions and generators. Spark reports text that cannot be read here.

    >>> check_of_one_row("n", "sum(x)", "select")
    Traceback (most recent call last):
    ...
    slackwater.errors.QueryError: select n='sum(x)': an aggregate needs a window; write window(…).agg(n='sum(x)')
    """
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return  # Spark reports it
    written = f"{what} {name}={sql!r}"
    if tree.find(exp.Window) is not None:
        raise QueryError(
            f"{written}: OVER (…) would see one page at a time; write rolling(range=…) or rolling(rows=…), a "
            "window for each row"
        )
    if any(is_aggregate(node) for node in tree.walk()):
        if what == "group_by":
            raise QueryError(f"{written}: a group is made of one row; aggregates go into agg(…)")
        raise QueryError(f"{written}: an aggregate needs a window; write window(…).agg({name}={sql!r})")
    if tree.find(exp.UDTF, exp.Explode, exp.Inline) is not None:
        raise QueryError(
            f"{written}: one row to many stands by itself in a projection, as in select('*', item='explode(items)')"
        )


def check_condition(sql: str) -> None:
    """Refuse a condition with aggregates. Spark reports text that cannot be read here."""
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return
    if any(is_aggregate(node) for node in tree.walk()):
        raise QueryError(
            f"where {sql!r}: a condition is on single rows; put aggregates into agg(…), and the condition behind "
            "it, as in agg(n='count(*)').where('n > 3')"
        )


def check_over_aggregates(name: str, written: str, expression: str, columns: list[str]) -> None:
    """Refuse an expression over aggregates that names a column of single rows."""
    names = {n.lower() for n in columns}
    for column in sqlglot.parse_one(expression, dialect="spark").find_all(exp.Column):
        if column.name.lower() not in names:
            shown = ", ".join(n for n in columns if not n.startswith("__"))
            raise QueryError(
                f"{name}={written!r}: {column.name!r} is a column of single rows; put it into an aggregate, as in "
                f"max({column.name}), or use one of {shown}"
            )
