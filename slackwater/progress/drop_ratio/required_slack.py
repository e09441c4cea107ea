"""What slack a query needs to lose at most a share of its pairs: what its reports tell of the last cells.

With the reference M before a page, a pair of a window with last tick e is kept just when slack >= M - e. So reports
tell exactly what any slack would have lost. Before some windows have closed they say little; then the lateness of
rows counts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slackwater.progress.drop_ratio.lateness import LateRows
from slackwater.progress.drop_ratio.loss_curve import LossCurve, LossPart, RecentRows
from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Floats
from slackwater.progress.window_losses import WindowLosses

#: Needs kept of one cell; more are rounded up together.
MOST = 256
#: With this many windows closed in a stretch, reports count as much as the lateness of its rows. Reports alone lose
#: too much in fast seasons, rows alone with wrong clocks.
CLOSINGS = 10.0
_NONE: Floats = np.zeros(0)


class RequiredSlack(Restorable):
    """The last cells of one query: pairs, and how much slack the late ones would have needed."""

    STATE = (
        *("pairs", "_needs", "_counts", "_lengths", "all_pairs", "_slide", "_range", "_first"),
        *("_new_pairs", "_new_needs", "_new_counts", "_furthest"),
    )

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
        # What reports have told since the last arrival: pairs, and needs and counts of the late ones.
        self._new_pairs, self._new_needs, self._new_counts = 0, _NONE, _NONE
        self._furthest: int | None = None

    def hear(self, report: WindowLosses, before: int | None) -> None:
        """Take a report of a page that met the reference `before`; it is put to the cell of the next arrival."""
        all_ = report.all
        self.all_pairs += all_
        if not len(report.last_ticks):
            return
        self._first = int(report.last_ticks[0]) if self._first is None else self._first
        self._slide = int(np.gcd.reduce(np.append(report.last_ticks - self._first, self._slide)))
        self._furthest = int(report.last_ticks[-1])
        self._new_pairs += all_
        if before is not None:
            needs = float(before) - report.last_ticks.astype(np.float64)
            late = needs > 0
            self._new_needs = np.append(self._new_needs, needs[late])
            self._new_counts = np.append(self._new_counts, report.pairs[late].astype(np.float64))

    def count(self, rows: int) -> None:
        """Where no query reports, each row stands for one pair of a window of one tick."""
        self._new_pairs += rows

    def arrive(self, highest: int | None, new_cell: bool) -> None:
        """The page has arrived: what was heard goes to its cell."""
        if highest is not None and self._furthest is not None:
            # Windows of a row end less than a range behind it.
            self._range = max(self._range, self._furthest - highest + 1)
        self._furthest = None
        pairs, needs, counts = self._new_pairs, self._new_needs, self._new_counts
        self._new_pairs, self._new_needs, self._new_counts = 0, _NONE, _NONE
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

    def curve(self, rows: RecentRows) -> LossCurve | None:
        """What each slack would lose, by the cells in `rows`; None of no pairs at all."""
        n = len(rows.totals)
        pairs = np.zeros(n)
        pairs[-len(self.pairs) :] = self.pairs[-n:]
        if pairs.sum() <= 0:
            return None
        # A row stands for as many pairs as the rows of its cell do on average.
        weights = rows.late.rows * (pairs / np.maximum(rows.totals, 1e-9))[rows.late.cells]
        late, exact = replace(rows.late, rows=weights), self._exact(rows)
        parts = [LossPart(1 - exact, late, self._range)]
        parts += [LossPart(exact, self._needed(n), 0)] if exact else []
        return LossCurve(parts, pairs, rows.spans)

    def _exact(self, rows: RecentRows) -> float:
        """How much what reports tell counts beside the lateness of rows."""
        if self._first is None:
            return 0.0
        # In a young stream no whole window has ended yet, so reports do not show what is lost of one. Of one window
        # end no distance is known.
        ended = max(0.0, min(rows.advance, float(rows.spans[-1]) - self._range)) / (self._slide or self._range)
        return ended / (ended + CLOSINGS)

    def _needed(self, cells: int) -> LateRows:
        """What the late pairs of the last cells needed, the least first."""
        lengths = self._lengths[-cells:]
        begin = len(self._needs) - sum(lengths)
        places = np.arange(cells - len(lengths), cells).repeat(lengths)
        order = self._needs[begin:].argsort()
        return LateRows(self._needs[begin:][order], self._counts[begin:][order], places[order])


def _rounded(needs: Floats, counts: Floats) -> tuple[Floats, Floats]:
    if len(needs) <= MOST:
        return needs, counts
    # Up to the next of 64 steps between powers of two: never less than what is needed, at most 1.6 % more.
    step = np.exp2(np.floor(np.log2(needs))) / 64
    values, where = np.unique(np.ceil(needs / step) * step, return_inverse=True)
    return values, np.bincount(where, counts).astype(np.float64)
