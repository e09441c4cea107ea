"""What may still be lost: a share of each stretch to come, less what was lost, less what chance may do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.progress.source_numbers import Floats, Ints

#: The share of a budget that is planned with: rows may begin to come later than those before. With 0.95 more cases
#: lose too much, with 0.92 waits are 0.01 longer (docs/rooms/progress.md).
PLANNED = 0.94
#: Standard deviations of the losses that are held in reserve for chance.
RESERVE = 1.5
#: Part of a stretch: losses of so long cannot be answered, for they have not been seen; later ones can.
UNSEEN = 0.2
#: Parts of a stretch: the budget must do until each of them has passed.
AHEAD: Floats = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0])
_UNSEEN = np.minimum(1.0, UNSEEN / AHEAD)


def mean_within(budget: Floats | float, dispersion: Floats | float, deviations: float) -> Floats:
    """The losses to expect at most: with these standard deviations more they are still within the budget."""
    budget = np.maximum(budget, 0.0)
    half = deviations * deviations * dispersion / 2
    found: Floats = np.maximum(0.0, budget + half - deviations * np.sqrt(dispersion * (budget + half / 2)))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class RemainingBudget:
    """The stretches to come, each of which ends when a part of AHEAD has passed, and what they may still lose."""

    pairs: float
    """Pairs of a stretch."""
    first: Ints
    """The first cell that will not have left the stretch by then."""
    staying: Floats
    """Pairs of the last stretch that will not have left it by then."""
    to_come: Floats
    """Pairs that will have come by then, at least."""

    def share(self, share: float, lost: Floats, dispersion: float) -> float:
        """The largest share that can be lost from now on without exceeding `share` in any stretch to come.

        `lost` are those of the pairs that stay.
        """
        allowed = PLANNED * share * (self.staying + self.to_come)
        rest = mean_within(allowed - lost, dispersion * _UNSEEN, RESERVE)
        return float((rest / (AHEAD * max(self.pairs, 1e-9))).min())
