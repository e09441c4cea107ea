"""Calls with OVER (…) in Spark SQL text: where they stand, what they compare, and which need a total order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import sqlglot
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from slackwater.aggregates.user_text import closing_bracket

_OVER = re.compile(r"\bover\b", re.IGNORECASE)
_FRAMES = ("ROWS", "RANGE", "GROUPS")
#: Functions whose value depends on which of two equal rows comes first.
_BY_PLACE = frozenset(
    "row_number ntile lag lead first first_value last last_value nth_value collect_list array_agg".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class OverCall:
    """One call, by its places in the text."""

    function: str
    """In small letters."""
    start: int
    end: int
    inside: str
    """What stands in OVER's parentheses."""
    partition: tuple[str, ...]
    """Expressions of PARTITION BY."""
    ordered: bool
    """Whether there is an ORDER BY."""
    frame: str
    """ROWS, RANGE or GROUPS in capitals; empty without a frame."""
    order_end: int
    """Where the ORDER BY ends, or would stand."""

    @property
    def needs_total_order(self) -> bool:
        """Whether its value depends on the order of equal rows."""
        return self.frame != "RANGE" and (self.function in _BY_PLACE or self.frame == "ROWS")


def has_over(text: object) -> bool:
    """Whether a text has a call with OVER.

    >>> has_over("rank() OVER (ORDER BY x) < 3"), has_over("over + 1")
    (True, False)
    """
    return isinstance(text, str) and _OVER.search(text) is not None and bool(over_calls(text))


def over_calls(text: str) -> list[OverCall]:
    """All such calls; none where the text cannot be read.

    >>> [(call.function, call.partition) for call in over_calls("lag(x) OVER (PARTITION BY w, f(a, b))")]
    [('lag', ('w', 'f(a, b)'))]
    """
    try:
        tokens = list(sqlglot.tokenize(text, read="spark"))
    except sqlglot.errors.SqlglotError:
        return []
    return list(_calls(text, tokens))


def _calls(text: str, tokens: Sequence[Token]) -> Iterator[OverCall]:
    for n in over_places(tokens):
        closing, first = closing_bracket(tokens, n + 1), _function(tokens, n)
        if closing is not None and first is not None:
            yield _call(text, tokens, first, n + 1, closing)


def over_places(tokens: Sequence[Token]) -> list[int]:
    """The tokens OVER that are followed by a parenthesis, or by the name of a window, and stand behind a call.

    >>> over_places(list(sqlglot.tokenize("rank() over (order by x)", read="spark")))
    [3]
    """
    return [
        n
        for n in range(1, len(tokens) - 1)
        if tokens[n].text.upper() == "OVER"
        and tokens[n + 1].token_type in (TokenType.L_PAREN, TokenType.VAR, TokenType.IDENTIFIER)
        and (tokens[n - 1].token_type is TokenType.R_PAREN or tokens[n - 1].text.upper() == "NULLS")
    ]


def _function(tokens: Sequence[Token], over: int) -> int | None:
    """The first token of the call before OVER, which may have FILTER (…) or IGNORE NULLS behind it."""
    at = over - 1
    if tokens[at].text.upper() == "NULLS":
        at -= 2
    while at > 0 and tokens[at].token_type is TokenType.R_PAREN:
        opening = next((n for n in range(at - 1, -1, -1) if closing_bracket(tokens, n) == at), 0)
        if opening == 0:
            return None
        if tokens[opening - 1].text.upper() != "FILTER":
            return opening - 1
        at = opening - 2
    return None


def _call(text: str, tokens: Sequence[Token], first: int, opening: int, closing: int) -> OverCall:
    words = list(_outermost(tokens, opening, closing))
    frame = next((n for n in words if tokens[n].text.upper() in _FRAMES), closing)
    order = next((n for n in words if tokens[n].text.upper() == "ORDER BY"), None)
    partition = next((n for n in words if tokens[n].text.upper() == "PARTITION BY"), None)
    commas = [n for n in words if tokens[n].token_type is TokenType.COMMA]
    parts: list[str] = []
    if partition is not None:
        end = min(frame, closing if order is None else order)
        ends = [partition, *(n for n in commas if partition < n < end), end]
        for before, after in pairwise(ends):
            parts.append(text[tokens[before].end + 1 : tokens[after].start].strip())
    return OverCall(
        tokens[first].text.lower(),
        tokens[first].start,
        tokens[closing].end + 1,
        text[tokens[opening].end + 1 : tokens[closing].start].strip(),
        tuple(parts),
        order is not None,
        "" if frame == closing else tokens[frame].text.upper(),
        tokens[frame].start,
    )


def _outermost(tokens: Sequence[Token], opening: int, closing: int) -> Iterator[int]:
    """The tokens between two brackets that are in no further ones."""
    n = opening + 1
    while n < closing:
        if tokens[n].token_type is TokenType.L_PAREN:
            n = closing_bracket(tokens, n) or closing
        else:
            yield n
        n += 1


def with_total_order(text: str, columns: Sequence[str]) -> str:
    """The text with these columns behind the ORDER BY of calls for which equal rows must not change places.

    >>> with_total_order("lag(n) OVER (PARTITION BY w ORDER BY n DESC)", ["k", "n"])
    'lag(n) OVER (PARTITION BY w ORDER BY n DESC, `k`, `n`)'
    >>> with_total_order("row_number() OVER (PARTITION BY w)", ["k"]), with_total_order("rank() OVER ()", ["k"])
    ('row_number() OVER (PARTITION BY w ORDER BY `k`)', 'rank() OVER ()')
    """
    added = ", ".join(f"`{column}`" for column in columns)
    for call in reversed(over_calls(text)):
        if added and call.needs_total_order:
            before = text[: call.order_end].rstrip()
            gap = " " if call.frame else ""
            text = f"{before}{', ' if call.ordered else ' ORDER BY '}{added}{gap}{text[call.order_end :]}"
    return text


def taken_out(text: str, name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The text with each call replaced by a name, and the calls by these names.

    >>> taken_out("rank() OVER (PARTITION BY w) < 3", "__over{}")
    ('`__over0` < 3', (('__over0', 'rank() OVER (PARTITION BY w)'),))
    """
    found = over_calls(text)
    calls = tuple((name.format(n), text[call.start : call.end]) for n, call in enumerate(found))
    for call, (own, _) in reversed(list(zip(found, calls, strict=True))):
        text = f"{text[: call.start]}`{own}`{text[call.end :]}"
    return text, calls
