"""What past windows were like, group by group, in arrays: groups are known by a hash of their keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slackwater.estimates.completeness import Floats
from slackwater.progress.sources import Ints

Keys = NDArray[np.uint64]

#: So many groups are known one by one, those that had a window last; others share what all have in common.
MOST_GROUPS = 1_024
#: Faded sums over a group's windows: how many, seen early, final, size of a row's value, size of scaled errors.
COUNT, SEEN, FINAL, SIZE, ERROR = range(5)
FIGURES = 5


class GroupHistory:
    """Faded sums by group and aggregate.

    >>> history = GroupHistory(aggregates=1)
    >>> history.learn(np.array([7, 9], np.uint64), np.ones((2, 1, FIGURES)), fade=0.95)
    >>> history.of(np.array([9, 8], np.uint64))[:, 0, COUNT]
    array([1., 0.])
    """

    def __init__(self, aggregates: int) -> None:
        self._aggregates = aggregates
        self._keys: Keys = np.zeros(0, np.uint64)
        self._sums = np.zeros((0, aggregates, FIGURES))
        self._turns: Ints = np.zeros(0, np.int64)
        self._turn = 0

    def of(self, keys: Keys) -> Floats:
        """Sums by group, aggregate and figure; zero for groups that are not known."""
        sums = np.zeros((len(keys), self._aggregates, FIGURES))
        if len(self._keys):
            places = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
            known = self._keys[places] == keys
            sums[known] = self._sums[places[known]]
        return sums

    def learn(self, keys: Keys, figures: Floats, fade: float, most: int = MOST_GROUPS) -> None:
        """Add one window's figures; the groups are distinct, and what is not a finite number leaves no trace.

        What was known of these groups fades. No more than so many groups are known afterwards.
        """
        self._turn += 1
        usable = np.isfinite(figures).all(axis=2)
        new = self.of(keys)
        new[usable] = fade * new[usable] + figures[usable]
        places = np.searchsorted(self._keys, keys)
        known = places < len(self._keys)
        known[known] = self._keys[places[known]] == keys[known]
        self._sums[places[known]] = new[known]
        self._turns[places[known]] = self._turn
        if not known.all() or len(self._keys) > most:
            self._insert(keys[~known], new[~known], most)

    def _insert(self, keys: Keys, sums: Floats, most: int) -> None:
        self._keys = np.concatenate([self._keys, keys])
        self._sums = np.concatenate([self._sums, sums])
        self._turns = np.concatenate([self._turns, np.full(len(keys), self._turn)])
        latest = np.lexsort((self._keys, -self._turns))[:most]
        order = latest[np.argsort(self._keys[latest])]
        self._keys, self._sums, self._turns = self._keys[order], self._sums[order], self._turns[order]

    def pack(self) -> tuple[Ints, Floats]:
        """All that a restart needs."""
        return np.concatenate([[self._turn], self._keys.view(np.int64), self._turns]), self._sums.ravel()

    def unpack(self, ints: Ints, floats: Floats) -> None:
        """Continue from an earlier `pack()`."""
        self._turn = int(ints[0])
        keys, turns = np.split(ints[1:], 2)
        self._keys, self._turns = keys.copy().view(np.uint64), turns.copy()
        self._sums = floats.reshape(-1, self._aggregates, FIGURES).copy()
