"""Reads a SELECT, or several with UNION ALL between them, clause after clause.

`aggregate_query` makes nodes of those with a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from sqlglot import Token

from slackwater.errors import SqlError
from slackwater.plan import logical as L
from slackwater.plan.window_rows import repeats
from slackwater.sql.aggregate_query import Clauses, WindowQuery
from slackwater.sql.cursor import Cursor
from slackwater.sql.end_clauses import OF_THE_WHOLE, end_clause
from slackwater.sql.expression import Expression, read_expression
from slackwater.sql.foreign import refuse_before_columns, refuse_clause
from slackwater.sql.from_clause import read_from
from slackwater.sql.groups import BOUNDS, read_groups, without_bounds
from slackwater.sql.items import Item, items_of_join, read_items
from slackwater.sql.join_query import JoinQuery
from slackwater.sql.named_windows import read_named_windows, written_out
from slackwater.sql.order_by import read_comparison
from slackwater.sql.relations import GENERATOR_AFTER_JOIN, STORED_ALONE, JoinClause, Side, StoredRelation, Test
from slackwater.sql.scope import Scope
from slackwater.sql.source import Span, span_of
from slackwater.sql.source_locations import SourceLocation, SourceLocations
from slackwater.sql.subquery import SubQuery, read_where
from slackwater.sql.union import check_order
from slackwater.sql.window import (
    KSQL_WINDOWS,
    WindowClause,
    read_bracket,
    read_ksql_window,
    spark_window,
    two_windows,
)
from slackwater.windows.results import RESULT_COLUMNS

_DEEPEST = 40
_SETS = ("INTERSECT", "EXCEPT", "MINUS")
_NEVER = {"LATERAL": GENERATOR_AFTER_JOIN}
_BRACKET = "write it in brackets behind the stream, as in FROM s [RANGE 10 MINUTES, SLIDE 10 MINUTES]"
#: Words with which other systems write windows.
_WINDOW_WORDS = {"WINDOW": f"a window has no name and no parentheses here; {_BRACKET}"}
_WINDOW_WORDS |= dict.fromkeys(("TUMBLING", "HOPPING", "TUMBLE", "HOP"), f"this is no window here; {_BRACKET}")
_NEEDS_WINDOW = (
    "an aggregate needs a window; write one behind the stream, as in FROM s [RANGE 10 MINUTES, SLIDE 2 MINUTES], "
    "or for totals without one EMIT EVERY 10 SECONDS at the end"
)


_DISTINCT = (
    "rows are compared within a window; write one behind the stream, as in FROM s [RANGE 10 MINUTES, SLIDE 10 "
    "MINUTES], or FROM DROP_DUPLICATES(TABLE s, DESCRIPTOR(id), INTERVAL '10' MINUTES)"
)


class SelectReader:
    """Reads a query and its sub-queries."""

    def __init__(self, cursor: Cursor, scope: Scope, locations: SourceLocations, depth: int = 0) -> None:
        self._cursor = cursor
        self._scope = scope
        self._locations = locations
        self._depth = depth
        self._first_items: list[Item] = []
        self._grouped = False
        """Whether the last SELECT had groups."""
        self._ordered = False
        """Whether the last SELECT without parentheses had clauses that compare its results."""

    def read(self) -> L.Logical:
        """Read `[WITH …] SELECT … [UNION ALL SELECT …]`."""
        begin = self._cursor.at
        return self._of_stream(self.read_relation(), begin)

    def _of_stream(self, rows: L.Logical | StoredRelation, begin: int) -> L.Logical:
        if isinstance(rows, StoredRelation):
            raise self._cursor.error(f"{rows.table}: {STORED_ALONE}", self._cursor.since(begin))
        return rows

    def read_relation(self) -> L.Logical | StoredRelation:
        """The same; a side of a join may also be columns of a stored relation."""
        cursor = self._cursor
        if self._depth > _DEEPEST:
            raise cursor.error("queries are nested too deeply")
        if cursor.accept("WITH"):
            self._with()
        begin = cursor.at
        first = self._one()
        if not cursor.sees("UNION"):
            return first
        sides, orders = [self._of_stream(first, begin)], set[bool]()
        while cursor.sees("UNION"):
            self._refuse_ordered(cursor.since(begin))
            if not cursor.accept("UNION", "ALL"):
                raise cursor.error("UNION would drop equal rows, and a stream has no end; write UNION ALL")
            orders.add(cursor.accept("ORDERED"))
            at = cursor.at
            sides.append(self._of_stream(self._one(), at))
            check_order(sides[0], sides[-1], cursor.source, cursor.span(at))
        self._refuse_ordered(cursor.since(begin))
        if len(orders) > 1:
            raise cursor.error(
                "some of these are UNION ALL ORDERED and some UNION ALL; put one kind in parentheses"
            )
        return self._locations.put(L.Union(tuple(sides), *orders), SourceLocation(cursor.span(begin)))

    def _refuse_ordered(self, tokens: Sequence[Token]) -> None:
        if self._ordered:
            raise self._cursor.error(
                "QUALIFY, ORDER BY and LIMIT beside UNION ALL: the results of several windows come at different "
                "times; put the SELECT that they belong to in parentheses",
                tokens,
            )

    def _one(self) -> L.Logical | StoredRelation:
        """A SELECT, or a query in parentheses."""
        self._ordered = False
        if not (self._cursor.sees_symbol("(") and self._cursor.sees_query()):
            return self._select()
        self._cursor.at += 1
        query = self._inner()
        self._cursor.expect_symbol(")")
        self._refuse_rest()
        return query

    def _select(self) -> L.Logical | StoredRelation:
        self._cursor.expect("SELECT")
        clauses = self._clauses()
        self._refuse_rest()
        return self._logical(*self._resolved(clauses))

    def _inner(self) -> L.Logical | StoredRelation:
        query = SelectReader(self._cursor, self._scope, self._locations, self._depth + 1).read_relation()
        if self._cursor.word in OF_THE_WHOLE:
            raise self._cursor.error(f"{self._cursor.word} belongs to the end of the whole query")
        return query

    def _with(self) -> None:
        cursor = self._cursor
        while True:
            name = cursor.name("a name for the query")
            cursor.expect("AS")
            cursor.expect_symbol("(")
            begin = cursor.at
            self._scope = self._scope.with_view(name, self._of_stream(self._inner(), begin))
            cursor.expect_symbol(")")
            if not cursor.accept_symbol(","):
                return

    # --- clauses

    def _clauses(self) -> Clauses:
        cursor = self._cursor
        distinct = bool(cursor.accept("DISTINCT"))
        refuse_before_columns(cursor)
        items = self._first_items = read_items(cursor)
        cursor.expect("FROM")
        relations = read_from(cursor, self._scope, self._locations, self._inner)
        window = self._window(None)
        where, subqueries = read_where(cursor) if cursor.accept("WHERE") else ([], [])
        window = self._window(window)
        groups, sets = read_groups(cursor) if cursor.accept("GROUP BY") else ([], None)
        self._grouped = bool(groups)
        having = read_expression(cursor, "a condition") if cursor.accept("HAVING") else None
        window = self._window(window)
        named = read_named_windows(cursor)
        comparison = read_comparison(cursor)
        self._ordered = comparison is not None
        return Clauses(
            items, relations, where, subqueries, groups, having, window, comparison, named, distinct, sets
        )

    def _resolved(self, clauses: Clauses) -> tuple[Clauses, L.Logical | StoredRelation]:
        """The clauses in terms of the rows, and the rows."""
        tests = [self._test(subquery) for subquery in clauses.subqueries]
        relations = replace(clauses.relations, joins=(*clauses.relations.joins, *tests))
        query = JoinQuery(relations, self._scope, self._locations)
        where = query.take_conditions(clauses.where)
        rows = query.rows()
        items = items_of_join(clauses.items, query, self._cursor.source)
        aliases = [item.alias for item in items if item.alias is not None]
        groups = [query.resolved(group, aliases=aliases) for group in clauses.groups]
        if clauses.distinct:
            groups = self._distinct(items, groups)
        window, plain = self._spark_window(self._only_window(query.window, clauses.window), groups)
        sets = None if clauses.sets is None else without_bounds(clauses.sets, groups, plain)
        having = None if clauses.having is None else query.resolved(clauses.having, aliases=aliases)
        where = [query.resolved(condition) for condition in where]
        named, distinct = clauses.windows, clauses.distinct
        return Clauses(
            items, relations, where, (), plain, having, window, clauses.comparison, named, distinct, sets
        ), rows

    def _distinct(self, items: Sequence[Item], groups: Sequence[Expression]) -> list[Expression]:
        """The groups of SELECT DISTINCT: all that it shows, but for the columns of every result."""
        found = list[Expression]()
        for item in items:
            if item.expression is None:
                raise self._error(item.span, "SELECT DISTINCT *: name the columns")
            if item.expression.aggregates or groups:
                raise self._error(item.span, "SELECT DISTINCT: a group has one result anyway; leave DISTINCT out")
            if (item.expression.column or "").lower() not in RESULT_COLUMNS:
                found.append(item.expression)
        if not found:
            span = Span(items[0].span.start, items[-1].span.end)
            raise self._error(span, "SELECT DISTINCT of bounds alone: write SELECT window_start, count(*) AS n …")
        return found

    # --- sub-queries in WHERE

    def _test(self, subquery: SubQuery) -> JoinClause:
        """A sub-query as a side of a join: its only relation, or the whole of it if it has more clauses."""
        source = self._cursor.source
        reader = SelectReader(Cursor(source, subquery.query), self._scope, self._locations, self._depth + 1)
        simple = reader._simple()
        item: Expression | str | None = None
        if simple is not None:
            side, where, items = simple.relations.first, simple.where, simple.items
            item = items[0].expression
        else:
            reader._cursor.at = 0
            rows = reader.read()
            side, where = Side(rows, span_of(list(subquery.query))), []
            items = reader._first_items
            item = items[0].name
        if subquery.operator != "IN" and (simple is not None or reader._grouped):
            wrong = (
                f"{subquery.operator} compares with one value a window; write an aggregate without GROUP BY here"
            )
            raise source.error(Span(items[0].span.start, items[-1].span.end), wrong)
        if subquery.value is not None and (len(items) != 1 or item is None):
            span = Span(items[0].span.start, items[-1].span.end)
            raise source.error(span, "IN compares with one column; name it in the sub-query")
        operator = "=" if subquery.operator == "IN" else subquery.operator
        return JoinClause(side, subquery.how, subquery.span, test=Test(subquery.value, item, where, operator))

    def _simple(self) -> Clauses | None:
        """The clauses of a sub-query that filters a single relation; None for another query."""
        if not self._cursor.accept("SELECT"):
            return None
        clauses = self._clauses()
        aggregates = [a for i in clauses.items if i.expression is not None for a in i.expression.aggregates]
        more = [*clauses.relations.joins, *clauses.subqueries, *clauses.groups, *aggregates]
        ends = clauses.having or clauses.window or clauses.comparison
        whole = ends is None and self._cursor.token is None
        return clauses if whole and not more else None

    def _window(self, before: WindowClause | None) -> WindowClause | None:
        """Read S5's WINDOW clause, or ksqlDB's, if it comes next. It may come after any clause from FROM on."""
        if (
            self._cursor.sees("WINDOW")
            and self._cursor.word_at(1) in KSQL_WINDOWS
            and self._cursor.raw_at(2) == "("
        ):
            self._cursor.at += 1
            return self._only_window(before, read_ksql_window(self._cursor))
        if not (self._cursor.sees("WINDOW") and self._cursor.raw_at(1) == "["):
            return before
        self._cursor.at += 1
        return self._only_window(before, read_bracket(self._cursor))

    def _only_window(self, first: WindowClause | None, second: WindowClause | None) -> WindowClause | None:
        if first is not None and second is not None:
            raise two_windows(self._cursor.source, second)
        return first or second

    def _spark_window(
        self, window: WindowClause | None, groups: Sequence[Expression]
    ) -> tuple[WindowClause | None, list[Expression]]:
        """The window that GROUP BY asks for, and the other groups."""
        others = []
        for group in groups:
            other = spark_window(group)
            if other is None:
                others.append(group)
            elif window is not None:
                raise two_windows(group.source, other)
            else:
                window = other
        return window, [g for g in others if (g.column or "").lower() not in BOUNDS]

    def _refuse_rest(self) -> None:
        cursor = self._cursor
        if cursor.word in _SETS:
            raise cursor.error(f"{cursor.word} is not supported yet; start a query for each stream")
        if cursor.word in _NEVER:
            raise cursor.error(_NEVER[cursor.word])
        refuse_clause(cursor)
        if cursor.token is None or cursor.word in ("UNION", *OF_THE_WHOLE) or cursor.raw_at(0) in (")", ";"):
            return
        if end_clause(cursor) is not None:
            return
        if cursor.word in _WINDOW_WORDS:
            raise cursor.error(_WINDOW_WORDS[cursor.word])
        clauses = ["WHERE", "GROUP BY", "HAVING", "WINDOW", "UNION ALL", "EMIT"]
        cursor.expected(f"one of {', '.join(clauses)} or the end of the query", clauses)

    # --- nodes

    def _logical(self, clauses: Clauses, rows: L.Logical | StoredRelation) -> L.Logical | StoredRelation:
        if isinstance(rows, StoredRelation):
            return self._stored(rows, clauses)
        for condition in clauses.where:
            if condition.aggregates:
                self._fail(condition, "WHERE looks at single rows; put a condition on aggregates into HAVING")
        if clauses.where:
            text = " AND ".join(condition.text for condition in clauses.where)
            whole = Span(clauses.where[0].span.start, clauses.where[-1].span.end)
            rows = self._locations.put(L.Where((rows,), text), SourceLocation(whole))
        if clauses.window is None and self._asks_for_totals(clauses):
            clauses = replace(clauses, window=WindowClause(L.Window(L.UNBOUNDED), self._cursor.here()))
        if clauses.window is not None:
            if clauses.window.window.range == L.NOW:
                wrong = "[NOW] is for a side of a join, whose rows meet those of the same time; write a RANGE"
                raise self._error(clauses.window.span, wrong)
            if _asks_for_rows(clauses, clauses.window.window):
                rows = self._locations.put(
                    L.InWindows((rows,), clauses.window.window),
                    SourceLocation(clauses.window.span, clauses.window.span),
                )
                return self._projected(rows, clauses)
            return WindowQuery(clauses, clauses.window, self._locations).logical(rows)
        self._refuse_without_window(clauses)
        return self._projected(rows, clauses)

    def _asks_for_totals(self, clauses: Clauses) -> bool:
        """Whether it has groups or aggregates, and EMIT EVERY behind it: then it needs no window."""
        cursor = self._cursor
        every = cursor.sees("EMIT", "EVERY") or cursor.sees("EMIT", "EARLY", "EVERY")
        aggregates = any(i.expression is not None and i.expression.aggregates for i in clauses.items)
        return self._depth == 0 and every and (aggregates or bool(clauses.groups))

    def _projected(self, rows: L.Logical, clauses: Clauses) -> L.Logical:
        def plain(expression: Expression) -> Expression:
            return written_out(expression, clauses.windows, lambda window: window.text)

        items = [i if i.expression is None else replace(i, expression=plain(i.expression)) for i in clauses.items]
        if len(items) > 1 or items[0].expression is not None:
            select = L.Select((rows,), tuple(item.column for item in items))
            span = Span(items[0].span.start, items[-1].span.end)
            rows = self._locations.put(select, SourceLocation(span))
        if clauses.comparison is None:
            return rows
        return clauses.comparison.over(rows, lambda expression: plain(expression).text, self._locations)

    def _stored(self, rows: StoredRelation, clauses: Clauses) -> StoredRelation:
        """Columns of a stored relation, for a join."""
        others = clauses.having or clauses.window or clauses.comparison
        if clauses.where or clauses.groups or others is not None:
            raise self._cursor.error(
                "of a stored relation a query in FROM names columns only; put a condition into ON, or make a view "
                "of it with Spark",
                clauses.items[0].tokens,
            )
        self._refuse_without_window(clauses)
        if any(item.expression is None for item in clauses.items):
            return rows
        return StoredRelation(rows.table, tuple(item.column for item in clauses.items))

    def _refuse_without_window(self, clauses: Clauses) -> None:
        if clauses.distinct:
            span = Span(clauses.items[0].span.start, clauses.items[-1].span.end)
            raise self._error(span, f"SELECT DISTINCT: {_DISTINCT}")
        for expression in [i.expression for i in clauses.items if i.expression is not None]:
            if expression.aggregates:
                self._fail(expression, _NEEDS_WINDOW)
        if clauses.groups:
            raise self._error(clauses.groups[0].span, f"GROUP BY: {_NEEDS_WINDOW}")
        if clauses.having is not None:
            message = (
                f"HAVING: {_NEEDS_WINDOW}" if clauses.having.aggregates else "HAVING needs a window; write WHERE"
            )
            raise self._error(clauses.having.span, message)

    def _fail(self, expression: Expression, message: str) -> NoReturn:
        at, end = expression.aggregates[0]
        raise self._error(span_of(list(expression.tokens[at:end])), message)

    def _error(self, span: Span, message: str) -> SqlError:
        return self._cursor.source.error(span, message)


def _asks_for_rows(clauses: Clauses, window: L.Window) -> bool:
    """Whether a SELECT with a window asks for the rows in their windows, not for an aggregate of them."""
    items, columns = clauses.items, ("window_start", "window_end")
    named = [item for item in items if item.expression is None or (item.expression.column or "").lower() in columns]
    compared = clauses.groups or clauses.having is not None or clauses.comparison is not None
    aggregates = any(item.expression is not None and item.expression.aggregates for item in items)
    return bool(named) and repeats(window) and not (compared or aggregates)
