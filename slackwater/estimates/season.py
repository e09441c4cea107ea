"""Seasons: how a day or a week changes what is to come, learned as a few waves over its length.

A rate that rises brings more rows in the missing part of a window than in the part that is here. How it rises is
known from the rows of all windows, far better than from the missing ones alone. What that does not explain, such as
delays that grow in the evening, is learned from the errors that are left. A day may be unlike others too: what was
left lately is expected again, as much of it as has lasted before.
"""

from __future__ import annotations

import numpy as np

from slackwater.estimates.small_arrays import finite, within
from slackwater.progress.source_numbers import Floats

#: So many waves fit into a season, the longest first; into one of several days also some of a day.
WAVES = 4
WAVES_OF_A_DAY = 3
#: The numbers of seasons and of windows that are remembered: the larger of both counts. Waves stay small
#: until some seasons are known.
SEASONS = 4
WINDOWS = 256.0
LEVEL, RIDGE = 1e-6, 3.0
#: What is left is held back more: it is known from the missing rows alone, and those are few.
RIDGE_LEFT = 30.0
#: Averages are moved by late rows alone, whatever the rate: there a season has more to explain.
RIDGE_SHIFT = 10.0
#: What is off by more than this share is not for a season to explain. A rate becomes at most so many times as large
#: within a window.
FAR_OFF = 0.5
FASTER = 2.0
#: What was left lately is a mean over so many windows. How it lasts fades over so many, and at first it is thought
#: not to last, for so many. Where answers wait for more windows than are remembered, nothing is known of it.
LATELY = 6.0
LASTED = 200.0
NOT_LASTING = 30.0
REMEMBERED = 64


class Waves:
    """Values over a season as a sum of waves, fitted by least squares.

    Args:
        waves: how often each comes in a season.
        length: of the season, in windows.
        columns: of how many values.
        level: by how many windows the mean is held back.
        ridge: by how many each wave is.

    >>> waves = Waves(np.array([1.0, 2.0]), 24, columns=1, level=3.0, ridge=3.0)
    >>> for window in range(240):
    ...     waves.learn(window, np.array([0.2 * np.sin(2 * np.pi * window / 24)]), 1.0)
    >>> waves.at(np.array([6, 12, 18])).round(2)[:, 0]
    array([ 0.19,  0.  , -0.19])
    """

    def __init__(self, waves: Floats, length: float, columns: int, level: float, ridge: float) -> None:
        self._turns = 2 * np.pi * waves / length
        self._fade = float(np.exp(-1 / max(SEASONS * length, WINDOWS)))
        self._held_back = np.diag([level, *[ridge] * 2 * len(waves)])
        self._square = np.zeros_like(self._held_back)
        self._right = np.zeros((len(self._square), columns))
        self._found: Floats | None = None

    def _basis(self, window: float) -> Floats:
        angles, basis = window * self._turns, np.ones(len(self._square))
        half = 1 + len(angles)
        np.cos(angles, out=basis[1:half])
        np.sin(angles, out=basis[half:])
        return basis

    def at(self, windows: Floats) -> Floats:
        """The values by window and column."""
        found = self.found()
        # One by one: a product of many rows is rounded otherwise, and a restart asks for other rows at once.
        if (windows == windows[0]).all():  # Most prods ask for the groups of one window.
            row = self._basis(float(windows[0])) @ found
            return np.repeat(row[None], len(windows), axis=0)
        each, places = np.unique(windows, return_inverse=True)
        return np.stack([self._basis(window) @ found for window in each.tolist()])[places]

    def found(self) -> Floats:
        """The mean, and how large each wave is, as cosines and as sines, by column."""
        if self._found is None:
            self._found = np.asarray(np.linalg.solve(self._square + self._held_back, self._right), np.float64)
        return self._found

    @property
    def count(self) -> float:
        """How many windows are known, those long ago for less."""
        return float(self._square[0, 0])

    def learn(self, window: int, values: Floats, weight: float) -> None:
        """A window had these values."""
        basis = self._basis(float(window))
        self._square = self._fade * self._square + weight * np.outer(basis, basis)
        self._right = self._fade * self._right + weight * np.outer(basis, values)
        self._found = None

    @property
    def arrays(self) -> list[Floats]:
        """All that a restart needs."""
        return [self._square, self._right]

    def restore(self, square: Floats, right: Floats) -> None:
        """Continue from earlier `arrays`."""
        self._square, self._right, self._found = square, right, None


class Lasting:
    """What was left lately, and how much of it lasts until windows that are answered now are final.

    >>> lasting = Lasting(columns=2)
    >>> for window in range(200):
    ...     lasting.learn(window, np.array([0.1, 0.1 * (-1) ** window]), behind=3)
    >>> lasting.expected().round(2)
    array([ 0.08, -0.  ])
    """

    def __init__(self, columns: int) -> None:
        self._sums = np.zeros((4, columns))
        """Faded sums: what was left times what had been left lately, both squared, and how many."""
        self._known = np.zeros((0, 1 + columns))
        """The last windows that were learned from, and what was left lately by then."""
        self._expected: Floats | None = None

    def _lately(self) -> Floats:
        return self._known[-1, 1:] if len(self._known) else np.zeros(self._sums.shape[1])

    def expected(self) -> Floats:
        """What will be left, by column."""
        if self._expected is None:
            self._expected = self._expect()
        return self._expected

    def _expect(self) -> Floats:
        products, left, lately, count = self._sums
        lasts = products / np.maximum(lately + NOT_LASTING * left / np.maximum(count, 1.0), 1e-300)
        return within(lasts, 0, 1) * self._lately()

    def learn(self, window: int, left: Floats, behind: int, weight: float = 1.0) -> None:
        """So much was left of a window; so many have been answered since. One with few rows counts for less."""
        windows = self._known[:, 0]
        if len(windows) and window <= windows[-1]:  # other groups of it have been learned before
            return
        place = int(np.searchsorted(windows, window - 1 - behind, side="right")) - 1
        if place >= 0:  # what was known when it was answered
            was = self._known[place, 1:]
            figures = [was * left, left**2, was**2, np.ones_like(was)]
            self._sums = (1 - 1 / LASTED) * self._sums + weight * np.array(figures)
        lately = self._lately()
        row = np.concatenate([[window], lately + min(weight, 1.0) / LATELY * (left - lately)])
        self._known = np.concatenate([self._known[1 - REMEMBERED :], row[None]])
        self._expected = None

    def pack(self) -> Floats:
        """All that a restart needs."""
        return np.concatenate([self._sums.ravel(), self._known.ravel()])

    def unpack(self, packed: Floats) -> None:
        """Continue from an earlier `pack()`."""
        self._sums = packed[: self._sums.size].reshape(self._sums.shape).copy()
        self._known = packed[self._sums.size :].reshape(-1, self._known.shape[1]).copy()
        self._expected = None


class Season:
    """What a season says about the rows that are missing, by the place of their window in it.

    Args:
        length: of the season, in windows.
        days: how many days it has, if it has several.
        span: of a window, in slides. Rows come nearly in order, so the missing ones are half of it later.
        columns: of how many values.

    >>> season = Season(144, 1, span=3, columns=1)
    >>> for window in range(288):
    ...     rows = 100 - 66 * np.cos(2 * np.pi * window / 144)
    ...     season.learn(window, rows, np.array([0.1]), np.array([2.0]), 1.0, behind=1)
    >>> season.faster(np.array([0, 36, 72, 108])).round(2)
    array([1.  , 1.04, 1.  , 0.96])
    >>> season.left(np.array([0])).round(2)
    array([[0.1]])
    >>> season.shift(np.array([288])).round(1)
    array([[2.]])
    """

    def __init__(self, length: float, days: int, span: float, columns: int) -> None:
        waves = [*range(1, WAVES + 1)]
        if days > 1:
            waves += [days * k for k in range(1, WAVES_OF_A_DAY + 1)]
        some = np.array(sorted(set(waves)), np.float64)
        self._length = length
        self._first = np.inf
        """The first window that it has learned from."""
        self._later = span / 2
        # Between windows nothing is known of waves that are shorter than two of them.
        self._rate = Waves(some[2 * some < length], length, 1, LEVEL, RIDGE)
        self._left = Waves(some, length, columns, RIDGE_LEFT, RIDGE_LEFT)
        self._shift = Waves(some, length, columns, RIDGE_SHIFT, RIDGE_SHIFT)
        self._columns = columns
        self._lasting = Lasting(2 * columns)

    def faster(self, windows: Floats) -> Floats:
        """How many times as fast the missing rows of windows come as those that are here."""
        here, later = self._rate.at(windows)[:, 0], self._rate.at(windows + self._later)[:, 0]
        return within(np.exp(later - here), 1 / FASTER, FASTER)

    def left(self, windows: Floats) -> Floats:
        """By what share final values exceed what the rate promises, by window and column."""
        return within(self._left.at(windows) + self._lasting.expected()[: self._columns], -FAR_OFF, FAR_OFF)

    def shift(self, windows: Floats) -> Floats:
        """By how much late rows move values that are no sums, by window and column.

        It is nothing until a whole season has passed: before that the waves only follow what was last.
        """
        passed = windows - self._first >= self._length
        shifts = self._shift.at(windows) + self._lasting.expected()[self._columns :]
        return np.where(passed[:, None], shifts, 0.0)

    def learn(self, window: int, rows: float, shares: Floats, shifts: Floats, weight: float, behind: int) -> None:
        """A window had so many rows when it was answered, and its final values exceeded the promise by such shares.

        Late rows moved values by such shifts. The rows are not a number if they are not known. So many windows have
        been answered since.
        """
        self._first = min(self._first, window)
        if rows > 0:
            self._rate.learn(window, np.log([rows]), 1.0)
        shares, shifts, place = within(finite(shares), -FAR_OFF, FAR_OFF), finite(shifts), np.array([float(window)])
        left = [shares - self._left.at(place)[0], shifts - self._shift.at(place)[0]]
        self._lasting.learn(window, np.concatenate(left), behind, weight)
        self._left.learn(window, shares, weight)
        self._shift.learn(window, shifts, weight)

    def _waves(self) -> tuple[Waves, Waves, Waves]:
        return self._rate, self._left, self._shift

    def pack(self) -> Floats:
        """All that a restart needs."""
        waves = [a.ravel() for w in self._waves() for a in w.arrays]
        return np.concatenate([[self._length, self._first], *waves, self._lasting.pack()])

    def unpack(self, packed: Floats) -> None:
        """Continue from an earlier `pack()`, unless that was of another season."""
        sizes = [a.size for w in self._waves() for a in w.arrays]
        if packed[0] != self._length:
            return
        self._first = float(packed[1])
        parts = iter(np.split(packed[2:], np.cumsum(sizes)))
        for waves in self._waves():
            waves.restore(*(next(parts).reshape(a.shape).copy() for a in waves.arrays))
        self._lasting.unpack(next(parts))
