"""What slack a query needs to lose at most a share of its pairs: what its reports tell of the last cells.

With the reference M before a page, a pair of a window with last tick e is kept just when slack >= M - e. So reports
tell exactly what any slack would have lost. Where only few windows close in a stretch, they say little; then the
lateness of rows counts for more (`losses`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slackwater.progress.drop_ratio.losses import CLOSINGS, Losses, Rows
from slackwater.progress.drop_ratio.lost_pairs import LostPairs
from slackwater.progress.report import Report
from slackwater.progress.sources import Floats, Ints

#: Needs kept of one cell; more are rounded up together.
MOST = 256
_NONE: Floats = np.zeros(0)


class RequiredSlack:
    """The last cells of one query: pairs, and how much slack the late ones would have needed."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self.pairs: list[int] = []
        # What late pairs needed and how many did, cell after cell; and how many entries each cell has.
        self._needs, self._counts = _NONE, _NONE
        self._lengths: list[int] = []
        self.all_pairs = 0
        # The windows as reports show them: distance of their ends, one end, their length (at most).
        self._slide, self._range = 0, 1
        self._first: int | None = None
        self._heard: tuple[int, Floats, Floats] = (0, _NONE, _NONE)
        self._furthest: int | None = None

    def hear(self, report: Report, before: int | None) -> None:
        """Take a report of a page that met the reference `before`; it is put to the cell of the next arrival."""
        all_ = report.all
        self.all_pairs += all_
        if not len(report.last_ticks):
            return
        self._first = int(report.last_ticks[0]) if self._first is None else self._first
        self._slide = int(np.gcd.reduce(np.append(report.last_ticks - self._first, self._slide)))
        self._furthest = int(report.last_ticks[-1])
        needs, counts = _NONE, _NONE
        if before is not None:
            needs = float(before) - report.last_ticks.astype(np.float64)
            late = needs > 0
            needs, counts = needs[late], report.pairs[late].astype(np.float64)
        pairs, old, older = self._heard
        if len(old):
            needs, counts = np.append(old, needs), np.append(older, counts)
        self._heard = (pairs + all_, needs, counts)

    def count(self, rows: int) -> None:
        """Where no query reports, each row stands for one pair of a window of one tick."""
        pairs, needs, counts = self._heard
        self._heard = (pairs + rows, needs, counts)

    def arrive(self, highest: int | None, new_cell: bool) -> None:
        """The page has arrived: what was heard goes to its cell."""
        if highest is not None and self._furthest is not None:
            # Windows of a row end less than a range behind it.
            self._range = max(self._range, self._furthest - highest + 1)
        self._furthest = None
        pairs, needs, counts = self._heard
        self._heard = (0, _NONE, _NONE)
        if new_cell or not self.pairs:
            self.pairs.append(pairs)
            begin = len(self._needs)
        else:
            self.pairs[-1] += pairs
            begin = len(self._needs) - self._lengths.pop()
            needs, counts = np.append(self._needs[begin:], needs), np.append(self._counts[begin:], counts)
        needs, counts = _rounded(needs, counts)
        self._lengths.append(len(needs))
        gone = sum(self._lengths[: -self._cells])
        for kept in (self.pairs, self._lengths):
            del kept[: -self._cells]
        if gone or begin < len(self._needs) or len(needs):
            self._needs = np.concatenate([self._needs[gone:begin], needs])
            self._counts = np.concatenate([self._counts[gone:begin], counts])

    def losses(self, rows: Rows, exactly: bool) -> Losses | None:
        """What each slack would lose, by the cells in `rows`, or by their rows alone; None of no pairs at all."""
        n = len(rows.totals)
        pairs = np.zeros(n)
        pairs[-len(self.pairs) :] = self.pairs[-n:]
        if pairs.sum() <= 0:
            return None
        # Of one window end no distance is known; without any, each row is a window of one tick.
        slide = self._slide or self._range
        closings = max(rows.advance / slide, 1e-9)
        exact = 0.0
        if exactly and self._first is not None:
            # In a young stream no whole window has ended yet, so reports do not show what is lost of one.
            ended = min(closings, max(0.0, (float(rows.spans[-1]) - self._range) / slide))
            exact = ended / (ended + CLOSINGS)
        return Losses(rows, pairs, self._needs_of(n), closings, exact, self._range)

    def _needs_of(self, cells: int) -> tuple[Floats, Floats, Ints]:
        """What the pairs of the last so many cells needed, how many did, and the places of their cells."""
        lengths = self._lengths[-cells:]
        begin = len(self._needs) - sum(lengths)
        places = np.arange(cells - len(lengths), cells).repeat(lengths)
        return self._needs[begin:], self._counts[begin:], places

    def state(self, lost: LostPairs) -> tuple[dict[str, Any], dict[str, Any]]:
        """Small values, and arrays; with what was lost."""
        pairs, needs, counts = self._heard
        small = {
            "windows": [self._slide, self._first, self._range, self._furthest],
            "all": [self.all_pairs, lost.all],
            "heard": [pairs, lost.heard, needs.tolist(), counts.tolist()],
        }
        arrays = {
            "pairs": np.array(self.pairs, dtype=np.int64),
            "lost": np.array(lost.cells, dtype=np.int64),
            "lengths": np.array(self._lengths, dtype=np.int64),
            "needs": self._needs.copy(),
            "counts": self._counts.copy(),
        }
        return small, arrays

    @staticmethod
    def restored(cells: int, small: dict[str, Any], arrays: dict[str, Any]) -> tuple[RequiredSlack, LostPairs]:
        """Both from an earlier `state()`."""
        query, lost = RequiredSlack(cells), LostPairs()
        query._slide, query._first, query._range, query._furthest = small["windows"]
        query.all_pairs, lost.all = small["all"]
        pairs, lost.heard, needs, counts = small["heard"]
        query._heard = (pairs, np.array(needs, dtype=np.float64), np.array(counts, dtype=np.float64))
        query.pairs, lost.cells = (np.asarray(arrays[name]).tolist() for name in ("pairs", "lost"))
        query._lengths = np.asarray(arrays["lengths"]).tolist()
        query._needs, query._counts = (np.array(arrays[name], np.float64) for name in ("needs", "counts"))
        return query, lost


def _rounded(needs: Floats, counts: Floats) -> tuple[Floats, Floats]:
    if len(needs) <= MOST:
        return needs, counts
    # Up to the next of 64 steps between powers of two: never less than what is needed, at most 1.6 % more.
    step = np.exp2(np.floor(np.log2(needs))) / 64
    values, where = np.unique(np.ceil(needs / step) * step, return_inverse=True)
    return values, np.bincount(where, counts).astype(np.float64)
