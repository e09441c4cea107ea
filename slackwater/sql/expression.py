"""Spark SQL expressions inside a text: where they end, and their exact words, which go to Spark unchanged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError

from slackwater.aggregates.over import over_places
from slackwater.aggregates.parse import is_aggregate
from slackwater.aggregates.user_text import calls
from slackwater.columns import PLAIN_NAME
from slackwater.errors import SqlError, did_you_mean
from slackwater.plan.spark_sql import SparkSQL
from slackwater.sql.cursor import Cursor
from slackwater.sql.end_clauses import end_clause
from slackwater.sql.source import Span, SqlText, span_of

_OPEN = {"(": ")", "[": "]", "{": "}"}
_CLOSE = {close: open for open, close in _OPEN.items()}
#: Words that always end an expression, except inside of parentheses.
_RESERVED = frozenset(("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "UNION", "INTERSECT", "MINUS", "EXCEPT"))
_RESERVED |= {"QUALIFY", "ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY"}
#: Words that end an expression only before these words or symbols; else they may name columns.
_FOLLOWED = {
    "WINDOW": ("[", "TUMBLING", "HOPPING", "SESSION"),
    "EMIT": ("EARLY", "EVERY", "ON", "FINAL", "CHANGES", "AFTER", "WITH", "STREAM"),
    "SIDELINE": ("RATIO",),
    "CORRECTIONS": ("INTERVAL", "'", *"0123456789"),
    "LIMIT": ("ALL", *"0123456789"),
    "LATERAL": ("VIEW",),
    "WITH": ("ROLLUP", "CUBE", "TOTALS"),
}
_FOLLOWED |= {word: ("JOIN", "OUTER", "SEMI", "ANTI", "ASOF") for word in ("LEFT", "RIGHT", "FULL", "INNER")}
_FOLLOWED |= {word: ("JOIN",) for word in ("CROSS", "NATURAL", "SEMI", "ANTI")}
_FOLLOWED["ASOF"] = ("JOIN", "LEFT", "INNER", "BACKWARD", "FORWARD", "NEAREST", "WITHIN")
#: The error for a sub-query that cannot be written as a join.
NO_SUBQUERY = (
    "a query inside an expression must be one that can be a join: WHERE … IN (SELECT …) or EXISTS (SELECT …), by "
    "itself or between ANDs; to compare results of windows join them, as in FROM (SELECT … FROM a [RANGE 1 HOUR, "
    "SLIDE 1 HOUR]) x JOIN (SELECT … FROM b [RANGE 1 HOUR, SLIDE 1 HOUR]) y ON …"
)
#: What a user may have meant by a word that does not belong to an expression.
CLAUSES = ("FROM", "WHERE", "GROUP BY", "HAVING", "WINDOW", "EMIT", "AS", "AND", "OR")


@dataclass(frozen=True)
class Expression:
    """Some tokens of a text. `edits` replace stretches of it, for example by the name of a result."""

    source: SqlText
    tokens: tuple[Token, ...]
    edits: tuple[tuple[Span, str], ...] = ()

    @property
    def span(self) -> Span:
        """Where it stands."""
        return span_of(list(self.tokens))

    @cached_property
    def text(self) -> str:
        """The user's own words, with the edits."""
        pieces, at = [], self.span.start
        for span, words in sorted(self.edits, key=lambda edit: edit[0].start):
            pieces += [self.source.text[at : span.start], words]
            at = span.end
        return "".join([*pieces, self.source.text[at : self.span.end]])

    @property
    def column(self) -> str | None:
        """The name of the column, if the expression is a single column."""
        if len(self.edits) == 1 and self.edits[0][0] == self.span and is_name(self.edits[0][1]):
            return self.edits[0][1].strip("`")
        if len(self.tokens) != 1 or self.edits:
            return None
        (token,) = self.tokens
        if token.token_type is TokenType.IDENTIFIER:
            return token.text
        return self.source.raw(token) if self.source.word(token) else None

    @property
    def name(self) -> str:
        """The name without an alias: that of the column, or the words, with functions in small letters."""
        if self.column is not None:
            return self.column
        words = [self.source.raw(t) for t in self.tokens]
        words = [w.lower() if behind == "(" else w for w, behind in zip(words, [*words[1:], ""], strict=True)]
        at, text = self.span.start, ""
        dropped = [span for span, other in self.edits if not other]
        for token, word in zip(self.tokens, words, strict=True):
            gap = token.start - at - sum(s.end - s.start for s in dropped if at <= s.start and s.end <= token.start)
            text += " " * (gap > 0) + ("" if token.start < at else word)
            at = max(at, token.end + 1)
        return text.replace("`", "")

    @cached_property
    def aggregates(self) -> list[tuple[int, int]]:
        """The aggregate calls, without those inside others: the first token of each, and one past its last.

        A call with OVER behind it is none, but there may be some inside of it.
        """
        return list(self._aggregates(0, len(self.tokens)))

    def _aggregates(self, begin: int, stop: int) -> Iterator[tuple[int, int]]:
        over = over_places(self.tokens)
        for at, end in calls(self.source.text, self.tokens[begin:stop], is_aggregate):
            if begin + end in over:
                yield from self._aggregates(begin + at + 2, begin + end - 1)
            else:
                yield begin + at, begin + end

    @property
    def has_over(self) -> bool:
        """Whether it has a call with OVER (…)."""
        return bool(over_places(self.tokens))

    def find(self, words: Sequence[Token]) -> list[tuple[int, int]]:
        """Where these tokens stand in it."""
        size = len(words)
        return [
            (n, n + size)
            for n in range(len(self.tokens) - size + 1)
            if self.source.same_words(self.tokens[n : n + size], words) and not self._is_part_of_name(n, size)
        ]

    def _is_part_of_name(self, at: int, size: int) -> bool:
        """Whether the tokens are a part of a name with dots, as in `a.b`, or the name of a function."""
        before, behind = (self.source.raw_of(self.tokens, n) for n in (at - 1, at + size))
        return before == "." or (size == 1 and behind in (".", "("))

    def edited(self, at: int, end: int, words: str) -> Expression:
        """The same with some tokens replaced and edits inside of them dropped. Unchanged where an edit overlaps."""
        span = span_of(list(self.tokens[at:end]))
        if any(s.start < span.end and span.start < s.end and not _inside(s, span) for s, _ in self.edits):
            return self
        others = (edit for edit in self.edits if not _inside(edit[0], span))
        return Expression(self.source, self.tokens, (*others, (span, words)))

    def part(self, at: int, end: int) -> Expression:
        """Some of its tokens."""
        span = span_of(list(self.tokens[at:end]))
        inside = tuple(edit for edit in self.edits if _inside(edit[0], span))
        return Expression(self.source, self.tokens[at:end], inside)

    @cached_property
    def _tree(self) -> exp.Expression | None:
        parsed = SparkSQL().parser().parse_into(exp.Condition, list(self.tokens), self.source.text)
        return parsed[0] if parsed and isinstance(parsed[0], exp.Expression) else None

    @property
    def is_whole(self) -> bool:
        """Whether it is an expression of Spark SQL."""
        try:
            return self._tree is not None
        except (ParseError, RecursionError):
            return False

    def check(self, what: str) -> None:
        """Refuse what is no expression of Spark SQL."""
        try:
            if self._tree is None:
                raise self.source.error(self.span, f"expected {what}")
        except ParseError as error:
            raise _explained(self.source, self.tokens, error) from None
        except RecursionError:
            raise self.source.error(self.span, "this expression is nested too deeply") from None

    def without_qualifier(self, names: Collection[str]) -> Expression:
        """The same without the relation's name before a column, as in `f.carrier`."""
        return self.renamed([(n, n + 2, None) for n in self.qualifiers(names)])

    def renamed(self, replacements: Sequence[tuple[int, int, str | None]]) -> Expression:
        """The same with tokens replaced by a name; without a name, they are dropped.

        Each replacement has its first token, one past its last, and the name.
        """
        if not replacements:
            return self
        dropped = {n for at, end, name in replacements if name is None for n in range(at, end)}
        edits = tuple((span_of(list(self.tokens[at:end])), name or "") for at, end, name in replacements)
        remaining = tuple(t for n, t in enumerate(self.tokens) if n not in dropped)
        return Expression(self.source, remaining, (*self.edits, *edits)).part(0, len(remaining))

    def qualifiers(self, names: Collection[str] | None = None) -> list[int]:
        """The first tokens of columns with a qualifier, as in `f.carrier`; with `names`, with one of these."""
        lower_names = None if names is None else {name.lower() for name in names}
        dotted = [n for n, _ in self.columns if self.source.raw_of(self.tokens, n + 1) == "."]
        return [n for n in dotted if lower_names is None or self.tokens[n].text.lower() in lower_names]

    @cached_property
    def columns(self) -> list[tuple[int, str]]:
        """The columns: the first token of each, and its text; none if the expression cannot be read."""
        columns = self._tree.find_all(exp.Column) if self.is_whole and self._tree is not None else ()
        starts = {part.meta["start"] for column in columns for part in column.parts[:1] if "start" in part.meta}
        return [(n, token.text) for n, token in enumerate(self.tokens) if token.start in starts]


def is_name(text: str) -> bool:
    """Whether this is the name of a column, plain or in backticks."""
    return PLAIN_NAME.match(text) is not None or (text[:1] == text[-1:] == "`" and "`" not in text[1:-1])


def _inside(one: Span, other: Span) -> bool:
    return other.start <= one.start and one.end <= other.end


def read_expression(
    cursor: Cursor, what: str, stops: Collection[str] = (), at_each: Callable[[Cursor], None] | None = None
) -> Expression:
    """Take an expression up to a comma, a closing bracket, a word that begins a clause, or one of `stops`.

    `at_each` looks at each token before it is taken, and may refuse it.
    """
    expression = Expression(cursor.source, cut(cursor, what, stops, at_each))
    expression.check(what)
    return expression


def read_column(cursor: Cursor) -> tuple[Expression, str | None]:
    """Take an expression and its alias, with or without AS."""
    tokens = cut(cursor, "an expression", ("AS",))
    expression = Expression(cursor.source, tokens)
    if cursor.accept("AS"):
        expression.check("an expression")
        if cursor.accept_symbol("("):  # the columns of a generator
            names = cursor.listed(lambda: cursor.name("a column"))
            cursor.expect_symbol(")")
            return expression, f"({', '.join(names)})"
        return expression, cursor.name("a name after AS")
    last = Cursor(cursor.source, tokens[-1:])
    if len(tokens) > 1 and (last.word or tokens[-1].token_type is TokenType.IDENTIFIER):
        shorter = Expression(cursor.source, tokens[:-1])
        if not expression.is_whole and shorter.is_whole:
            return shorter, last.name("a name")
    expression.check("an expression")
    return expression, None


def cut(
    cursor: Cursor,
    what: str,
    stops: Collection[str],
    at_each: Callable[[Cursor], None] | None = None,
    queries: bool = False,
) -> tuple[Token, ...]:
    """Take the tokens of an expression; with `queries`, it may have sub-queries in parentheses."""
    begin, opened = cursor.at, list[Token]()
    while (token := cursor.token) is not None:
        if at_each is not None:
            at_each(cursor)
        raw = cursor.source.raw(token)
        if raw == ";" or (not opened and _ends(cursor, begin, raw, stops)):
            break
        if raw in _OPEN:
            opened.append(token)
            if not queries:
                _refuse_subquery(cursor)
        elif raw in _CLOSE:
            if cursor.source.raw(opened[-1]) != _CLOSE[raw]:
                cursor.expected(f"'{_OPEN[cursor.source.raw(opened[-1])]}'")
            opened.pop()
        cursor.at += 1
    if opened:
        raise cursor.error(f"'{cursor.source.raw(opened[-1])}' is never closed", [opened[-1]])
    if cursor.at == begin:
        cursor.expected(what)
    return tuple(cursor.since(begin))


def _ends(cursor: Cursor, begin: int, raw: str, stops: Collection[str]) -> bool:
    if raw in (",", ";") or raw in _CLOSE:
        return True
    before = cursor.raw_at(-1).upper() if cursor.at > begin else ""
    word = cursor.word
    if not word or before == ".":
        return False
    if word in _RESERVED:
        return not (word == "FROM" and before == "DISTINCT")
    if word == "WINDOW" and cursor.word_at(2) == "AS" and cursor.raw_at(3) == "(":
        return True
    if word in _FOLLOWED:
        return cursor.raw_at(1).upper() in _FOLLOWED[word] or cursor.raw_at(1)[:1] in _FOLLOWED[word]
    return cursor.at > begin and (word in stops or end_clause(cursor) is not None)


def sees_subquery(cursor: Cursor) -> bool:
    """Whether a query in parentheses comes next, and not a column that is called `select`."""
    named = cursor.word_at(1) in ("SELECT", "WITH") and cursor.raw_at(2) not in ("(", ",", ")", ".")
    return cursor.sees_symbol("(") and named


def _refuse_subquery(cursor: Cursor) -> None:
    if sees_subquery(cursor):
        cursor.at += 1
        raise cursor.error(NO_SUBQUERY)


def _explained(source: SqlText, tokens: Sequence[Token], error: ParseError) -> SqlError:
    details = error.errors[0] if error.errors else {}
    at = next((t for t in tokens if (t.line, t.col) == (details.get("line"), details.get("col"))), tokens[-1])
    description = str(details.get("description") or "this is no expression")
    if description.startswith("Required keyword"):
        side = "behind" if at is tokens[-1] else "before"
        return source.error(span_of([at]), f"expected an expression {side} {source.raw(at)}")
    if description.startswith("Invalid expression"):
        hint = did_you_mean(source.raw(at), CLAUSES) if source.word(at) else ""
        return source.error(span_of([at]), f"{source.raw(at)} does not belong here{hint}")
    return source.error(span_of([at]), description[0].lower() + description[1:])
