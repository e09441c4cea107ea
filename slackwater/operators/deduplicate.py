"""Deduplicate: of rows with equal keys that are near in time, the first that comes goes on at once.

A row is a duplicate if a row with its keys has gone on whose time is at most `within` before or after its own. Of
the rows of one page the earliest comes first. We keep the keys and the time of each row, in cells of time as long
as `within`. A cell is forgotten when all its rows are at least that far behind the heartbeat. So no row above the
heartbeat can have a forgotten duplicate. A row behind it is late once the cell before its own is forgotten. If the
keys contain the source, a source loses rows only once rows of its own are forgotten (D10). The operator delays
neither rows nor heartbeats.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypedDict

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.columns import BEFORE, SOURCE, TIME
from slackwater.errors import RunError
from slackwater.events import decision
from slackwater.figures import Figures
from slackwater.operators.backend import PartialsTooLarge
from slackwater.operators.late_counts import MOST, SHOWN
from slackwater.operators.operator import LATE, Emit, State, Unary
from slackwater.operators.page import DriverRows, Page
from slackwater.operators.prod import Prod
from slackwater.operators.stores import CellTables
from slackwater.plan.distinct import DistinctNode
from slackwater.progress.arrival import Arrival
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import source_text

_ROW = "__row"
Mask = NDArray[np.bool_]


class DeduplicateValues(TypedDict):
    """The journaled values."""

    forgotten: int
    counts: tuple[int, int, int]
    late_by_source: dict[str, int]
    files: Mapping[str, object] | None


class Deduplicate(Unary):
    """The rows of one input without duplicates."""

    def __init__(self, label: str, node: DistinctNode, limit: int = 256 * 2**20, route_late: bool = False) -> None:
        super().__init__(label)
        self._keys, self._within, self._limit = list(node.keys), node.within, limit
        self._route_late, self._source = route_late, node.source
        self._cells: dict[int, list[pl.DataFrame]] = {}
        """Keys and times of the rows that have gone on, by cell."""
        self._fresh: dict[int, list[pl.DataFrame]] = {}
        """Those of them that the journal does not have yet."""
        self._bytes = 0
        self._spilled: CellTables | None = None
        self._moved = False
        """Whether rows have moved to files since the journal was written."""
        self._forgotten = MIN_TICK
        """Rows up to this time that were there when it was reached are forgotten."""
        self._forgotten_of = pl.DataFrame(schema={SOURCE: pl.String, BEFORE: pl.Int64})
        """By source: the time of the last row that is forgotten."""
        self._news: list[pl.DataFrame] = []
        self._provisional: list[pl.DataFrame] = []
        """Rows that count for the next prod only."""
        self._late = self._duplicates = self._passed = 0
        self._late_by_source: Counter[str] = Counter()

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send on the rows that are no duplicates; count, and send apart if wanted, those that came too late."""
        try:
            table = self.pages.table_of(page)
        except PartialsTooLarge as error:
            raise RunError(
                f"{self.label}: one page has more rows than the driver takes ({error}); read smaller pages, or "
                "raise spark.driver.maxResultSize"
            ) from error
        rows = frame_of(table.select([TIME, *self._keys]))
        timed = rows[TIME].is_not_null().to_numpy()
        passed, late = np.zeros(len(timed), bool), np.zeros(len(timed), bool)
        passed[timed], late[timed] = self._judged(rows.filter(timed), table, np.flatnonzero(timed))
        if page.prod is not None:
            self._provisional.append(rows.filter(passed))
        else:
            self._count(rows, passed, late, int(timed.sum()))
            self._keep(rows.filter(passed))
            if self._bytes > self._limit:
                self._spill()
            if self._route_late and (late.any() or not timed.all()):
                self._send_late(page, table.filter(pa.array(late | ~timed)), emit)
        emit(page if passed.all() else _of_rows(page, table.filter(pa.array(passed))))

    def _judged(self, rows: pl.DataFrame, table: pa.Table, numbers: NDArray[np.int64]) -> tuple[Mask, Mask]:
        """Which rows go on, and which are too late to be compared."""
        duplicate = self._near(rows)
        times = rows[TIME].to_numpy()
        limit = np.full(len(times), self._forgotten, np.int64)
        if self._source is not None:
            named = rows.select(source_text(pl.col(self._source)).alias(SOURCE))
            of_source = named.join(self._forgotten_of, on=SOURCE, how="left", maintain_order="left")[BEFORE]
            limit = np.minimum(limit, of_source.fill_null(MIN_TICK).to_numpy())
        late = ~duplicate & (limit > MIN_TICK) & (times - self._within <= limit)
        passed = ~duplicate & ~late
        again = rows.with_row_index(_ROW).filter(passed).filter(pl.struct(self._keys).is_duplicated())
        if again.height:
            passed[self._repeated(_with_ties(again, table, numbers))] = False
        return passed, late

    def _near(self, rows: pl.DataFrame) -> Mask:
        """Which rows are near one with the same keys that has gone on."""
        near = np.zeros(rows.height, bool)
        if not rows.height:
            return near
        times = rows[TIME].to_numpy()
        low, high = int(times.min()) // self._within - 1, int(times.max()) // self._within + 1
        here = [part for cell, parts in self._cells.items() if low <= cell <= high for part in parts]
        here += self._provisional
        files = [] if self._spilled is None else self._spilled.read(low, high)
        for part in chain([pl.concat(here)] if here else [], map(frame_of, files)):
            near |= self._near_to(rows, part)
        return near

    def _near_to(self, rows: pl.DataFrame, others: pl.DataFrame) -> Mask:
        known = others.select(rows.columns).join(rows, on=self._keys, how="semi", nulls_equal=True)
        if not known.height:
            return np.zeros(rows.height, bool)
        numbered = rows.with_row_index(_ROW).join(known, on=self._keys, how="semi", nulls_equal=True)
        both = pl.concat([numbered, known], how="diagonal").sort(TIME)
        other = pl.when(pl.col(_ROW).is_null()).then(pl.col(TIME))
        apart = pl.min_horizontal(
            pl.col(TIME) - other.forward_fill().over(self._keys),
            other.backward_fill().over(self._keys) - pl.col(TIME),
        )
        found = both.filter((apart <= self._within) & pl.col(_ROW).is_not_null())[_ROW]
        near = np.zeros(rows.height, bool)
        near[found.to_numpy()] = True
        return near

    def _repeated(self, again: pl.DataFrame) -> list[int]:
        """Of rows whose keys are there several times, in order, those that are near one before them."""
        repeated: list[int] = []
        groups = again.group_by(self._keys, maintain_order=True).agg(_ROW, TIME).select(_ROW, TIME)
        for rows, times in groups.iter_rows():
            place = 0
            while place < len(times):
                after = bisect_right(times, times[place] + self._within, place + 1)
                repeated += rows[place + 1 : after]
                place = after
        return repeated

    def _count(self, rows: pl.DataFrame, passed: Mask, late: Mask, timed: int) -> None:
        lost, went = int(late.sum()), int(passed.sum())
        self._late += lost
        self._passed += went
        self._duplicates += timed - lost - went
        if lost and self._source is not None:
            for name, count in rows.filter(late).group_by(source_text(pl.col(self._source))).len().iter_rows():
                if name in self._late_by_source or len(self._late_by_source) < MOST:
                    self._late_by_source[name] += count

    def _send_late(self, page: Page, rows: pa.Table, emit: Emit) -> None:
        arrival = Arrival(rows.num_rows, 0, None, None, page.at)
        emit(_of_rows(replace(page, origin=page.origin.part("late"), arrival=arrival), rows), LATE)

    # --- what is kept

    def _keep(self, rows: pl.DataFrame) -> None:
        for (cell,), part in rows.group_by(pl.col(TIME) // self._within):
            assert isinstance(cell, int)
            self._cells.setdefault(cell, []).append(part)
            self._fresh.setdefault(cell, []).append(part)
            self._bytes += int(part.estimated_size())

    def _spill(self) -> None:
        decision("rows.spilled", operator=self.label, bytes=self._bytes, limit=self._limit)
        if self._spilled is None:
            self._spilled = self.pages.stores.cells(self.label)
        self._spilled.add({cell: pl.concat(parts).to_arrow() for cell, parts in self._cells.items()})
        self._cells, self._fresh, self._bytes, self._moved = {}, {}, 0, True

    def on_punctuation(self, time: Punctuation, emit: Emit) -> None:
        """Forget the cells that no row above the heartbeat can be near to."""
        until = (time.heartbeat.tick + 1) // self._within - 2
        forgotten = min((until + 1) * self._within - 1, MAX_TICK)
        if time.heartbeat.tick == MIN_TICK or forgotten <= self._forgotten:
            return
        self._forgotten = forgotten
        gone = self._without(until)
        if self._spilled is not None:
            if self._source is not None:
                gone += map(frame_of, self._spilled.read(MIN_TICK, until))
            self._spilled.drop(MIN_TICK, until)
        if gone and self._source is not None:
            source = source_text(pl.col(self._source)).alias(SOURCE)
            self._learn(pl.concat(gone).select(source, pl.col(TIME).alias(BEFORE)))

    def _without(self, until: int) -> list[pl.DataFrame]:
        """Forget the rows up to this cell; gives them."""
        gone = [part for cell in [c for c in self._cells if c <= until] for part in self._cells.pop(cell)]
        self._fresh = {cell: parts for cell, parts in self._fresh.items() if cell > until}
        self._bytes -= sum(int(part.estimated_size()) for part in gone)
        return gone

    def _learn(self, news: pl.DataFrame) -> None:
        latest = news.group_by(SOURCE).agg(pl.col(BEFORE).max())
        self._news.append(latest)
        self._forgotten_of = pl.concat([self._forgotten_of, latest]).group_by(SOURCE).agg(pl.col(BEFORE).max())

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """Forget the early rows."""
        self._provisional = []
        emit(prod)

    # --- the journal

    def state(self, whole: bool) -> State:
        """Counts, and the rows that have gone on."""
        whole, self._moved = whole or self._moved, False
        rows = [part for parts in (self._cells if whole else self._fresh).values() for part in parts]
        news = [self._forgotten_of] if whole else self._news
        self._fresh, self._news = {}, []
        parts = {"rows": rows, "forgotten": news}
        tables = {name: pl.concat(found).to_arrow() for name, found in parts.items() if found}
        spilled = None if self._spilled is None else self._spilled.state()
        values = DeduplicateValues(
            forgotten=self._forgotten,
            counts=(self._late, self._duplicates, self._passed),
            late_by_source=dict(self._late_by_source),
            files=None if spilled is None else spilled.values,
        )
        if spilled is not None:
            tables.update(spilled.tables)
        return State(values, tables, whole)

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states."""
        values = states[-1].read(DeduplicateValues)
        self._late, self._duplicates, self._passed = values["counts"]
        self._late_by_source = Counter(values["late_by_source"])
        for state in states:
            forgotten = state.read(DeduplicateValues)["forgotten"]
            if forgotten > self._forgotten:
                self._forgotten = forgotten
                self._without((self._forgotten + 1) // self._within - 1)
            if "rows" in state.tables:
                self._keep(frame_of(state.tables["rows"]))
            if "forgotten" in state.tables:
                self._learn(frame_of(state.tables["forgotten"]))
        if values["files"] is not None:
            self._spilled = self._spilled or self.pages.stores.cells(self.label)
            self._spilled.restore(State(values["files"], states[-1].tables))
        self._fresh, self._news = {}, []

    def settle(self) -> None:
        """The journal, if there is one, has all rows; files that were dropped may go."""
        self._fresh, self._news = {}, []
        if self._spilled is not None:
            self._spilled.settle()

    def metrics(self) -> Figures:
        """Rows that were dropped, and the size of the state."""
        spilled = self._spilled
        rows = sum(part.height for parts in self._cells.values() for part in parts)
        return {
            "late_rows": self._late,
            **({"late_by_source": dict(self._late_by_source.most_common(SHOWN))} if self._source else {}),
            "duplicates": self._duplicates,
            "passed": self._passed,
            "state_rows": rows + (spilled.rows if spilled is not None else 0),
            "state_bytes": self._bytes,
            **({"spilled_bytes": spilled.bytes} if spilled is not None else {}),
        }


def _with_ties(rows: pl.DataFrame, table: pa.Table, numbers: NDArray[np.int64]) -> pl.DataFrame:
    """Rows in the order of time; of equal times in that of their other columns, lists and structs left out."""
    flat = [n for n in table.column_names if n not in rows.columns and not n.startswith("__")]
    flat = [n for n in flat if not pa.types.is_nested(table.schema.field(n).type)]
    others = frame_of(table.select(flat).take(pa.array(numbers[rows[_ROW].to_numpy()])))
    return rows.hstack(others.get_columns()).sort(TIME, *flat, maintain_order=True)


def _of_rows(page: Page, rows: pa.Table) -> Page:
    """Some rows of a page, in the driver."""
    rows = rows if rows.num_rows else rows.schema.empty_table()  # a filter leaves no chunk, and Spark wants one
    return replace(page, location=DriverRows(rows), steps=(), count=rows.num_rows, size=rows.nbytes, copy=None)
