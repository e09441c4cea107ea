"""Logical nodes as SQL text. Reading the text gives the same nodes again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from slackwater.aggregates.over import has_over
from slackwater.errors import QueryError
from slackwater.estimates.early import Early
from slackwater.plan import logical as L
from slackwater.plan.grouping_sets import Sets
from slackwater.plan.join import kind_of
from slackwater.progress.time import Span, TimeDomain, microseconds
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import is_name, read_column
from slackwater.sql.scope import Scope
from slackwater.sql.source import SqlText
from slackwater.sql.values import quoted, span_sql
from slackwater.sql.window import window_sql
from slackwater.windows.sideline import Sideline

#: The words of each kind of join before JOIN.
_KINDS = {"inner": "", "left": "LEFT", "right": "RIGHT", "full": "FULL", "semi": "LEFT SEMI", "anti": "LEFT ANTI"}


def to_sql(
    query: L.Logical,
    scope: Scope,
    early: Early | None = None,
    sideline: Sideline | None = None,
    corrections: Span | None = None,
) -> str:
    """A query as one SELECT, or as several with UNION ALL between.

    >>> rows = L.Where((L.Scan("s"),), "x > 0")
    >>> counted = L.Aggregate((rows,), L.Window("1 hour", "10 minutes"), ((None, "g"),), (("n", "count(*)"),))
    >>> print(to_sql(counted, Scope()))
    SELECT g, count(*) AS n FROM s [RANGE 1 hour, SLIDE 10 minutes] WHERE x > 0 GROUP BY g
    """
    words = [_Writer(scope).select(query).text]
    if early is not None:
        words += ["EMIT EARLY", *_early(early)]
    if sideline is not None:
        words.append(f"SIDELINE RATIO {sideline.ratio}")
    if corrections is not None:
        words.append(f"CORRECTIONS {span_sql(corrections)}")
    return " ".join(words)


@dataclass(frozen=True)
class _Select:
    """A SELECT to which clauses are added, from the rows upwards."""

    source: Callable[[L.Window | None], str]
    """The text after FROM, given a window for the first relation."""
    columns: str = "*"
    window: str = ""
    where: str = ""
    groups: str = ""
    union: str = ""
    """The whole text, if this is a UNION ALL."""
    join: str = ""
    """The kind of the last join in FROM."""
    scans: frozenset[L.Scan] = frozenset()
    """The streams at the left ends of the sides of a join."""

    @property
    def is_plain(self) -> bool:
        """Whether it gives the rows of FROM as they are."""
        return self.columns == "*" and not (self.where or self.union or self.window)

    @property
    def streams(self) -> frozenset[L.Scan]:
        """The streams that are sides of the join in FROM; none if other clauses follow it."""
        return self.scans if self.is_plain else frozenset()

    @property
    def text(self) -> str:
        """As SQL."""
        clauses = f"{self.source(None)}{self.window}{self.where}{self.groups}"
        return self.union or f"SELECT {self.columns} FROM {clauses}"

    @property
    def relation(self) -> str:
        """As a relation of another query."""
        return self.source(None) if self.is_plain and not self.join else f"({self.text})"

    def chain(self, window: L.Window | None) -> str:
        """As the left side of a join; a window belongs to the first relation."""
        # Columns that a semi or anti join hides must not meet those of later sides.
        alone = not self.is_plain or self.join in ("semi", "anti")
        return self.relation_in(window) if alone else self.source(window)

    def relation_in(self, window: L.Window | None) -> str:
        """As a relation with a window."""
        return self.relation + _bracket(window)


class _Writer:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def select(self, query: L.Logical) -> _Select:
        """The SELECT of a query."""
        writer = _WRITERS.get(type(query))
        if writer is None:
            raise QueryError(f"{type(query).__name__} has no SQL; write the query in Python")
        return writer(self, query)

    def _over(self, query: L.Logical, filtered: bool) -> _Select:
        """The SELECT of a query's input, to be filled; `filtered`: it may have a WHERE."""
        select = self.select(query.inputs[0])
        plain = replace(select, where="") if filtered and select.where.startswith(" WHERE") else select
        return select if plain.is_plain else _Select(lambda window: select.relation_in(window))

    def _scan(self, query: L.Scan) -> _Select:
        return _Select(lambda window: quoted(query.stream) + _bracket(window), scans=frozenset((query,)))

    def _where(self, query: L.Where) -> _Select:
        clause = "QUALIFY" if has_over(query.condition) else "WHERE"
        return replace(self._over(query, filtered=False), where=f" {clause} {query.condition}")

    def _sort(self, query: L.Sort) -> _Select:
        order = f" ORDER BY {', '.join(query.order)}" if query.order else ""
        limit = "" if query.limit is None else f" LIMIT {query.limit}"
        return replace(self._over(query, filtered=False), where=order + limit)

    def _columns(self, query: L.Select) -> _Select:
        return replace(self._over(query, filtered=True), columns=", ".join(map(_column, query.columns)))

    def _map(self, query: L.Map) -> _Select:
        rows = self.select(query.inputs[0])
        table = "TABLE " * bool(rows.streams and not rows.join)
        call = f"{self._function(query)}({table}{rows.relation})"
        return _Select(lambda window: call + _bracket(window))

    def _distinct(self, query: L.DropDuplicates) -> _Select:
        rows = self.select(query.inputs[0])
        table = "TABLE " * bool(rows.streams and not rows.join)
        keys = query.keys or self._scope.columns(query.inputs[0]) or ()
        call = f"({table}{rows.relation}, DESCRIPTOR({', '.join(map(quoted, keys))}), {span_sql(query.within)})"
        return _Select(lambda window: f"DROP_DUPLICATES{call}{_bracket(window)}")

    def _union(self, query: L.Union) -> _Select:
        sides = [self.select(side) for side in query.inputs]
        texts = [f"SELECT * FROM ({side.union})" if side.union else side.text for side in sides]
        union = f" UNION ALL {'ORDERED ' * query.ordered}".join(texts)
        return _Select(lambda window: f"({union}){_bracket(window)}", union=union)

    def _aggregate(self, query: L.Aggregate) -> _Select:
        groups = [_named(column) for column in query.groups]
        select = self._over(query, filtered=True)
        return replace(
            select,
            columns=", ".join(_column((name, text)) for name, text in (*groups, *query.aggregates)),
            window=f"{' WINDOW' * bool(select.join)} [{window_sql(query.window)}]",
            groups=_groups([text for _, text in groups], query.sets),
        )

    def _in_windows(self, query: L.InWindows) -> _Select:
        select = self._over(query, filtered=True)
        return replace(select, window=f"{' WINDOW' * bool(select.join)} [{window_sql(query.window)}]")

    def _join(self, query: L.Join) -> _Select:
        left, right = map(self.select, query.inputs)
        windows = query.windows if query.within is None else _windows_within(query.within)
        twice = not right.join and left.streams & right.streams
        other = f"({right.text})" if twice else right.relation
        rest = self._words(query, other + _bracket(windows[1]), [self._scope.columns(query.inputs[1])])
        inline = f"{left.chain(windows[0])} {rest}"

        def source(window: L.Window | None) -> str:
            return inline if window is None else f"(SELECT * FROM {inline}){_bracket(window)}"

        return _Select(source, join=kind_of(query.how), scans=left.streams | right.streams)

    def _asof(self, query: L.JoinAsof) -> _Select:
        left, right = map(self.select, query.inputs)
        twice = right.join or left.streams & right.streams
        other = f"({right.text})" if twice else right.relation
        how = [_KINDS[kind_of(query.how)]]
        if query.at is not None:
            other += f" FOR SYSTEM_TIME AS OF {query.at}"
        else:
            how.append("ASOF" if query.direction == "backward" else f"ASOF {query.direction.upper()}")
        how += [] if query.within is None else [f"WITHIN {span_sql(query.within)}"]
        condition = self._condition(query, [self._scope.columns(side) for side in query.inputs]) or "ON true"
        rest = " ".join(word for word in (*how, "JOIN", other, condition) if word)
        return _Select(
            lambda window: f"{left.chain(window)} {rest}", join="asof", scans=left.streams | right.streams
        )

    def _join_stored(self, query: L.JoinStored) -> _Select:
        left = self.select(query.inputs[0])
        table = query.table if "`" in query.table else quoted(query.table)
        columns = ", ".join(map(_column, query.columns))
        names = [n or sql.strip("`") for n, sql in query.columns] or self._scope.columns_of_table(query.table)
        rest = self._words(query, f"(SELECT {columns} FROM {table})" if columns else table, [names])
        how = kind_of(query.how)
        return _Select(lambda window: f"{left.chain(window)} {rest}", join=how, scans=left.streams)

    def _words(self, query: L.Join | L.JoinStored, other: str, columns: list[list[str] | None]) -> str:
        """The words of a join from its kind to its condition; `columns` are those of the right side."""
        condition = self._condition(query, [self._scope.columns(query.inputs[0]), *columns])
        how = _KINDS[kind_of(query.how)] if condition else "CROSS"
        return " ".join(word for word in (how, "JOIN", other, condition) if word)

    def _condition(self, query: L.Join | L.JoinAsof | L.JoinStored, sides: list[list[str] | None]) -> str:
        on = query.on
        if on is None:
            return "" if kind_of(query.how) == "inner" else "ON true"
        name = on.strip().strip("`") if isinstance(on, str) and is_name(on.strip()) else None
        if name is not None and all(name.lower() in [c.lower() for c in side or ()] for side in sides):
            on = (name,)
        return f"ON {on}" if isinstance(on, str) else f"USING ({', '.join(map(quoted, on))})"

    def _function(self, node: L.Map) -> str:
        for name, function in self._scope.functions.items():
            if function.function is node.function and function.schema == node.schema:
                return quoted(name)
        raise QueryError("a map() has no name in SQL; give its function one with CREATE FUNCTION")


#: Writes a logical node as a SELECT.
NodeWriter = Callable[[_Writer, Any], _Select]
#: What writes each kind of logical node.
_WRITERS: dict[type[L.Logical], NodeWriter] = {
    L.Scan: _Writer._scan,
    L.Where: _Writer._where,
    L.Select: _Writer._columns,
    L.Sort: _Writer._sort,
    L.Map: _Writer._map,
    L.DropDuplicates: _Writer._distinct,
    L.Union: _Writer._union,
    L.InWindows: _Writer._in_windows,
    L.Join: _Writer._join,
    L.JoinAsof: _Writer._asof,
    L.JoinStored: _Writer._join_stored,
    L.Aggregate: _Writer._aggregate,
}


def _groups(groups: list[str], sets: Sets | None) -> str:
    """GROUP BY with what follows it."""
    if sets is None:
        return f" GROUP BY {', '.join(groups)}" if groups else ""
    return f" GROUP BY GROUPING SETS ({', '.join('(' + ', '.join(groups[n] for n in s) + ')' for s in sets)})"


def _windows_within(within: tuple[Span, Span]) -> tuple[L.Window, L.Window]:
    """How long rows of both sides live so that pairs are at most this far apart, the end included."""
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
    return "" if window is None else f" [{window_sql(window)}]"


def _named(column: L.Column) -> L.Column:
    """A column with its alias as its name."""
    name, text = column
    if name is not None:
        return column
    source = SqlText(text)
    expression, alias = read_column(Cursor(source, source.tokens))
    return alias, expression.text


def _column(column: L.Column) -> str:
    name, text = column
    if name is None or name.startswith("("):  # several names of a generator
        return text if name is None else f"{text} AS {name}"
    return f"{text} AS {quoted(name)}"


def _early(early: Early) -> list[str]:
    words = []
    if isinstance(early.at, Fraction):
        words.append(f"AT {_percent(float(early.at))}")
    elif early.at is not None:
        words.append(f"AT {span_sql(early.at)}")
    words += [] if early.every is None else [f"EVERY {TimeDomain.TIMESTAMP.show_span(early.every)}"]
    words += [] if early.accuracy is None else [f"ACCURACY {_percent(early.accuracy)}"]
    words += [] if early.coverage == 0.9 else [f"COVERAGE {_percent(early.coverage)}"]
    return words + ([] if early.season is None else [f"SEASON {TimeDomain.TIMESTAMP.show_span(early.season)}"])


def _percent(share: float) -> str:
    return f"{(Decimal(repr(share)) * 100).normalize():f}%"
