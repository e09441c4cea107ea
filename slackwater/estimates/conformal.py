"""Intervals that hold the final value with a stated share: split-conformal over the errors of past windows.

Errors come scaled, so that those of small and large groups can stand side by side. The share is held when the
stream changes by adaptive conformal inference (Gibbs and Candès 2021): each miss makes the next intervals wider,
each hit a little narrower.
"""

from __future__ import annotations

import numpy as np

from slackwater.estimates.completeness import Floats

#: No interval before so many errors of so many windows are known.
ENOUGH = 20
ENOUGH_WINDOWS = 8
#: So many errors are kept, and so many of one window: those of its groups often go together.
KEPT = 256
OF_A_WINDOW = 16
#: By how much a miss moves the share of errors that are left outside.
STEP = 0.02
#: With so many windows between an answer and its error, twice as many errors are kept (but never more than some),
#: and a miss moves half as much: within that time windows err together, and nobody sees what a miss has moved.
LATER = 20
MOST_KEPT = 1_024


class Conformal:
    """Quantiles of scaled errors, (final − estimate) / scale.

    Args:
        coverage: share of final values that should lie inside.
        side: 1 where the final value never lies below the estimate, -1 where never above, else 0.

    >>> interval = Conformal(0.9)
    >>> interval.bounds() is None
    True
    >>> for error in range(-50, 50):
    ...     interval.learn(np.array([error / 10]), None)
    >>> interval.bounds()
    (-4.6, 4.5)
    """

    def __init__(self, coverage: float, side: int = 0) -> None:
        self._target = 1 - coverage
        self._outside = self._target
        self._side = side
        self._errors = np.zeros(0)
        self._windows = 0
        self._known: tuple[float, float] | None = None

    def bounds(self) -> tuple[float, float] | None:
        """The lower and upper end, in scales from the estimate."""
        if len(self._errors) < ENOUGH or self._windows < ENOUGH_WINDOWS:
            return None
        if self._known is None:
            below = 0.0 if self._side > 0 else self._end(-self._errors)
            above = 0.0 if self._side < 0 else self._end(self._errors)
            self._known = (-below, above)
        return self._known

    def _end(self, errors: Floats) -> float:
        outside = self._outside if self._side else self._outside / 2
        place = int(np.ceil((len(errors) + 1) * (1 - outside)))
        if place > len(errors):  # more than was ever seen is asked for
            largest = float(errors.max())
            return largest + 0.5 * abs(largest)
        return float(np.partition(errors, place - 1)[place - 1])

    def learn(self, errors: Floats, missed: float | None, behind: int = 0, new: bool = True) -> None:
        """Errors of one window, and the share of its intervals that missed the final value, if there were any.

        So many windows have been answered since. It is new unless other groups of it have been learned before.
        """
        if not len(errors):
            return
        if len(errors) > OF_A_WINDOW:
            places = (np.arange(OF_A_WINDOW) + 0.5) / OF_A_WINDOW * len(errors)
            errors = np.sort(errors)[places.astype(np.int64)]
        slower = 1 + behind / LATER
        self._errors = np.concatenate([self._errors, errors])[-min(int(KEPT * slower), MOST_KEPT) :]
        self._windows += new
        if missed is not None:
            moved = self._outside + STEP / slower * (self._target - missed)
            # Not much above the target: where values repeat, intervals hold more than was asked, for a while.
            self._outside = min(max(moved, 0.001), 2 * self._target)
        self._known = None

    def pack(self) -> Floats:
        """All that a restart needs."""
        return np.concatenate([[self._outside, self._windows], self._errors])

    def unpack(self, packed: Floats) -> None:
        """Continue from an earlier `pack()`."""
        self._outside, self._windows, self._errors = float(packed[0]), int(packed[1]), packed[2:]
        self._known = None
