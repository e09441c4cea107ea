"""QUALIFY, ORDER BY and LIMIT: they compare the results of each window with one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slackwater.plan import logical as L
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import Expression, cut, read_expression
from slackwater.sql.source import Span
from slackwater.sql.source_locations import SourceLocation, SourceLocations
from slackwater.sql.values import read_count

#: Words behind an expression of ORDER BY.
_DIRECTIONS = (("ASC",), ("DESC",), ("NULLS", "FIRST"), ("NULLS", "LAST"))


@dataclass(frozen=True)
class OrderKey:
    """An expression of ORDER BY, and the words behind it."""

    expression: Expression
    direction: str


@dataclass(frozen=True)
class Comparison:
    """The clauses behind HAVING."""

    span: Span
    qualify: Expression | None
    order: Sequence[OrderKey]
    limit: int | None

    @property
    def expressions(self) -> list[Expression]:
        """All columns and expressions that they name."""
        return [*([] if self.qualify is None else [self.qualify]), *(key.expression for key in self.order)]

    def over(self, rows: L.Logical, text: Callable[[Expression], str], locations: SourceLocations) -> L.Logical:
        """The rows with the clauses; `text` gives an expression in terms of the rows."""
        if self.qualify is not None:
            where = L.Where((rows,), text(self.qualify))
            rows = locations.put(where, SourceLocation(self.qualify.span))
        if not self.order and self.limit is None:
            return rows
        order = tuple(f"{text(key.expression)}{key.direction}" for key in self.order)
        return locations.put(L.Sort((rows,), order, self.limit), SourceLocation(self.span))


def read_comparison(cursor: Cursor) -> Comparison | None:
    """Read the clauses, if one of them comes next."""
    begin = cursor.at
    qualify = read_expression(cursor, "a condition") if cursor.accept("QUALIFY") else None
    order = cursor.listed(lambda: _key(cursor)) if cursor.accept("ORDER BY") else []
    limit = None
    if cursor.sees("LIMIT") and not cursor.accept("LIMIT", "ALL"):
        cursor.at += 1
        limit = read_count(cursor, "a whole number, as in LIMIT 3")
    return None if cursor.at == begin else Comparison(cursor.span(begin), qualify, order, limit)


def _key(cursor: Cursor) -> OrderKey:
    tokens = cut(cursor, "a column or expression to order by", ("ASC", "DESC", "NULLS"))
    expression, direction = Expression(cursor.source, tokens), ""
    expression.check("a column or expression to order by")
    for words in _DIRECTIONS:
        if cursor.accept(*words):
            direction += " " + " ".join(words)
    return OrderKey(expression, direction)
