"""The rows of a join with windows of rows, on Spark: matched in the order of time, when time has passed them.

A window of rows is meant to be small: its rows are written anew each time. Those that wait for time, and those of a
side with a window of time, stay in their files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.columns import ROW_ORDER, TIME, UNTIL
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.plan.join_node import JoinNode
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.spark.backend.compile import named
from slackwater.spark.state.cell_files import high, low
from slackwater.spark.state.join_output import later, of_side, own
from slackwater.spark.state.two_sides import SidesInCells, SidesValues

if TYPE_CHECKING:
    from slackwater.spark.backend.pages import SparkPages

#: Column for the number of a row's page.
_PAGE = "__page"
#: Kept beside the visible columns.
_HIDDEN = (TIME, _PAGE, ROW_ORDER)


class OrderedCellsValues(SidesValues):
    """The same, with how far time has come, and counts."""

    at: tuple[int, int | None, int, int]


class OrderedCells(SidesInCells):
    """What such a join keeps, on the journal's file system."""

    def __init__(self, label: str, node: JoinNode, pages: SparkPages) -> None:
        longest = max(1, *(side.longest for side in node.sides))
        super().__init__(label, node, pages, [longest, longest])
        self._came = 0
        self._released = MIN_TICK
        self.undecided: int | None = None

    def add(self, side: int, page: Page, after: int) -> int:
        """One job writes the page's rows; another one only where some of them are late."""
        cells = self._sides[side]
        self._came += 1
        for work in self._pages.works(page):
            with work.rows_with_time() as frame:
                place = [F.lit(self._came).alias(_PAGE), F.monotonically_increasing_id().alias(ROW_ORDER)]
                files = cells.write(frame.select(*self._made.visible(side), TIME, *place))
        files, late = cells.without_late(files, after)
        cells.add(files)
        return late

    def release(self, before: int, upto: int, at: int) -> list[Page]:
        """One job for all pages, when they run, and one for each window of rows."""
        sides = [self._passed(side, upto) for side in (0, 1)]
        pages = self._results(sides, before, upto, at)
        self.undecided = self._first_undecided(sides, upto)
        for side in (0, 1):
            self._purge(side, sides[side], upto)
        self._released = upto
        return pages

    def rest(self, before: int, at: int) -> list[Page]:
        """Release as if time had passed all rows; every file stays."""
        return self._results([self._passed(side, MAX_TICK) for side in (0, 1)], before, MAX_TICK, at)

    @property
    def waiting(self) -> int:
        """Those of files that reach above the heartbeat."""
        return sum(file.rows for cells in self._sides for file in cells.files if high(file) > self._released)

    def next_time(self, after: int) -> int | None:
        """Read off the statistics of the files."""
        return min((t for cells in self._sides if (t := cells.next_time(after)) is not None), default=None)

    def state(self, whole: bool) -> State:
        """Which files there are."""
        sides = [cells.state() for cells in self._sides]
        at = (self._released, self.undecided, self._came, self._made.given)
        return State(OrderedCellsValues(sides=sides, at=at))

    def restore(self, states: Sequence[State]) -> None:
        """Continue with them."""
        super().restore(states)
        at = states[-1].read(OrderedCellsValues)["at"]
        self._released, self.undecided, self._came, self._made.given = at

    def _passed(self, side: int, upto: int) -> DataFrame | None:
        """The rows that a heartbeat has passed, each with its end as far as it is known by then."""
        cells, alive = self._sides[side], self._node.sides[side]
        files = [file for file in cells.files if low(file) <= upto]
        if not files:
            return None
        rows = cells.frame(files).where(f"{TIME} <= {upto}L")
        end = f"{TIME} + {alive.range}L"
        if alive.rows is not None:
            end = f"lead({TIME}, {alive.rows}) OVER (ORDER BY {TIME}, {_PAGE}, {ROW_ORDER})"
        hidden = [
            named(TIME, of_side(side, TIME)),
            F.expr(f"coalesce({end}, {MAX_TICK}L)").alias(of_side(side, UNTIL)),
        ]
        kept = [named(name, of_side(side, name)) for name in (_PAGE, ROW_ORDER)]
        return rows.select(*self._made.visible(side), *hidden, *kept)

    def _results(self, sides: Sequence[DataFrame | None], before: int, upto: int, at: int) -> list[Page]:
        left, right = sides
        how, pages = self._node.how, list[Page]()
        if left is not None and right is not None and how != "anti":
            new = f"greatest({of_side(0, TIME)}, {of_side(1, TIME)})"
            if how == "semi":
                pages.append(self._made.page(self._partnered(left, right, before), own(0), 1, at))
            else:
                pairs = left.join(right, self._together())
                pairs = pairs.where(f"{new} > {before}L") if before > MIN_TICK else pairs
                pages.append(self._made.page(pairs, later(), None, at))
        for side in self._node.lone if how != "semi" else ():
            rows, other = sides[side], sides[1 - side]
            if rows is not None:
                until = of_side(side, UNTIL)
                due = rows.where(f"{until} <= {upto}L")
                due = due.where(f"{until} > {before}L") if before > MIN_TICK else due
                lone = due if other is None else due.join(other, self._together(), "left_anti")
                pages.append(self._made.page(lone, own(side), 1 - side, at))
        return pages

    def _partnered(self, left: DataFrame, right: DataFrame, before: int) -> DataFrame:
        """Rows of the left side that have a partner now, and had none before."""
        found = left.join(right, self._together(), "left_semi")
        if before == MIN_TICK:
            return found
        old = right.where(f"{of_side(1, TIME)} <= {before}L")
        both = self._together() & F.expr(f"{of_side(0, TIME)} <= {before}L")
        return found.join(old, both, "left_anti")

    def _together(self) -> Column:
        """A row is never alive if a whole window of rows of its own instant follows it."""
        alive = [f"{of_side(side, TIME)} < {of_side(side, UNTIL)}" for side in (0, 1)]
        return self._made.together() & F.expr(" AND ".join(alive))

    def _first_undecided(self, sides: Sequence[DataFrame | None], upto: int) -> int | None:
        """One job for each side whose rows may stay alone."""
        found = []
        for side in self._node.lone:
            rows = sides[side]
            if rows is not None and upto < MAX_TICK:
                first = rows.where(f"{of_side(side, UNTIL)} > {upto}L").agg(F.min(of_side(side, TIME))).first()
                found += [] if first is None or first[0] is None else [int(first[0])]
        return min(found, default=None)

    def _purge(self, side: int, passed: DataFrame | None, upto: int) -> None:
        """Let rows go that are alive no longer, unless one that may stay alone was alive with them."""
        bound = upto if self.undecided is None else min(upto, self.undecided)
        cells, alive = self._sides[side], self._node.sides[side]
        if alive.range is not None:
            cells.drop([file for file in cells.files if high(file) + alive.range <= bound])
            return
        old = [file for file in cells.files if low(file) <= upto]
        if passed is None or not old:
            return
        names = {of_side(side, name): name for name in (TIME, _PAGE, ROW_ORDER)}
        kept = (
            passed.where(f"{of_side(side, UNTIL)} > {bound}L").withColumnsRenamed(names).drop(of_side(side, UNTIL))
        )
        if any(high(file) > upto for file in old):
            kept = kept.unionByName(cells.frame(old).where(f"{TIME} > {upto}L"))
        files = cells.write(kept.coalesce(1)) if bound < MAX_TICK else []
        cells.drop(old)
        cells.add(files)
