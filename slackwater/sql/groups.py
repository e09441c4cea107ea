"""Reads GROUP BY: columns and expressions, GROUPING SETS, CUBE and ROLLUP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slackwater.errors import QueryError
from slackwater.plan.grouping_sets import Sets, cross_product, cube, rollup
from slackwater.sql.cursor import Cursor
from slackwater.sql.expression import Expression, read_expression
from slackwater.sql.foreign import refuse_old_window
from slackwater.windows.results import WINDOW_END, WINDOW_START

#: The columns of the window, which stand in GROUP BY as other systems want it.
BOUNDS = (WINDOW_START, WINDOW_END)
_WHAT = "a column or expression to group by"
_SETS = "GROUPING SETS"
#: Clauses that may follow.
_NEXT = ("HAVING", "WINDOW", "QUALIFY", "ORDER BY", "EMIT", "UNION")


class _Groups:
    """The distinct groups so far."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.groups: list[Expression] = []

    def part(self) -> Sets:
        """What stands between two commas: a group, or several grouping sets."""
        cursor = self._cursor
        if cursor.accept(_SETS) or cursor.accept("GROUPING", "SETS"):
            return tuple(places for sets in self._listed(self._element) for places in sets)
        if cursor.word in ("CUBE", "ROLLUP") and cursor.raw_at(1) == "(":
            made = {"CUBE": cube, "ROLLUP": rollup}[cursor.source.word(cursor.next())]
            return made(self._listed(self._places))
        return (self._places(),)

    def _element(self) -> Sets:
        """A set, or CUBE or ROLLUP inside of GROUPING SETS."""
        nested = self._cursor.word in ("CUBE", "ROLLUP", _SETS) and self._cursor.raw_at(1) == "("
        return self.part() if nested else (self._places(),)

    def _listed(self, read: Callable[[], Any]) -> list[Any]:
        self._cursor.expect_symbol("(")
        found = self._cursor.listed(read)
        self._cursor.expect_symbol(")")
        return found

    def _places(self) -> tuple[int, ...]:
        """A group, or several in parentheses, or none in empty ones."""
        cursor = self._cursor
        if not self._sees_list():
            return (self._place(),)
        cursor.expect_symbol("(")
        if cursor.accept_symbol(")"):
            return ()
        places = tuple(cursor.listed(self._place))
        cursor.expect_symbol(")")
        return places

    def _sees_list(self) -> bool:
        """Whether parentheses come that are a list: `()`, or some with a comma in them and nothing behind them."""
        cursor, depth, commas = self._cursor, 0, 0
        if not cursor.sees_symbol("("):
            return False
        ahead = 0
        while (raw := cursor.raw_at(ahead)) != "":
            depth += (raw == "(") - (raw == ")")
            commas += raw == "," and depth == 1
            ahead += 1
            if depth == 0:
                return commas > 0 or ahead == 2 or cursor.raw_at(ahead) in (",", ")", "", ";")
        return False

    def _place(self) -> int:
        group = _read_group(self._cursor)
        for n, other in enumerate(self.groups):
            if group.source.same_words(group.tokens, other.tokens):
                return n
        self.groups.append(group)
        return len(self.groups) - 1


def read_groups(cursor: Cursor) -> tuple[list[Expression], Sets | None]:
    """What follows GROUP BY: the groups, and the grouping sets as places of these; None for a plain list."""
    if cursor.word == "ALL" and cursor.raw_at(1) in ("", "(", ";"):
        raise cursor.error("GROUP BY ALL is not supported yet; name the columns")
    if not _has_sets(cursor):
        groups = cursor.listed(lambda: _read_group(cursor))
        for words, made in ((("WITH", "ROLLUP"), rollup), (("WITH", "CUBE"), cube)):
            if cursor.accept(*words):
                return groups, made([(n,) for n in range(len(groups))])
        return groups, None
    reader, begin = _Groups(cursor), cursor.at
    parts = cursor.listed(reader.part)
    try:
        return reader.groups, cross_product(parts)
    except QueryError as error:
        raise cursor.error(str(error), cursor.since(begin)) from None


def _read_group(cursor: Cursor) -> Expression:
    refuse_old_window(cursor)
    return read_expression(cursor, _WHAT)


def _has_sets(cursor: Cursor) -> bool:
    """Whether one of the parts before the next clause is more than a group."""
    ahead, depth = 0, 0
    while (raw := cursor.raw_at(ahead)) != "":
        depth += (raw == "(") - (raw == ")")
        first = depth == 0 and (ahead == 0 or cursor.raw_at(ahead - 1) == ",")
        word = cursor.word_at(ahead)
        if first and (word == _SETS or (word == "GROUPING" and cursor.word_at(ahead + 1) == "SETS")):
            return True
        if first and word in ("CUBE", "ROLLUP") and cursor.raw_at(ahead + 1) == "(":
            return True
        if depth < 0 or (depth == 0 and word in _NEXT and cursor.raw_at(ahead + 1) != "("):
            return False
        ahead += 1
    return False


def without_bounds(sets: Sets, groups: Sequence[Expression], left: Sequence[Expression]) -> Sets:
    """The sets with the places of those groups that are no bounds of the window; each set has the bounds."""
    kept = [n for n, group in enumerate(groups) if any(group is other for other in left)]
    bounds = {n for n in range(len(groups)) if n not in kept}
    for places in sets:
        if bounds and not bounds <= set(places):
            raise groups[0].source.error(
                groups[min(bounds)].span,
                "each result has a window: write it before the sets, as in GROUP BY window_start, window_end, "
                "GROUPING SETS ((a), ())",
            )
    return tuple(tuple(kept.index(n) for n in places if n in kept) for places in sets)
