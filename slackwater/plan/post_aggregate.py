"""Expressions over aggregates: `sum(a) / sum(b)` is two aggregates, and a projection of their results."""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from slackwater.aggregates.parse import is_aggregate
from slackwater.aggregates.user_text import replace_calls

#: The name of an aggregate that only an expression uses. Users cannot write such names.
_HIDDEN = "__post{}"


@dataclass(frozen=True)
class Split:
    """An expression with the aggregates taken out."""

    expression: str
    """Spark SQL over the results' columns."""
    calls: tuple[tuple[str, str], ...]
    """Names and texts of the aggregates that have no other name."""


def split(text: object, names: dict[str, str]) -> Split | None:
    """Split an expression over aggregates; None for a single aggregate call, or if there is no aggregate.

    `names` has the names of aggregates by their text. New aggregates are added to it.

    >>> split("sum(a) / sum(b)", {"SUM(b)": "b"})
    Split(expression='`__post0` / `b`', calls=(('__post0', 'sum(a)'),))
    >>> split("sum(a)", {}) is None
    True
    """
    if not isinstance(text, str):
        return None
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return None  # it is reported where aggregates are parsed
    if tree is None or is_aggregate(tree) or tree.find(exp.Window) is not None:
        return None
    calls: list[tuple[str, str]] = []

    def result_name(call: str) -> str:
        key = spelled(call) or call
        if key not in names:
            names[key] = _HIDDEN.format(sum(name.startswith("__post") for name in names.values()))
            calls.append((names[key], call))
        return f"`{names[key]}`"

    expression = replace_calls(text, is_aggregate, result_name)
    try:
        columns = sqlglot.parse_one(expression, dialect="spark").find_all(exp.Column)
    except sqlglot.errors.SqlglotError:
        return None  # words that belong to an aggregate stand beside it
    used = {column.name.lower() for column in columns}
    if not used & {name.lower() for name in names.values()}:
        return None
    return Split(expression, tuple(calls))


def spelled(text: object) -> str | None:
    """The text of an aggregate call in one form, to find equal ones; None for other expressions."""
    try:
        tree = sqlglot.parse_one(text, dialect="spark") if isinstance(text, str) else None
    except sqlglot.errors.SqlglotError:
        return None
    return tree.sql(dialect="spark") if tree is not None and is_aggregate(tree) else None
