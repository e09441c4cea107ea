"""The errors of Slackwater. Each names what the user wrote, what is wrong, and what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SlackwaterError(Exception):
    """All errors that Slackwater raises on purpose are of this class."""


class QueryError(SlackwaterError, ValueError):
    """A stream, a query, a window, an aggregate or a policy that makes no sense."""

    def __init__(self, *words: object) -> None:
        super().__init__(*words)
        self.nodes: list[object] = []
        """The logical nodes in which the mistake is, the innermost first; analysis fills it in."""
        self.clause = ""
        """The clause of the innermost node in which the mistake is: "window", "groups" or another one."""


class QueryWarning(UserWarning):
    """A query that can run, but may not do what was meant."""


class UnknownTableError(QueryError):
    """A name that no stored relation has."""


class UnknownWordError(QueryError, AttributeError):
    """A method or an attribute that an object lacks."""


class SqlError(QueryError):
    """A mistake in a SQL text, with its place: `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int, excerpt: str) -> None:
        super().__init__(f"line {line}, column {column}: {message}\n{excerpt}")
        self.message = message
        self.line = line
        self.column = column


class JournalError(SlackwaterError):
    """A journal cannot be read, or cannot be used for this query."""


class SinkError(SlackwaterError):
    """A sink cannot take results."""


class RunError(SlackwaterError):
    """A running query has failed, or cannot do now what it was asked for."""


class RowsGoneError(RunError):
    """A source no longer has rows that are still to be read."""


#: Characters of a value that a message shows.
_SHOWN = 60


def shown(value: object) -> str:
    """A value in a message; a long one by its type alone.

    >>> shown("10 seconds"), shown("x" * 100)
    ("'10 seconds'", 'a str')
    """
    text = repr(value)
    return text if len(text) <= _SHOWN and "\n" not in text else f"a {type(value).__name__}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint at the most similar known word; empty if none is similar.

    >>> did_you_mean("carier", ["origin", "carrier"])
    " (did you mean 'carrier'?)"
    """
    by_letters = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), list(by_letters), n=1)
    return f" (did you mean {by_letters[near[0]]!r}?)" if near and near[0] != word.lower() else ""
