"""What goes wrong, said to the person who wrote it: the thing, what is wrong with it, what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class SlackwaterError(Exception):
    """Every error that Slackwater raises on purpose."""


class QueryError(SlackwaterError, ValueError):
    """A stream, query, window, aggregate or policy that cannot mean what was written."""


class JournalError(SlackwaterError):
    """A journal that cannot be used for this query, or that cannot be read."""


class SinkError(SlackwaterError):
    """A sink that cannot take results."""


class RunError(SlackwaterError):
    """A running query that failed, or that was asked for something in the wrong state."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The start of a hint, if a known name is much like this one.

    >>> did_you_mean("cuont", ["sum", "count"]), did_you_mean("speed", ["sum", "count"])
    ('did you mean count? ', '')
    """
    names = {k.lower(): k for k in known}
    near = get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    return f"did you mean {names[near[0]]}? " if near else ""
