"""Logical nodes as SQL text: the same nodes come out when it is read again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from slackwater.errors import QueryError
from slackwater.estimates.early import Early
from slackwater.plan import logical as L
from slackwater.plan.join import kind_of
from slackwater.progress.time import Span, TimeDomain, microseconds
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import is_name, read_column
from slackwater.sql.policies import policy_sql
from slackwater.sql.scope import Scope
from slackwater.sql.source import Source
from slackwater.sql.values import quoted, text_literal
from slackwater.windows.sideline import Sideline

#: The words of each kind of join before JOIN.
_KINDS = {"inner": "", "left": "LEFT", "right": "RIGHT", "full": "FULL", "semi": "LEFT SEMI", "anti": "LEFT ANTI"}


def to_sql(query: L.Logical, scope: Scope, early: Early | None = None, sideline: Sideline | None = None) -> str:
    """A query as one SELECT, or as several with UNION ALL between.

    >>> rows = L.Where((L.Scan("s"),), "x > 0")
    >>> counted = L.Aggregate((rows,), L.Window("1 hour", "10 minutes"), ((None, "g"),), (("n", "count(*)"),))
    >>> print(to_sql(counted, Scope()))
    SELECT g, count(*) AS n FROM s [RANGE 1 hour, SLIDE 10 minutes] WHERE x > 0 GROUP BY g
    """
    words = [_Writer(scope).select(query)]
    if early is not None:
        words += ["EMIT EARLY", *_early(early)]
    if sideline is not None:
        words.append(f"SIDELINE RATIO {sideline.ratio}")
    return " ".join(words)


class _Writer:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def select(self, query: L.Logical) -> str:
        if isinstance(query, L.Union):
            return " UNION ALL ".join(self._side(side) for side in query.inputs)
        if isinstance(query, L.Aggregate):
            return self._aggregate(query)
        columns = "*"
        rows: L.Logical = query
        if isinstance(query, L.Select):
            columns, rows = ", ".join(_column(c) for c in query.columns), query.inputs[0]
        rows, where = _filtered(rows)
        return f"SELECT {columns} FROM {self._from(rows)}{where}"

    def _aggregate(self, query: L.Aggregate) -> str:
        groups = [_named(column) for column in query.groups]
        columns = [_column((name, text)) for name, text in (*groups, *query.aggregates)]
        rows, where = _filtered(query.inputs[0])
        by = f" GROUP BY {', '.join(text for _, text in groups)}" if groups else ""
        word = " WINDOW" if isinstance(rows, (L.Join, L.JoinStored)) else ""
        window = f"{word} [{_window(query.window)}]"
        return f"SELECT {', '.join(columns)} FROM {self._from(rows)}{window}{where}{by}"

    def _side(self, side: L.Logical) -> str:
        """A side of a union; one that is a union itself stays one."""
        return f"SELECT * FROM ({self.select(side)})" if isinstance(side, L.Union) else self.select(side)

    def _from(self, rows: L.Logical) -> str:
        return self._chain(rows, None) if isinstance(rows, (L.Join, L.JoinStored)) else self._relation(rows)

    def _chain(self, rows: L.Logical, window: L.Window | None) -> str:
        """Joins from left to right; a window belongs to the stream at the begin."""
        inline = isinstance(rows, L.JoinStored) or (isinstance(rows, L.Join) and window is None)
        if not isinstance(rows, (L.Join, L.JoinStored)) or not inline:
            return self._relation(rows) + _bracket(window)
        left = rows.inputs[0]
        if isinstance(rows, L.Join):
            window, other_window = rows.windows if rows.within is None else _windows_within(rows.within)
        if isinstance(left, (L.Join, L.JoinStored)) and kind_of(left.how) in ("semi", "anti"):
            before = self._relation(left) + _bracket(window)  # what it hides must not meet what comes behind
        else:
            before = self._chain(left, window)
        if isinstance(rows, L.Join):
            right = rows.inputs[1]
            twice = isinstance(right, L.Scan) and right in _scans(left)
            other = f"({self.select(right)})" if twice else self._relation(right)
            other += _bracket(other_window)
        else:
            other = self._stored(rows)
        condition = self._condition(rows)
        how = "CROSS" if not condition else _KINDS[kind_of(rows.how)]
        return " ".join(word for word in (before, how, "JOIN", other, condition) if word)

    def _stored(self, rows: L.JoinStored) -> str:
        table = rows.table if "`" in rows.table else quoted(rows.table)
        columns = ", ".join(_column(c) for c in rows.columns)
        return f"(SELECT {columns} FROM {table})" if columns else table

    def _condition(self, rows: L.Join | L.JoinStored) -> str:
        on = rows.on
        if on is None:
            return "" if kind_of(rows.how) == "inner" else "ON true"
        if isinstance(on, str) and is_name(on.strip()) and self._both_have(rows, on.strip()):
            on = (on.strip().strip("`"),)
        return f"ON {on}" if isinstance(on, str) else f"USING ({', '.join(map(quoted, on))})"

    def _both_have(self, rows: L.Join | L.JoinStored, name: str) -> bool:
        known = self._scope.catalogue
        sides = [known.columns(side) for side in rows.inputs]
        if isinstance(rows, L.JoinStored):
            sides.append([n or sql.strip("`") for n, sql in rows.columns] or known.table(rows.table))
        return all(name.strip("`").lower() in [c.lower() for c in side or ()] for side in sides)

    def _relation(self, rows: L.Logical) -> str:
        if isinstance(rows, L.Scan):
            return quoted(rows.stream)
        if isinstance(rows, L.Map):
            return f"{self._function(rows)}({self._table(rows.inputs[0])})"
        return f"({self.select(rows)})"

    def _table(self, rows: L.Logical) -> str:
        return f"TABLE {quoted(rows.stream)}" if isinstance(rows, L.Scan) else self._relation(rows)

    def _function(self, node: L.Map) -> str:
        for name, known in self._scope.functions.items():
            if known.function is node.function and known.schema == node.schema:
                return quoted(name)
        raise QueryError("a map() has no name in SQL; give its function one with CREATE FUNCTION")


def _scans(rows: L.Logical) -> list[L.Logical]:
    """The streams at the begin of each side of some joins."""
    return [rows] if not isinstance(rows, (L.Join, L.JoinStored)) else [s for r in rows.inputs for s in _scans(r)]


def _windows_within(within: tuple[Span, Span]) -> tuple[L.Window, L.Window]:
    """How long rows of both sides live, where pairs are at most this far apart: to the end, which is included."""
    before, after = (L.Window(_longer(length)) for length in within)
    return after, before


def _longer(length: Span) -> Span:
    """A length and one tick."""
    if isinstance(length, int):
        return length + 1
    if isinstance(length, (float, Decimal)) or str(length).replace(".", "", 1).isdecimal():
        raise QueryError(f"join(within=…): {length!r} has no SQL; write rolling(range=…) on both sides")
    return f"{microseconds(length) + 1} microseconds"


def _bracket(window: L.Window | None) -> str:
    return "" if window is None else f" [{_window(window)}]"


def _filtered(rows: L.Logical) -> tuple[L.Logical, str]:
    if isinstance(rows, L.Where):
        return rows.inputs[0], f" WHERE {rows.condition}"
    return rows, ""


def _named(column: L.Column) -> L.Column:
    """A column with its alias apart."""
    name, text = column
    if name is not None:
        return column
    source = Source(text)
    expression, alias = read_column(Cursor(source, source.tokens))
    return alias, expression.text


def _column(column: L.Column) -> str:
    name, text = column
    return text if name is None else f"{text} AS {quoted(name)}"


def _window(window: L.Window) -> str:
    if window.range == L.NOW:
        return "NOW"
    settings: Iterable[tuple[str, object]] = (
        ("RANGE", _span(window.range)),
        ("ROWS", window.rows),
        ("SLIDE", _span(window.slide)),
        ("OFFSET", _span(window.offset)),
        ("WATTR", window.wattr),
        ("DISORDER", None if window.disorder is None else policy_sql(window.disorder)),
    )
    return ", ".join(f"{word} {value}" for word, value in settings if value is not None)


def _span(span: Span | None) -> str | None:
    if span is None or isinstance(span, (int, float, Decimal)):
        return None if span is None else str(span)
    if isinstance(span, timedelta):
        return f"{microseconds(span)} microseconds"
    return span if span[:1].isdigit() and not span.replace(".", "", 1).isdecimal() else text_literal(span)


def _early(early: Early) -> list[str]:
    words = []
    if isinstance(early.at, Fraction):
        words.append(f"AT {_percent(float(early.at))}")
    elif early.at is not None:
        words.append(f"AT {_span(early.at)}")
    words += [] if early.every is None else [f"EVERY {TimeDomain.TIMESTAMP.show_span(early.every)}"]
    words += [] if early.accuracy is None else [f"ACCURACY {_percent(early.accuracy)}"]
    words += [] if early.coverage == 0.9 else [f"COVERAGE {_percent(early.coverage)}"]
    return words + ([] if early.season is None else [f"SEASON {TimeDomain.TIMESTAMP.show_span(early.season)}"])


def _percent(share: float) -> str:
    return f"{(Decimal(repr(share)) * 100).normalize():f}%"
