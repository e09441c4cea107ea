"""What goes wrong, said to the person who wrote it: the thing, what is wrong with it, what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SlackwaterError(Exception):
    """Every error that Slackwater raises on purpose."""


class QueryError(SlackwaterError, ValueError):
    """A stream, query, window, aggregate or policy that cannot mean what was written."""


class UnknownTableError(QueryError):
    """A name that no stored relation has."""


class SqlError(QueryError):
    """A mistake in a SQL text, with its place: `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int, excerpt: str) -> None:
        super().__init__(f"line {line}, column {column}: {message}\n{excerpt}")
        self.message = message
        self.line = line
        self.column = column


class JournalError(SlackwaterError):
    """A journal that cannot be used for this query, or that cannot be read."""


class SinkError(SlackwaterError):
    """A sink that cannot take results."""


class RunError(SlackwaterError):
    """A running query that failed, or that was asked for something in the wrong state."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint at the known word that is nearest; empty where none is near.

    >>> did_you_mean("carier", ["origin", "carrier"])
    " (did you mean 'carrier'?)"
    """
    by_letters = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), list(by_letters), n=1)
    return f" (did you mean {by_letters[near[0]]!r}?)" if near and near[0] != word.lower() else ""
