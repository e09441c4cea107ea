"""The rows of a window join in this process: every pair is tried, which is slow and hard to get wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from slackwater.columns import PAST, TIME, UNTIL
from slackwater.operators.page import Page
from slackwater.plan.join_node import JoinNode
from slackwater.progress.time import MIN_TICK
from slackwater.testing.pairs import ID, later, meeting, of_side, own, with_added
from slackwater.testing.two_sides import SidesInProcess

if TYPE_CHECKING:
    from slackwater.testing.pages import ArrowPages


class JoinRows(SidesInProcess):
    """Every row with its end."""

    def __init__(self, label: str, node: JoinNode, pages: ArrowPages) -> None:
        super().__init__(label, node, pages)
        self._added: list[pl.DataFrame | None] = [None, None]

    def add(self, side: int, page: Page, after: int) -> int:
        """Take all rows, with what was past when they came."""
        rows, alive = self._pages.timed(page), self._node.sides[side]
        if alive.range is not None:
            rows = rows.with_columns((pl.col(TIME) + alive.range).alias(UNTIL))
        rows = rows.with_columns(pl.lit(after, pl.Int64).alias(PAST))
        self._added[side] = self._in_time(side, rows, MIN_TICK, TIME, UNTIL, PAST)
        return rows.filter(pl.col(TIME) <= after).height

    def pairs(self, side: int, at: int) -> Page | None:
        """The added page with the rows of the other side."""
        sides = [self._rows[0], self._rows[1]]
        sides[side] = self._added[side]
        return self._page(self._matched(*sides), later(), None, at)

    def partnered(self, side: int, at: int) -> Page | None:
        """Rows of the left side that have a partner now, and had none before."""
        left, right = (self._added[0], self._rows[1]) if side == 0 else (self._rows[0], self._added[1])
        found = self._having_partner(left, right)
        if side == 1 and found is not None:
            found = _without(found, self._having_partner(found, self._rows[1]))
        return self._page(found, own(0), None, at)

    def lone(self, side: int, after: int, until: int, at: int) -> Page | None:
        """Rows that have stayed without a partner."""
        rows = self._rows[side]
        if rows is None:
            return None
        last = pl.col(of_side(side, UNTIL)) - 1
        return self._unmatched(side, rows.filter((last > after) & (last <= until)), at)

    def alone(self, side: int, until: int, at: int) -> Page | None:
        """Of the added rows."""
        added = self._added[side]
        assert added is not None
        return self._unmatched(side, added.filter(pl.col(of_side(side, UNTIL)) - 1 <= until), at)

    def _unmatched(self, side: int, due: pl.DataFrame, at: int) -> Page | None:
        """The rows among these that have no partner."""
        sides = [self._rows[0], self._rows[1]]
        sides[side] = due
        matched = self._matched(*sides)
        lone = (
            due if matched is None else due.join(matched, on=of_side(side, ID), how="anti", maintain_order="left")
        )
        return self._page(lone, own(side), 1 - side, at)

    def settle_page(self) -> None:
        """The added rows count from now on."""
        for side, added in enumerate(self._added):
            if added is not None:
                self._rows[side] = with_added(self._rows[side], added)
        self._added = [None, None]

    def purge(self, side: int, until: int) -> None:
        """Drop rows by their last instant."""
        rows = self._rows[side]
        if rows is not None:
            alive = rows[of_side(side, UNTIL)] - 1 > until
            self._rows[side] = rows if alive.all(ignore_nulls=False) else rows.filter(alive)

    def last(self, side: int) -> int:
        """The last instant of all."""
        rows = self._rows[side]
        top = None if rows is None else rows[of_side(side, UNTIL)].max()
        return MIN_TICK if top is None else int(top) - 1  # type: ignore[arg-type]

    def next_last(self, side: int, after: int) -> int | None:
        """The next one."""
        rows = self._rows[side]
        if rows is None:
            return None
        ends = rows[of_side(side, UNTIL)] - 1
        return ends.filter(ends > after).min()  # type: ignore[return-value]

    def _matched(self, left: pl.DataFrame | None, right: pl.DataFrame | None) -> pl.DataFrame | None:
        """Pairs that are alive at the same time and meet the condition.

        The one must not have been past when the other came.
        """
        if left is None or right is None or not left.height or not right.height:
            return None
        pairs = left.join(right, how="cross")
        alike = (pl.col(of_side(0, TIME)) < pl.col(of_side(1, UNTIL))) & (
            pl.col(of_side(1, TIME)) < pl.col(of_side(0, UNTIL))
        )
        left_first = pl.col(of_side(0, ID)) < pl.col(of_side(1, ID))
        there = [pl.col(of_side(s, UNTIL)) - 1 > pl.col(of_side(1 - s, PAST)) for s in (0, 1)]
        there_then = pl.when(left_first).then(there[0]).otherwise(there[1])
        return meeting(pairs.filter(alike & there_then), self._node.condition)

    def _having_partner(self, left: pl.DataFrame | None, right: pl.DataFrame | None) -> pl.DataFrame | None:
        matched = self._matched(left, right)
        if left is None or matched is None:
            return None
        return left.join(matched, on=of_side(0, ID), how="semi", maintain_order="left")


def _without(rows: pl.DataFrame, others: pl.DataFrame | None) -> pl.DataFrame:
    return rows if others is None else rows.join(others, on=of_side(0, ID), how="anti", maintain_order="left")
