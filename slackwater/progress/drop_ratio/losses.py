"""What each slack would lose of a query's pairs, and so the slack that keeps to a share.

A row that comes x behind the reference is lost, at slack s, to the windows that end in the last x - s ticks before
it, which on average over the windows' places is the share min(x - s, RANGE) / RANGE.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.drop_ratio.budget import Budget, kept_free_of_one
from slackwater.progress.drop_ratio.lateness import LateRows
from slackwater.progress.sources import Floats, Ints

#: Standard deviations of the losses that are kept free where windows close seldom.
FEW = 2.5
#: So many closings in a stretch count as much as the lateness of its rows.
CLOSINGS = 10.0
#: A row that only the newest cells of a young stream could show stands for at most so many.
STANDS_FOR = 4.0
#: The trend is what this part of the cells, the newest ones, loses beside all of them: at least so many cells, if
#: they are at most half.
NEWEST, LEAST = 0.3, 10
#: It is seen at a slack that loses so many times the share allowed: more is lost there, so it is known better.
#: Further out the trend is stronger, by this power.
SEEN_AT, FURTHER = 3.0, 1.3
#: More losses, or fewer, count as a trend only beyond so many standard deviations; and it is at most this factor.
GROWN, SHRUNK, MOST = 0.7, 0.25, 2.0
#: What may still be lost is divided by the trend, but by no less than this: it must not be spent on a lull.
LULL = 0.7
_TAIL: Floats = np.geomspace(1e-5, 1, 160)


class Rows:
    """The lateness of rows in some cells, as all queries see it."""

    def __init__(
        self,
        values: Floats,
        rows: Floats,
        spans: Floats,
        advance: float,
        stretch: float,
        late: LateRows | None = None,
    ) -> None:
        self.late = LateRows.of(values, rows) if late is None else late
        """The rows that are late, the least late first."""
        self.totals: Floats = rows.sum(1)
        """All rows of each cell."""
        self.spans = spans
        """How far the reference had moved, before each cell, since lateness could be seen; inf if long enough."""
        self.advance = advance
        """How far the reference moves in a stretch."""
        self._stretch = stretch
        """Cells in a stretch, as far as is known."""
        self._least = float(spans.min())

    def stands_for(self, values: Floats, pairs: Floats) -> Floats:
        """How many rows one row of each lateness stands for: only some of the cells could have shown it.

        The values are in order.
        """
        if not len(values) or self._least >= values[-1]:
            return np.ones(len(values))  # every cell could have shown every value
        spans, shown = _in_order(self.spans, pairs)
        # Cells that could show a value and those behind it; the last could show none.
        could = np.append(shown[::-1].cumsum()[::-1], 0.0)
        found = np.minimum(STANDS_FOR, float(pairs.sum()) / np.maximum(could, 1e-9))
        ends = values.searchsorted(spans, side="right")
        steps: Floats = found.repeat(np.diff(ends, prepend=0, append=len(values)))
        return steps

    def stretch_share(self, pairs: Floats) -> float:
        """Pairs of a stretch, if it were all like these cells."""
        return float(pairs.sum()) * self._stretch / max(1, len(pairs))


class Losses:
    """The share that each slack would lose, by some cells of a query. It does not depend on the share allowed."""

    def __init__(
        self,
        rows: Rows,
        pairs: Floats,
        needs: tuple[Floats, Floats, Ints],
        closings: float,
        exact: float,
        length: int,
    ) -> None:
        self._rows, self._pairs, self._closings, self._length = rows, pairs, closings, length
        self._exact = exact
        """How much what reports tell counts beside the lateness of rows; nothing where it is not asked for."""
        late = rows.late
        # A row stands for as many pairs as the rows of its cell do on average.
        self._weights: Floats = late.rows * (pairs / np.maximum(rows.totals, 1e-9))[late.cells]
        self._needs, self._counts, self._cells = needs
        by_pair = _in_order(self._needs, self._counts)
        self._tried = tried = _tried((late.values, self._weights), by_pair)
        weights = self._weights * rows.stands_for(late.values, pairs)
        lost = (1 - exact) * _by_lateness(late.values, weights, tried, length)
        if exact:
            lost = lost + exact * _beyond(by_pair[0], by_pair[1] * rows.stands_for(by_pair[0], pairs), tried)
        self._kept: Floats = -np.maximum.accumulate((lost / pairs.sum())[::-1])[::-1]
        """The share that each slack loses at least, negative: so they are in order."""
        self._dispersions: dict[float, float] = {}

    def slack(self, share: float, budget: Budget | None) -> float:
        """The slack that loses the share at most, also of the budget where there is one."""
        if len(self._tried) == 1:
            return 0.0
        # A stretch may hold one closing more than the average does.
        closings = self._closings
        lumps = min(20.0, max(1.0, math.ceil(closings - 0.25) / closings))
        whole = self._rows.stretch_share(self._pairs) * share
        free = FEW * (CLOSINGS / (closings + CLOSINGS)) ** 2
        aim = share / lumps * kept_free_of_one(whole, free) / max(whole, 1e-9)
        trend = self._trend(self._least(SEEN_AT * aim)) ** FURTHER
        slack = self._least(aim / trend)
        if budget is None:
            return slack
        return max(slack, self._least(budget.share(share, self._dispersion(slack)) / lumps / max(trend, LULL)))

    def _least(self, allowed: float) -> float:
        """The least slack that loses no more; the longest where each does."""
        place = int(self._kept.searchsorted(-allowed))
        return float(self._tried[min(place, len(self._tried) - 1)])

    def _trend(self, slack: float) -> float:
        """How many times as much the newest cells lose at this slack as all of them."""
        n = len(self._pairs)
        newest = max(int(NEWEST * n), min(LEAST, n // 2))
        if newest < LEAST:
            return 1.0
        by_rows, by_pairs = self._by_cell(slack)
        lost = (1 - self._exact) * by_rows + self._exact * by_pairs
        expected = float(lost.sum()) * float(self._pairs[-newest:].sum() / self._pairs.sum())
        found = float(lost[-newest:].sum())
        if expected <= 0:
            return 1.0
        sums = _sums(lost)
        before = sums[newest : n - newest + 1] - sums[: n - 2 * newest + 1]
        if before.min() <= found <= before.max():
            return 1.0  # as many cells before them lost as little, or as much: late rows that come and go
        dispersion = self._dispersion(slack)
        if found > expected:
            found = max(expected, found - GROWN * math.sqrt(dispersion * found))
        else:
            found = min(expected, found + SHRUNK * math.sqrt(dispersion * expected))
        return min(MOST, max(1 / MOST, found / expected))

    def _dispersion(self, slack: float) -> float:
        """Variance over mean of what is lost at this slack."""
        if slack not in self._dispersions:
            by_rows, by_pairs = self._by_cell(slack)
            found = (1 - self._exact) * _dispersion(by_rows) + self._exact * _dispersion(by_pairs)
            self._dispersions[slack] = found
        return self._dispersions[slack]

    def _by_cell(self, slack: float) -> tuple[Floats, Floats]:
        """What each cell loses at this slack: by the lateness of its rows, and what reports tell of its pairs."""
        late, n = self._rows.late, len(self._pairs)
        # Only rows that are later than the slack lose anything, and they are the last ones.
        first = int(late.values.searchsorted(slack, side="right"))
        weights = np.minimum(late.values[first:] - slack, self._length) * self._weights[first:]
        lost = self._needs > slack
        by_rows: Floats = np.bincount(late.cells[first:], weights, n) / self._length
        by_pairs: Floats = np.bincount(self._cells[lost], self._counts[lost], n).astype(np.float64)
        return by_rows, by_pairs


def _in_order(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The values from the least on, each with its weight."""
    order = values.argsort()
    return values[order], weights[order]


def _beyond(values: Floats, weights: Floats, bounds: Floats) -> Floats:
    """The weight of the values, which are in order, above each bound."""
    sums = _sums(weights)
    found: Floats = sums[-1] - sums[values.searchsorted(bounds, side="right")]
    return found


def _sums(values: Floats) -> Floats:
    """The sum of the first none, one, two and so on."""
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    return sums


def _by_lateness(values: Floats, weights: Floats, slacks: Floats, length: int) -> Floats:
    """Pairs lost at each slack to windows of this range, on average over their places; values are in order."""
    sums, moments = _sums(weights), _sums(weights * values)
    some, all_ = (values.searchsorted(bound, side="right") for bound in (slacks, slacks + length))
    # Rows beyond a slack lose something, those beyond it and a range all. What is far beyond, as corrupt times are,
    # must not enter the first sum: beside it the others would be lost in rounding.
    part = (moments[all_] - moments[some]) - slacks * (sums[all_] - sums[some])
    lost: Floats = np.maximum(0.0, part / length + (sums[-1] - sums[all_]))
    return lost


def _tried(*needed: tuple[Floats, Floats]) -> Floats:
    """The slacks to choose from: none, and what rows and pairs would have needed, more of the long ones."""
    found = [np.zeros(1)]
    for values, weights in needed:
        heard = weights[::-1].cumsum()
        if len(values) and heard[-1] > 0:
            found.append(values[::-1][np.minimum(heard.searchsorted(_TAIL * heard[-1]), len(values) - 1)])
    tried = np.concatenate(found)
    tried.sort()
    new = np.ones(len(tried), bool)
    np.greater(tried[1:], tried[:-1], out=new[1:])
    several: Floats = tried[new]
    return several


def _dispersion(lost: NDArray[Any]) -> float:
    """Variance over mean of what is lost, in blocks of four cells; by differences: a change is no variance."""
    whole = len(lost) // 4 * 4
    if whole < 8:
        return 1.0
    blocks = lost[-whole:].reshape(-1, 4).sum(1)
    mean = float(blocks.sum()) / len(blocks)
    if mean <= 0:
        return 1.0
    steps = blocks[1:] - blocks[:-1]
    return max(1.0, float((steps * steps).sum()) / len(steps) / 2 / mean)
