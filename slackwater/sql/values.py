"""Values in clauses: lengths of time, shares, numbers, lists of them, and names."""

from __future__ import annotations

import difflib
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

from slackwater.errors import did_you_mean
from slackwater.progress.bounds.skew_policy import tuples
from slackwater.progress.time import UNITS, Span, is_unit, microseconds
from slackwater.sql.cursor import Cursor

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]*)")
#: Units of time without a fixed length.
_NO_LENGTH = ("MONTH", "MONTHS", "YEAR", "YEARS", "QUARTER", "QUARTERS")
_PLAIN = re.compile(r"\d+(\.\d+)?")
_FLAGS = {"TRUE": True, "FALSE": False}
#: Words that need backticks to be names.
_TAKEN = frozenset(
    (
        *("ALL", "AND", "ANTI", "ANY", "AS", "ASOF", "BETWEEN", "BY", "CASE", "CAST", "CROSS", "DISTINCT", "DIV"),
        *("ELSE", "EMIT", "END", "EVERY", "EXCEPT", "EXISTS", "FALSE", "FROM", "FULL", "GROUP", "HAVING", "ILIKE"),
        *("IN", "INNER", "INTERSECT", "INTERVAL", "IS", "JOIN", "LATERAL", "LEFT", "LIKE", "LIMIT", "MINUS"),
        *("NATURAL", "NOT", "NULL", "ON", "OR", "ORDER", "PIVOT", "QUALIFY", "REGEXP", "RIGHT", "RLIKE", "SELECT"),
        *("SEMI", "SIDELINE", "TABLE", "TABLESAMPLE", "THEN", "TRUE", "UNION", "UNPIVOT", "USING", "WHEN", "WHERE"),
        *("WINDOW", "WITH"),
    )
)


def read_span(cursor: Cursor, what: str) -> Span:
    """Read a length of time, or a number for a time that is one: `10 MINUTES`, `INTERVAL '10' MINUTE`, `100`."""
    begin = cursor.at
    interval = cursor.accept("INTERVAL")
    if cursor.is_text:
        text = cursor.text(what)
        if not interval and _PLAIN.fullmatch(text):
            return text  # a decimal number in quotes, for a stream whose time is decimal
        text = f"{text} {cursor.source.raw(cursor.next()).lower()}" if is_unit(cursor.word) else text
        return _checked(cursor, begin, text)
    pieces = list[str]()
    while (number_and_unit := _NUMBER.fullmatch(cursor.raw_at(0))) is not None:
        _skip(cursor)
        number, unit = number_and_unit.groups()
        if not unit and _is_unit(cursor):
            unit = cursor.source.raw(cursor.next())
        if not unit:
            if pieces or interval:
                cursor.expected("a unit of time, as in MINUTES", UNITS)
            return Decimal(number) if "." in number else int(number)
        pieces.append(f"{number} {unit.lower()}")
    if not pieces:
        cursor.expected(what)
    return _checked(cursor, begin, " ".join(pieces))


def read_length(cursor: Cursor, what: str) -> str:
    """Read a positive length of wall-clock time."""
    begin = cursor.at
    span = read_span(cursor, what)
    if not isinstance(span, str) or microseconds(span) <= 0:
        raise cursor.error(f"expected {what}, positive, as in 10 SECONDS", cursor.since(begin))
    return span


def read_count(cursor: Cursor, what: str) -> int:
    """A whole number."""
    if not cursor.raw_at(0).isdecimal():
        cursor.expected(what)
    return int(cursor.source.raw(cursor.next()))


def share_text(cursor: Cursor, what: str) -> str:
    """A share as it was written, `75%` or `0.75`."""
    number_and_unit = _NUMBER.fullmatch(cursor.raw_at(0))
    if number_and_unit is None or number_and_unit[2]:
        cursor.expected(what)
    _skip(cursor)
    return number_and_unit[1] + ("%" if cursor.accept_symbol("%") else "")


def read_share(cursor: Cursor, what: str) -> float:
    """A share as a number."""
    text = share_text(cursor, what)
    return float(Decimal(text[:-1]) / 100) if text.endswith("%") else float(text)


def sees_share(cursor: Cursor) -> bool:
    """Whether a share comes next."""
    number_and_unit = _NUMBER.fullmatch(cursor.raw_at(0))
    if number_and_unit is None or number_and_unit[2]:
        return False
    return cursor.raw_at(1) == "%" or ("." in number_and_unit[1] and not is_unit(cursor.word_at(1)))


def sees_value(cursor: Cursor) -> bool:
    """Whether the setting of an option comes next."""
    return (
        cursor.is_text
        or cursor.sees_symbol("(")
        or cursor.word in (*_FLAGS, "INTERVAL", "TUPLES")
        or _NUMBER.fullmatch(cursor.raw_at(0)) is not None
    )


def read_value(cursor: Cursor) -> Any:
    """Read the setting of an option: a length, a number, a share, a text, TRUE or FALSE, or a list of these."""
    if cursor.accept_symbol("("):
        return _list(cursor)
    if cursor.accept("TUPLES"):
        begin = cursor.at
        cursor.expect_symbol("(")
        pair = _list(cursor)
        if not isinstance(pair, list) or len(pair) != 2:
            raise cursor.error("expected a count and a length, as in TUPLES (3, 0)", cursor.since(begin))
        return tuples(*pair)
    if cursor.word in _FLAGS:
        return _FLAGS[cursor.source.word(cursor.next())]
    if cursor.is_text:
        return cursor.text("a value")
    if cursor.raw_at(1) == "%" and _NUMBER.fullmatch(cursor.raw_at(0)):
        return share_text(cursor, "a share")
    value = read_span(cursor, "a value, as in 10 SECONDS, 5 or 1%")
    return float(value) if isinstance(value, Decimal) else value


def _list(cursor: Cursor) -> list[Any] | dict[Any, Any]:
    """Read what is in parentheses: values, values by name, or by two names as in 'a' TO 'b' = (0, 5)."""
    values, named = list[Any](), dict[Any, Any]()
    while not cursor.accept_symbol(")"):
        if values or named:
            cursor.expect_symbol(",")
        if cursor.raw_at(1) == "=" or cursor.word_at(1) == "TO":
            key = _key(cursor)
            cursor.expect_symbol("=")
            named[key] = read_value(cursor)
        else:
            values.append(read_value(cursor))
        if values and named:
            raise cursor.error("give every value a name, or none")
    return named or values


def _key(cursor: Cursor) -> str | tuple[str, str]:
    def name() -> str:
        return cursor.text("a name") if cursor.is_text else cursor.name("a name")

    first = name()
    return (first, name()) if cursor.accept("TO") else first


def _skip(cursor: Cursor) -> None:
    """Skip a number. One with a suffix, as in 10d, is several tokens with the same start."""
    token = cursor.next()
    while cursor.token is not None and cursor.token.start == token.start:
        cursor.at += 1


def _is_unit(cursor: Cursor) -> bool:
    if is_unit(cursor.word) or cursor.word in _NO_LENGTH:
        return True
    # An option such as SOURCES may follow a number, too.
    near = difflib.get_close_matches(cursor.word.lower(), UNITS, n=1, cutoff=0.75)
    hint = did_you_mean(cursor.word, near) if len(cursor.word) > 3 else ""
    if hint:
        raise cursor.error(f"unknown unit {cursor.raw_at(0)}{hint}")
    return False


def _checked(cursor: Cursor, begin: int, text: str) -> str:
    with cursor.located(begin):
        microseconds(text)
    return text


def text_literal(text: str) -> str:
    r"""A text in quotes, as Spark reads it.

    >>> print(text_literal("it's"))
    'it\'s'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def span_sql(span: Span) -> str:
    """A length of time or a number as SQL text.

    >>> span_sql("10 minutes"), span_sql("1.5"), span_sql(5)
    ('10 minutes', "'1.5'", '5')
    """
    if isinstance(span, timedelta):
        return f"{microseconds(span)} microseconds"
    if not isinstance(span, str):
        return str(span)
    return span if span[:1].isdigit() and not _PLAIN.fullmatch(span) else text_literal(span)


def quoted(name: str) -> str:
    """A name as SQL reads it: in backticks if it is not a plain word."""
    plain = name.isidentifier() and name.isascii() and name.upper() not in _TAKEN
    return name if plain else f"`{name}`"
