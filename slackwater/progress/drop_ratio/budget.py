"""What may still be lost: a share of each stretch to come, less what was lost, less what chance may do."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slackwater.progress.sources import Floats, Ints

#: The part of a budget that is planned with: rows may begin to come later than those before.
PLANNED = 0.94
#: Standard deviations of the losses that are kept free.
FREE = 1.5
#: In this part of a stretch losses cannot be answered, for they have not been seen; what chance does later can.
UNSEEN = 0.2
#: The rest of the budget must do for these parts of a stretch.
AHEAD: Floats = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0])
_UNSEEN = np.minimum(1.0, UNSEEN / AHEAD)


def kept_free(budget: Floats | float, dispersion: Floats | float, deviations: float) -> Floats:
    """What may be expected to be lost, so that with so many standard deviations it is still within the budget."""
    budget = np.maximum(budget, 0.0)
    half = deviations * deviations * dispersion / 2
    found: Floats = np.maximum(0.0, budget + half - deviations * np.sqrt(dispersion * (budget + half / 2)))
    return found


def kept_free_of_one(budget: float, deviations: float) -> float:
    """The same of one budget, with a dispersion of 1: for a single number numpy takes ten times as long."""
    budget, half = max(budget, 0.0), deviations * deviations / 2
    return max(0.0, budget + half - deviations * math.sqrt(budget + half / 2))


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
