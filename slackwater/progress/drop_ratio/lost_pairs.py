"""What a query has lost, by the cells of `drop_ratio`."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Ints


class LostPairs(Restorable):
    """The pairs of one query that were lost, by cell."""

    STATE = ("cells", "all", "heard")

    def __init__(self) -> None:
        self.cells: list[int] = []
        self.all = 0
        self.heard = 0
        """Those that have no cell yet."""

    def hear(self, lost: int) -> None:
        """So many of a page were lost; they are put to the cell of the next arrival."""
        self.all += lost
        self.heard += lost

    def arrive(self, new_cell: bool, most: int) -> None:
        """The page has arrived; at most so many cells are kept."""
        if new_cell or not self.cells:
            self.cells.append(self.heard)
            del self.cells[:-most]
        else:
            self.cells[-1] += self.heard
        self.heard = 0


def sums_behind(values: list[int], first: Ints) -> NDArray[np.float64]:
    """The sum of the values from each of these places on."""
    if not any(values):
        return np.zeros(len(first))
    sums = np.array([0, *accumulate(values)], dtype=np.float64)
    found: NDArray[np.float64] = sums[-1] - sums[first]
    return found
