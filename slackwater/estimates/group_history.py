"""What past windows were like, group by group, in arrays: groups are known by a hash of their keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.source_numbers import Floats, Ints

Keys = NDArray[np.uint64]

#: So many groups are known one by one, those that had a window last; others share what all have in common.
MOST_GROUPS = 1_024
#: Faded sums over a group's windows: how many, seen early, final, size of a row's value, share of rows missing.
COUNT, SEEN, FINAL, SIZE, MISSING = range(5)
#: Sums that fade more slowly: how many, seen, final, how many changed after they were seen, how far what was seen
#: was from the usual, and from here on the errors of each guess, in units.
LONG, LONG_SEEN, LONG_FINAL, CHANGED, VARIED, OFF = range(5, 11)


class GroupHistory:
    """Faded sums by group and aggregate, and the share that each leaves outside of its intervals.

    >>> history = GroupHistory(aggregates=1, figures=2)
    >>> keys = np.array([7, 9], np.uint64)
    >>> history.learn(keys, np.ones((2, 1, 2)), np.array([0.95, 0.98]), np.full((2, 1), 0.1))
    >>> history.of(np.array([9, 8], np.uint64))[:, 0, COUNT]
    array([1., 0.])
    >>> history.outside(np.array([9, 8], np.uint64), np.array([0.2]))
    array([[0.1],
           [0.2]])
    """

    def __init__(self, aggregates: int, figures: int) -> None:
        self._keys: Keys = np.zeros(0, np.uint64)
        self._sums = np.zeros((0, aggregates, figures))
        self._outside = np.zeros((0, aggregates))
        self._turns: Ints = np.zeros(0, np.int64)
        self._turn = 0

    @property
    def many(self) -> bool:
        """Whether there are several groups."""
        return len(self._keys) > 1

    def _places(self, keys: Keys) -> tuple[Ints, NDArray[np.bool_]]:
        """Where groups are, and whether they are there."""
        if not len(self._keys):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return places, self._keys[places] == keys

    def of(self, keys: Keys) -> Floats:
        """Sums by group, aggregate and figure; zero for groups that are not known."""
        sums = np.zeros((len(keys), *self._sums.shape[1:]))
        places, known = self._places(keys)
        sums[known] = self._sums[places[known]]
        return sums

    def outside(self, keys: Keys, common: Floats) -> Floats:
        """The share outside by group and aggregate; the common one for groups that are not known."""
        shares = np.tile(common, (len(keys), 1))
        places, known = self._places(keys)
        shares[known] = self._outside[places[known]]
        return shares

    def learn(self, keys: Keys, figures: Floats, fade: Floats, outside: Floats, most: int = MOST_GROUPS) -> None:
        """Add one window's figures; the groups are distinct, and what is not a finite number leaves no trace.

        What was known of these groups fades, figure by figure. No more than so many groups are known afterwards.
        """
        self._turn += 1
        usable = np.isfinite(figures).all(axis=2)
        new = self.of(keys)
        new[usable] = fade * new[usable] + figures[usable]
        places, known = self._places(keys)
        self._sums[places[known]], self._outside[places[known]] = new[known], outside[known]
        self._turns[places[known]] = self._turn
        if not known.all() or len(self._keys) > most:
            self._insert(keys[~known], new[~known], outside[~known], most)

    def _insert(self, keys: Keys, sums: Floats, outside: Floats, most: int) -> None:
        self._keys = np.concatenate([self._keys, keys])
        self._sums = np.concatenate([self._sums, sums])
        self._outside = np.concatenate([self._outside, outside])
        self._turns = np.concatenate([self._turns, np.full(len(keys), self._turn)])
        latest = np.lexsort((self._keys, -self._turns))[:most]
        order = latest[np.argsort(self._keys[latest])]
        self._keys, self._turns = self._keys[order], self._turns[order]
        self._sums, self._outside = self._sums[order], self._outside[order]

    def pack(self) -> tuple[Ints, Floats]:
        """All that a restart needs."""
        ints = np.concatenate([[self._turn], self._keys.view(np.int64), self._turns])
        return ints, np.concatenate([self._sums.ravel(), self._outside.ravel()])

    def unpack(self, ints: Ints, floats: Floats) -> None:
        """Continue from an earlier `pack()`."""
        self._turn = int(ints[0])
        keys, turns = np.split(ints[1:], 2)
        self._keys, self._turns = keys.copy().view(np.uint64), turns.copy()
        sums = len(keys) * self._sums[:0].shape[1] * self._sums.shape[2]
        self._sums = floats[:sums].reshape(-1, *self._sums.shape[1:]).copy()
        self._outside = floats[sums:].reshape(-1, self._outside.shape[1]).copy()
