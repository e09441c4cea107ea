"""A heartbeat (S1 section 2): the promise that every later tuple of a stream has a timestamp above it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slackwater.progress.time import MAX_TICK, MIN_TICK


@dataclass(frozen=True, order=True, slots=True)
class Heartbeat:
    """How far time has passed; ordered, so `max` strengthens a promise and `min` unites two streams.

    >>> min(Heartbeat(5), Heartbeat(7))
    Heartbeat(tick=5)
    """

    tick: int

    NONE: ClassVar[Heartbeat]
    END: ClassVar[Heartbeat]

    def admits(self, tick: int) -> bool:
        """Whether a tuple of this timestamp may still come.

        >>> Heartbeat(5).admits(5), Heartbeat(5).admits(6)
        (False, True)
        """
        return tick > self.tick

    def closes(self, end: int) -> bool:
        """Whether a window that ends before `end` (exclusive) can get no more tuples.

        >>> Heartbeat(9).closes(10), Heartbeat(8).closes(10)
        (True, False)
        """
        return self.tick >= end - 1


Heartbeat.NONE = Heartbeat(MIN_TICK)
Heartbeat.END = Heartbeat(MAX_TICK)
