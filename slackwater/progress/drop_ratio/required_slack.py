"""What slack a query needs to lose at most a share of its pairs: from its reports and its rows' lateness.

With the reference M before a page, a pair of a window with last tick e is kept just when slack >= M - e. So reports
tell exactly what any slack would have lost. Where only few windows close in a stretch, they say little; then the
lateness of rows counts for more: a row that comes x behind M is lost, at slack s, to the windows that end in the
last x - s ticks before it, which on average over the windows' places is the share min(x - s, RANGE) / RANGE.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.drop_ratio.lateness import LateRows
from slackwater.progress.drop_ratio.lost_pairs import LostPairs
from slackwater.progress.report import Report
from slackwater.progress.sources import Ints

Floats = NDArray[np.float64]

#: The share aimed at, of the share allowed.
FULL = 0.955
#: The part of a budget that is planned with: rows may begin to come later than those before.
PLANNED = 0.94
#: Standard deviations of the losses kept free: of the rest of a budget, at least of a whole one, of few closings.
FREE, LEAST, FEW = 1.5, 0.5, 2.5
#: In this part of a stretch losses cannot be answered, for they have not been seen; what chance does later can.
UNSEEN = 0.2
#: So many closings in a stretch count as much as the lateness of its rows.
CLOSINGS = 10.0
#: The rest of the budget must do for these parts of a stretch.
AHEAD: Floats = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0])
_UNSEEN = np.minimum(1.0, UNSEEN / AHEAD)
#: A row that only the newest cells of a young stream could show stands for at most so many.
STANDS_FOR = 4.0
#: Needs kept of one cell; more are rounded up together.
MOST = 256
_NONE: Floats = np.zeros(0)
_TAIL: Floats = np.geomspace(1e-5, 1, 160)


def kept_free(budget: Floats | float, dispersion: Floats | float, deviations: float) -> Floats:
    """What may be expected to be lost, so that with so many standard deviations it is still within the budget."""
    budget = np.maximum(budget, 0.0)
    half = deviations * deviations * dispersion / 2
    found: Floats = np.maximum(0.0, budget + half - deviations * np.sqrt(dispersion * (budget + half / 2)))
    return found


def _kept_free(budget: float, deviations: float) -> float:
    """The same of one budget, with a dispersion of 1: for a single number numpy takes ten times as long."""
    budget, half = max(budget, 0.0), deviations * deviations / 2
    return max(0.0, budget + half - deviations * math.sqrt(budget + half / 2))


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


@dataclass(frozen=True, slots=True, eq=False)
class Still:
    """The stretches to come, each of which ends when a part of AHEAD has passed; whatever was lost."""

    pairs: float
    """Pairs of a stretch."""
    first: Ints
    """The first cell that will not have left the stretch by then."""
    staying: Floats
    """Pairs of the last stretch that will not have left it by then."""
    to_come: Floats
    """Pairs that will have come by then, at least."""


class Budget:
    """What may still be lost in the stretches to come: each ends when a part of AHEAD has passed."""

    def __init__(self, still: Still, lost: Floats) -> None:
        self._still = still
        self._lost = lost
        """Lost of the pairs that stay."""

    def share(self, share: float, dispersion: float) -> float:
        """The largest share that can be lost from now on without exceeding `share` in any stretch to come."""
        allowed = PLANNED * share * (self._still.staying + self._still.to_come)
        rest = kept_free(allowed - self._lost, dispersion * _UNSEEN, FREE)
        return float((rest / (AHEAD * max(self._still.pairs, 1e-9))).min())


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
        free = max(LEAST, FEW * (CLOSINGS / (closings + CLOSINGS)) ** 2)
        aim = share / lumps * _kept_free(whole, free) / max(whole, 1e-9)
        slack = self._least(FULL * aim)
        if budget is None:
            return slack
        return max(slack, self._least(budget.share(share, self._dispersion(slack)) / lumps))

    def _least(self, allowed: float) -> float:
        """The least slack that loses no more; the longest where each does."""
        place = int(self._kept.searchsorted(-allowed))
        return float(self._tried[min(place, len(self._tried) - 1)])

    def _dispersion(self, slack: float) -> float:
        """Variance over mean of what is lost at this slack."""
        if slack not in self._dispersions:
            self._dispersions[slack] = self._dispersion_at(slack)
        return self._dispersions[slack]

    def _dispersion_at(self, slack: float) -> float:
        rows, n = self._rows, len(self._pairs)
        # Only rows that are later than the slack lose anything, and they are the last ones.
        first = int(rows.late.values.searchsorted(slack, side="right"))
        late = np.minimum(rows.late.values[first:] - slack, self._length) * self._weights[first:]
        dispersion = (1 - self._exact) * _dispersion(np.bincount(rows.late.cells[first:], late, n) / self._length)
        if self._exact:
            lost = self._needs > slack
            dispersion += self._exact * _dispersion(np.bincount(self._cells[lost], self._counts[lost], n))
        # Bursts that come again and again are no chance: a late row seldom costs more than all of its windows.
        most = 3 * max(1.0, float(self._pairs.sum()) / max(float(rows.totals.sum()), 1.0))
        return min(dispersion, most)


def _rounded(needs: Floats, counts: Floats) -> tuple[Floats, Floats]:
    if len(needs) <= MOST:
        return needs, counts
    # Up to the next of 64 steps between powers of two: never less than what is needed, at most 1.6 % more.
    step = np.exp2(np.floor(np.log2(needs))) / 64
    values, where = np.unique(np.ceil(needs / step) * step, return_inverse=True)
    return values, np.bincount(where, counts).astype(np.float64)


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

    def excess(bound: Floats) -> Floats:
        place = values.searchsorted(bound, side="right")
        found: Floats = (moments[-1] - moments[place]) - bound * (sums[-1] - sums[place])
        return found

    lost: Floats = np.maximum(0.0, excess(slacks) - excess(slacks + length)) / length
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
