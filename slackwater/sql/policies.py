"""Disorder policies in SQL: `DISORDER DROP RATIO 1% STRETCH 10 MINUTES`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from slackwater.errors import QueryError
from slackwater.progress.bounds.skew import Pair, TuplePair
from slackwater.progress.bounds.skew_policy import Tuples
from slackwater.progress.bounds.user_settings import NamedValues
from slackwater.progress.disorder import Disorder
from slackwater.progress.policies import POLICIES, Policy, read_pair
from slackwater.progress.time import TimeDomain, microseconds
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import read_expression
from slackwater.sql.values import read_value, sees_value, text_literal

#: Options that are pairs.
_PAIRS = ("rate",)


def read_policy(cursor: Cursor, stops: tuple[str, ...]) -> Disorder:
    """Read a policy after the word DISORDER; `stops` are words that may follow it."""
    begin = cursor.at
    policy = next((p for p in POLICIES if cursor.word == p.words[0]), None)
    if policy is None:
        names = [" ".join(p.words) for p in POLICIES]
        cursor.expected(f"a disorder policy ({', '.join(names)})", [p.words[0] for p in POLICIES])
    cursor.expect(*policy.words)
    main = list[Any]()
    if policy.main == "column":
        stops = (*stops, *(option.upper() for option in policy.options))
        main.append(read_expression(cursor, "the column of punctuations", stops).text)
    elif sees_value(cursor):
        main.append(read_value(cursor))
    options = _options(cursor, policy)
    with cursor.located(begin):
        try:
            make: Callable[..., Disorder] = inspect.unwrap(policy.make)
            return make(*map(policy.read, main), **options)
        except (TypeError, AttributeError, ValueError) as error:
            if isinstance(error, QueryError):
                raise
            raise QueryError(f"this policy cannot be read; write for example {policy.example}") from None


def _options(cursor: Cursor, policy: Policy) -> dict[str, Any]:
    options = dict[str, Any]()
    while (name := cursor.word.lower()) in policy.options:
        if name in options:
            raise cursor.error(f"{cursor.word} is written twice; leave one of them out")
        cursor.at += 1
        options[name] = read_value(cursor) if sees_value(cursor) else True
        if name in _PAIRS:
            options[name] = read_pair(options[name])
    return options


# --- written back

#: A length of time or a share that needs no quotes.
_BARE = re.compile(r"\d+(\.\d+)?( ?[a-z]+|%)")


def policy_sql(policy: Disorder) -> str:
    """A policy as SQL text.

    >>> from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
    >>> policy_sql(drop_ratio(0.01, stretch="10 minutes"))
    'DROP RATIO 0.01 STRETCH 10 minutes'
    """
    entry = next((p for p in POLICIES if p.gives == type(policy).__name__), None)
    if entry is None:
        raise QueryError(f"disorder={policy.describe()}: this policy has no words in SQL; add it to POLICIES")
    main, options = entry.settings(policy)
    words = [*entry.words, *map(str if entry.main == "column" else _written, main)]
    return " ".join([*words, *(f"{name.upper()} {_written(value)}" for name, value in options.items())])


def _written(value: Any) -> str:
    """The setting of a policy as SQL text."""
    match value:
        case bool():
            return str(value).upper()
        case str():
            return value if _BARE.fullmatch(value) else text_literal(value)
        case int() | float() | Decimal():
            return str(value)
        case timedelta():
            return TimeDomain.TIMESTAMP.show_span(microseconds(value)) if value else "0"
        case Fraction() if Fraction(str(float(value))) == value:
            return str(float(value))
        case NamedValues():
            return _listed(f"{text_literal(name)} = {_written(entry)}" for name, entry in value.items)
        case dict():
            return _listed(f"{' TO '.join(map(text_literal, pair))} = {_written(e)}" for pair, e in value.items())
        case list() | tuple():
            return _listed(map(_written, value))
        case Pair():
            return f"({value.t}, {value.delta})"
        case Tuples() | TuplePair():
            return f"TUPLES ({value.n}, {_written(value.delta)})"
    raise QueryError(f"the setting {value!r} of a policy has no SQL; write the query in Python")


def _listed(words: Iterable[str]) -> str:
    return f"({', '.join(words)})"
