"""Where INSERT INTO writes to: a folder, a function, or a table of another kind with its settings."""

from __future__ import annotations

from typing import Any

from slackwater.sql.cursor import Cursor
from slackwater.sql.functions import read_import
from slackwater.sql.statements import SinkCall, SinkFunction
from slackwater.sql.values import read_value


def read_sink(cursor: Cursor, what: str) -> str | SinkFunction | SinkCall:
    """Read one; `what` is expected."""
    if cursor.accept("FUNCTION"):
        return read_import(cursor, "DataFrame", "commit_id")
    if cursor.is_text or cursor.raw_at(1) != "(":
        return cursor.text(what)
    name, values, settings = cursor.name("a sink").lower(), list[Any](), dict[str, Any]()
    cursor.expect_symbol("(")
    while not cursor.accept_symbol(")"):
        if values or settings:
            cursor.expect_symbol(",")
        if cursor.raw_at(1) == "=":
            setting = cursor.name("a setting")
            cursor.expect_symbol("=")
            settings[setting.lower()] = read_value(cursor)
        elif settings:
            cursor.expected("a setting with its name, as in every = 10 SECONDS")
        else:
            values.append(read_value(cursor))
    return SinkCall(name, tuple(values), settings)
