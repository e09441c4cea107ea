"""Expressions in the user's own words: pieces are found by their tokens, all else stays as it was written.

What sqlglot writes of a tree is not always what it has read: `parse_json(x)` becomes `x`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


def arguments(call: str) -> list[str]:
    """What stands between the commas of a call.

    >>> arguments("approx_percentile(if(a > 0, a, b), 0.5)")
    ['if(a > 0, a, b)', '0.5']
    """
    tokens = _tokens(call)
    opening = next(n for n, token in enumerate(tokens) if token.token_type is TokenType.L_PAREN)
    found, depth, start = [], 0, tokens[opening].end + 1
    for token in tokens[opening:]:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if depth == 0 or (depth == 1 and token.token_type is TokenType.COMMA):
            found.append(call[start : token.start].strip())
            start = token.end + 1
        if depth == 0:
            return found
    return [*found, call[start:].strip()]


@dataclass(frozen=True)
class CallClauses:
    """A call, and the clauses that stand behind it."""

    call: str
    order: str | None = None
    """What stands in `WITHIN GROUP (…)`."""
    where: str | None = None
    """The condition of `FILTER (WHERE …)`."""
    ignore_nulls: bool = False


def clauses(text: str) -> CallClauses:
    """Take the clauses behind a call from it.

    >>> clauses("first(x) IGNORE NULLS FILTER (WHERE y > 1)")
    CallClauses(call='first(x)', order=None, where='y > 1', ignore_nulls=True)
    """
    tokens = _tokens(text)
    opening = next((n for n, token in enumerate(tokens) if token.token_type is TokenType.L_PAREN), None)
    closing = None if opening is None else closing_bracket(tokens, opening)
    if closing is None or end_of_clauses(tokens, closing + 1) < len(tokens):
        return CallClauses(text)  # more than a call
    inside: dict[str, str] = {}
    at = closing + 1
    while (end := _end_of_clause(tokens, at)) is not None:
        bracket = tokens[end - 1].token_type is TokenType.R_PAREN
        first = next(n for n in range(at, end) if tokens[n].token_type is TokenType.L_PAREN) + 1 if bracket else at
        begin = first + (tokens[at].text.upper() == "FILTER")
        inside[tokens[at].text.upper()] = text[tokens[begin].start : tokens[end - 1].start].strip()
        at = end
    return CallClauses(
        text[: tokens[closing].end + 1], inside.get("WITHIN"), inside.get("FILTER"), "IGNORE" in inside
    )


#: The words of the clauses that may stand behind a call, and whether something in brackets follows.
_CLAUSES: tuple[tuple[tuple[str, ...], bool], ...] = (
    (("IGNORE", "NULLS"), False),
    (("RESPECT", "NULLS"), False),
    (("WITHIN", "GROUP"), True),
    (("FILTER",), True),
)


def _end_of_clause(tokens: Sequence[Token], at: int) -> int | None:
    for words, bracket in _CLAUSES:
        end = at + len(words)
        if tuple(token.text.upper() for token in tokens[at:end]) != words:
            continue
        if not bracket:
            return end
        opens = end < len(tokens) and tokens[end].token_type is TokenType.L_PAREN
        closing = closing_bracket(tokens, end) if opens else None
        return None if closing is None else closing + 1
    return None


def end_of_clauses(tokens: Sequence[Token], at: int) -> int:
    """Where the clauses end that begin at a token."""
    while (end := _end_of_clause(tokens, at)) is not None:
        at = end
    return at


def replace_calls(text: str, wanted: Callable[[exp.Expression], bool], by: Callable[[str], str]) -> str:
    """The text with each wanted call replaced; calls inside of one that is wanted go with it.

    >>> replace_calls("Sum(a) / least(1, count(b))", lambda tree: tree.key != "least", lambda call: f"<{call}>")
    '<Sum(a)> / least(1, <count(b)>)'
    """
    tokens, written, at = _tokens(text), "", 0
    for first, end in calls(text, tokens, wanted):
        written += text[at : tokens[first].start] + by(text[tokens[first].start : tokens[end - 1].end + 1])
        at = tokens[end - 1].end + 1
    return written + text[at:]


def calls(
    text: str, tokens: Sequence[Token], wanted: Callable[[exp.Expression], bool]
) -> Iterator[tuple[int, int]]:
    """The first token of each wanted call, and one past its clauses; calls inside of a wanted one are left out."""
    at = 0
    for n, token in enumerate(tokens[:-1]):
        if n < at or tokens[n + 1].token_type is not TokenType.L_PAREN or not token.text.isidentifier():
            continue
        closing = closing_bracket(tokens, n + 1)
        if closing is not None and _is(text[token.start : tokens[closing].end + 1], wanted):
            at = end_of_clauses(tokens, closing + 1)
            yield n, at


def closing_bracket(tokens: Sequence[Token], opening: int) -> int | None:
    """The place of the bracket that closes another one; None if there is none."""
    depth = 0
    for n in range(opening, len(tokens)):
        depth += (tokens[n].token_type in _OPEN) - (tokens[n].token_type in _CLOSE)
        if depth == 0:
            return n
    return None


def replace_columns(text: str, by: Mapping[str, str]) -> str:
    """The text with some columns replaced, which are given in small letters.

    >>> replace_columns("round(100 * Share, 1)", {"share": "`share_seen`", "round": "x"})
    'round(100 * `share_seen`, 1)'
    """
    tokens, made, at = _tokens(text), "", 0
    for n, token in enumerate(tokens):
        new = by.get(token.text.lower()) if token.token_type is not TokenType.STRING else None
        called = n + 1 < len(tokens) and tokens[n + 1].token_type is TokenType.L_PAREN
        field = n > 0 and tokens[n - 1].token_type is TokenType.DOT
        if new is not None and not called and not field:
            made += text[at : token.start] + new
            at = token.end + 1
    return made + text[at:]


def _tokens(text: str) -> list[Token]:
    return list(sqlglot.tokenize(text, read="spark"))


def _is(call: str, wanted: Callable[[exp.Expression], bool]) -> bool:
    try:
        tree = sqlglot.parse_one(call, dialect="spark")
        return isinstance(tree, exp.Expression) and wanted(tree)
    except sqlglot.errors.SqlglotError:
        return False  # Spark reports text that cannot be read
