"""What each slack would lose of a query's pairs, and so the slack that keeps to a share.

A row that comes x behind the reference is lost, at slack s, to the windows that end in the last x - s ticks before
it, which on average over the windows' places is the share min(x - s, RANGE) / RANGE.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.drop_ratio.lateness import LateRows
from slackwater.progress.source_numbers import Floats

#: A row that only the newest cells of a young stream could show stands for this many rows at most. Chosen on seeds
#: 501 to 504 of streams with Zipf sources.
STANDS_FOR = 4.0
#: The trend: the newest part of the cells is compared with all of them.
NEWEST = 0.3
#: Cells: the trend needs this many of the newest.
LEAST = 10
#: The trend is seen at a slack that loses this many times the share allowed: more is lost there, so it is known
#: better.
TREND_AT = 3.0
#: Exponent: at the slack that is wanted the trend is stronger than where it is seen.
FURTHER = 1.3
#: Standard deviations by which more losses must exceed chance to be a trend.
GROWN = 0.7
#: Standard deviations by which fewer losses must fall below chance to be a trend.
SHRUNK = 0.25
#: The trend is at most this factor, and at least one over it.
MOST = 2.0
#: What may still be lost is divided by the trend, but by no less than this: it must not be spent on a lull.
LULL = 0.7
_TAIL: Floats = np.geomspace(1e-5, 1, 160)


@dataclass(frozen=True, slots=True, eq=False)
class RecentRows:
    """The rows of some cells, as all queries see them."""

    late: LateRows
    totals: Floats
    """All rows of each cell."""
    spans: Floats
    """How far the reference had moved, before each cell, since lateness could be seen; inf if long enough."""
    advance: float
    """How far the reference moves in a stretch."""


@dataclass(frozen=True, slots=True, eq=False)
class LossPart:
    """One way to see what is lost: by the lateness of rows, or by what reports say that pairs needed."""

    weight: float
    late: LateRows
    length: int
    """The windows' length, where rows tell. 0 where pairs do: each is lost at every slack below its need."""

    def lost_at(self, slacks: Floats, pairs: Floats, spans: Floats) -> Floats:
        """Pairs lost at each slack."""
        weights = self.late.rows * stands_for(self.late.values, pairs, spans)
        return self.weight * _lost_at(self.late.values, weights, slacks, self.length)

    def by_cell(self, slack: float, cells: int) -> Floats:
        """Pairs that each cell loses at this slack."""
        # Only what is later than the slack is lost, and that is the end of it.
        first = int(self.late.values.searchsorted(slack, side="right"))
        weights = self.late.rows[first:]
        if self.length:
            weights = weights * np.minimum(self.late.values[first:] - slack, self.length) / self.length
        found: Floats = np.bincount(self.late.cells[first:], weights, cells).astype(np.float64)
        return found


class LossCurve:
    """The share of a query's pairs that each slack would lose. It does not depend on the share allowed."""

    def __init__(self, parts: Sequence[LossPart], pairs: Floats, spans: Floats) -> None:
        self._parts, self._pairs = parts, pairs
        self._slacks = np.unique(np.concatenate([np.zeros(1), *(_needed(part.late) for part in parts)]))
        lost: Floats = np.sum([part.lost_at(self._slacks, pairs, spans) for part in parts], axis=0)
        self._shares: Floats = -np.maximum.accumulate((lost / pairs.sum())[::-1])[::-1]
        """The share that each slack loses at least, negative: so they are in order."""
        self._dispersions: dict[float, float] = {}

    def slack(self, share: float, budget: Callable[[float], float] | None = None) -> float:
        """The slack that loses the share at most, also of the budget where there is one.

        `budget` gives the share that may still be lost, for the dispersion of the losses.
        """
        if len(self._slacks) == 1:
            return 0.0
        trend = self._trend(self._least(TREND_AT * share)) ** FURTHER
        slack = self._least(share / trend)
        if budget is None:
            return slack
        return max(slack, self._least(budget(self._dispersion(slack)) / max(trend, LULL)))

    def _least(self, allowed: float) -> float:
        """The least slack that loses no more; the longest where each does."""
        place = int(self._shares.searchsorted(-allowed))
        return float(self._slacks[min(place, len(self._slacks) - 1)])

    def _trend(self, slack: float) -> float:
        """How many times as much the newest cells lose at this slack as all of them."""
        n = len(self._pairs)
        newest = max(int(NEWEST * n), min(LEAST, n // 2))
        if newest < LEAST:
            return 1.0
        lost: Floats = np.sum([part.weight * part.by_cell(slack, n) for part in self._parts], axis=0)
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
            n = len(self._pairs)
            self._dispersions[slack] = sum(p.weight * _dispersion(p.by_cell(slack, n)) for p in self._parts)
        return self._dispersions[slack]


def stands_for(values: Floats, pairs: Floats, spans: Floats) -> Floats:
    """How many rows one row of each lateness stands for: only some of the cells could have shown it.

    The values are in order; `spans` as of `RecentRows`.
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


def _sums(values: Floats) -> Floats:
    """The sum of the first none, one, two and so on."""
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    return sums


def _lost_at(values: Floats, weights: Floats, slacks: Floats, length: int) -> Floats:
    """Pairs lost at each slack to windows of this length, on average over their places; values are in order.

    With a length of 0 the values are what the pairs need: each is lost at every slack below it.
    """
    sums = _sums(weights)
    some, all_ = (values.searchsorted(bound, side="right") for bound in (slacks, slacks + length))
    beyond: Floats = sums[-1] - sums[all_]
    if not length:
        return beyond
    # Rows beyond a slack lose something, those beyond it and a range all. What is far beyond, as corrupt times are,
    # must not enter the first sum: beside it the others would be lost in rounding.
    moments = _sums(weights * values)
    part = (moments[all_] - moments[some]) - slacks * (sums[all_] - sums[some])
    lost: Floats = np.maximum(0.0, part / length + beyond)
    return lost


def _needed(late: LateRows) -> Floats:
    """Some of the slacks that late rows would have needed, more of the long ones."""
    heard = late.rows[::-1].cumsum()
    if not len(heard) or heard[-1] <= 0:
        return np.zeros(0)
    needed: Floats = late.values[::-1][np.minimum(heard.searchsorted(_TAIL * heard[-1]), len(heard) - 1)]
    return needed


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
