"""GROUPING SETS, CUBE and ROLLUP: an aggregate for each set, and the union of their results.

Each set is a window aggregate of its own, so each closes by its own columns (D4). A set that contains the source
closes by the heartbeats of the sources, the others by that of the stream. All share the work on a page
(`SharedFold`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from slackwater.aggregates.parse import is_aggregate
from slackwater.aggregates.user_text import arguments, replace_calls, replace_columns
from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.identifiers import bare
from slackwater.plan.sql_type import sql_type
from slackwater.plan.unite import AnalysedPlan, united
from slackwater.plan.within_window import projection
from slackwater.windows.kernel import Group
from slackwater.windows.results import WINDOW_END, WINDOW_START

#: Each set, as positions in the list of all groups.
Sets = tuple[tuple[int, ...], ...]
#: The largest number of sets, because each row is folded into each set: a cube of eight columns.
MOST_SETS = 256
#: Stands for a call while columns outside of calls are replaced.
_CALL = "__call{}"


def cube(places: Sequence[Sequence[int]]) -> Sets:
    """All subsets of these, the whole set first. An element may be several groups, as in CUBE ((a, b), c).

    >>> cube([[0], [1]])
    ((0, 1), (0,), (1,), ())
    """
    _check_many(2 ** len(places))
    chosen = [some for n in range(len(places), -1, -1) for some in combinations(places, n)]
    return tuple(_joined(some) for some in chosen)


def rollup(places: Sequence[Sequence[int]]) -> Sets:
    """All of these, all but the last, and so on to none.

    >>> rollup([[0], [1, 2]])
    ((0, 1, 2), (0,), ())
    """
    return tuple(_joined(places[:n]) for n in range(len(places), -1, -1))


def cross_product(parts: Sequence[Sets]) -> Sets:
    """The sets of `GROUP BY a, ROLLUP (b, c)`: each combination of one set of each part.

    >>> cross_product([((0,),), ((1, 2), (1,), ())])
    ((0, 1, 2), (0, 1), (0,))
    """
    many = 1
    for part in parts:
        many *= len(part)
    _check_many(many)
    return tuple(_joined(some) for some in product(*parts))


def _check_many(sets: int) -> None:
    if sets > MOST_SETS:
        raise QueryError(f"these are {sets} grouping sets, at most {MOST_SETS} are allowed; name those you need")


def _joined(places: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(n for some in places for n in some))


def grouping_sets(
    query: L.Aggregate,
    groups: Sequence[Group],
    kinds: Sequence[pa.DataType],
    of: Callable[[L.Aggregate], AnalysedPlan],
) -> AnalysedPlan:
    """The plan of all sets, given the types of the groups; `of` gives that of one aggregate."""
    assert query.sets is not None
    _check_many(len(query.sets))
    if not query.aggregates:
        raise QueryError("grouping sets need an aggregate, as in agg(n='count(*)')")
    nulls = {g.name: f"CAST(NULL AS {sql_type(kind)})" for g, kind in zip(groups, kinds, strict=True)}
    parts = [_Set(query, groups, nulls, places) for places in query.sets]
    made = [part.shown(of(part.aggregate)) for part in parts]
    return united(made) if len(made) > 1 else made[0]


def refuse_grouping(aggregates: Iterable[tuple[str, Any]]) -> None:
    """Refuse `grouping(…)` where there is one set of groups."""
    for name, written in aggregates:
        named = isinstance(written, str) and "grouping" in written.lower()
        if named and replace_calls(written, _is_grouping, lambda call: "") != written:
            raise QueryError(
                f"{name}={written!r}: grouping(…) tells grouping sets apart, and there are none; write rollup(…) "
                "or GROUP BY ROLLUP (…), or leave it out"
            )


class _Set:
    """One grouping set."""

    def __init__(
        self, query: L.Aggregate, groups: Sequence[Group], nulls: Mapping[str, str], places: Sequence[int]
    ) -> None:
        self._groups, self._places = groups, frozenset(places)
        mine = tuple((group.name, group.sql) for n, group in enumerate(groups) if n in self._places)
        self._columns = {g.name: nulls[g.name] for n, g in enumerate(groups) if n not in self._places}
        written = {name: self._in_set(name, sql) for name, sql in query.aggregates}
        constants = {name: sql for name, sql in written.items() if not _has_aggregate(sql)}
        computed = tuple((name, sql) for name, sql in written.items() if name not in constants)
        names = [*(group.name for group in groups), *written]
        self._columns = {name: f"`{name}`" for name in names} | self._columns | constants
        self.aggregate = replace(query, groups=mine, aggregates=computed, sets=None)

    def shown(self, plan: AnalysedPlan) -> AnalysedPlan:
        """Its results with the columns of all sets."""
        pairs = [*self._columns.items()]
        if not plan.node.answers():
            pairs += [(WINDOW_START, WINDOW_START), (WINDOW_END, WINDOW_END)]
        return projection(plan, tuple(pairs), "agg")

    def _in_set(self, name: str, written: Any) -> Any:
        """An expression with `grouping(…)`, and the groups that the set lacks, as they are in it."""
        if not isinstance(written, str):
            return written
        calls: list[str] = []

        def kept(call: str) -> str:
            calls.append(self._bits(name, written, call) if _is_grouping(_tree(call)) else call)
            return _CALL.format(len(calls) - 1)

        nulls = {column.lower(): null for column, null in self._columns.items()}
        text = replace_columns(replace_calls(written, is_aggregate, kept), nulls)
        return replace_columns(text, {_CALL.format(n): call for n, call in enumerate(calls)})

    def _bits(self, name: str, written: str, call: str) -> str:
        columns = [self._place(name, written, text) for text in arguments(call) if text]
        if _is_id(call):
            if columns and columns != list(range(len(self._groups))):
                names = ", ".join(group.name for group in self._groups)
                raise QueryError(
                    f"{name}={written!r}: grouping_id takes all groups in their order, ({names}), or none"
                )
            return f"CAST({self._number(range(len(self._groups)))} AS BIGINT)"
        if len(columns) != 1:
            first = self._groups[0].name if self._groups else "a"
            raise QueryError(f"{name}={written!r}: grouping takes one group, as in grouping({first})")
        return f"CAST({self._number(columns)} AS TINYINT)"

    def _number(self, places: Iterable[int]) -> int:
        """A bit for each group, the first the highest: 1 if the set lacks it."""
        number = 0
        for place in places:
            number = 2 * number + (place not in self._places)
        return number

    def _place(self, name: str, written: str, text: str) -> int:
        for n, group in enumerate(self._groups):
            if bare(text).lower() in (group.name.lower(), bare(group.sql).lower()):
                return n
        names = ", ".join(group.name for group in self._groups)
        raise QueryError(f"{name}={written!r}: {text} is no group; there are {names}")


def _is_id(call: str) -> bool:
    return isinstance(_tree(call), exp.GroupingId)


def _is_grouping(call: object) -> bool:
    return isinstance(call, (exp.Grouping, exp.GroupingId))


def _tree(call: str) -> object:
    return sqlglot.parse_one(call, dialect="spark")


def _has_aggregate(sql: Any) -> bool:
    try:
        tree = sqlglot.parse_one(sql, dialect="spark") if isinstance(sql, str) else None
    except sqlglot.errors.SqlglotError:
        return True  # it is reported where aggregates are parsed
    return tree is None or any(is_aggregate(node) for node in tree.walk())
