"""How the number of rows that are to come varies with the number that is missing.

Rows that come independently vary by as many as are missing. Where the rate itself moves, the errors of many missing
rows are larger than that. How much larger is fitted: error² / missing = level + slope · missing.
"""

from __future__ import annotations

import numpy as np

from slackwater.progress.source_numbers import Floats

#: From so few windows nothing is known; then the rate is thought to move by a third.
AT_FIRST, MOVES = 2.0, 0.1
#: Where the number missing hardly varies (this is a share, squared), the slope is mostly chance and made smaller.
STEADY = 0.02
#: At the least this share of the error is that of independent rows.
LEAST_LEVEL = 0.05
#: An error beyond so many times the usual one does not make arrivals wild.
FAR_OFF = 3.0


class ArrivalVariance:
    """Faded sums over windows: how many, missing, missing², error² / missing, error².

    >>> arrivals, rng = ArrivalVariance(), np.random.default_rng(1)
    >>> for _ in range(2_000):
    ...     missing = rng.uniform(50, 150, 1)
    ...     arrivals.learn(missing, rng.normal(0, np.sqrt(missing)), fade=0.999)
    >>> four = arrivals.at(np.array([400.0])) / arrivals.at(np.array([100.0]))
    >>> bool(4 <= four[0] < 5)
    True
    """

    def __init__(self) -> None:
        self.sums = np.zeros(5)

    def _fit(self) -> tuple[float, float]:
        """The level and the slope."""
        n, missing, squares, off, products = self.sums
        if n < AT_FIRST:
            return 1.0, MOVES
        varies = n * squares - missing**2 + STEADY * missing**2
        slope = max((n * products - off * missing) / varies, 0.0)
        return max((off - slope * missing) / n, LEAST_LEVEL * off / n, 1e-9), slope

    def at(self, missing: Floats) -> Floats:
        """The variance if so many rows are missing, beside that of independent ones."""
        level, slope = self._fit()
        return np.asarray(missing + slope / level * missing**2)

    def learn(self, missing: Floats, error: Floats, fade: float) -> None:
        """So many rows were thought to be missing, by group, and so many more came."""
        square = error**2
        if self.sums[0]:
            level, slope = self._fit()
            square = np.minimum(square, FAR_OFF**2 * (level * missing + slope * missing**2 + 1))
        figures = [np.ones_like(missing), missing, missing**2, square / missing, square]
        self.sums = fade * self.sums + np.mean(figures, axis=1)
