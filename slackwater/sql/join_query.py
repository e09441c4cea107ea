"""Joins the relations of FROM: windows go to the sides, conditions to the joins, and columns get names.

Joins go from left to right. A stored relation has no time: each row is joined with it by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from slackwater.plan import logical as L
from slackwater.plan.window_rows import repeats
from slackwater.sql.conjuncts import conjuncts
from slackwater.sql.expression import Expression
from slackwater.sql.names import Names
from slackwater.sql.relations import STORED_ALONE, Asof, From, JoinClause, Side, StoredRelation, Test
from slackwater.sql.scope import Scope
from slackwater.sql.source_locations import SourceLocation, SourceLocations
from slackwater.sql.values import quoted
from slackwater.sql.window import WindowClause
from slackwater.windows.results import WINDOW_END, WINDOW_START

_LATER = "its rows without a partner would be known only when the stream has ended"


@dataclass
class _RowsSoFar:
    """The rows joined so far."""

    rows: L.Logical
    window: WindowClause | None
    """How long they find partners; None for pairs, which carry it in a column."""
    side: Side
    """Where they were written."""


@dataclass
class JoinQuery:
    """A FROM with several relations."""

    relations: From
    scope: Scope
    locations: SourceLocations
    names: Names | None = None
    """None if the columns of a side are not known yet."""
    swapped: bool = False
    """Whether a stored relation stands before the first stream."""
    _conditions: list[list[Expression]] = field(default_factory=list)
    """For each join, its conditions in WHERE."""

    def __post_init__(self) -> None:
        self._check()
        self.names = self._names()
        self._conditions = [[] for _ in self.relations.joins]

    # --- what it is made of

    @property
    def seen(self) -> list[int]:
        """The sides whose columns SELECT can name."""
        return [0, *(n for n, joined in self._joins if joined.how not in ("semi", "anti"))]

    @property
    def _joins(self) -> list[tuple[int, JoinClause]]:
        return list(enumerate(self.relations.joins, start=1))

    @property
    def _streams(self) -> list[Side]:
        """Those whose rows find partners for a while: neither stored relations nor versions."""
        versions = [joined.side for joined in self.relations.joins if joined.asof is not None]
        sides = [side for side in self.relations.sides if not any(side is version for version in versions)]
        return [side for side in sides if not isinstance(side.rows, StoredRelation)]

    @property
    def window(self) -> WindowClause | None:
        """The window of the aggregate: the bracket of the only stream, if no other one is paired with it."""
        return self._streams[0].window if len(self._streams) == 1 else None

    def _check(self) -> None:
        error, sides = self.locations.source.error, self.relations.sides
        if len(sides) == 1:
            return
        if not self._streams:
            raise error(sides[0].span, STORED_ALONE)
        called = dict[str, Side]()
        tests = [joined.side for joined in self.relations.joins if joined.test is not None]
        for side in sides:
            if side.name is not None and side.name.lower() in called and not any(side is test for test in tests):
                raise error(side.span, f"two relations are called {side.name}; give this one an alias, as in AS y")
            called[(side.name or "").lower()] = side
            if isinstance(side.rows, StoredRelation):
                if side.window is not None:
                    raise error(side.window.span, "a stored relation has no time, so no window; leave it out")
            elif side.window is not None and not any(side is stream for stream in self._streams):
                raise error(
                    side.window.span, "what counts, counts until the next row; write ASOF WITHIN 1 HOUR JOIN"
                )
            elif side.window is not None and len(self._streams) > 1:
                self._check_window(side.window)

    def _check_window(self, written: WindowClause) -> None:
        window = written.window
        if window.gap is not None:
            return  # the join refuses sessions in its own words
        for word in ("disorder",) if repeats(window) else ("offset", "wattr", "disorder"):
            if getattr(window, word) is not None:
                raise self.locations.source.error(
                    written.span,
                    f"a window with {word.upper()} is for aggregates; rows of a join find partners for a range: "
                    "write [RANGE 10 MINUTES] or [ROWS 100] here, and the window of an aggregate behind all, as in "
                    "WINDOW [RANGE 1 HOUR, SLIDE 1 HOUR]",
                )

    def _names(self) -> Names | None:
        if not self.relations.joins:
            return None
        columns = [self._columns(side.rows) for side in self.relations.sides]
        known_columns = [c for c in columns if c is not None]
        if len(known_columns) < len(columns):
            return None
        names = Names(self.locations.source, self.relations.sides, known_columns)
        left = [0]
        for n, joined in self._joins:
            if joined.how in ("semi", "anti"):
                names.hide(n)
            for written in joined.using:
                names.use(written, left, n, joined.how)
            left = [side for side in self.seen if side <= n]
        names.settle()
        windows = [side.window.window for side in self._streams if side.window is not None]
        if len(self._streams) > 1 and any(map(repeats, windows)):
            names.share((WINDOW_START, WINDOW_END))
        return names

    def _columns(self, rows: L.Logical | StoredRelation) -> list[str] | None:
        if not isinstance(rows, StoredRelation):
            return self.scope.columns(rows)
        if not rows.columns:
            return self.scope.columns_of_table(rows.table)
        return [text.strip("`") if name is None else name for name, text in rows.columns]

    # --- expressions

    def resolved(
        self,
        expression: Expression,
        seen: Sequence[int] | None = None,
        first: int | None = None,
        aliases: Collection[str] = (),
    ) -> Expression:
        """An expression in terms of the joined rows; see `Names.resolved`."""
        if self.names is None:
            return expression.without_qualifier([name for side in self.relations.sides for name in side.names])
        return self.names.resolved(expression, self.seen if seen is None else seen, first, aliases)

    def take_conditions(self, where: Sequence[Expression]) -> list[Expression]:
        """Give conditions of WHERE to the comma joins whose sides they name. Return the others."""
        if self.names is None or not any(joined.listed for joined in self.relations.joins):
            return list(where)
        parts = [part for condition in where for part in conjuncts(condition)]
        others = [part for part in parts if not self._take(part, self.names)]
        return list(where) if len(others) == len(parts) else others

    def _take(self, part: Expression, names: Names) -> bool:
        if part.aggregates:
            return False
        sides = names.sides_of(part, self.seen)
        last = max(sides, default=0)
        if len(sides) < 2 or not self.relations.joins[last - 1].listed:
            return False
        if any(later.how in ("right", "full") for later in self.relations.joins[last:]):
            return False  # right and full joins keep rows without a left side
        self._conditions[last - 1].append(part)
        return True

    # --- nodes

    def rows(self) -> L.Logical | StoredRelation:
        """The joined rows; a stored relation only if it is alone."""
        if not self.relations.joins:
            return self.relations.first.rows
        first, joins = self._side(0), self._joins
        if isinstance(first, StoredRelation):
            joined, joins = self._swapped(), joins[1:]
            stream = self._side(1)
            if isinstance(stream, StoredRelation):
                raise self.locations.source.error(
                    joined.side.span, f"{joined.side.name} is a stored relation too; write the stream first"
                )
            left = self._stored(_RowsSoFar(stream, joined.side.window, joined.side), first, 1, joined)
        else:
            left = _RowsSoFar(first, self.relations.first.window, self.relations.first)
        for n, joined in joins:
            side = self._side(n)
            left = (
                self._stored(left, side, n, joined)
                if isinstance(side, StoredRelation)
                else (self._join if joined.asof is None else self._asof)(left, side, n)
            )
        return left.rows

    def _side(self, n: int) -> L.Logical | StoredRelation:
        """A side with its columns under the names of the joined rows."""
        side = self.relations.sides[n]
        columns = None if self.names is None else self.names.projection(n)
        if columns is None:
            return side.rows
        if isinstance(side.rows, StoredRelation):
            return StoredRelation(side.rows.table, _through(side.rows.columns, columns))
        return self.locations.put(L.Select((side.rows,), columns), SourceLocation(side.span))

    def _swapped(self) -> JoinClause:
        """The first join with its sides swapped, if a stored relation is written before the stream."""
        self.swapped = True
        joined = self.relations.joins[0]
        if joined.how not in ("inner", "right"):
            word = joined.how.upper()
            raise self.locations.source.error(
                joined.span,
                f"{word} JOIN behind a stored relation: {_LATER}; write the stream first, or RIGHT JOIN",
            )
        return JoinClause(
            joined.side, {"right": "left"}.get(joined.how, joined.how), joined.span, joined.on, joined.using
        )

    def _stored(self, left: _RowsSoFar, side: StoredRelation, n: int, joined: JoinClause) -> _RowsSoFar:
        if joined.how in ("right", "full"):
            raise self.locations.source.error(
                joined.span, f"{joined.how.upper()} JOIN with a stored relation: {_LATER}; write JOIN or LEFT JOIN"
            )
        node = L.JoinStored((left.rows,), side.table, self._on(n), joined.how, side.columns)
        return _RowsSoFar(self.locations.put(node, self._location(left, joined)), left.window, left.side)

    def _join(self, left: _RowsSoFar, right: L.Logical, n: int) -> _RowsSoFar:
        joined = self.relations.joins[n - 1]
        windows = tuple(None if w is None else w.window for w in (left.window, joined.side.window))
        node = L.Join((left.rows, right), (windows[0], windows[1]), self._on(n), joined.how)
        return _RowsSoFar(self.locations.put(node, self._location(left, joined)), None, joined.side)

    def _asof(self, left: _RowsSoFar, right: L.Logical, n: int) -> _RowsSoFar:
        joined, seen = self.relations.joins[n - 1], [side for side in self.seen if side < n]
        asof, on = joined.asof or Asof(), self._on(n)
        if asof.match is not None:
            if isinstance(on, tuple):
                raise self.locations.source.error(asof.match.span, "beside MATCH_CONDITION write ON, not USING")
            on = " AND ".join(part for part in (on, self.resolved(asof.match, [*seen, n]).text) if part)
        at = None if asof.at is None else self.resolved(asof.at, seen).text
        node = L.JoinAsof((left.rows, right), on, joined.how, asof.within, asof.direction, at)
        return _RowsSoFar(self.locations.put(node, self._location(left, joined)), left.window, left.side)

    def _location(self, left: _RowsSoFar, joined: JoinClause) -> SourceLocation:
        parts = {"join(): the left side": left.side.span, "join(): the right side": joined.side.span}
        if joined.on is not None:
            parts |= {"join on": joined.on.span, "join_asof(on": joined.on.span}
        return SourceLocation(joined.span, parts=parts)

    def _on(self, n: int) -> str | tuple[str, ...] | None:
        """The condition of a join, in terms of the joined rows."""
        joined = self.relations.joins[n - 1]
        if joined.using:
            return tuple(self._used(written, n) for written in joined.using)
        seen = [*(side for side in self.seen if side < n), n]
        if joined.test is not None:
            return self._comparison(joined.test, joined.how, seen)
        parts = [*([] if joined.on is None else [joined.on]), *self._conditions[n - 1]]
        if not parts:
            return None
        for part in parts:
            if part.aggregates:
                raise self.locations.source.error(
                    part.span, "a join looks at single rows; aggregate the sides before it"
                )
        return " AND ".join(self.resolved(part, seen).text for part in parts)

    def _comparison(self, test: Test, how: str, seen: Sequence[int]) -> str | None:
        """The comparison of IN or EXISTS as a condition of a pair.

        NOT IN needs a difference from all values. A comparison with null is no difference (SQL's rule).
        """
        *outer, inner = seen
        parts = [self.resolved(part, outer, inner).text for part in test.where]
        parts = [f"({part})" for part in parts] if len(parts) > 1 or test.value is not None else parts
        if test.value is not None and test.item is not None:
            value, item = _term(self.resolved(test.value, outer)), self._compared(test.item, outer, inner)
            same = f"{value} {test.operator} {item}"
            parts.insert(0, f"coalesce({same}, true)" if how == "anti" else same)
        return " AND ".join(parts) or None

    def _compared(self, item: Expression | str, outer: Sequence[int], inner: int) -> str:
        if isinstance(item, Expression):
            return _term(self.resolved(item, outer, inner))
        return quoted(item if self.names is None else self.names.name_of(inner, item))

    def _used(self, written: Expression, n: int) -> str:
        own = written.column or ""
        return own if self.names is None else self.names.name_of(n, own)


def _term(expression: Expression) -> str:
    """An expression as an operand of another one."""
    return expression.text if expression.column is not None else f"({expression.text})"


def _through(inner: Sequence[L.Column], outer: Sequence[L.Column]) -> tuple[L.Column, ...]:
    """The outer columns of a stored relation in terms of its own columns."""
    texts = {(text.strip("`") if name is None else name).lower(): text for name, text in inner}
    pairs = [(name, text, texts.get(text.strip("`").lower(), text)) for name, text in outer]
    return tuple((name if own == text else name or text.strip("`"), own) for name, text, own in pairs)
