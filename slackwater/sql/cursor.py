"""A cursor over the tokens of a SQL text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from sqlglot import Token, TokenType

from slackwater.errors import QueryError, SqlError, did_you_mean
from slackwater.sql.source import Span, SqlText, span_of

T = TypeVar("T")
#: Characters of a token that an error shows.
_SHOWN = 40
#: At most this many parentheses before a SELECT.
_DEEPEST = 50
#: Words that are names only in backticks.
_NO_NAMES = frozenset(
    ("SELECT", "FROM", "WHERE", "HAVING", "AS", "UNION", "INTERSECT", "EXCEPT", "AND", "OR", "NOT")
)


class Cursor:
    """Reads tokens one after another."""

    def __init__(self, source: SqlText, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = list(tokens)
        self.at = 0

    # --- looking

    @property
    def token(self) -> Token | None:
        """The next token; None at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    @property
    def word(self) -> str:
        """The next token in capitals, if it is a word; else empty."""
        return self.word_at(0)

    def word_at(self, ahead: int) -> str:
        """The word that comes this many tokens later, in capitals; empty for what is no word."""
        at = self.at + ahead
        return self.source.word(self.tokens[at]) if at < len(self.tokens) else ""

    def raw_at(self, ahead: int) -> str:
        """The token that comes this many tokens later, as it was written; empty after the end."""
        return self.source.raw_of(self.tokens, self.at + ahead)

    def sees(self, *words: str) -> bool:
        """Whether these words come next."""
        return all(self.word_at(n) == word for n, word in enumerate(words))

    def sees_symbol(self, symbol: str) -> bool:
        """Whether this symbol comes next."""
        return self.raw_at(0) == symbol

    def sees_query(self) -> bool:
        """Whether a SELECT comes next, perhaps in parentheses."""
        ahead = next((n for n in range(_DEEPEST) if self.raw_at(n) != "("), _DEEPEST)
        return self.word_at(ahead) in ("SELECT", "WITH")

    @property
    def is_text(self) -> bool:
        """Whether a quoted text comes next."""
        return self.token is not None and self.token.token_type is TokenType.STRING

    # --- taking

    def next(self) -> Token:
        """Take a token; there must be one."""
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def accept_symbol(self, symbol: str) -> bool:
        """Take this symbol if it comes next."""
        if not self.sees_symbol(symbol):
            return False
        self.at += 1
        return True

    def expect(self, *words: str) -> None:
        """Take these words, one after another."""
        for word in words:
            if not self.accept(word):
                self.expected(word, [word])

    def expect_symbol(self, symbol: str) -> None:
        """Take this symbol."""
        if not self.accept_symbol(symbol):
            self.expected(f"'{symbol}'")

    def name(self, what: str) -> str:
        """Take a name, plain, in backticks or in double quotes."""
        token = self.token
        quoted = self.is_text and self.raw_at(0).startswith('"')
        if token is not None and (quoted or token.token_type is TokenType.IDENTIFIER) and token.text:
            return self.next().text
        if token is None or not self.word or self.word in _NO_NAMES or " " in self.word:
            self.expected(what)
        return self.source.raw(self.next())

    def text(self, what: str) -> str:
        """Take a quoted text that is not blank."""
        if not self.is_text:
            self.expected(f"{what} in quotes")
        token = self.next()
        if not token.text.strip():
            raise self.error(f"{what} is empty", [token])
        return token.text

    def listed(self, read: Callable[[], T]) -> list[T]:
        """Take one thing or several, with commas between."""
        things = [read()]
        while self.accept_symbol(","):
            things.append(read())
        return things

    def choice(self, choices: Iterable[str], what: str = "") -> str:
        """Take one of some words; `what` describes them in the error."""
        words = {choice.upper(): choice for choice in choices}
        if self.word not in words:
            self.expected(what or f"one of {', '.join(words.values())}", words.values())
        return words[self.source.word(self.next())]

    def since(self, begin: int) -> list[Token]:
        """The tokens that have been read from a place on."""
        return self.tokens[begin : self.at]

    def span(self, begin: int) -> Span:
        """Their stretch of the text."""
        return span_of(self.since(begin))

    # --- errors

    def error(self, message: str, tokens: Sequence[Token] | None = None) -> SqlError:
        """An error at some tokens, or at the next one."""
        return self.source.error(span_of(list(tokens)) if tokens else self.here(), message)

    @contextmanager
    def located(self, begin: int | None = None, what: str = "") -> Iterator[None]:
        """Give mistakes a place: the tokens that are read inside, or all from `begin` on; `what` comes first."""
        begin = self.at if begin is None else begin
        try:
            yield
        except SqlError:
            raise
        except QueryError as error:
            raise self.error(f"{what}{error}", self.since(begin)) from None

    def here(self) -> Span:
        """Where the next token is, or the end of the text."""
        if self.token is not None:
            return span_of([self.token])
        end = self.tokens[-1].end + 1 if self.tokens else len(self.source.text.rstrip())
        return Span(end, end + 1)

    def expected(self, what: str, known: Iterable[str] = ()) -> NoReturn:
        """Raise an error at the next token."""
        token = self.token
        if token is None:
            raise self.error(f"expected {what}, found the end")
        raw = self.source.raw(token)
        hint = did_you_mean(raw, known) if self.word else ""
        shown = raw if len(raw) <= _SHOWN else f"{raw[:_SHOWN]}…"
        raise self.error(f"expected {what}, found {shown}{hint}")
