"""What stands behind FROM: a stream, a view, a sub-query, a Python function or one of Flink's table functions."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import TokenType

from slackwater.errors import did_you_mean
from slackwater.plan import logical as L
from slackwater.sql.cursor import Cursor
from slackwater.sql.places import Place, Places
from slackwater.sql.scope import Scope
from slackwater.sql.source import span_of
from slackwater.sql.window import TABLE_FUNCTIONS, WrittenWindow, read_bracket, read_table_function, two_windows

_JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ANTI", "SEMI", "ASOF")
#: Words behind a relation that are no alias of it.
_CLAUSES = (
    *("WHERE", "GROUP BY", "HAVING", "WINDOW", "EMIT", "SIDELINE", "UNION", "INTERSECT", "EXCEPT", "MINUS"),
    *("ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "LIMIT", "LATERAL", "QUALIFY", "ON"),
    *("TABLESAMPLE", "PIVOT", "UNPIVOT"),
)
#: Reads a SELECT at the cursor.
ReadQuery = Callable[[], L.Logical]


@dataclass(frozen=True)
class Relation:
    """Rows, by which names a column may be qualified, and the window that stands behind them."""

    rows: L.Logical
    names: tuple[str, ...] = ()
    window: WrittenWindow | None = None


def read_from(cursor: Cursor, scope: Scope, places: Places, query: ReadQuery) -> Relation:
    """The relation with its alias and its bracket, in either order."""
    relation = _relation(cursor, scope, places, query)
    window, names = relation.window, list(relation.names)
    while True:
        if cursor.sees_symbol("["):
            found = read_bracket(cursor)
            if window is not None:
                raise two_windows(cursor.source, found)
            window = found
        elif len(names) == len(relation.names) and _sees_alias(cursor):
            cursor.accept("AS")
            names.append(cursor.name("an alias"))
        else:
            break
    _refuse_more(cursor)
    return Relation(relation.rows, tuple(names), window)


def _sees_alias(cursor: Cursor) -> bool:
    if cursor.sees("AS"):
        return True
    token = cursor.token
    if token is not None and token.token_type is TokenType.IDENTIFIER:
        return True
    if not cursor.word or cursor.word in (*_JOINS, *_CLAUSES):
        return False
    if difflib.get_close_matches(cursor.word, ("WHERE", "GROUP", "HAVING", "WINDOW"), cutoff=0.8):
        cursor.expected("a clause or an alias (AS before one that looks like a clause)", _CLAUSES)
    return True


def _refuse_more(cursor: Cursor) -> None:
    if cursor.sees_symbol(","):
        raise cursor.error("several streams in FROM are not there yet; UNION ALL puts streams together")
    if cursor.word in _JOINS:
        raise cursor.error("joins are not there yet; UNION ALL puts streams together")


def _relation(cursor: Cursor, scope: Scope, places: Places, query: ReadQuery) -> Relation:
    begin = cursor.at
    if cursor.accept_symbol("("):
        rows = query() if cursor.word in ("SELECT", "WITH") else _relation(cursor, scope, places, query).rows
        cursor.expect_symbol(")")
        return Relation(rows)
    if cursor.raw_at(1) == "(" and cursor.word:
        return _call(cursor, scope, places, query)
    name = cursor.name("a stream, a view or a query in parentheses")
    token = cursor.tokens[begin]
    rows_of_name = scope.query(name)
    if rows_of_name is None:
        known = ", ".join(scope.relations) or "none; begin with CREATE STREAM"
        hint = did_you_mean(name, scope.relations)
        raise cursor.error(f"there is no stream {name!r}{hint}; there are {known}", [token])
    if isinstance(rows_of_name, L.Scan):
        rows_of_name = places.put(L.Scan(rows_of_name.stream), Place(span_of([token])))
    return Relation(rows_of_name, (name,))


def _call(cursor: Cursor, scope: Scope, places: Places, query: ReadQuery) -> Relation:
    """`TUMBLE(TABLE s, …)`, `score(TABLE s)`, and either inside `TABLE(…)`."""
    begin = cursor.at
    if cursor.accept("TABLE"):
        cursor.expect_symbol("(")
        inner = _call(cursor, scope, places, query)
        cursor.expect_symbol(")")
        return inner
    word = cursor.word
    name = cursor.name("a table function")
    token = cursor.tokens[begin]
    if word in ("SESSION", "CUMULATE"):
        raise cursor.error(f"{word} windows are not there yet; write TUMBLE or HOP", [token])
    function = scope.function(name)
    if word not in TABLE_FUNCTIONS and function is None:
        known = [*TABLE_FUNCTIONS, *scope.functions]
        hint = did_you_mean(name, known)
        raise cursor.error(f"there is no table function {name}{hint}; there are {', '.join(known)}", [token])
    cursor.expect_symbol("(")
    cursor.accept("TABLE")
    inner = _relation(cursor, scope, places, query)
    if function is None:
        return Relation(inner.rows, inner.names, read_table_function(cursor, word, begin))
    cursor.expect_symbol(")")
    mapped = L.Map((inner.rows,), function.function, function.schema)
    return Relation(places.put(mapped, Place(span_of(cursor.tokens[begin : cursor.at]))), (name,))
