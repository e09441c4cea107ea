"""At which times of the day errors are larger than their scales say: there intervals are wider, elsewhere narrower.

Where the mix of quick and slow senders moves, estimates are further off in the hours in which it does.
"""

from __future__ import annotations

import numpy as np

from slackwater.estimates.season import Waves
from slackwater.estimates.small_arrays import finite, within
from slackwater.progress.source_numbers import Floats

#: So many waves fit into a season. The mean is not held back, each wave by so many windows.
WAVES = 3
LEVEL, RIDGE = 1e-6, 10.0
#: The variance of an error's size beside its squared mean, if errors are normal: waves that are no larger than it
#: makes them by chance say nothing.
OF_CHANCE = 0.57
#: Where errors are known later than this share of a season, they come in long runs, and tell of what was long ago.
LATE = 0.25
#: Intervals become wider by at most this factor.
WIDER = 2.0


class SeasonWidth:
    """How large errors are beside their scales, by the place of a window in a season.

    It begins when a season has passed: before that estimates do not know it, and are off by more.

    Args:
        length: of the season, in windows.
        columns: of how many values.

    >>> width = SeasonWidth(24, columns=1)
    >>> for window in range(240):
    ...     width.learn(window, np.array([1 + 0.5 * np.sin(2 * np.pi * window / 24)]), behind=1)
    >>> width.at(np.array([246.0, 252.0, 258.0])).round(1)[:, 0]
    array([1.3, 1. , 0.7])
    """

    def __init__(self, length: float, columns: int) -> None:
        self._length = length
        self._first = np.inf
        """The first window that it was told of."""
        waves = np.arange(1.0, WAVES + 1)
        self._waves = Waves(waves[2 * waves < length], length, columns, LEVEL, RIDGE)

    def at(self, windows: Floats) -> Floats:
        """How many times as large errors are, by window and column."""
        if not self._waves.count:
            return np.ones((len(windows), self._waves.found().shape[1]))
        mean, *waves = self._waves.found()
        mean = np.maximum(mean, 1e-300)
        varies = (np.array(waves) ** 2).sum(axis=0) / 2
        chance = OF_CHANCE * len(waves) / max(self._waves.count, 1.0) * mean**2
        with np.errstate(divide="ignore", invalid="ignore"):
            more_than_chance = np.maximum(1 - chance / varies, 0.0)
        return within(1 + finite(more_than_chance * (self._waves.at(windows) / mean - 1)), 1 / WIDER, WIDER)

    def learn(self, window: int, errors: Floats, behind: int) -> None:
        """A window's errors, in scales that know no season, by column; so many have been answered since."""
        self._first = min(self._first, window)
        if window - self._first >= self._length and behind <= LATE * self._length:
            self._waves.learn(window, finite(errors), 1.0)

    def pack(self) -> Floats:
        """All that a restart needs."""
        return np.concatenate([[self._length, self._first], *(a.ravel() for a in self._waves.arrays)])

    def unpack(self, packed: Floats) -> None:
        """Continue from an earlier `pack()`, unless that was of another season."""
        if packed[0] == self._length:
            self._first = float(packed[1])
            square, right = self._waves.arrays
            parts = np.split(packed[2:], [square.size])
            self._waves.restore(parts[0].reshape(square.shape).copy(), parts[1].reshape(right.shape).copy())
