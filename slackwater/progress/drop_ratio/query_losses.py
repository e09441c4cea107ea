"""The (row, window) pairs of one query by cell, how many of them were lost, and how many may still be lost.

The share holds in every stretch and over the whole stream, so losses of earlier cells reduce what may still be
lost.
"""

from __future__ import annotations

import numpy as np

from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Floats, Ints
from slackwater.progress.window_losses import WindowLosses

#: The share of a budget that we plan to use; rows may begin to come later than those before. With 0.95 more cases
#: lose too much; with 0.92 waits are 1.6 % longer (docs/lab/drop-ratio.md).
PLANNED = 0.94
#: Standard deviations of the losses that are held in reserve for chance.
RESERVE = 1.5
#: Part of a stretch: the policy cannot react to the losses of the last part, because it has not seen them yet.
UNSEEN = 0.2
#: Parts of a stretch: the budget must last until each of them has passed.
AHEAD: Floats = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0])
_UNSEEN = np.minimum(1.0, UNSEEN / AHEAD)


class QueryLosses(Restorable):
    """Pairs and lost pairs of the last cells, and of all."""

    STATE = ("pairs", "lost", "all_pairs", "all_lost", "range", "_new_pairs", "_new_lost", "_furthest")

    def __init__(self, cells: int = 0) -> None:
        self.pairs: Floats = np.zeros(cells)
        self.lost: Floats = np.zeros(cells)
        self.all_pairs = self.all_lost = 0
        self.range = 1
        """The windows' length as reports show it, at most."""
        self._new_pairs = self._new_lost = 0
        self._furthest: int | None = None

    def hear(self, report: WindowLosses) -> None:
        """Take a report of a page; it is put to the cell of the next arrival."""
        self._new_lost += report.lost
        if len(report.last_ticks):
            self._new_pairs += report.all
            self._furthest = int(report.last_ticks[-1])

    def count(self, rows: int) -> None:
        """Where no query reports, each row stands for one pair of a window of one tick."""
        self._new_pairs += rows

    def arrive(self, highest: int) -> None:
        """The page has arrived and is a cell: what was heard goes to it."""
        if self._furthest is not None:
            # Windows of a row end less than a range behind it.
            self.range, self._furthest = max(self.range, self._furthest - highest + 1), None
        self.pairs = np.append(self.pairs, float(self._new_pairs))
        self.lost = np.append(self.lost, float(self._new_lost))
        self.all_pairs += self._new_pairs
        self.all_lost += self._new_lost
        self._new_pairs = self._new_lost = 0

    def merge(self, begins: list[int]) -> None:
        """Cells were put together; these are the places at which cells began that are left."""
        self.pairs, self.lost = np.add.reduceat(self.pairs, begins), np.add.reduceat(self.lost, begins)

    def remaining(self, p: float, cells: int) -> float:
        """The share that the newest cells, and all, may still lose."""
        lost = self.lost[-cells:].sum() / max(1.0, self.pairs[-cells:].sum())
        return float(PLANNED * p - max(lost, self.all_lost / max(1, self.all_pairs)))

    def budget(self, p: float, places: Ints, now: int, stretch: int, dispersion: float) -> float:
        """The largest share that can be lost from now on without exceeding p in a stretch to come, or in all.

        Of the stretches, one ends when each part of AHEAD has passed.
        """
        inside = places > now - stretch
        seen = min(1.0, max((now - int(places[0])) / stretch, 1 / len(AHEAD) ** 2))
        whole = max(float(self.pairs[inside].sum()) / seen, 1e-9)
        first = places.searchsorted(now - stretch * (1 - AHEAD), side="right")
        sums, lost = (np.append(kept[::-1].cumsum()[::-1], 0.0) for kept in (self.pairs, self.lost))
        to_come = np.maximum(AHEAD, 1 - seen) * whole
        allowed = PLANNED * p * (sums[first] + to_come) - lost[first]
        allowed = np.minimum(allowed, self.left_in_all(p, AHEAD * whole))
        rest = mean_within(allowed, dispersion * _UNSEEN, RESERVE)
        return float((rest / (AHEAD * whole)).min())

    def left_in_all(self, p: float, to_come: Floats) -> Floats:
        """Pairs that may be lost until this many more have come, by the share over the whole stream."""
        left: Floats = PLANNED * p * (self.all_pairs + to_come) - self.all_lost
        return left


def mean_within(budget: Floats | float, dispersion: Floats | float, deviations: float) -> Floats:
    """The largest expected losses that stay within the budget with this many standard deviations on top."""
    budget = np.maximum(budget, 0.0)
    half = deviations * deviations * dispersion / 2
    found: Floats = np.maximum(0.0, budget + half - deviations * np.sqrt(dispersion * (budget + half / 2)))
    return found
