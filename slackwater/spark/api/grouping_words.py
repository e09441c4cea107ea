"""How a user groups a window: `group_by`, `rollup`, `cube`, `grouping_sets`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from pyspark.sql import Column

from slackwater.calls import called
from slackwater.errors import QueryError, shown
from slackwater.plan import logical as L
from slackwater.plan.grouping_sets import Sets, cross_product, cube, rollup
from slackwater.spark.api.column_sql import pairs_of

if TYPE_CHECKING:
    from slackwater.spark.api.session import Session


class GroupedBy:
    """The methods of a window that group its rows."""

    if TYPE_CHECKING:
        session: Session
        _logical: L.Aggregate

    @called()
    def group_by(self, *columns: str | Column, **named: str | Column) -> Self:
        """The window by groups: columns, expressions with an alias, or `name="expression"`; `groupBy` too."""
        before, pairs = self._logical.groups, pairs_of("group_by", columns, named)
        sets, more = self._logical.sets, tuple(range(len(before), len(before) + len(pairs)))
        sets = None if sets is None else cross_product([sets, (more,)])
        return self._grouped(replace(self._logical, groups=(*before, *pairs), sets=sets))

    def _grouped(self, grouped: L.Aggregate) -> Self:
        """The window by these groups, checked."""
        analysis = self.session._analysis
        rows, _ = analysis.window(analysis.rows_of(grouped.inputs[0]), grouped.window)
        analysis.groups(rows, grouped.groups)
        return replace(self, _logical=grouped)  # type: ignore[type-var]

    groupBy = group_by

    @called()
    def rollup(self, *columns: str | Column, **named: str | Column) -> Self:
        """Group by all these columns, by all but the last one, and so on down to one total; see `group_by`.

        In a subtotal, the columns that it sums over are NULL. `agg(level="grouping_id()")` says which these are.
        """
        return self._sets(rollup, "rollup", columns, named)

    @called()
    def cube(self, *columns: str | Column, **named: str | Column) -> Self:
        """Group by all combinations of these columns, down to one total; see `rollup`."""
        return self._sets(cube, "cube", columns, named)

    @called()
    def grouping_sets(self, sets: Sequence[Sequence[str]], *columns: str | Column, **named: str | Column) -> Self:
        """Group by each of these sets of columns; see `rollup`. `groupingSets` is the same method.

        `window("1 hour").grouping_sets([["a", "b"], ["a"], []], "a", "b").agg(n="count(*)")`
        """
        names = [*columns, *named]

        def places(_: Sequence[Sequence[int]]) -> Sets:
            for name in (name for some in sets for name in some if name not in names):
                raise QueryError(f"grouping_sets({shown(sets)}, …): {shown(name)} is not among the columns")
            return tuple(tuple(names.index(name) for name in some) for some in sets)

        return self._sets(places, "grouping_sets", columns, named)

    groupingSets = grouping_sets

    def _sets(
        self,
        sets_of: Callable[[Sequence[Sequence[int]]], Sets],
        what: str,
        columns: tuple[str | Column, ...],
        named: dict[str, str | Column],
    ) -> Self:
        before, pairs = self._logical.groups, pairs_of(what, columns, named)
        own = sets_of([(n,) for n in range(len(pairs))])
        sets = tuple(tuple(n + len(before) for n in places) for places in own)
        first = self._logical.sets or (tuple(range(len(before))),)
        return self._grouped(replace(self._logical, groups=(*before, *pairs), sets=cross_product([first, sets])))
