"""WINDOW w AS (…): what OVER w stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slackwater.aggregates.over import over_places
from slackwater.aggregates.user_text import closing_bracket
from slackwater.errors import did_you_mean
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import Expression
from slackwater.sql.source import span_of

#: Windows by name in small letters, each with its parentheses.
NamedWindows = Mapping[str, Expression]


def read_named_windows(cursor: Cursor) -> NamedWindows:
    """Read the clause, if it comes next."""
    found = dict[str, Expression]()
    if cursor.sees("WINDOW") and cursor.word_at(2) == "AS":
        cursor.at += 1
        cursor.listed(lambda: _read(cursor, found))
    return found


def written_out(expression: Expression, windows: NamedWindows, text: Callable[[Expression], str]) -> Expression:
    """An expression with the windows written out, where it names some; `text` writes each."""
    for place in over_places(expression.tokens):
        name = expression.tokens[place + 1]
        if expression.source.raw(name) == "(":
            continue
        window = windows.get(name.text.lower())
        if window is None:
            known = f"there are {', '.join(windows)}" if windows else f"write WINDOW {name.text} AS (…)"
            wrong = f"there is no window {name.text!r}{did_you_mean(name.text, windows)}; {known}"
            raise expression.source.error(span_of([name]), wrong)
        expression = expression.edited(place + 1, place + 2, text(window))
    return expression


def _read(cursor: Cursor, found: dict[str, Expression]) -> None:
    begin = cursor.at
    name = cursor.name("a name for the window")
    if name.lower() in found:
        raise cursor.error(f"there is already a window {name!r}; give it another name", cursor.since(begin))
    cursor.expect("AS")
    closing = closing_bracket(cursor.tokens, cursor.at) if cursor.sees_symbol("(") else None
    if closing is None:
        cursor.expected("PARTITION BY … ORDER BY … in parentheses")
    found[name.lower()] = Expression(cursor.source, tuple(cursor.tokens[cursor.at : closing + 1]))
    cursor.at = closing + 1
