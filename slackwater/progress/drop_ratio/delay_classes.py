"""The sources of a stream, in classes of like delay: each source in the class of how far behind it usually is.

Their heartbeats (`SourceBeats`) are apart from that: they depend on the share that may be lost, the classes do not.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from slackwater.progress.source_numbers import Floats, Ints
from slackwater.progress.source_table import SourceTable

#: A class for each doubling of the delay, from one unit on; with a unit of a second the last begins at 12 days.
CLASSES = 22
#: Pages: a source's delay is the geometric mean over about this many in which it has sent something.
PAGES = 16
#: Doublings: a source changes its class when its delay lies beyond the class by more than this.
BEYOND = 0.6


class DelayClasses(SourceTable):
    """Every source with its delay and its class.

    The delay of a source in a page lies between how far its largest and how far its smallest time are behind the
    largest time of the stream: sources differ by how far they are behind, and by how disordered they are. Means are
    taken of logarithms, so that a row now and then which comes very late does not move its source. Class 0 is below
    one unit, 1 below 2, 2 below 4, 3 below 8.

    >>> classes = DelayClasses(unit=10)
    >>> classes.measure(classes.meet(["near", "far"]), np.array([1000, 930]), np.array([1000, 930]), top=1000)
    >>> classes.place.tolist()
    [0, 3]
    """

    place: Ints
    """The class of each source."""
    pages: Ints
    """In how many pages it has sent something, up to PAGES."""

    doublings: Floats
    """Of each source's delay in units, and 1: the mean of its logarithms to base 2."""
    new: ClassVar[dict[str, int | float]] = {"place": 0, "pages": 0, "doublings": 0.0}

    def __init__(self, unit: int) -> None:
        super().__init__()
        self._unit = unit

    def of(self, names: list[str]) -> Ints:
        """The classes of some sources; -1 for one that is not known."""
        number = self._numbers.of(names)
        found: Ints = np.where(number >= 0, self.place[number], -1) if len(self.place) else number
        return found

    def measure(self, sources: Ints, lowest: Ints, highest: Ints, top: int) -> None:
        """Take the smallest and largest times of some sources in a page; `top` is the largest of the stream."""
        self.pages[sources] = np.minimum(self.pages[sources] + 1, PAGES)
        seen, before = self.pages[sources], self.doublings[sources]
        least, most = (np.log2(1 + np.maximum(float(top) - t, 0.0) / self._unit) for t in (highest, lowest))
        mean = before + ((least + most) / 2 - before) / seen
        self.doublings[sources] = mean
        doublings, place = np.log2(np.maximum(np.exp2(mean) - 1, 0.5)), self.place[sources]
        least, most = _class(doublings - BEYOND), _class(doublings + BEYOND)
        self.place[sources] = np.where(seen == 1, _class(doublings), np.clip(place, least, most))


def _class(doublings: Floats) -> Ints:
    """The class of a delay that is so many doublings of a unit."""
    found: Ints = np.clip(np.floor(doublings) + 1, 0, CLASSES - 1).astype(np.int64)
    return found
