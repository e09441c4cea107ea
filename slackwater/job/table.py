"""Tables of a job file, read with errors that name the key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from slackwater.errors import SlackwaterError
from slackwater.job.settings import Columns
from slackwater.progress.time import Span


class JobError(SlackwaterError):
    """A job file that cannot be run as it stands."""


class Table:
    """A table of the file whose keys are all known; what is read from it has the right type."""

    def __init__(self, where: str, values: object, known: tuple[str, ...]) -> None:
        if not isinstance(values, dict):
            raise JobError(f"{where}: {values!r} is no table; write [{where}]")
        self.where = where
        self.values: dict[str, Any] = values
        for key in values:
            if key not in known:
                raise JobError(
                    f"{at(where, key)}: unknown key{nearest(key, known)}; known keys: {', '.join(known)}"
                )

    def need(self, key: str, example: str) -> str:
        """Text that must be there."""
        value = self.text(key)
        if value is None:
            raise JobError(f"{at(self.where, key)} is missing; write for example {example}")
        return value

    def text(self, key: str) -> str | None:
        """Text, if it is there."""
        value = self.values.get(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        raise JobError(f'{at(self.where, key)}: {value!r} is no text; write {key} = "…"')

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise JobError(f"{at(self.where, key)}: {value!r}; write true or false, without quotes")
        return value

    def span(self, key: str) -> Span | None:
        """A length of time, or a whole number where time is one."""
        value = self.values.get(key)
        if value is None or type(value) in (str, int):
            return value
        raise JobError(f'{at(self.where, key)}: {value!r} is no length; write {key} = "30 minutes"')

    def table(self, key: str) -> dict[str, Any]:
        """A table inside, empty if it is not there."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise JobError(f"{at(self.where, key)}: {value!r} is no table; write [{at(self.where, key)}]")
        return value

    def columns(self, key: str) -> Columns:
        """A list of expressions or a table of named ones."""
        value = self.values.get(key, [])
        entries = list(value.values()) if isinstance(value, dict) else value
        if not isinstance(entries, list) or not all(isinstance(e, str) for e in entries):
            raise JobError(f"{at(self.where, key)}: {value!r}; expressions are text, each in quotes")
        if isinstance(value, dict):
            return Columns(named=tuple(value.items()))
        if key == "agg" and entries:
            raise JobError('query.agg: aggregates need names; write [query.agg] with n = "count(*)"')
        return Columns(listed=tuple(entries))


def at(where: str, key: str) -> str:
    """A key's full name."""
    return f"{where}.{key}" if where else key


def nearest(word: str, known: Iterable[str]) -> str:
    """What the user may have meant, if anything is near."""
    near = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


@contextmanager
def about(where: str) -> Iterator[None]:
    """Errors inside are about this key."""
    try:
        yield
    except SlackwaterError as error:
        raise JobError(f"{where}: {error}") from error
