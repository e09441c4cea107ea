"""What past windows were like, group by group, in arrays: groups are known by a hash of their keys."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Floats, Ints

Keys = NDArray[np.uint64]

#: Groups that are known one by one, those that had a window last; others share what all have in common.
MOST_GROUPS = 1_024


class GroupHistory(Restorable):
    """Figures by group.

    >>> history = GroupHistory(figures=2)
    >>> history.put(np.array([9, 7], np.uint64), np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> history.of(np.array([7, 8], np.uint64))
    array([[3., 4.],
           [0., 0.]])
    """

    STATE: ClassVar[tuple[str, ...]] = ("_keys", "_figures", "_turns", "_turn")

    def __init__(self, figures: int) -> None:
        self._keys: Keys = np.zeros(0, np.uint64)
        self._figures = np.zeros((0, figures))
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
        """Figures by group; zero for groups that are not known."""
        places, known = self._places(keys)
        figures = np.zeros((len(keys), self._figures.shape[1]))
        figures[known] = self._figures[places[known]]
        return figures

    def put(self, keys: Keys, figures: Floats, most: int = MOST_GROUPS) -> None:
        """These groups, which are distinct, have such figures; no more than so many groups are known afterwards."""
        self._turn += 1
        places, known = self._places(keys)
        self._figures[places[known]], self._turns[places[known]] = figures[known], self._turn
        if known.all() and len(self._keys) <= most:
            return
        every = np.concatenate([self._keys, keys[~known]])
        turns = np.concatenate([self._turns, np.full(np.count_nonzero(~known), self._turn)])
        latest = np.lexsort((every, -turns))[:most]
        order = latest[np.argsort(every[latest])]
        self._figures = np.concatenate([self._figures, figures[~known]])[order]
        self._keys, self._turns = every[order], turns[order]
