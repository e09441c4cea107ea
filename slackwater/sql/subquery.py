"""Sub-queries in WHERE: IN, EXISTS and comparisons are semi joins, NOT IN and NOT EXISTS are anti joins."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import Token

from slackwater.aggregates.user_text import closing_bracket
from slackwater.sql.conjuncts import conjuncts
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import NO_SUBQUERY, Expression, cut, sees_subquery
from slackwater.sql.source import Span, span_of


@dataclass(frozen=True)
class SubQuery:
    """`value [NOT] IN (…)`, `[NOT] EXISTS (…)` without a value, or `value > (…)`."""

    value: Expression | None
    negated: bool
    query: tuple[Token, ...]
    span: Span
    operator: str = "IN"
    """IN, or a comparison with the one row of the sub-query."""

    @property
    def how(self) -> str:
        """The kind of join."""
        return "anti" if self.negated else "semi"


def read_where(cursor: Cursor) -> tuple[list[Expression], list[SubQuery]]:
    """Read what follows WHERE: conditions of a row, and sub-queries."""
    whole = Expression(cursor.source, cut(cursor, "a condition", (), queries=True))
    if _first_query(whole) is None:
        whole.check("a condition")
        return [whole], []
    plain, subqueries = list[Expression](), list[SubQuery]()
    for part in conjuncts(whole):
        if _first_query(part) is None:
            part.check("a condition")
            plain.append(part)
        else:
            subqueries.append(_subquery(part))
    return plain, subqueries


def _first_query(expression: Expression) -> int | None:
    """Where the first query in parentheses begins."""
    cursor = Cursor(expression.source, expression.tokens)
    for cursor.at in range(len(expression.tokens)):
        if sees_subquery(cursor):
            return cursor.at
    return None


#: Comparisons, and what they are with the sides swapped.
_OPERATORS = {
    "=": "=",
    "==": "==",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
    "<>": "<>",
    "!=": "!=",
    "<=>": "<=>",
}


def _compared(part: Expression, at: int) -> SubQuery | None:
    """A comparison with a sub-query, which stands on one side of it by itself."""
    source, tokens, end = part.source, part.tokens, closing_bracket(part.tokens, at)
    if end == len(tokens) - 1 and at > 1:
        operator, value = source.raw(tokens[at - 1]), tokens[: at - 1]
    elif at == 0 and end is not None and end < len(tokens) - 2:
        operator, value = _OPERATORS.get(source.raw(tokens[end + 1]), ""), tokens[end + 2 :]
    else:
        return None
    if operator not in _OPERATORS or any(source.word(token) in ("OR", "AND", "NOT") for token in value):
        return None
    expression = Expression(source, value)
    expression.check("a value to compare with")
    return SubQuery(expression, False, tokens[at + 1 : end], part.span, operator)


def _subquery(part: Expression) -> SubQuery:
    source, tokens = part.source, part.tokens
    at = _first_query(part)
    assert at is not None
    words = [source.word(token) for token in tokens[:at]]
    if (compared := _compared(part, at)) is not None:
        return compared
    if closing_bracket(tokens, at) != len(tokens) - 1:
        raise source.error(span_of([tokens[at + 1]]), NO_SUBQUERY)
    negated = words[:1] == ["NOT"]
    begin = 1 if negated else 0
    if words[begin:] == ["EXISTS"]:
        return SubQuery(None, negated, tokens[at + 1 : -1], part.span)
    if words[-1:] != ["IN"]:
        raise source.error(span_of([tokens[at + 1]]), NO_SUBQUERY)
    end = at - 1
    if words[end - 1 : end] == ["NOT"]:
        negated, end = not negated, end - 1
    value = Expression(source, tokens[begin:end]) if begin < end else None
    if value is None or any(word in ("OR", "AND", "NOT") for word in words[begin:end]):
        raise source.error(span_of([tokens[at + 1]]), NO_SUBQUERY)
    value.check("a value before IN")
    if source.raw(value.tokens[0]) == "(" and any(source.raw(token) == "," for token in value.tokens):
        raise source.error(value.span, "IN compares one value with a sub-query; write EXISTS (SELECT … WHERE …)")
    return SubQuery(value, negated, tokens[at + 1 : -1], part.span)
