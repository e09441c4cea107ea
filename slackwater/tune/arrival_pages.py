"""A stream cut into pages by arrival, as a replay cuts it: what policies and windows learn of each page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import polars as pl

from slackwater.columns import PANE, ROWS, SOURCE
from slackwater.progress.arrival import Arrival, SourceArrivals
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK
from slackwater.tune.rows import HIGH, LOW, PAGE, SINCE_PANE, SKETCH
from slackwater.tune.source_cells import SourceCells
from slackwater.windows.spec import WindowSpec

#: The place of a page among those that have rows.
INDEX = "__index"


@dataclass(frozen=True, eq=False)
class ArrivalPages:
    """The pages that have rows, in order; `cells` are their rows by page (its place), source and pane."""

    page: int
    """Length of a page in microseconds of arrival."""
    spec: WindowSpec
    numbers: Ints
    rows: Ints
    """All rows of each page."""
    cells: pl.DataFrame
    """The rows that have a time: INDEX, SOURCE (if there is one), PANE, ROWS, LOW, HIGH, SINCE_PANE, in order."""
    sketches: list[bytes | None]

    @staticmethod
    def of(cells: pl.DataFrame, sketches: pl.DataFrame | None, page: int, spec: WindowSpec) -> ArrivalPages:
        """From what `Rows` gives; rows without an arrival come with the first page."""
        first = cells[PAGE].min()
        cells = cells.with_columns(pl.col(PAGE).fill_null(first))
        by_page = cells.group_by(PAGE).agg(pl.col(ROWS).sum()).sort(PAGE).with_row_index(INDEX)
        timed = cells.filter(pl.col(PANE).is_not_null()).join(by_page.select(PAGE, INDEX), on=PAGE)
        timed = timed.with_columns(pl.col(INDEX).cast(pl.Int64)).drop(PAGE)
        keys = [INDEX, *([SOURCE] if SOURCE in cells.columns else []), PANE]
        made: list[bytes | None] = [None] * by_page.height
        if sketches is not None:
            place = dict(zip(by_page[PAGE].to_list(), range(by_page.height), strict=True))
            for number, sketch in sketches.select(PAGE, SKETCH).iter_rows():
                made[place[number]] = sketch
        return ArrivalPages(page, spec, by_page[PAGE].to_numpy(), by_page[ROWS].to_numpy(), timed.sort(keys), made)

    def only(self, kept: pl.Expr) -> ArrivalPages:
        """The same pages with some of the rows that have a time."""
        cells = self.cells.filter(kept)
        return ArrivalPages(self.page, self.spec, self.numbers, self.rows, cells, self.sketches)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def ats(self) -> Ints:
        """When each page has arrived as a whole."""
        return (self.numbers + 1) * self.page

    @property
    def has_source(self) -> bool:
        """Whether rows have a source."""
        return SOURCE in self.cells.columns

    @cached_property
    def _begins(self) -> Ints:
        """Where the cells of each page begin, and where the last ones end."""
        return np.searchsorted(self.cells[INDEX].to_numpy(), np.arange(len(self) + 1)).astype(np.int64)

    @cached_property
    def by_source(self) -> SourceCells:
        """The rows of each page by source and pane; there must be a source."""
        panes, rows = (self.cells[c].to_numpy() for c in (PANE, ROWS))
        return SourceCells(self.spec, self._begins, self.cells[SOURCE].to_list(), panes, rows)

    @cached_property
    def _by_pane(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Rows by page and pane: page, pane, rows, and where each page begins."""
        by = self.cells.group_by(INDEX, PANE).agg(pl.col(ROWS).sum()).sort(INDEX, PANE)
        page, pane, rows = (by[c].to_numpy() for c in (INDEX, PANE, ROWS))
        return page, pane, rows, np.searchsorted(page, np.arange(len(self) + 1))

    @property
    def panes(self) -> tuple[Ints, Ints, Ints]:
        """Rows by page and pane: the page's place, the pane, the rows."""
        return self._by_pane[:3]

    def panes_of(self, k: int) -> tuple[Ints, Ints]:
        """The panes of a page, and the rows of each."""
        _, pane, rows, begins = self._by_pane
        return pane[begins[k] : begins[k + 1]], rows[begins[k] : begins[k + 1]]

    @cached_property
    def pairs(self) -> tuple[Ints, Ints, Ints]:
        """(row, window) pairs by page and window: the page's place, the window's last tick, the pairs."""
        made = [self.spec.rows_by_window(*self.panes_of(k)) for k in range(len(self))]
        places = np.repeat(np.arange(len(self)), [len(ticks) for ticks, _ in made])
        empty = [np.zeros(0, np.int64)]
        ticks, pairs = (np.concatenate(empty + [m[n] for m in made]) for n in (0, 1))
        return places, ticks, pairs

    @cached_property
    def _pair_begins(self) -> Ints:
        return np.searchsorted(self.pairs[0], np.arange(len(self) + 1)).astype(np.int64)

    def pairs_of(self, k: int) -> tuple[Ints, Ints]:
        """The last ticks of a page's windows, increasing, and the pairs of each."""
        begin, end = self._pair_begins[k], self._pair_begins[k + 1]
        return self.pairs[1][begin:end], self.pairs[2][begin:end]

    @cached_property
    def all_pairs(self) -> Ints:
        """The pairs of each page."""
        return np.bincount(self.pairs[0], self.pairs[2], len(self)).astype(np.int64)

    @cached_property
    def highest(self) -> Ints:
        """The largest time of each page; MIN_TICK where no row has one."""
        return self._whole[HIGH].to_numpy()

    @cached_property
    def lowest(self) -> Ints:
        """The smallest time of each page; MIN_TICK where no row has one."""
        return self._whole[LOW].to_numpy()

    @cached_property
    def _whole(self) -> pl.DataFrame:
        """By page: ROWS with a time, LOW, HIGH, and the sum of times in two parts."""
        start = pl.col(PANE) * self.spec.pane + self.spec.offset
        by = self.cells.group_by(INDEX).agg(
            pl.col(ROWS).sum(),
            pl.col(LOW).min(),
            pl.col(HIGH).max(),
            # Times are too large to be summed in 64 bits, so the sum comes in parts.
            ((start // 2**20) * pl.col(ROWS)).sum().alias("above"),
            ((start % 2**20) * pl.col(ROWS) + pl.col(SINCE_PANE)).sum().alias("below"),
        )
        every = pl.DataFrame({INDEX: np.arange(len(self))})
        whole = every.join(by, on=INDEX, how="left").sort(INDEX)
        return whole.with_columns(
            pl.col(LOW).fill_null(MIN_TICK),
            pl.col(HIGH).fill_null(MIN_TICK),
            pl.all().exclude(LOW, HIGH).fill_null(0),
        )

    @cached_property
    def before(self) -> Ints:
        """The largest time before each page; MIN_TICK before the first."""
        return np.append(MIN_TICK, np.maximum.accumulate(self.highest))[: len(self)]

    @cached_property
    def arrivals(self) -> list[Arrival]:
        """What each page tells about time."""
        whole = self._whole.select(ROWS, LOW, HIGH, "above", "below").iter_rows()
        by_source = self._sources() if self.has_source else [None] * len(self)
        made, ats, all_rows = [], self.ats.tolist(), self.rows.tolist()
        for k, (timed, low, high, above, below) in enumerate(whole):
            lowest, highest = (low, high) if timed else (None, None)
            total = (above << 20) + below if timed else None
            some = all_rows[k] - timed, lowest, highest, ats[k], total, self.sketches[k]
            made.append(Arrival(all_rows[k], *some, sources=by_source[k]))
        return made

    def _sources(self) -> list[SourceArrivals | None]:
        by = self.cells.group_by(INDEX, SOURCE).agg(pl.col(ROWS).sum(), pl.col(LOW).min(), pl.col(HIGH).max())
        by = by.sort(INDEX, SOURCE)
        names = by[SOURCE].to_list()
        rows, low, high = (by[c].to_numpy() for c in (ROWS, LOW, HIGH))
        begins = np.searchsorted(by[INDEX].to_numpy(), np.arange(len(self) + 1)).tolist()
        return [SourceArrivals(names[a:b], rows[a:b], low[a:b], high[a:b]) for a, b in pairwise(begins)]
