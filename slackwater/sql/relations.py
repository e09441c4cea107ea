"""The relations of FROM and the joins between them, as they were written."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import TokenType

from slackwater.plan import logical as L
from slackwater.progress.time import Span as Length
from slackwater.sql.cursor import Cursor
from slackwater.sql.end_clauses import end_clause
from slackwater.sql.expression import Expression
from slackwater.sql.foreign import sees_clause
from slackwater.sql.source import Span
from slackwater.sql.window import WindowClause

#: Words that begin a join.
JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ANTI", "SEMI", "ASOF")
#: Words after a relation that are not its alias.
_CLAUSES = (
    *("WHERE", "GROUP BY", "HAVING", "WINDOW", "EMIT", "SIDELINE", "CORRECTIONS", "UNION"),
    *("INTERSECT", "EXCEPT", "MINUS"),
    *("ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "LIMIT", "LATERAL", "QUALIFY", "ON", "USING"),
    *("TABLESAMPLE", "PIVOT", "UNPIVOT", "MATCH_CONDITION"),
)


#: The error for a stored relation in the place of a stream.
STORED_ALONE = (
    "this is a stored relation, which has no time; join a stream with it, as in FROM s JOIN carriers c "
    "ON s.carrier = c.code, or read it with Spark"
)

#: The error for UNNEST or LATERAL VIEW behind a join.
GENERATOR_AFTER_JOIN = (
    "one row to many stands behind the first relation; behind a join write FROM (SELECT * FROM a JOIN b …) AS j "
    "LATERAL VIEW explode(items) t AS item"
)


@dataclass(frozen=True)
class StoredRelation:
    """A stored relation, or some columns of one."""

    table: str
    columns: tuple[L.Column, ...] = ()


@dataclass(frozen=True)
class Asof:
    """What says which one row of a relation counts."""

    direction: str = "backward"
    within: Length | None = None
    at: Expression | None = None
    """The time behind FOR SYSTEM_TIME AS OF."""
    match: Expression | None = None
    """The comparison of the times behind MATCH_CONDITION."""


@dataclass(frozen=True)
class Side:
    """One relation of FROM: its rows, the names that may qualify its columns, and its window."""

    rows: L.Logical | StoredRelation
    span: Span
    names: tuple[str, ...] = ()
    window: WindowClause | None = None
    also: tuple[str, ...] = ()
    """The aliases of generators behind it, which qualify its columns too."""
    at: Expression | None = None
    """The time of FOR SYSTEM_TIME AS OF."""

    @property
    def name(self) -> str | None:
        """Its alias, or else its own name."""
        return self.names[-1] if self.names else None


@dataclass(frozen=True)
class Test:
    """The comparison of IN, EXISTS or an operator with the rows of a sub-query."""

    value: Expression | None
    """The expression before IN; None for EXISTS."""
    item: Expression | str | None
    """The other side of the comparison: an expression over the sub-query's rows, or the name of their column."""
    where: Sequence[Expression]
    operator: str = "="


@dataclass(frozen=True)
class JoinClause:
    """A relation that is joined with all relations before it."""

    side: Side
    how: str
    span: Span
    on: Expression | None = None
    using: tuple[Expression, ...] = ()
    listed: bool = False
    """Whether a comma joins it; then its condition is in WHERE."""
    test: Test | None = None
    """The comparison, if the side is a sub-query in WHERE. Names are looked up in the sub-query first."""
    asof: Asof | None = None
    """Which row of the side counts, in an as-of join."""


@dataclass(frozen=True)
class From:
    """What follows FROM."""

    first: Side
    joins: tuple[JoinClause, ...] = ()

    @property
    def sides(self) -> list[Side]:
        """All of them, as they were written."""
        return [self.first, *(joined.side for joined in self.joins)]


def sees_alias(cursor: Cursor) -> bool:
    """Whether an alias comes next, and not another clause."""
    if cursor.sees("AS"):
        return True
    token = cursor.token
    if token is not None and token.token_type is TokenType.IDENTIFIER:
        return True
    if not cursor.word or cursor.word in (*JOINS, *_CLAUSES) or end_clause(cursor) is not None:
        return False
    if sees_clause(cursor):
        return False
    if difflib.get_close_matches(cursor.word, ("WHERE", "GROUP", "HAVING", "WINDOW"), cutoff=0.8):
        cursor.expected("a clause or an alias (AS before one that looks like a clause)", _CLAUSES)
    return True
