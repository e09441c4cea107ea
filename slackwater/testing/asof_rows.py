"""The rows of an as-of join in this process: every pair is tried, which is slow and hard to get wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from slackwater.columns import TIME
from slackwater.operators.page import Page
from slackwater.plan.asof import AsofNode
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.testing.expression import expression
from slackwater.testing.pairs import ID, meeting, missing, of_side, with_added
from slackwater.testing.two_sides import SidesInProcess

if TYPE_CHECKING:
    from slackwater.testing.pages import ArrowPages

_LEFT, _RIGHT = of_side(0, TIME), of_side(1, TIME)


class AsofInProcess(SidesInProcess):
    """Rows of the left side until they are out, and all rows of the right side that may match."""

    _node: AsofNode

    def __init__(self, label: str, node: AsofNode, pages: ArrowPages) -> None:
        super().__init__(label, node, pages)

    def add(self, side: int, page: Page, after: int) -> int:
        """Take the rows; late ones of the right side too."""
        rows = self._pages.timed(page)
        late = rows.filter(pl.col(TIME) <= after).height
        added = self._in_time(side, rows, after if side == 0 else MIN_TICK, TIME)
        self._rows[side] = with_added(self._rows[side], added)
        return late

    def due(self, upto: int) -> bool:
        """Whether there are some."""
        left = self._rows[0]
        return left is not None and bool((left[_LEFT] <= upto).any())

    def release(self, upto: int, at: int) -> Page | None:
        """Those up to a time."""
        left = self._rows[0]
        if left is None:
            return None
        self._rows[0] = left.filter(pl.col(_LEFT) > upto)
        return self._matched(left.filter(pl.col(_LEFT) <= upto), at)

    def rest(self, at: int) -> Page | None:
        """All that wait."""
        return None if self._rows[0] is None else self._matched(self._rows[0], at)

    def purge(self, past: int) -> None:
        """Of what is too old, the last row of each key counts where no distance is given."""
        rows, node = self._rows[1], self._node
        if rows is None or past == MAX_TICK:
            return
        if node.back is not None:
            self._rows[1] = rows.filter(pl.col(_RIGHT) > past - node.back)
            return
        keys = [expression(sql).alias(f"__key_{n}") for n, (_, sql, _) in enumerate(node.keys)]
        old = rows.filter(pl.col(_RIGHT) <= past).sort(_RIGHT, of_side(1, ID)).with_columns(keys)
        names = [f"__key_{n}" for n in range(len(keys))]
        last = old.unique(names, keep="last", maintain_order=True) if names else old.tail(1)
        self._rows[1] = pl.concat([last.drop(names), rows.filter(pl.col(_RIGHT) > past)])

    def _matched(self, left: pl.DataFrame, at: int) -> Page | None:
        right, node = self._rows[1], self._node
        if right is None:
            found = missing(left, node.kept[1]).clear()
        else:
            pairs = meeting(left.join(right, how="cross"), node.condition)
            distance, most = pl.col(_LEFT) - pl.col(_RIGHT), node.within
            before, later = distance >= 0, distance < 0
            counts = before if node.direction == "backward" else distance <= 0
            counts = counts if node.direction != "nearest" else pl.lit(True)
            near = counts if most is None else counts & (distance.abs() <= most)
            # Of two equally near rows, the earlier one; of equal times, the one that came last.
            order = pairs.filter(near).sort(-distance.abs(), ~later, of_side(1, ID))
            found = order.unique(of_side(0, ID), keep="last", maintain_order=True)
        rows = found
        if node.how == "left":
            alone = left.join(found, on=of_side(0, ID), how="anti", maintain_order="left")
            rows = pl.concat([found, missing(alone, node.kept[1])], how="diagonal_relaxed")
        return self._page(rows.sort(of_side(0, ID)), [pl.col(_LEFT).alias(TIME)], None, at)

    @property
    def waiting(self) -> int:
        """Those of the left side."""
        return 0 if self._rows[0] is None else self._rows[0].height

    def next_time(self, after: int) -> int | None:
        """The next one."""
        return None if self._rows[0] is None else min((t for t in self._rows[0][_LEFT] if t > after), default=None)
