"""Reads FROM: streams, views, stored relations, sub-queries and functions, and the joins of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slackwater.errors import did_you_mean
from slackwater.plan import logical as L
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import Expression, read_expression
from slackwater.sql.foreign import refuse_clause
from slackwater.sql.lateral import sees_generator, with_generators
from slackwater.sql.relations import (
    GENERATOR_AFTER_JOIN,
    JOINS,
    STORED_ALONE,
    Asof,
    From,
    JoinClause,
    Side,
    StoredRelation,
    sees_alias,
)
from slackwater.sql.scope import Scope
from slackwater.sql.source import span_of
from slackwater.sql.source_locations import SourceLocation, SourceLocations
from slackwater.sql.values import read_span
from slackwater.sql.window import (
    DROP_DUPLICATES,
    TABLE_FUNCTIONS,
    read_bracket,
    read_keys,
    read_table_function,
    two_windows,
)

#: Reads a SELECT at the cursor.
ReadQuery = Callable[[], L.Logical | StoredRelation]


def read_from(cursor: Cursor, scope: Scope, locations: SourceLocations, query: ReadQuery) -> From:
    """The relations of FROM, with the joins between them."""

    def side() -> Side:
        return _side(cursor, scope, locations, query)

    first, joins = with_generators(cursor, side(), locations), list[JoinClause]()
    while True:
        begin = cursor.at
        if cursor.accept_symbol(","):
            other = side()
            joins.append(JoinClause(other, "inner", cursor.span(begin), listed=True))
        elif (kind := _kind(cursor)) is not None:
            how, asof = kind
            other = side()
            if other.at is not None:
                asof = replace(asof or Asof(), at=other.at)
            if asof is not None and cursor.accept("MATCH_CONDITION"):
                asof = replace(asof, match=_in_parentheses(cursor))
            on, using = _condition(cursor, cross=how == "cross")
            how = "inner" if how == "cross" else how
            joins.append(JoinClause(other, how, cursor.span(begin), on, using, asof=asof))
        else:
            return From(first, tuple(joins))


def _kind(cursor: Cursor) -> tuple[str, Asof | None] | None:
    """Read the words up to JOIN; give the kind of the join, None if there is no join."""
    word = cursor.word
    if word not in JOINS:
        return None
    if word == "NATURAL":
        raise cursor.error(
            "NATURAL joins are not supported: a new column would change them; write JOIN … USING (column)"
        )
    asof = _asof(cursor)
    word, how = cursor.word, "inner"
    if word != "JOIN":
        if asof is not None and word not in ("LEFT", "INNER"):
            cursor.expected("JOIN or LEFT JOIN behind ASOF", ("JOIN", "LEFT"))
        cursor.at += 1
        how = word.lower()
        if word in ("LEFT", "RIGHT", "FULL") and not cursor.accept("OUTER") and cursor.word in ("SEMI", "ANTI"):
            if word != "LEFT":
                raise cursor.error(f"{word} {cursor.word} JOIN: write LEFT {cursor.word} JOIN, the sides swapped")
            how = cursor.source.word(cursor.next()).lower()
    asof = asof or _asof(cursor)
    cursor.expect("JOIN")
    if sees_generator(cursor):
        raise cursor.error(GENERATOR_AFTER_JOIN)
    return how, asof


def _asof(cursor: Cursor) -> Asof | None:
    """Read `ASOF [FORWARD | NEAREST] [WITHIN length]`, if it comes next."""
    if not cursor.accept("ASOF"):
        return None
    words = ("BACKWARD", "FORWARD", "NEAREST")
    direction = cursor.choice(words).lower() if cursor.word in words else "backward"
    within = read_span(cursor, "a length, as in WITHIN 10 MINUTES") if cursor.accept("WITHIN") else None
    return Asof(direction, within)


def _in_parentheses(cursor: Cursor) -> Expression:
    cursor.expect_symbol("(")
    condition = read_expression(cursor, "a comparison of the times of both sides")
    cursor.expect_symbol(")")
    return condition


def _system_time(cursor: Cursor, stored: bool) -> Expression | None:
    """Read `FOR SYSTEM_TIME AS OF column`, if it comes next."""
    if not (cursor.sees("FOR") and cursor.word_at(1) == "SYSTEM_TIME"):
        return None
    begin = cursor.at
    cursor.at += 2
    cursor.expect("AS")
    cursor.expect("OF")
    first = cursor.at
    cursor.name("the time column of the stream before it")
    while cursor.accept_symbol("."):
        cursor.name("a column")
    if stored:
        raise cursor.error(
            "a stored relation has no versions; leave FOR SYSTEM_TIME out, or declare it as a stream, whose rows "
            "have times",
            cursor.since(begin),
        )
    return Expression(cursor.source, tuple(cursor.since(first)))


def _condition(cursor: Cursor, cross: bool) -> tuple[Expression | None, tuple[Expression, ...]]:
    if cross:
        if cursor.word in ("ON", "USING"):
            raise cursor.error("a CROSS JOIN takes every pair and has no condition; write JOIN")
        return None, ()
    if cursor.accept("USING"):
        cursor.expect_symbol("(")
        names = cursor.listed(lambda: _one_name(cursor))
        cursor.expect_symbol(")")
        _refuse_bracket(cursor)
        return None, tuple(names)
    if not cursor.accept("ON"):
        refuse_clause(cursor)
        cursor.expected("ON and a condition, or USING (column); CROSS JOIN takes every pair", ("ON", "USING"))
    return read_expression(cursor, "a condition", ("JOIN",), _refuse_bracket), ()


def _one_name(cursor: Cursor) -> Expression:
    begin = cursor.at
    cursor.name("a column that both sides have")
    return Expression(cursor.source, (cursor.tokens[begin],))


def _refuse_bracket(cursor: Cursor) -> None:
    """Refuse a bracket after a condition: the window of the pairs is written in the WINDOW clause."""
    if cursor.sees_symbol("[") and cursor.word_at(1) in ("RANGE", "ROWS", "NOW", "SESSION"):
        raise cursor.error(
            "a bracket stands behind each side of a join; for an aggregate over the pairs write "
            "WINDOW [RANGE 1 HOUR, SLIDE 1 HOUR]"
        )


def _side(cursor: Cursor, scope: Scope, locations: SourceLocations, query: ReadQuery) -> Side:
    """Read a relation with its alias and its bracket, in either order."""
    begin = cursor.at
    relation = _relation(cursor, scope, locations, query)
    end, window, names = cursor.at, relation.window, list(relation.names)
    at = _system_time(cursor, isinstance(relation.rows, StoredRelation))
    while True:
        if cursor.sees_symbol("["):
            bracket = read_bracket(cursor)
            if window is not None:
                raise two_windows(cursor.source, bracket)
            window = bracket
        elif len(names) == len(relation.names) and sees_alias(cursor):
            cursor.accept("AS")
            names.append(cursor.name("an alias"))
        else:
            return Side(relation.rows, span_of(cursor.tokens[begin:end]), tuple(names), window, at=at)


def _relation(cursor: Cursor, scope: Scope, locations: SourceLocations, query: ReadQuery) -> Side:
    begin = cursor.at
    if sees_generator(cursor):
        raise cursor.error(GENERATOR_AFTER_JOIN)
    if cursor.accept_symbol("("):
        rows = query() if cursor.sees_query() else _relation(cursor, scope, locations, query).rows
        if cursor.word in JOINS:
            raise cursor.error("joins go from left to right; write (SELECT * FROM … JOIN …) AS j for one of them")
        cursor.expect_symbol(")")
        return Side(rows, cursor.span(begin))
    if cursor.raw_at(1) == "(" and cursor.word:
        return _call(cursor, scope, locations, query)
    name = _dotted(cursor)
    view = scope.view(name)
    if view is not None:
        return Side(view, cursor.span(begin), (name,))
    stream = scope.stream(name)
    if stream is not None:
        return Side(locations.put(L.Scan(stream), SourceLocation(cursor.span(begin))), cursor.span(begin), (name,))
    with cursor.located(begin):
        table = scope.table(name)
    if table is None:
        names = ", ".join(scope.relations) or "none; begin with CREATE STREAM"
        hint = did_you_mean(name, scope.relations)
        raise cursor.source.error(
            cursor.span(begin), f"there is no stream or table {name!r}{hint}; there are {names}"
        )
    return Side(StoredRelation(table), cursor.span(begin), (name.rsplit(".", 1)[-1].strip("`"),))


def _dotted(cursor: Cursor) -> str:
    """A name, or several with dots between them, as Spark names tables and files: parquet.`in/carriers`."""
    begin = cursor.at
    name = cursor.name("a stream, a view or a query in parentheses")
    if not cursor.sees_symbol("."):
        return name
    while cursor.accept_symbol("."):
        cursor.name("the rest of the name")
    return "".join(cursor.source.raw(token) for token in cursor.since(begin))


def _call(cursor: Cursor, scope: Scope, locations: SourceLocations, query: ReadQuery) -> Side:
    """`TUMBLE(TABLE s, …)`, `score(TABLE s)`, and either inside `TABLE(…)`."""
    begin = cursor.at
    if cursor.accept("TABLE"):
        cursor.expect_symbol("(")
        inner = _call(cursor, scope, locations, query)
        cursor.expect_symbol(")")
        return inner
    word = cursor.word
    name = cursor.name("a table function")
    token = cursor.tokens[begin]
    function = scope.function(name)
    if word not in TABLE_FUNCTIONS and word != DROP_DUPLICATES and function is None:
        functions = [*TABLE_FUNCTIONS, DROP_DUPLICATES, *scope.functions]
        hint = did_you_mean(name, functions)
        raise cursor.error(f"there is no table function {name}{hint}; there are {', '.join(functions)}", [token])
    cursor.expect_symbol("(")
    cursor.accept("TABLE")
    inner = _relation(cursor, scope, locations, query)
    if isinstance(inner.rows, StoredRelation):
        raise cursor.source.error(inner.span, f"{name} takes rows of a stream; {STORED_ALONE}")
    if word == DROP_DUPLICATES:
        keys, within = read_keys(cursor)
        distinct = L.DropDuplicates((inner.rows,), keys, within)
        span = cursor.span(begin)
        return Side(locations.put(distinct, SourceLocation(span)), span, inner.names)
    if function is None:
        window = read_table_function(cursor, word, begin)
        return Side(inner.rows, cursor.span(begin), inner.names, window)
    cursor.expect_symbol(")")
    span = cursor.span(begin)
    mapped = L.Map((inner.rows,), function.function, function.schema)
    return Side(locations.put(mapped, SourceLocation(span)), span, (name,))
