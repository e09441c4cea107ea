"""A skew bound between two streams (S1 section 2): the rows of one say how far time has come on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival
from slackwater.progress.bounds.generator import HeartbeatGenerator
from slackwater.progress.bounds.skew import Pair, SkewMatrix
from slackwater.progress.bounds.user_settings import Length, length, show_wall, ticks, wall
from slackwater.progress.disorder import Disorder, SourceHeartbeats, Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import MIN_TICK, Span, TimeDomain
from slackwater.progress.time_kinds import LatentTracker, is_stamped
from slackwater.progress.window_losses import WindowLosses


@dataclass(frozen=True)
class Behind:
    """Rows are at most so far behind those of another stream; see `behind`."""

    stream: str
    by: Length
    after: int = 0
    latency: int = 0
    own: Disorder | None = None

    @property
    def needs(self) -> frozenset[str]:
        """What its own policy needs."""
        return frozenset() if self.own is None else self.own.needs

    @property
    def needs_sources(self) -> bool:
        """Whether its own policy does."""
        return self.own is not None and self.own.needs_sources

    def tracker(self, domain: TimeDomain) -> BehindTracker:
        """A fresh tracker."""
        pair = Pair(self.after, ticks(self.by, domain, "by"))
        bounds = SkewMatrix([[None, pair], [None, None]], [0, self.latency], [self.stream, ""])
        return BehindTracker(
            HeartbeatGenerator(bounds), LatentTracker() if self.own is None else self.own.tracker(domain)
        )

    def describe(self) -> str:
        """The policy as the user would write it."""
        after = f", after={show_wall(self.after)}" if self.after else ""
        latency = f", latency={show_wall(self.latency)}" if self.latency else ""
        own = "" if self.own is None else f", own={self.own.describe()}"
        return f"behind({self.stream!r}, by={self.by!r}{after}{latency}{own})"


def behind(stream: str, by: Span, *, after: Span = 0, latency: Span = 0, own: Disorder | None = None) -> Behind:
    """A quiet stream goes on with another one: its rows are at most `by` behind those of the other.

    When the other stream has sent a row of time τ, then from `after` on only rows above τ - by are sent here: S1's
    skew bound (t, δ) with t = `after`, δ = `by`. So while this stream is quiet, the rows of the other one say how
    far time has come on it.

    Args:
        stream: the name of the other stream; it is declared before.
        by: how far behind, as in "30 seconds".
        after: how long after the other stream's row the bound begins to hold.
        latency: how long a row of this stream is under way at most, the wait for its page included (S1's L).
        own: the stream's own policy: what its own rows promise. Without it, they promise nothing.

    >>> behind("orders", by="30 seconds", latency="5 seconds").describe()
    "behind('orders', by='30 seconds', latency='5 seconds')"
    """
    if not isinstance(stream, str) or not stream:
        raise QueryError(
            f"behind({stream!r}): write the name of the other stream, as in behind('orders', by='1 minute')"
        )
    if own is not None and (isinstance(own, Behind) or is_stamped(own) or not hasattr(own, "tracker")):
        raise QueryError(
            f"behind(own={own!r}): write what the stream's own rows promise, as in own=sw.bounded('20 seconds')"
        )
    return Behind(stream, length(by, "by"), wall(after, "after"), wall(latency, "latency"), own)


class BehindTracker(Tracker):
    """The better of two promises: that of the stream's own rows, and that of the other stream's.

    >>> t = behind("b", by=30, latency=5).tracker(TimeDomain.SEQUENCE)
    >>> t.arrive_beside("b", Arrival(rows=1, missing=0, lowest=100, highest=100, at=10))
    >>> t.tick(15); t.heartbeat == Heartbeat.NONE         # a row may come in this very instant
    True
    >>> t.tick(16); t.heartbeat
    Heartbeat(tick=70)
    """

    STATE = ("_generator", "_own")

    def __init__(self, generator: HeartbeatGenerator, own: Tracker) -> None:
        self._generator = generator
        self._own = own
        self.goes_on = own.goes_on

    @property
    def _beat(self) -> int:
        """What the other stream promises."""
        return int(self._generator.ticks()[1])

    @property
    def heartbeat(self) -> Heartbeat:
        return max(self._own.heartbeat, Heartbeat(self._beat))

    @property
    def silence(self) -> int | None:
        """That of its own policy."""
        return self._own.silence

    def by_source(self) -> SourceHeartbeats | None:
        """The other stream's promise is one of all sources."""
        by, beat = self._own.by_source(), self._beat
        if by is None or beat == MIN_TICK:
            return by
        return SourceHeartbeats(by.names, np.maximum(by.ticks, beat), max(by.others, beat))

    def arrive(self, arrival: Arrival) -> None:
        self._own.arrive(arrival)

    def arrive_beside(self, stream: str, arrival: Arrival) -> None:
        """A page of the other stream has arrived; all pages of this one that came before it have been sent on."""
        if arrival.highest is not None:
            self._generator.arrive(0, arrival.timed, arrival.highest, arrival.at)

    def admit(self, page: int) -> None:
        self._own.admit(page)

    def hear(self, report: WindowLosses) -> None:
        self._own.hear(report)

    def tick(self, now: int) -> None:
        self._own.tick(now)
        # A promise of instant c is for what comes after c, and a page may still be admitted now.
        self._generator.tick(now - 1)

    def wake_at(self) -> int | None:
        due, own = self._generator.wake_at(), self._own.wake_at()
        return own if due is None else due + 1 if own is None else min(due + 1, own)

    def reaches(self, tick: int) -> int | None:
        return self._own.reaches(tick)

    def metrics(self) -> dict[str, Any]:
        """Figures of its own policy, and the other stream's promise."""
        return {**self._own.metrics(), "behind": {self._generator.bounds.names[0]: self._beat}}
