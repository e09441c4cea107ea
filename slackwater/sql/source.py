"""A SQL text: its tokens with their positions, and errors that point at one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from slackwater.errors import SqlError
from slackwater.masking import masked
from slackwater.plan.spark_sql import SparkSQL

#: A word, or several that the tokenizer takes as one, such as GROUP BY.
_WORD = re.compile(r"[^\W\d]\w*(\s+[^\W\d]\w*)*")
#: Quoted pieces and comments, whole or cut off by the end of the text.
_QUOTED = re.compile(
    r"""--[^\n]*|'(\\.|''|[^'\\])*('|\Z)|"(\\.|""|[^"\\])*("|\Z)|`[^`]*(`|\Z)|/\*.*?(\*/|\Z)""", re.DOTALL
)
_NAMES = {"'": "text", '"': "text", "`": "a name", "/": "a comment"}


@dataclass(frozen=True)
class Span:
    """A stretch of the text, from `start` up to and without `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class SqlText:
    """A SQL text."""

    text: str

    @cached_property
    def tokens(self) -> list[Token]:
        """Words, numbers, texts and symbols; comments are left out."""
        try:
            return SparkSQL().tokenize(self.text)
        except SqlglotError:
            raise self._unreadable() from None

    def raw(self, token: Token) -> str:
        """The token as it was written, with its quotes."""
        return self.text[token.start : token.end + 1]

    def raw_of(self, tokens: Sequence[Token], at: int) -> str:
        """The token at a place as it was written; empty outside of the tokens."""
        return self.raw(tokens[at]) if 0 <= at < len(tokens) else ""

    def word(self, token: Token) -> str:
        """The token in capitals, if it is a word; empty for numbers, symbols and quoted tokens."""
        raw = self.raw(token)
        return " ".join(raw.upper().split()) if _WORD.fullmatch(raw) else ""

    def same_words(self, one: Iterable[Token], other: Iterable[Token]) -> bool:
        """Whether two stretches have the same tokens. Case and blanks count only inside of quotes."""
        return [self._spelled(t) for t in one] == [self._spelled(t) for t in other]

    def _spelled(self, token: Token) -> str:
        raw = self.raw(token)
        if token.token_type is TokenType.IDENTIFIER:
            return raw[1:-1].lower()
        return raw if token.token_type is TokenType.STRING else " ".join(raw.lower().split())

    def error(self, span: Span, message: str) -> SqlError:
        """An error at a stretch of the text, with the line and a caret under it, but without passwords."""
        start = min(span.start, len(self.text))
        text, message = (masked(shown, of=self.text) for shown in (self.text, message))
        before = text[:start]
        line, begin = before.count("\n") + 1, before.rfind("\n") + 1
        shown = text[begin:].split("\n", 1)[0]
        column = start - begin + 1
        width = max(1, min(span.end, begin + len(shown)) - start)
        margin, gap = f"{line} | ", " " * len(str(line)) + " | "
        # A tab stays a tab, so that the caret is below its column.
        blank = "".join(c if c == "\t" else " " for c in shown[: column - 1])
        return SqlError(message, line, column, f"{margin}{shown}\n{gap}{blank}{'^' * width}")

    def _unreadable(self) -> SqlError:
        for piece in _QUOTED.finditer(self.text):
            opening, text = piece[0][0], piece[0]
            if opening == "-":
                continue
            closing = "*/" if opening == "/" else opening
            if len(text) < len(closing) + (2 if opening == "/" else 1) or not text.endswith(closing):
                return self.error(
                    Span(piece.start(), piece.start() + 1),
                    f"{_NAMES[opening]} begins here and never ends; add {closing}",
                )
        return self.error(Span(0, 1), "this cannot be read as SQL")


def span_of(tokens: list[Token]) -> Span:
    """The stretch from the first to the last token."""
    return Span(tokens[0].start, tokens[-1].end + 1)
