"""Punctuation: how far time has come on an arc. It is both the element that says so and the register that keeps it.

A register is S3's Time-Stamp Memory (section 4.1): the engine has one for each input of each operator, and one for
what each operator has said itself. A register never goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.intervals import Intervals, in_both, united
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MAX_TICK, MIN_TICK


@dataclass(frozen=True, slots=True)
class Punctuation:
    """Time has passed: no later page on this arc has a row at or below the heartbeat, or in one of the ranges.

    Ranges lie above the heartbeat (S5 section 6.2): rows of the stretch between may still come.

    >>> Punctuation(Heartbeat(5)).joined(Punctuation(Heartbeat(3), ranges=((5, 9), (12, 20))))
    Punctuation(heartbeat=Heartbeat(tick=9), sources=None, ranges=((12, 20),), idle=False)
    """

    heartbeat: Heartbeat
    sources: SourceHeartbeats | None = None
    """The same for each source, where that is known and asked for."""
    ranges: Intervals = ()
    """Stretches of time (after, until]."""
    idle: bool = False
    """Whether nothing has come for so long that others do not wait for this arc (S1 section 3.4)."""

    NONE: ClassVar[Punctuation]
    END: ClassVar[Punctuation]

    @property
    def _passed(self) -> Intervals:
        """All time that has passed; the first stretch ends with the heartbeat."""
        return ((MIN_TICK - 1, self.heartbeat.tick), *self.ranges)

    def joined(self, later: Punctuation) -> Punctuation:
        """What holds when both have been said, the other one later; itself where that says nothing new."""
        (_, tick), *ranges = united((*self._passed, *later._passed))
        same = tick == self.heartbeat.tick and tuple(ranges) == self.ranges and self.idle == later.idle
        if same and _same(self.sources, later.sources):
            return self
        return Punctuation(Heartbeat(tick), later.sources, tuple(ranges), later.idle)

    @staticmethod
    def common(times: Sequence[Punctuation]) -> Punctuation:
        """What holds on all of several arcs, so on one that has the rows of all of them (S1 section 7).

        Idle arcs do not count as long as another one goes on. Of idle ones alone, time is that of the last row
        of all (S1 section 3.4).

        >>> Punctuation.common([Punctuation(Heartbeat(5), ranges=((8, 20),)), Punctuation(Heartbeat(10))])
        Punctuation(heartbeat=Heartbeat(tick=5), sources=None, ranges=((8, 10),), idle=False)
        """
        idle = Punctuation.all_idle(times)
        furthest = max((time.heartbeat for time in times if time.idle), default=Heartbeat.NONE)
        counted = [t for t in times if (t.idle and t.heartbeat == furthest if idle else not t.idle)]
        (_, tick), *ranges = reduce(in_both, (time._passed for time in counted))
        return Punctuation(Heartbeat(tick), _common_sources(counted), tuple(ranges), idle)

    @staticmethod
    def all_idle(times: Sequence[Punctuation]) -> bool:
        """Whether some arcs are idle and the others have ended.

        >>> idle = Punctuation(Heartbeat(5), idle=True)
        >>> Punctuation.all_idle([idle, Punctuation.END]), Punctuation.all_idle([idle, Punctuation.NONE])
        (True, False)
        """
        return any(t.idle for t in times) and all(t.idle or t.heartbeat == Heartbeat.END for t in times)

    def saved(self) -> list[Any]:
        """As JSON values.

        Heartbeats of sources are left out: after a restart the stream's source says them again.
        """
        return [self.heartbeat.tick, [list(r) for r in self.ranges], self.idle]

    @staticmethod
    def load(saved: list[Any]) -> Punctuation:
        """From what `saved` gave."""
        tick, ranges, *idle = saved
        return Punctuation(Heartbeat(tick), None, tuple((after, until) for after, until in ranges), *idle)


Punctuation.NONE = Punctuation(Heartbeat.NONE)
Punctuation.END = Punctuation(Heartbeat.END)


def _common_sources(times: Sequence[Punctuation]) -> SourceHeartbeats | None:
    """The least heartbeat of each source.

    An arc that has not seen a source goes on without it: the heartbeat of the arc as a whole counts for it. Of a
    source that no arc has seen, only what all arcs promise of such sources holds (D10).
    """
    spoken = [t.sources for t in times if t.sources is not None]
    if not spoken:
        return None
    names = spoken[0].names
    if any(by.names != names for by in spoken[1:]):
        names = list(dict.fromkeys(name for by in spoken for name in by.names))
    ticks = np.full(len(names), MAX_TICK, dtype=np.int64)
    for time in times:
        np.minimum(ticks, _ticks_of(time, names), out=ticks)
    others = min(t.heartbeat.tick if t.sources is None else t.sources.others for t in times)
    return SourceHeartbeats(names, ticks, others)


def _ticks_of(time: Punctuation, names: list[str]) -> Ints:
    """How far time has come for each of some sources."""
    by = time.sources
    if by is None:
        return np.full(len(names), time.heartbeat.tick, dtype=np.int64)
    if by.names == names:
        return by.ticks
    known = dict(zip(by.names, by.ticks.tolist(), strict=True))
    unseen = max(by.others, time.heartbeat.tick)
    return np.fromiter((known.get(name, unseen) for name in names), np.int64, len(names))


def _same(one: SourceHeartbeats | None, other: SourceHeartbeats | None) -> bool:
    # On its way through a plan it stays the same object, and may speak of a hundred thousand sources.
    if one is other or one is None or other is None:
        return one is other
    same_length = len(one.ticks) == len(other.ticks) and one.others == other.others
    return same_length and bool(np.array_equal(one.ticks, other.ticks)) and one.names == other.names
