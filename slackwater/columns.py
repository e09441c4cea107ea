"""Names of the hidden columns that several rooms read and write. The columns of a user never begin with `__`."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: The application time of a row, in ticks.
TIME = "__time"
#: The source of a row, as text.
SOURCE = "__source"
#: The name of the source of rows without one.
NO_SOURCE = "null"
#: The tick at which a pair stops finding partners in another join.
UNTIL = "__until"
#: Kept with a row of a join: the number of its page, and the instant up to which the other side was past then.
CAME, PAST = "__came", "__past"
#: Prefix of a column of the right side of a join that USING joins with a column of the left side.
TWIN = "__twin_"
#: Prefix of a column that a generator such as explode gives.
EXPLODED = "__exploded_"
#: The punctuation that a row carries, in ticks.
PUNCTUATION = "__punctuation"

#: The number of a pane, and of a window.
PANE, WINDOW = "__pane", "__window"
#: How many rows a partial is made of.
ROWS = "__rows"
#: The number of a group whose kept rows are aggregated.
GROUP = "__group"
#: The last closed window of a source.
CLOSED = "__closed"
#: Limits by source, in ticks: at or above the first, and below the second.
SINCE, BEFORE = "__since", "__before"

#: Kept with spilled rows: the number of their stretch of time, and their position in the page.
CELL, ROW_ORDER = "__cell", "__place"

#: A name that needs no backticks in Spark SQL.
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def bad_name(name: str) -> str | None:
    """Why no column may have this name; None if one may. polars takes `*` and `^…$` for patterns.

    >>> bad_name("sent.at"), bad_name("*")
    (None, "no column may be called '*': name it in letters, as in 'star'")
    """
    if "`" in name:
        return f"a name has no backtick in it; rename {name!r}"
    if "\0" in name:
        return f"a name has no NUL character in it, on which Arrow ends; rename {name!r}"
    if name == "*" or (name.startswith("^") and name.endswith("$")) or not name.strip():
        return f"no column may be called {name!r}: name it in letters, as in 'star'"
    return None


def backticked(name: str) -> str:
    """A name as Spark SQL reads it.

    >>> backticked("sent"), backticked("sent.at")
    ('sent', '`sent.at`')
    """
    return name if PLAIN_NAME.match(name) else f"`{name}`"


def unquoted(text: str, names: Iterable[str]) -> str | None:
    """The first name that an expression has without the backticks that it needs.

    >>> unquoted("sum(a.b)", ["k", "a.b"]), unquoted("sum(`a.b`)", ["k", "a.b"])
    ('a.b', None)
    """
    needs = (name for name in names if not PLAIN_NAME.match(name))
    return next((name for name in needs if name in text and f"`{name}`" not in text), None)
