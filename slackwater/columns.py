"""Names of the hidden columns that several rooms read and write. The columns of a user never begin with `__`."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: The application time of a row, in ticks.
TIME = "__time"
#: The source of a row, as text.
SOURCE = "__source"
#: What rows without a source are called.
NO_SOURCE = "null"
#: Until when a row that a join has made finds partners in another join, in ticks; not at that instant any more.
UNTIL = "__until"
#: How a column of the right side of a join is called, where both sides have one of that name and are joined by it.
TWIN = "__twin_"
#: The punctuation that a row carries, in ticks.
PUNCTUATION = "__punctuation"

#: The number of a pane, and of a window.
PANE, WINDOW = "__pane", "__window"
#: How many rows a partial is made of.
ROWS = "__rows"
#: The last window of a source that time has passed.
CLOSED = "__closed"
#: Limits by source, in ticks: from the one on, and below the other.
SINCE, BEFORE = "__since", "__before"

#: Of spilled rows: their stretch of time, and their place in the page.
CELL, PLACE = "__cell", "__place"

#: A name that needs no backticks in Spark SQL.
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def backticked(name: str) -> str:
    """A name as Spark SQL reads it.

    >>> backticked("sent"), backticked("sent.at")
    ('sent', '`sent.at`')
    """
    return name if PLAIN_NAME.match(name) else f"`{name}`"


def unquoted(text: str, names: Iterable[str]) -> str | None:
    """The first of some names that stands in an expression without the backticks that it needs.

    >>> unquoted("sum(a.b)", ["k", "a.b"]), unquoted("sum(`a.b`)", ["k", "a.b"])
    ('a.b', None)
    """
    needs = (name for name in names if not PLAIN_NAME.match(name))
    return next((name for name in needs if name in text and f"`{name}`" not in text), None)
