"""Seasons: what a day or a week adds to guesses, learned as a few waves over its length."""

from __future__ import annotations

import numpy as np

from slackwater.estimates.completeness import Floats

#: So many waves fit into a season, the longest first; into one of several days also some of a day.
WAVES = 4
WAVES_OF_A_DAY = 3
#: So many seasons are remembered, or so many windows if those are more; waves are small until some are known.
SEASONS = 4
WINDOWS = 256.0
RIDGE = 3.0
#: What is off by more than this share is not for a season to explain.
FAR_OFF = 0.5


class Season:
    """By what share final values exceed a guess, by the place of their window in the season.

    Args:
        length: of the season, in windows.
        days: how many days it has, if it has several.
        columns: of how many values.

    >>> season = Season(24, 1, columns=1)
    >>> for window in range(240):
    ...     season.learn(window, np.array([0.2 * np.sin(2 * np.pi * window / 24)]), 1.0)
    >>> season.at(np.array([6, 12, 18])).round(2)[:, 0]
    array([ 0.19,  0.  , -0.19])
    """

    def __init__(self, length: float, days: int, columns: int) -> None:
        waves = [*range(1, WAVES + 1)]
        if days > 1:
            waves += [days * k for k in range(1, WAVES_OF_A_DAY + 1)]
        self._turns = 2 * np.pi * np.array(sorted(set(waves))) / length
        self._length = length
        self._fade = float(np.exp(-1 / max(SEASONS * length, WINDOWS)))
        size = 1 + 2 * len(self._turns)
        self._square = np.zeros((size, size))
        self._right = np.zeros((size, columns))
        self._waves: Floats | None = None

    def _basis(self, windows: Floats) -> Floats:
        angles = windows[:, None] * self._turns
        return np.concatenate([np.ones((len(windows), 1)), np.cos(angles), np.sin(angles)], axis=1)

    def at(self, windows: Floats) -> Floats:
        """The share by window and column."""
        if self._waves is None:
            waves = np.linalg.solve(self._square + RIDGE * np.eye(len(self._square)), self._right)
            self._waves = np.asarray(waves, np.float64)
        return np.asarray(self._basis(windows) @ self._waves).clip(-FAR_OFF, FAR_OFF)

    def learn(self, window: int, shares: Floats, weight: float) -> None:
        """The final values of a window exceed the guess by these shares."""
        basis = self._basis(np.array([float(window)]))[0]
        shares = np.nan_to_num(shares).clip(-FAR_OFF, FAR_OFF)
        self._square = self._fade * self._square + weight * np.outer(basis, basis)
        self._right = self._fade * self._right + weight * np.outer(basis, shares)
        self._waves = None

    def pack(self) -> Floats:
        """All that a restart needs."""
        return np.concatenate([[self._length], self._square.ravel(), self._right.ravel()])

    def unpack(self, packed: Floats) -> None:
        """Continue from an earlier `pack()`, unless that was of another season."""
        if packed[0] != self._length or len(packed) != 1 + self._square.size + self._right.size:
            return
        cut, packed = self._square.size, packed[1:]
        self._square = packed[:cut].reshape(self._square.shape).copy()
        self._right = packed[cut:].reshape(self._right.shape).copy()
        self._waves = None
