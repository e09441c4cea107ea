"""The sources of a stream, grouped by how far each lags behind the rest (S1 section 5.2)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from slackwater.progress.source_numbers import Ints
from slackwater.progress.source_table import SourceTable
from slackwater.progress.time import MIN_TICK


class Lags(SourceTable):
    """Every source with its class of lag: 0 below one unit, 1 below 2, 2 below 4, 3 below 8.

    The lag of a source in a page is the larger of how late its rows came (the largest time of the pages before, of
    any source, less the source's smallest) and how far back it now stands (the largest time up to this page less
    the source's largest). A source goes to a higher class at once, and to a lower one when it has kept below for a
    whole window: then to the highest that it had meanwhile.

    >>> lags = Lags(unit=10, classes=8, window=2, timed=False)
    >>> both = lags.meet(["near", "far"])
    >>> ones, near, far = np.array([1, 1]), 1000, 930
    >>> _ = lags.measure(both, ones, np.array([near, far]), np.array([near, far]), MIN_TICK, near, clock=0)
    >>> lags.place.tolist()          # 70 behind: seven units
    [0, 3]
    """

    new: ClassVar[dict[str, int | float]] = {
        **dict.fromkeys(("place", "peak", "rows", "member"), 0),
        **dict.fromkeys(("since", "highest"), MIN_TICK),
    }

    def __init__(self, unit: int, classes: int, window: int, timed: bool) -> None:
        super().__init__()
        self._unit, self.classes, self._window, self._timed = unit, classes, window, timed

    place: Ints
    """The class of each source."""
    peak: Ints
    """The highest class in the window under way."""
    since: Ints
    """What the window is measured with, where it began."""
    rows: Ints
    highest: Ints
    """The largest time of each source."""
    member: Ints
    """The class whose heartbeats the source takes, and 1; 0 for none."""

    def measure(
        self, sources: Ints, rows: Ints, lowest: Ints, highest: Ints, before: int, top: int, clock: int
    ) -> tuple[Ints, Ints, Ints]:
        """Take a page: `before` is the largest time of earlier pages, `top` of this one too.

        Gives the moves of sources that had been seen before: from which class, to which, and the largest time that
        the source had sent until then.
        """
        late = np.where(lowest < before, _units(before, lowest, self._unit), 0)
        klass = np.minimum(_bits(np.maximum(late, _units(top, highest, self._unit))), self.classes - 1)
        self.rows[sources] += rows
        counter = np.broadcast_to(clock, sources.shape) if self._timed else self.rows[sources]
        began, place = self.since[sources], self.place[sources]
        began = np.where(began == MIN_TICK, counter - (0 if self._timed else rows), began)
        peak = np.maximum(self.peak[sources], klass)
        up = klass > place
        whole = ~up & (counter - began > self._window)
        new = np.where(up, klass, np.where(whole, peak, place))
        self.place[sources] = new
        self.peak[sources] = np.where(up | whole, 0, peak)
        self.since[sources] = np.where(up | whole, counter, began)
        sent = self.highest[sources]
        self.highest[sources] = np.maximum(sent, highest)
        moved = (new != place) & (sent > MIN_TICK)
        return place[moved], new[moved], sent[moved]

    def joining(self, sources: Ints) -> Ints:
        """Those of some sources that are new to their class."""
        new: Ints = sources[self.member[sources] != self.place[sources] + 1]
        self.member[new] = self.place[new] + 1
        return new


def _units(ahead: int, behind: Ints, unit: int) -> Ints:
    """How many whole units `ahead` is before each of `behind`, none of which lies further than it."""
    apart = np.minimum(np.uint64(ahead & (2**64 - 1)) - behind.astype(np.uint64), 2**62).astype(np.int64)
    result: Ints = apart // unit
    return result


def _bits(values: Ints) -> Ints:
    """The number of binary digits.

    >>> _bits(np.array([0, 1, 2, 3, 4, 1023, 1024])).tolist()
    [0, 1, 2, 2, 3, 10, 11]
    """
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)
