"""The heartbeats of sources that are in classes of like sources, by lag or by delay."""

from __future__ import annotations

import numpy as np

from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK


class SourceBeats(Restorable):
    """The heartbeats of sources, each of which follows its class; nothing is promised of one that is new."""

    STATE = ("beats", "_waits")

    def __init__(self) -> None:
        self.beats: Ints = np.zeros(0, dtype=np.int64)
        self._waits: Ints = np.zeros(0, dtype=np.int64)
        """A source takes heartbeats of its class above this one only: the others were promised without it."""

    def join(self, place: Ints, moved: Ints, beats: Ints) -> None:
        """Sources that are new to their class wait until it goes beyond these heartbeats of the classes."""
        added = len(place) - len(self.beats)
        if added:
            self.beats, self._waits = (
                np.pad(kept, (0, added), constant_values=MIN_TICK) for kept in (self.beats, self._waits)
            )
        self._waits[moved] = beats[place[moved]]

    def follow(self, place: Ints, beats: Ints) -> None:
        """Raise the sources' heartbeats to those of their classes."""
        mine = beats[place]
        np.maximum(self.beats, np.where(mine > self._waits, mine, MIN_TICK), out=self.beats)
