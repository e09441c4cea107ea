"""The columns that Spark SQL text names. Nothing is resolved: every identifier that could be a column counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import sqlglot
from sqlglot import exp

from slackwater.columns import PLAIN_NAME

#: Expressions that later nodes read of some rows; None for all columns.
Wanted = Sequence[str] | None


def used_columns(names: Sequence[str], wanted: Wanted) -> set[str]:
    """The columns that some expressions name, at least one.

    Too many columns are safe, too few are not.

    >>> sorted(used_columns(["a", "b", "c"], ["A + c"]))
    ['a', 'c']
    """
    used = {"*"} if wanted is None else {word.lower() for sql in wanted for word in _identifiers(sql)}
    return set(names) if "*" in used else {name for name in names if name.lower() in used} or {names[0]}


def only_used(columns: Iterable[tuple[str, str]], condition: str | None, used: set[str]) -> list[str]:
    """The expressions of the columns in use, and a condition."""
    return [*(sql for name, sql in columns if name in used), *([condition] if condition else [])]


@lru_cache(maxsize=1_024)
def _identifiers(sql: str) -> frozenset[str]:
    """Every name in an expression that could be a column; a star where the text cannot be read."""
    if sql == "*":
        return frozenset()
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return frozenset("*")  # it may read any column
    names = {identifier.name for identifier in tree.find_all(exp.Identifier)}
    return frozenset(names | {"*"} if tree.find(exp.Subquery, exp.Star) is not None else names)


def column_text(name: str) -> str:
    """A column's name in one form, however the user has written it.

    >>> column_text("Station"), column_text("a.b")
    ('station', '`a.b`')
    """
    return name.lower() if PLAIN_NAME.match(name) else f"`{name.lower()}`"


def bare(sql: str) -> str:
    """An expression; if it is a name, in the form of `column_text`.

    >>> bare(" `Station` "), bare("a + b")
    ('station', 'a + b')
    """
    text = sql.strip()
    quoted = text.startswith("`") and text.endswith("`") and "`" not in text[1:-1]
    return column_text(text[1:-1]) if quoted else text.lower() if PLAIN_NAME.match(text) else text


def named_columns(columns: Iterable[tuple[str, str]]) -> str:
    """Columns for a person: a name, or a name and its expression.

    >>> named_columns([("a", "`a`"), ("b", "x + 1")])
    'a, b = x + 1'
    """
    return ", ".join(name if sql in (name, f"`{name}`") else f"{name} = {sql}" for name, sql in columns)
