"""Bounds between streams (S1 section 2): what comes on one stream says how far time has come on the others.

A policy that speaks of sources is run with the streams for its sources, so all that it knows holds between streams
too: sets of pairs, tuple-based pairs, the closure B*, groups, Theorem 3.3, and bounds that are learned (section 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from slackwater.errors import QueryError
from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival, SourceArrivals
from slackwater.progress.bounds.environment import TimeoutNeeded
from slackwater.progress.bounds.skew import SkewMatrix, TuplePair
from slackwater.progress.bounds.skew_policy import Skew, Tuples, skew
from slackwater.progress.disorder import Disorder, Tracker
from slackwater.progress.idle import StrongerPromise
from slackwater.progress.learned.learned import Learned
from slackwater.progress.silence import DEFAULT_TIMEOUT, NEVER, read_timeout, with_default_timeout
from slackwater.progress.time import MIN_TICK, TimeDomain


@dataclass(frozen=True)
class StreamBounds:
    """What a policy says of one stream, with streams for its sources."""

    stream: str
    streams: tuple[str, ...]
    """All of them, this one too."""
    policy: Disorder

    @property
    def from_others(self) -> bool:
        """Whether rows of another stream say how far time has come on this one, however long it is silent."""
        if not isinstance(self.policy, Skew):
            return True
        timed = (
            pair
            for pair, bounds in self.policy.bounds
            if any(not isinstance(bound, (Tuples, TuplePair)) for bound in bounds)
        )
        return any(target == self.stream and origin != target for origin, target in timed)

    def tracker(self, own: Tracker, domain: TimeDomain) -> Tracker:
        """A fresh tracker around that of the stream's own policy."""
        return BetweenStreams(self.stream, self.policy.tracker(domain), own, self.from_others)

    def __str__(self) -> str:
        return f" bounds({self.policy.describe()}, streams={list(self.streams)!r})"


#: The settings of bounds that are not a policy.
SETTINGS = ("latency", "timeout", "unit", "indirect", "groups", "ordered")


def written_bounds(bounds: Any, streams: Sequence[str] | None, settings: Sequence[Any]) -> Disorder:
    """What a user has written for bounds: those of `skew`, or a policy that has its own settings."""
    written = {name: value for name, value in zip(SETTINGS, settings, strict=True) if value is not None}
    if isinstance(bounds, (Mapping, Sequence, SkewMatrix)):
        return skew(bounds, sources=None if isinstance(bounds, SkewMatrix) else streams, **written)
    if not hasattr(bounds, "tracker") or written:
        raise QueryError(
            f"bounds({bounds!r}): write pairs of streams, as in {{('a', 'b'): (0, '30 seconds')}}; or a policy "
            "such as sw.learned(), with all of its settings in it"
        )
    return cast(Disorder, bounds)


def read_stream_bounds(
    policy: Disorder, streams: Sequence[str] | None, domain: TimeDomain, live: bool
) -> tuple[Disorder, tuple[str, ...]]:
    """The policy between streams, with a timeout if it needs one (Theorem 3.3), and the streams that it speaks of.

    >>> from slackwater.progress.bounds.skew_policy import skew
    >>> one_way = skew({("orders", "refunds"): (0, 30)})
    >>> policy, streams = read_stream_bounds(one_way, None, TimeDomain.SEQUENCE, live=True)
    >>> policy.describe(), streams
    ("skew({('orders', 'refunds'): (0, 30)}, timeout='10 minutes')", ('orders', 'refunds'))
    """
    if not (policy.needs_sources or isinstance(policy, Learned)) or policy.needs:
        raise QueryError(
            f"bounds: {policy.describe()} says nothing of how one stream goes beside another; write pairs as in "
            "s.bounds({('orders', 'refunds'): (0, '30 seconds')}), or sw.learned() with streams="
        )
    try:
        policy = with_default_timeout(policy) if live else policy
        tracker = policy.tracker(domain)
    except TimeoutNeeded:
        given: Any = policy
        policy = cast(Disorder, replace(given, timeout=read_timeout(DEFAULT_TIMEOUT) if live else NEVER))
        tracker = policy.tracker(domain)
    beats = tracker.by_source()
    named = () if beats is None else tuple(beats.names)
    found = named if streams is None else tuple(streams)
    if len(found) < 2:
        raise QueryError("bounds: name the streams, two at least, as in streams=['orders', 'refunds']")
    if named and set(named) != set(found):
        raise QueryError(f"bounds: streams={list(found)!r}, but the bounds are of {', '.join(map(repr, named))}")
    return policy, found


class BetweenStreams(StrongerPromise):
    """The better of two promises: that of the stream's own policy, and that of the bounds between streams.

    >>> from slackwater.progress.bounds.bounded import bounded
    >>> from slackwater.progress.bounds.skew_policy import skew
    >>> policy = skew({("b", "a"): (0, 30)}, latency=5, timeout="never")
    >>> own = bounded(0).tracker(TimeDomain.SEQUENCE)
    >>> t = StreamBounds("a", ("a", "b"), policy).tracker(own, TimeDomain.SEQUENCE)
    >>> t.arrive_on("b", Arrival(rows=1, missing=0, lowest=100, highest=100, at=10))
    >>> t.tick(15); t.heartbeat.tick == MIN_TICK          # a row may come in this very instant
    True
    >>> t.tick(16); t.heartbeat
    Heartbeat(tick=70)
    """

    STATE = ("_bounds", "_own")

    def __init__(self, stream: str, bounds: Tracker, own: Tracker, from_others: bool) -> None:
        super().__init__(own)
        self._stream, self._bounds, self._from_others = stream, bounds, from_others

    @property
    def beat(self) -> int:
        """What the bounds promise."""
        beats = self._bounds.by_source()
        if beats is None:
            return MIN_TICK
        return int(beats.ticks[beats.names.index(self._stream)]) if self._stream in beats.names else beats.others

    @property
    def silence(self) -> int | None:
        """That of its own policy; that of the bounds if the others carry it along, until all are silent."""
        return self._bounds.silence if self._from_others else super().silence

    @property
    def silent_with_others(self) -> bool:
        """While one of them sends, what this one may still send is not over."""
        return self._from_others

    def arrive_on(self, stream: str, arrival: Arrival) -> None:
        if arrival.lowest is None or arrival.highest is None:
            self._bounds.arrive(replace(arrival, sources=None))
            return
        rows, lowest, highest = (
            np.array([value], dtype=np.int64) for value in (arrival.timed, arrival.lowest, arrival.highest)
        )
        self._bounds.arrive(replace(arrival, sources=SourceArrivals([stream], rows, lowest, highest)))

    def tick(self, now: int) -> None:
        self._own.tick(now)
        # A promise of instant c is for what comes after c, and a page may still be admitted now.
        self._bounds.tick(now - 1)

    def wake_at(self) -> int | None:
        due, own = self._bounds.wake_at(), self._own.wake_at()
        return own if due is None else due + 1 if own is None else min(due + 1, own)

    def metrics(self) -> Figures:
        """Figures of its own policy, and the promise of the bounds."""
        return {**self._own.metrics(), "bounds": {"heartbeat": self.beat, **self._bounds.metrics()}}
