"""Early against final values: the accuracy that S5 measures (section 4.4) and would monitor (Figure 6.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.estimates.completeness import FADE
from slackwater.progress.source_numbers import Floats

#: With fewer windows of its own, a group's interval is made of other groups' errors.
FEW = 8


def accuracy(early: Floats, final: Floats) -> Floats:
    """S5's (F − |F − E|) / F of each pair, by size; an answer that is off by more than the value itself has 0.

    >>> accuracy(np.array([110.0, -5.0, 0.0, 1.0]), np.array([135.0, 5.0, 0.0, 0.0])).round(3)
    array([0.815, 0.   , 1.   , 0.   ])
    """
    off = np.abs(final - early)
    size = np.abs(final)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(off == 0, 1.0, 1 - off / size)
    return np.maximum(share, 0.0)


class Accuracy:
    """Running figures of one aggregate: means over all pairs of early and final values, gains in seconds."""

    def __init__(self) -> None:
        self.pairs = 0
        self._seen = self._estimate = self._gain = self._recent = self._weight = 0.0
        self._worst_seen = self._worst = 1.0
        self._intervals = self._held = self._borrowed = 0
        self._windows = self._all_held = 0
        """Windows of groups with intervals, and those of which every interval held."""

    def learn(self, seen: Floats, estimate: Floats, held: Floats, gain: Floats, known: Floats) -> float:
        """Accuracies of one window's groups, whether intervals held, and how many seconds earlier they came.

        So many windows of each group were known; with few, the interval was that of other groups. Gives the
        window's mean accuracy.
        """
        self.pairs += len(seen)
        self._seen += float(seen.sum())
        self._estimate += float(estimate.sum())
        self._worst_seen = min(self._worst_seen, float(seen.min()))
        self._worst = min(self._worst, float(estimate.min()))
        given = ~np.isnan(held)
        self._intervals += int(given.sum())
        self._held += int(held[given].sum())
        self._borrowed += int((given & (known < FEW)).sum())
        self._gain += float(gain.sum())
        mean = float(estimate.mean())
        self._recent = FADE * self._recent + mean
        self._weight = FADE * self._weight + 1
        return mean

    def learn_windows(self, keys: NDArray[np.uint64], held: Floats) -> None:
        """The groups of all intervals of one window, and whether each held; a group may have several, by age."""
        given = ~np.isnan(held)
        if given.any():
            groups, places = np.unique(keys[given], return_inverse=True)
            missed = np.zeros(len(groups), bool)
            missed[places[held[given] == 0]] = True
            self._windows += len(groups)
            self._all_held += int((~missed).sum())

    def metrics(self) -> dict[str, Any]:
        """Figures for a person."""
        if not self.pairs:
            return {"pairs": 0}
        return {
            "pairs": self.pairs,
            "seen": self._seen / self.pairs,
            "estimate": self._estimate / self.pairs,
            "recent": self._recent / self._weight,
            "worst_seen": self._worst_seen,
            "worst_estimate": self._worst,
            "coverage": self._held / self._intervals if self._intervals else None,
            "all_held": self._all_held / self._windows if self._windows else None,
            "intervals": self._intervals,
            "borrowed": self._borrowed,
            "latency_gain": self._gain / self.pairs,
        }

    def state(self) -> list[float]:
        """As JSON values."""
        return [
            self.pairs,
            self._intervals,
            self._held,
            self._borrowed,
            self._seen,
            self._estimate,
            self._gain,
            self._recent,
            self._weight,
            self._worst_seen,
            self._worst,
            self._windows,
            self._all_held,
        ]

    def restore(self, state: list[float]) -> None:
        """Continue from an earlier `state()`."""
        self.pairs, self._intervals, self._held, self._borrowed = (int(n) for n in state[:4])
        self._seen, self._estimate, self._gain, self._recent, self._weight = state[4:9]
        self._worst_seen, self._worst = state[9:11]
        self._windows, self._all_held = (int(n) for n in state[11:] or (0, 0))  # journals of before have none
