"""Clauses that programs add to SQL. They come after HAVING and before EMIT. Each makes another query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slackwater.plan import logical as L
from slackwater.sql.cursor import Cursor


@dataclass(frozen=True)
class EndClause:
    """A clause at the end of a SELECT."""

    words: tuple[str, ...]
    """The words that it begins with, in capitals. With two, a column may still have the name of the first."""
    read: Callable[[Cursor, L.Logical], L.Logical]
    """Reads what follows the words, and returns the query with the clause."""


#: The first words of clauses that end a query as a whole.
OF_THE_WHOLE = ("EMIT", "SIDELINE", "CORRECTIONS")
#: The clauses that programs have added.
END_CLAUSES: list[EndClause] = []


def end_clause(cursor: Cursor) -> EndClause | None:
    """The clause that comes next; None if none does."""
    return next((clause for clause in END_CLAUSES if cursor.sees(*clause.words)), None)
