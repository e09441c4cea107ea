"""The rows of an as-of join on Spark: both inputs in time cells, matched by one sort of both by key and time.

Without a distance, only the last version of each key can match later rows. So old versions are dropped when there
are twice as many as the last time left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.columns import CAME, ROW_ORDER, TIME
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.plan.asof import AsofNode
from slackwater.progress.time import LONGEST_SPAN, MAX_TICK, MIN_TICK
from slackwater.spark.backend.compile import named
from slackwater.spark.state.cell_files import SMALL, high, low
from slackwater.spark.state.join_output import of_side
from slackwater.spark.state.two_sides import SidesInCells, SidesValues

if TYPE_CHECKING:
    from slackwater.spark.backend.pages import SparkPages

_SIDE, _ROW, _VERSION, _AT = "__side", "__row", "__version", "__at"
_FOUND = ("__earlier", "__later")


class AsofCellsValues(SidesValues):
    """The same, with how far time has come, and counts."""

    at: tuple[int, int, int, int, int, int]


class AsofCells(SidesInCells):
    """What an as-of join keeps, on the journal's file system."""

    _node: AsofNode

    def __init__(self, label: str, node: AsofNode, pages: SparkPages) -> None:
        longest = LONGEST_SPAN if node.back is None else node.back + node.ahead + 1
        super().__init__(label, node, pages, [LONGEST_SPAN, longest])
        self._keys = [f"__key_{n}" for n in range(len(node.keys))]
        self._came = 0
        """Pages so far, of both sides."""
        self._released, self._out = MIN_TICK, 0
        """Rows up to this time are out, but for those of pages that came after this one."""
        self._first_new = MAX_TICK
        """The lowest time of rows of the left side that came since."""
        self._thinned = 0
        """How many rows the right side had when it was thinned out."""

    def add(self, side: int, page: Page, after: int) -> int:
        """One job writes the page's rows; another one only where some of them are late."""
        cells = self._sides[side]
        self._came += 1
        came = [F.lit(self._came).cast("bigint").alias(CAME), F.monotonically_increasing_id().alias(ROW_ORDER)]
        for work in self._pages.works(page):
            with work.rows_with_time() as frame:
                files = cells.write(frame.select(*self._made.visible(side), TIME, *came))
        if side == 0:
            files, late = cells.without_late(files, after)
            self._first_new = min([self._first_new, *map(low, files)])
        else:
            late = cells.rows_until(files, after)
        cells.add(files)
        return late

    def due(self, upto: int) -> bool:
        """By what is known of the files."""
        files = self._sides[0].files
        return self._first_new <= upto or any(low(f) <= upto and high(f) > self._released for f in files)

    def release(self, upto: int, at: int) -> Page | None:
        """A lazy page of them; one sort when it runs."""
        page = self._page(upto, at)
        self._released, self._out, self._first_new = max(upto, self._released), self._came, MAX_TICK
        left = self._sides[0]
        left.drop([file for file in left.files if high(file) <= self._released])
        return page

    def rest(self, at: int) -> Page | None:
        """The same of all that wait."""
        return self._page(MAX_TICK, at)

    def purge(self, past: int) -> None:
        """Drop files whose rows match nobody any more, or thin them out."""
        cells, back = self._sides[1], self._node.back
        if back is not None:
            cells.drop([file for file in cells.files if high(file) <= past - back])
            return
        old = [file for file in cells.files if low(file) <= past]
        if past == MAX_TICK or sum(file.rows for file in old) <= 2 * self._thinned + SMALL:
            return
        rows, keys = cells.frame(old), self._key_columns(1)
        order = f"OVER ({self._partition} ORDER BY {TIME} DESC, {CAME} DESC, {ROW_ORDER} DESC)"
        latest = rows.where(f"{TIME} <= {past}L").select("*", *keys)
        latest = latest.select("*", named(f"row_number() {order}", _AT)).where(f"{_AT} = 1").drop(_AT, *self._keys)
        files = cells.write(latest.unionByName(rows.where(f"{TIME} > {past}L")))
        cells.drop(old)
        cells.add(files)
        self._thinned = sum(file.rows for file in files)

    @property
    def waiting(self) -> int:
        """Those of files of the left side that reach above the heartbeat."""
        return sum(file.rows for file in self._sides[0].files if high(file) > self._released)

    def next_time(self, after: int) -> int | None:
        """By what is known of the files."""
        return self._sides[0].next_time(after)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """New files do not count."""
        before = self._came, self._first_new
        try:
            with super().trial():
                yield
        finally:
            self._came, self._first_new = before

    def state(self, whole: bool) -> State:
        """Which files there are."""
        sides = [cells.state() for cells in self._sides]
        at = (self._came, self._released, self._out, self._first_new, self._thinned, self._made.given)
        return State(AsofCellsValues(sides=sides, at=at))

    def restore(self, states: Sequence[State]) -> None:
        """Continue with them."""
        super().restore(states)
        at = states[-1].read(AsofCellsValues)["at"]
        self._came, self._released, self._out, self._first_new, self._thinned, self._made.given = at

    # --- matching

    @property
    def _partition(self) -> str:
        return f"PARTITION BY {', '.join(self._keys)}" if self._keys else ""

    def _page(self, upto: int, at: int) -> Page | None:
        due = [file for file in self._sides[0].files if low(file) <= upto]
        if not due:
            return None
        left = self._sides[0].frame(due)
        left = left if upto == MAX_TICK else left.where(f"{TIME} <= {upto}L")
        if self._released > MIN_TICK:
            left = left.where(f"{TIME} > {self._released}L OR {CAME} > {self._out}L")
        rows = self._matched(left, max(map(high, due)), min(map(low, due)))
        return self._made.page(rows, {TIME: of_side(0, TIME)}, None, at)

    def _matched(self, left: DataFrame, last: int, first: int) -> DataFrame:
        """Rows of the left side with their matches; null columns where there is none."""
        node, cells = self._node, self._sides[1]
        back = MIN_TICK if node.back is None else first - node.back
        files = [file for file in cells.files if low(file) <= last + node.ahead and high(file) >= back]
        if not files:
            return self._left(left).select(f"{_ROW}.*", named(TIME, of_side(0, TIME))).transform(self._alone)
        versions = cells.frame(files)
        version = F.struct(*self._made.visible(1), named(TIME, _AT)).alias(_VERSION)
        right = versions.select(*self._key_columns(1), TIME, CAME, ROW_ORDER, F.lit(0).alias(_SIDE), version)
        whole = [f"{key} IS NOT NULL" for key, (_, _, safe) in zip(self._keys, node.keys, strict=True) if not safe]
        right = right.where(" AND ".join(whole) or "true")
        both = self._left(left).unionByName(right, allowMissingColumns=True)
        within = "" if node.within is None else f" AND abs({TIME} - {{0}}.{_AT}) <= {node.within}L"
        found = {"backward": [""], "forward": ["DESC"], "nearest": ["", "DESC"]}[node.direction]
        lasts = [named(self._last(order), name) for order, name in zip(found, _FOUND, strict=False)]
        rows = both.select("*", *lasts).where(f"{_SIDE} = 1")
        for name in _FOUND[: len(found)]:
            test = f"{name} IS NOT NULL{within.format(name)}"
            rows = rows.withColumn(name, F.expr(f"IF({test}, {name}, NULL)"))
        if len(found) > 1:
            earlier, later = _FOUND
            nearer = f"{later} IS NULL OR {TIME} - {earlier}.{_AT} <= {later}.{_AT} - {TIME}"
            rows = rows.withColumn(earlier, F.expr(f"IF({earlier} IS NOT NULL AND ({nearer}), {earlier}, {later})"))
        if node.how == "inner":
            rows = rows.where(f"{_FOUND[0]} IS NOT NULL")
        return rows.select(f"{_ROW}.*", f"{_FOUND[0]}.*", named(TIME, of_side(0, TIME))).drop(_AT)

    def _last(self, order: str) -> str:
        """The last version in the order of time, or against it; of equal times, the one that came last."""
        keys = f"ORDER BY {TIME} {order}, {_SIDE}, {CAME}, {ROW_ORDER}"
        return f"last({_VERSION}, true) OVER ({self._partition} {keys} ROWS UNBOUNDED PRECEDING)"

    def _left(self, rows: DataFrame) -> DataFrame:
        row = F.struct(*self._made.visible(0)).alias(_ROW)
        return rows.select(*self._key_columns(0), TIME, CAME, ROW_ORDER, F.lit(1).alias(_SIDE), row)

    def _key_columns(self, side: int) -> list[Column]:
        return [named(pair[side], key) for key, pair in zip(self._keys, self._node.keys, strict=True)]

    def _alone(self, rows: DataFrame) -> DataFrame:
        rows = rows if self._node.how == "left" else rows.where("false")
        return self._made.lacking(rows, 1)
