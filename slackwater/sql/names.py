"""The columns of joined rows: which side each belongs to, and its name if several sides have one of that name.

`x.k` and `y.k` become `x_k` and `y_k`. A column that only one side has keeps its name, and so does one that USING
has made of two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from sqlglot import Token

from slackwater.columns import PLAIN_NAME
from slackwater.errors import SqlError, did_you_mean
from slackwater.plan import logical as L
from slackwater.sql.expression import Expression
from slackwater.sql.relations import Side
from slackwater.sql.source import Span, SqlText, span_of
from slackwater.sql.values import quoted


@dataclass
class Column:
    """A column of one side, or the one column that USING makes of several."""

    own: str
    """Its name on the first side that has it."""
    name: str
    """Its name in the joined rows."""
    side: int
    qualifiers: set[int] = field(default_factory=set)
    """The sides whose names may qualify it: those that it has its values from."""
    hidden: bool = False
    """Whether it may be used only in the condition of its own join."""


class Names:
    """The columns of all sides of a query; sides are numbered in the order of FROM."""

    def __init__(self, source: SqlText, sides: Sequence[Side], columns: Sequence[Sequence[str]]) -> None:
        self._source = source
        self._sides = sides
        self._of = [{c.lower(): Column(c, c, n, {n}) for c in names} for n, names in enumerate(columns)]
        self._shared: dict[str, Column] = {}
        """Columns that all sides get by the join itself: the bounds of their window."""

    # --- which columns there are

    def share(self, names: Sequence[str]) -> None:
        """Add columns that all sides get by the join itself."""
        self._shared = {name: Column(name, name, 0, set(range(len(self._sides)))) for name in names}

    def hide(self, side: int) -> None:
        """Allow the columns of a side only in the condition of its join."""
        for column in self._of[side].values():
            column.hidden = True

    def use(self, written: Expression, left: Sequence[int], right: int, how: str) -> Column:
        """Make one column of those that both sides have, by USING."""
        name = (written.column or "").lower()
        columns = self._visible(left, name)
        if len(columns) > 1:
            raise self._ambiguous(written.span, name, columns)
        for sides, side in ((left, "left"), ([right], "right")):
            names = [own for n in sides for own, _ in self._own(n)]
            if name not in {own.lower() for own in names}:
                wrong = f"USING: there is no column {name!r} on the {side} side{did_you_mean(name, names)}"
                raise self._source.error(written.span, f"{wrong}; there are {', '.join(names)}")
        column = columns[0]
        whose = {"inner": column.qualifiers | {right}, "right": {right}, "full": set[int]()}
        column.qualifiers = whose.get(how, column.qualifiers)
        self._of[right][name] = column
        return column

    def settle(self) -> None:
        """Give all columns different names."""
        shown = self._distinct(hidden=False)
        several = Counter(column.own.lower() for column in shown)
        for column in shown:
            if several[column.own.lower()] > 1:
                column.name = self._with_side(column)
        used_names = Counter(column.name.lower() for column in shown)
        for column in shown:
            if column.name != column.own and used_names[column.name.lower()] > 1:
                side = self._sides[column.side]
                raise self._source.error(
                    side.span,
                    f"the columns {column.own!r} are told apart as {column.name!r} and so on, but there is a "
                    f"column {column.name!r} already; give {side.name} another alias",
                )
        for column in self._distinct(hidden=True):
            if column.own.lower() in used_names:
                stem = f"{self._sides[column.side].name or 'other'}_{column.own}"
                others = {*used_names, *self._of[column.side]}
                column.name = next(n for k in count(1) if (n := stem + f"_{k}" * (k > 1)).lower() not in others)

    def _with_side(self, column: Column) -> str:
        side = self._sides[column.side]
        if side.name is None:
            raise self._source.error(
                side.span,
                f"other relations have a column {column.own!r} too; give this one an alias, as in (SELECT …) AS y",
            )
        return f"{side.name}_{column.own}"

    def _distinct(self, hidden: bool) -> list[Column]:
        columns = {id(c): c for side in self._of for c in side.values() if c.hidden == hidden}
        return list(columns.values())

    def projection(self, side: int) -> tuple[L.Column, ...] | None:
        """The columns of a side with their names in the joined rows; None if they keep their own."""
        columns = [(own, column.name) for own, column in self._own(side)]
        if all(own.lower() == name.lower() for own, name in columns):
            return None
        return tuple(_column(own, name) for own, name in columns)

    def _own(self, side: int) -> Iterator[tuple[str, Column]]:
        for lower, column in self._of[side].items():
            yield (column.own if column.own.lower() == lower else lower), column

    # --- expressions

    def resolved(
        self, expression: Expression, seen: Sequence[int], first: int | None = None, aliases: Collection[str] = ()
    ) -> Expression:
        """The same in terms of the joined rows; `seen` are the sides whose columns may be used.

        The names of a sub-query are looked up in its own side `first`. `aliases` need not be columns.
        """
        replacements = list[tuple[int, int, str | None]]()
        dotted = dict(self._qualified(expression, seen, first))
        for at, column in dotted.items():
            keeps_name = column.name.lower() == expression.tokens[at + 2].text.lower()
            replacements.append((at, at + 2, None) if keeps_name else (at, at + 3, quoted(column.name)))
        for at, column in self._plain(expression, seen, first, aliases, dotted):
            if column.name.lower() != expression.tokens[at].text.lower():
                replacements.append((at, at + 1, quoted(column.name)))
        return expression.renamed(replacements)

    def sides_of(self, expression: Expression, seen: Sequence[int]) -> set[int]:
        """The sides whose columns an expression names."""
        dotted = dict(self._qualified(expression, seen, None))
        columns = [*dotted.values(), *(c for _, c in self._plain(expression, seen, None, (), dotted))]
        return {column.side for column in columns}

    def _qualified(
        self, expression: Expression, seen: Sequence[int], first: int | None
    ) -> Iterator[tuple[int, Column]]:
        for at in expression.qualifiers():
            token = expression.tokens[at]
            side = self._side(token, seen, first, expression.tokens[at + 2])
            if side is not None:
                yield at, self._column(side, token, expression.tokens[at + 2])

    def _side(self, token: Token, seen: Sequence[int], first: int | None, behind: Token) -> int | None:
        """The side that a qualifier names; None if it is not a qualifier."""
        name, span = str(token.text).lower(), span_of([token])
        order: list[int] = [*([] if first is None else [first]), *seen, *range(len(self._sides))]
        for n in dict.fromkeys(order):
            if name not in [own.lower() for own in (self._sides[n].name or "", *self._sides[n].also)]:
                continue
            if n != first and n not in seen:
                raise self._source.error(span, f"the columns of {token.text} are not known here")
            return n
        if self._visible(seen, name):
            return None  # a field of a column
        for n in seen:
            if name in [other.lower() for other in self._sides[n].names]:
                alias = self._sides[n].name
                raise self._source.error(span, f"{token.text} is called {alias} here; write {alias}.{behind.text}")
        return None

    def _column(self, side: int, qualifier: Token, token: Token) -> Column:
        span, name = span_of([qualifier, token]), f"{qualifier.text}.{token.text}"
        if self._source.raw(token) == "*":
            raise self._source.error(span, f"{name} stands by itself in SELECT; name one of the columns")
        column = self._of[side].get(token.text.lower(), self._shared.get(token.text.lower()))
        if column is None:
            names = [own for own, _ in self._own(side)]
            hint = did_you_mean(token.text, names)
            raise self._source.error(
                span, f"{qualifier.text} has no column {token.text!r}{hint}; there are {', '.join(names)}"
            )
        if side not in column.qualifiers:
            raise self._source.error(
                span,
                f"behind USING ({column.own}) of an outer join there is only one {column.own}; write {column.own}, "
                "or join with ON",
            )
        return column

    def _plain(
        self,
        expression: Expression,
        seen: Sequence[int],
        first: int | None,
        aliases: Collection[str],
        dotted: Collection[int],
    ) -> Iterator[tuple[int, Column]]:
        """The columns without a qualifier."""
        alias_names = {alias.lower() for alias in aliases}
        for at, name in expression.columns:
            own = None if first is None else self._of[first].get(name.lower())
            columns = [own] if own is not None else self._visible(seen, name.lower())
            if at in dotted or name.lower() in alias_names or not columns:
                continue
            if len(columns) > 1:
                raise self._ambiguous(span_of([expression.tokens[at]]), name, columns)
            yield at, columns[0]

    def _visible(self, seen: Collection[int], name: str) -> list[Column]:
        """The columns of this name. Hidden columns count only for the last side, whose condition may use them."""
        last = max(seen, default=0)
        columns = [(n, self._of[n][name]) for n in seen if name in self._of[n]]
        columns += [(0, self._shared[name])] if name in self._shared else []
        return list({id(c): c for n, c in columns if not c.hidden or n == last}.values())

    def _ambiguous(self, span: Span, name: str, columns: Sequence[Column]) -> SqlError:
        sides = [self._sides[c.side].name for c in columns]
        whose = " and of ".join(side or "a query without a name" for side in sides)
        write = " or ".join(f"{side}.{name}" for side in sides if side is not None)
        return self._source.error(span, f"{name} is a column of {whose}; write {write}")

    # --- what SELECT shows

    def name_of(self, side: int, own: str) -> str:
        """The name of a side's column in the joined rows."""
        return self._of[side][own.lower()].name

    def own(self, name: str) -> str:
        """The name that a column had on its side."""
        names = [c.own for side in self._of for c in side.values() if c.name.lower() == name.lower()]
        return names[0] if names else name

    def all(self, qualifier: Token | None, seen: Sequence[int]) -> list[Column] | None:
        """The columns that a star stands for; None if no side has the qualifier before it."""
        if qualifier is None:
            sides = [*(self._of[n] for n in seen), self._shared]
            return list({id(c): c for side in sides for c in side.values()}.values())
        side = next((n for n in seen if (self._sides[n].name or "").lower() == qualifier.text.lower()), None)
        return None if side is None else [c for c in self._of[side].values() if side in c.qualifiers]


def _column(own: str, name: str) -> L.Column:
    if own.lower() == name.lower() and PLAIN_NAME.match(own) and quoted(own) == own:
        return None, own
    return name, quoted(own)
