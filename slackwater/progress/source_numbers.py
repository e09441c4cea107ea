"""Numbers for the names of a stream's sources, a whole page at a time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import numpy as np

from slackwater.progress.sources import Ints


class SourceNumbers:
    """Numbers sources from 0 on, in the order in which they were given.

    >>> numbers = SourceNumbers(["north", "south"])
    >>> numbers.of(["south", "west", "north"]).tolist()      # -1: not known
    [1, -1, 0]
    >>> numbers.meet(["south", "west", "east"], most=3).tolist(), numbers.names
    ([1, 2, -1], ['north', 'south', 'west'])
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        """By number. A new list whenever one is added, so that it can be given away."""
        self._number = {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def of(self, names: list[str]) -> Ints:
        """The numbers of these sources; -1 for one that is not known."""
        return np.fromiter(map(self._number.get, names, repeat(-1)), dtype=np.int64, count=len(names))

    def meet(self, names: list[str], most: int) -> Ints:
        """The same, but sources that are not known get the next numbers, until there are `most`."""
        found = self.of(names)
        if len(self.names) >= most or (len(found) and found.min() >= 0):
            return found
        missing = np.nonzero(found < 0)[0][: most - len(self.names)]
        new = [names[i] for i in missing.tolist()]
        found[missing] = np.arange(len(self.names), len(self.names) + len(new))
        self._number.update(zip(new, range(len(self.names), len(self.names) + len(new)), strict=True))
        self.names = self.names + new
        return found
