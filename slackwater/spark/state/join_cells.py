"""The rows of a window join on Spark: both inputs in time cells, matched by Spark's own joins.

The driver knows the files and their times, and reads none of them. A page's pairs are lazy: what stands behind the
join (a filter, a window) runs in the same job. Files that are purged stay as long as a page needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.columns import CAME, PAST, TIME, UNTIL
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.plan.join_node import JoinNode
from slackwater.progress.time import MIN_TICK
from slackwater.spark.backend.compile import named
from slackwater.spark.state.cell_files import high, low
from slackwater.spark.state.join_output import later, of_side, own
from slackwater.spark.state.partitioned_files import PartFile
from slackwater.spark.state.two_sides import SidesInCells, SidesValues

if TYPE_CHECKING:
    from slackwater.spark.backend.pages import SparkPages

#: Files of fewer bytes are sent to all tasks, which spares the shuffle of the other side.
_FEW = 32 * 2**20


class JoinCellsValues(SidesValues):
    """The same, with counts of pages."""

    given: int
    came: int


class JoinCells(SidesInCells):
    """What a join keeps, on the journal's file system."""

    def __init__(self, label: str, node: JoinNode, pages: SparkPages) -> None:
        super().__init__(label, node, pages, [side.longest for side in node.sides])
        self._added: list[list[PartFile]] = [[], []]
        self._came = 0
        """Pages so far, of both sides."""

    def add(self, side: int, page: Page, after: int) -> int:
        """One job writes the page's rows; another one counts late ones where files alone do not tell."""
        cells = self._sides[side]
        self._came += 1
        came = [F.lit(self._came).cast("bigint").alias(CAME), F.lit(after).cast("bigint").alias(PAST)]
        for work in self._pages.works(page):
            with work.rows_with_time() as frame:
                files = self._added[side] = cells.write(self._kept(side, frame).select("*", *came))
        return cells.rows_until(files, after)

    def pairs(self, side: int, at: int) -> Page | None:
        """The added page with the rows of the other side that are alive with it."""
        found = self._meeting(side, self._added[side])
        if found is None:
            return None
        return self._made.page(self._joined(found, "inner"), later(), None, at, self._brought(side))

    def partnered(self, side: int, at: int) -> Page | None:
        """Rows of the left side that have a partner now, and had none before."""
        found = self._meeting(side, self._added[side])
        if found is None:
            return None
        rows = self._joined(found, "left_semi")
        if side == 1 and self._sides[1].files:
            rows = rows.join(self._rows(1, self._sides[1].files), self._together(), "left_anti")
        return self._made.page(rows, own(0), 1, at, self._brought(side))

    def lone(self, side: int, after: int, until: int, at: int) -> Page | None:
        """Rows that have stayed without a partner."""
        return self._unmatched(side, self._sides[side].files, after, until, at)

    def alone(self, side: int, until: int, at: int) -> Page | None:
        """Of the added rows."""
        return self._unmatched(side, self._added[side], MIN_TICK, until, at)

    def _unmatched(self, side: int, files: Sequence[PartFile], after: int, until: int, at: int) -> Page | None:
        alive = self._node.sides[side]
        due = [f for f in files if low(f) + alive.shortest - 1 <= until and high(f) + alive.longest - 1 > after]
        if not due:
            return None
        last = f"({of_side(side, UNTIL)} - 1L)"
        rows = self._rows(side, due).where(f"{last} <= {until}L")
        if after > MIN_TICK:
            rows = rows.where(f"{last} > {after}L")
        found = self._meeting(side, due)
        if found is not None:
            rows = rows.join(self._rows(1 - side, found[1 - side]), self._together(), "left_anti")
        return self._made.page(rows, own(side), 1 - side, at)

    def settle_page(self) -> None:
        """The added rows count from now on."""
        for side, files in enumerate(self._added):
            if files:
                self._sides[side].add(files)
        self._added = [[], []]

    def purge(self, side: int, until: int) -> None:
        """Let files go of which every row is needed no more."""
        longest = self._node.sides[side].longest
        self._sides[side].drop([f for f in self._sides[side].files if high(f) + longest - 1 <= until])

    def last(self, side: int) -> int:
        """The last instant of all rows; of a pair at most as much later as it can be alive."""
        top = max((high(file) for file in self._sides[side].files), default=None)
        return MIN_TICK if top is None else top + self._node.sides[side].longest - 1

    def next_last(self, side: int, after: int) -> int | None:
        """Read off the statistics of the files: the first row of one, or, once that is out, its last."""
        alive, files = self._node.sides[side], self._sides[side].files
        firsts = [low(f) + alive.shortest - 1 for f in files]
        lasts = [high(f) + alive.longest - 1 for f in files]
        return min((tick for tick in (*firsts, *lasts) if tick > after), default=None)

    def state(self, whole: bool) -> State:
        """Which files there are."""
        sides = [cells.state() for cells in self._sides]
        return State(JoinCellsValues(sides=sides, given=self._made.given, came=self._came))

    def restore(self, states: Sequence[State]) -> None:
        """Continue with them."""
        super().restore(states)
        values = states[-1].read(JoinCellsValues)
        self._made.given, self._came = values["given"], values["came"]

    @property
    def size(self) -> dict[str, int]:
        """Rows, bytes and files of both sides; some may be needed no more."""
        return {**super().size, "files": sum(len(cells.files) for cells in self._sides)}

    def _brought(self, side: int) -> tuple[int, int]:
        """Which side has got how many new rows."""
        return side, sum(file.rows for file in self._added[side])

    def _kept(self, side: int, frame: DataFrame) -> DataFrame:
        """The kept columns of a row, its time and, where that is not always the same, its end."""
        hidden = [TIME] if self._node.sides[side].range is not None else [TIME, UNTIL]
        return frame.select(*self._made.visible(side), *hidden)

    def _rows(self, side: int, files: Sequence[PartFile]) -> DataFrame:
        """The rows of some files, with hidden columns under names of their side."""
        alive, frame = self._node.sides[side], self._sides[side].frame(files)
        until = UNTIL if alive.range is None else f"{TIME} + {alive.range}L"
        hidden = [named(name, of_side(side, name)) for name in (TIME, CAME, PAST)]
        hidden.append(named(until, of_side(side, UNTIL)))
        return frame.select(*self._made.visible(side), *hidden)

    def _meeting(self, side: int, files: Sequence[PartFile]) -> tuple[list[PartFile], list[PartFile]] | None:
        """These files of a side, and those of the other side with rows that are alive at the same time."""
        if not files:
            return None
        first = min(low(f) for f in files)
        end = max(high(f) for f in files) + self._node.sides[side].longest
        longest = self._node.sides[1 - side].longest
        others = [f for f in self._sides[1 - side].files if low(f) < end and high(f) + longest > first]
        if not others:
            return None
        return (list(files), others) if side == 0 else (others, list(files))

    def _joined(self, found: tuple[list[PartFile], list[PartFile]], how: str) -> DataFrame:
        left, right = (self._rows(side, files) for side, files in enumerate(found))
        sizes = [sum(f.bytes for f in files) for files in found]
        # A semi join can only look up rows of its right side.
        if sizes[1] < _FEW and (sizes[1] <= sizes[0] or how != "inner"):
            right = F.broadcast(right)
        elif sizes[0] < _FEW and how == "inner":
            left = F.broadcast(left)
        return left.join(right, self._together(), how)

    def _together(self) -> Column:
        """Both rows are alive at the same time and meet; the one was not past when the other came."""
        there = [f"{of_side(s, UNTIL)} - 1L > {of_side(1 - s, PAST)}" for s in (0, 1)]
        then = f"IF({of_side(0, CAME)} < {of_side(1, CAME)}, {there[0]}, {there[1]})"
        return self._made.together() & F.expr(then)
