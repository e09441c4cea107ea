"""The slack buffer (S4 section 3): rows above the heartbeat, in a cell for each stretch of time.

A page is sorted once and its slices are put into their cells; a new heartbeat takes whole cells and cuts one. So
a row costs the same however many wait. Cells are a dictionary rather than S4's circular array: time may have gaps.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from slackwater.columns import TIME
from slackwater.progress.source_numbers import Ints

#: About how many cells a page falls into; at most four times as many.
_CELLS_PER_PAGE = 16
_MOST_CELLS = 1024
#: Slices of a cell are made one when there are this many.
_MOST_SLICES = 64
#: A slice of less than this share of its page is copied.
_MOST_HELD = 100


class SlackBuffer:
    """Rows in the order of time, and where times are equal in the order of arrival."""

    def __init__(self) -> None:
        self._width: int | None = None
        self._cells: dict[int, list[pl.DataFrame]] = {}
        self.rows = 0

    def add(self, rows: pl.DataFrame) -> None:
        """Take rows that lie in the order of time."""
        if rows.height == 0:
            return
        time = rows[TIME].to_numpy()
        self._fit(int(time[-1]) - int(time[0]) + 1)
        assert self._width is not None
        cell = time // self._width
        cuts = np.flatnonzero(np.diff(cell, prepend=cell[0] - 1))
        for start, end in zip(cuts.tolist(), [*cuts[1:].tolist(), rows.height], strict=True):
            slices = self._cells.setdefault(int(cell[start]), [])
            part = rows.slice(start, end - start)
            # A slice holds on to its whole page; a few rows far ahead of the others must not.
            slices.append(part[np.arange(part.height)] if part.height * _MOST_HELD < rows.height else part)
            if len(slices) >= _MOST_SLICES:
                slices[:] = [_in_order(slices)]
        self.rows += rows.height

    def release(self, heartbeat: int) -> pl.DataFrame | None:
        """Take all rows at or below a heartbeat, in order."""
        if self._width is None:
            return None
        cut = heartbeat // self._width
        taken: list[pl.DataFrame] = []
        for cell in sorted(c for c in self._cells if c <= cut):
            slices = self._cells.pop(cell)
            if cell < cut:
                taken += slices
                continue
            left = []
            for part in slices:
                n = int(np.searchsorted(part[TIME].to_numpy(), heartbeat, side="right"))
                if n:
                    taken.append(part.slice(0, n))
                if n < part.height:
                    left.append(part.slice(n))
            if left:
                self._cells[cell] = left
        if not taken:
            return None
        self.rows -= sum(part.height for part in taken)
        return _in_order(taken)

    def count(self, after: int, upto: int) -> int:
        """How many rows lie above a time, up to another one."""
        if self._width is None:
            return 0
        cells = {after // self._width, upto // self._width}
        times = [part[TIME].to_numpy() for cell in cells for part in self._cells.get(cell, ())]
        return sum(int(np.count_nonzero((t > after) & (t <= upto))) for t in times)

    def next_time(self, after: int) -> int | None:
        """The smallest time above this one."""
        if self._width is None:
            return None
        for cell in sorted(c for c in self._cells if (c + 1) * self._width > after):
            columns = [part[TIME].to_numpy() for part in self._cells[cell]]
            places = [int(np.searchsorted(times, after, side="right")) for times in columns]
            found = [int(times[n]) for times, n in zip(columns, places, strict=True) if n < len(times)]
            if found:
                return min(found)
        return None

    def all(self) -> pl.DataFrame | None:
        """All rows; those of equal times in the order of arrival."""
        slices = [part for cell in sorted(self._cells) for part in self._cells[cell]]
        return pl.concat(slices) if slices else None

    @property
    def cells(self) -> int:
        """How many cells have rows."""
        return len(self._cells)

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return int(sum(part.estimated_size() for slices in self._cells.values() for part in slices))

    def _fit(self, span: int) -> None:
        """Choose the width of a cell by the first page; make cells wider when pages or gaps ask for it."""
        if self._width is None:
            self._width = max(1, span // _CELLS_PER_PAGE)
        wider = 1
        while span > 4 * _CELLS_PER_PAGE * self._width * wider:
            wider *= 4
        if len(self._cells) > _MOST_CELLS:
            wider = max(wider, 4)
        if wider > 1:
            self._width *= wider
            cells: dict[int, list[pl.DataFrame]] = {}
            for cell in sorted(self._cells):
                cells.setdefault(cell // wider, []).extend(self._cells[cell])
            self._cells = cells


def in_time_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows in the order of time; of equal times, as they came."""
    time: Ints = rows[TIME].to_numpy()
    return rows if (time[1:] >= time[:-1]).all() else rows[np.argsort(time, kind="stable")]


def _in_order(slices: list[pl.DataFrame]) -> pl.DataFrame:
    return in_time_order(pl.concat(slices)) if len(slices) > 1 else slices[0]
