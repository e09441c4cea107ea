"""What each slack would lose of a query's pairs, and so the slack that keeps to a share.

A row that comes x behind the reference is lost, at slack s, to the windows that end in the last x - s ticks before
it, which on average over the windows' places is the share min(x - s, RANGE) / RANGE.
"""

from __future__ import annotations

import numpy as np

from slackwater.progress.drop_ratio.cells import LateRows
from slackwater.progress.source_numbers import Floats

#: A row that only the newest cells of a young stream could show stands for this many rows at most. Chosen on seeds
#: 501 to 504 of streams with Zipf sources.
STANDS_FOR = 4.0
_TAIL: Floats = np.geomspace(1e-5, 1, 160)


class LossCurve:
    """The share of a query's pairs that each slack would lose, by the late rows of some cells."""

    def __init__(self, late: LateRows, totals: Floats, spans: Floats, pairs: Floats, length: int) -> None:
        """`totals` are all rows of each cell, `pairs` the query's, `length` that of its windows.

        `spans`: how far the reference had moved, before each cell, since lateness could be seen.
        """
        self._late, self._length, self._cells = late, length, len(pairs)
        # A row stands for as many pairs as the rows of its cell do on average.
        self._rows: Floats = late.rows * (pairs / np.maximum(totals, 1e-9))[late.cells]
        weights = self._rows * stands_for(late.values, pairs, spans)
        self._slacks = np.append(0.0, _needed(late.values, weights))
        lost = _lost_at(late.values, weights, self._slacks, length)
        self._shares: Floats = -np.maximum.accumulate((lost / pairs.sum())[::-1])[::-1]
        """The share that each slack loses at least, negative: so they are in order."""

    def slack(self, share: float) -> float:
        """The least slack that loses no more than the share; the longest where each does."""
        place = int(self._shares.searchsorted(-share))
        return float(self._slacks[min(place, len(self._slacks) - 1)])

    def dispersion(self, slack: float) -> float:
        """Variance over mean of what is lost at this slack: how many rows are lost together.

        In blocks of four cells, by differences of neighbours: a change is no variance.
        """
        first = int(self._late.values.searchsorted(slack, side="right"))
        weights = self._rows[first:] * np.minimum(self._late.values[first:] - slack, self._length) / self._length
        lost = np.bincount(self._late.cells[first:], weights, self._cells)
        blocks = lost[len(lost) % 4 :].reshape(-1, 4).sum(1)
        total = float(blocks.sum())
        if len(blocks) < 2 or not total:
            return 1.0
        steps = blocks[1:] - blocks[:-1]
        return max(1.0, float(steps @ steps) / (len(steps) * 2 * total) * len(blocks))


def stands_for(values: Floats, pairs: Floats, spans: Floats) -> Floats:
    """How many rows one row of each lateness stands for: only some of the cells could have shown it.

    The values are in order; `spans` as of `LossCurve`.
    """
    if not len(values) or float(spans.min()) >= values[-1]:
        return np.ones(len(values))  # every cell could have shown every value
    order = spans.argsort()
    # Cells that could show a value and those behind it; the last could show none.
    could = np.append(pairs[order][::-1].cumsum()[::-1], 0.0)
    found = np.minimum(STANDS_FOR, float(pairs.sum()) / np.maximum(could, 1e-9))
    ends = values.searchsorted(spans[order], side="right")
    steps: Floats = found.repeat(np.diff(ends, prepend=0, append=len(values)))
    return steps


def _lost_at(values: Floats, weights: Floats, slacks: Floats, length: int) -> Floats:
    """Pairs lost at each slack to windows of this length, on average over their places; values are in order."""
    sums, moments = (np.append(0.0, each.cumsum()) for each in (weights, weights * values))
    some, all_ = (values.searchsorted(bound, side="right") for bound in (slacks, slacks + length))
    # Rows beyond a slack lose something, those beyond it and a range all. What is far beyond, as corrupt times are,
    # must not enter the first sum: beside it the others would be lost in rounding.
    part = (moments[all_] - moments[some]) - slacks * (sums[all_] - sums[some])
    lost: Floats = np.maximum(0.0, part / length + sums[-1] - sums[all_])
    return lost


def _needed(values: Floats, weights: Floats) -> Floats:
    """Some of the slacks that late rows would have needed, the least first, more of the long ones."""
    sums = weights[::-1].cumsum()
    if not len(sums) or sums[-1] <= 0:
        return np.zeros(0)
    return np.unique(values[::-1][np.minimum(sums.searchsorted(_TAIL * sums[-1]), len(sums) - 1)])
