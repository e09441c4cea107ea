"""Time that goes on with the clock while a stream is silent (S3 section 5), in addition to its policy's heartbeat.

If the largest time is t and nothing has come for τ, no row below t + τ − δ will come. The user writes δ.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from slackwater.errors import QueryError
from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import SourceHeartbeats, Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.log_ends import LogEnds
from slackwater.progress.time import MAX_TICK, MIN_TICK, Span, TimeDomain, is_length
from slackwater.progress.window_losses import WindowLosses


def read_idle(policy: str, idle: Span | None) -> Span | None:
    """δ as a user writes it."""
    if idle is not None and not is_length(idle):
        raise QueryError(f"{policy}(idle={idle!r}): write a positive length, as in idle='1 minute'")
    return idle


def with_idle(own: Tracker, policy: str, idle: Span | None, domain: TimeDomain) -> Tracker:
    """A policy's tracker; with δ, one that goes on with the clock."""
    if idle is None:
        return own
    if domain is not TimeDomain.TIMESTAMP:
        raise QueryError(
            f"{policy}(idle={idle!r}): only timestamps go on with the clock, and this stream counts in "
            f"{domain.value}s; write timeout= instead"
        )
    return IdleTracker(own, domain.span(idle, "idle"))


class StrongerPromise(Tracker):
    """The stronger of two promises: that of a stream's own policy, and another one, `beat`, for all its sources."""

    def __init__(self, own: Tracker) -> None:
        self._own = own
        self.goes_on = own.goes_on
        self.absolute_clock = own.absolute_clock
        self.promised_by_sender = own.promised_by_sender
        self.asks_log = own.asks_log

    @property
    @abstractmethod
    def beat(self) -> int:
        """The other promise, as a tick."""

    @property
    def heartbeat(self) -> Heartbeat:
        return max(self._own.heartbeat, Heartbeat(self.beat))

    @property
    def silence(self) -> int | None:
        """That of the policy."""
        return self._own.silence

    def by_source(self) -> SourceHeartbeats | None:
        by, beat = self._own.by_source(), self.beat
        if by is None or beat == MIN_TICK:
            return by
        return SourceHeartbeats(by.names, np.maximum(by.ticks, beat), max(by.others, beat))

    def arrive(self, arrival: Arrival) -> None:
        self._own.arrive(arrival)

    def admit(self, page: int) -> None:
        self._own.admit(page)

    def hear(self, report: WindowLosses) -> None:
        self._own.hear(report)

    def read_to(self, ends: LogEnds, highest: int | None) -> None:
        self._own.read_to(ends, highest)

    def of_partitions(self) -> Tracker:
        self._own = self._own.of_partitions()
        self.asks_log = self._own.asks_log
        return self

    def tick(self, now: int) -> None:
        self._own.tick(now)

    def wake_at(self) -> int | None:
        return self._own.wake_at()

    def reaches(self, tick: int) -> int | None:
        return self._own.reaches(tick)

    def metrics(self) -> Figures:
        """Figures of the policy."""
        return self._own.metrics()


class IdleTracker(StrongerPromise):
    """While nothing comes, time goes on with the clock.

    >>> from slackwater.progress.bounds.bounded import bounded
    >>> t = bounded("10 seconds", idle="1 minute").tracker(TimeDomain.TIMESTAMP)
    >>> t.arrive(Arrival(rows=1, missing=0, lowest=0, highest=500_000_000, at=0))
    >>> t.tick(90_000_000); t.heartbeat       # 500 s + 90 s - 60 s may still come
    Heartbeat(tick=529999999)
    """

    STATE = ("_own", "_highest", "_quiet_since", "_beat")

    def __init__(self, own: Tracker, idle: int) -> None:
        super().__init__(own)
        self._idle = idle
        self._highest = self._beat = MIN_TICK
        self._quiet_since = MIN_TICK
        """When the last row with a time came."""
        self.goes_on = True

    @property
    def beat(self) -> int:
        return self._beat

    @property
    def silence(self) -> int | None:
        """The timeout; without one, δ for a stream that has never sent, for which the clock has no start."""
        own = super().silence
        return self._idle if own is None and self._highest == MIN_TICK else own

    def arrive(self, arrival: Arrival) -> None:
        self._go_on(arrival.at)
        super().arrive(arrival)
        if arrival.highest is not None:
            self._highest = max(self._highest, arrival.highest)
            self._quiet_since = max(self._quiet_since, arrival.at)

    def tick(self, now: int) -> None:
        super().tick(now)
        self._go_on(now)

    def _go_on(self, now: int) -> None:
        if self._highest > MIN_TICK:
            promised = self._highest + (now - self._quiet_since) - self._idle - 1
            # Below what the policy promises of the stream it says nothing, so no source moves before `reaches`.
            if promised > self.heartbeat.tick:
                self._beat = min(promised, MAX_TICK)

    def reaches(self, tick: int) -> int | None:
        own = super().reaches(tick)
        if self._highest == MIN_TICK:
            return own
        mine = self._quiet_since + self._idle + 1 + tick - self._highest
        return mine if own is None else min(mine, own)
