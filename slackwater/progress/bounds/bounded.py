"""Disorder bounded by a constant (S1's diagonal skew bound); if wanted, a timeout (S1) and time while idle (S3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from slackwater.calls import called
from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival
from slackwater.progress.silence import DefaultTimeout, SilenceTracker, read_timeout, show_timeout
from slackwater.progress.time import MIN_TICK, Span, TimeDomain, is_length


@dataclass(frozen=True)
class Bounded(DefaultTimeout):
    """No row is more than `slack` behind the largest time seen; see `bounded`."""

    slack: Span
    timeout: int | None = None
    idle: Span | None = None

    needs: ClassVar[frozenset[str]] = frozenset()
    needs_sources: ClassVar[bool] = False

    @property
    def needs_timeout(self) -> bool:
        """Not if time goes on with the clock."""
        return self.timeout is None and self.idle is None

    def tracker(self, domain: TimeDomain) -> BoundedTracker:
        """A fresh tracker; reads `slack` in the stream's domain."""
        return BoundedTracker(domain.span(self.slack, "bounded"), self.timeout, self._idle(domain))

    def _idle(self, domain: TimeDomain) -> int | None:
        if self.idle is None:
            return None
        if domain is not TimeDomain.TIMESTAMP:
            raise QueryError(
                f"bounded(idle={self.idle!r}): only timestamps go on with the clock, and this stream counts in "
                f"{domain.value}s; write timeout= instead"
            )
        return domain.span(self.idle, "idle")

    def describe(self) -> str:
        """The policy as the user would write it."""
        timeout = "" if self.timeout is None else f", timeout={show_timeout(self.timeout)}"
        idle = "" if self.idle is None else f", idle={self.idle!r}"
        return f"bounded({self.slack!r}{timeout}{idle})"


@called()
def bounded(slack: Span, timeout: str | timedelta | None = None, idle: Span | None = None) -> Bounded:
    """A fixed wait: rows come at most `slack` behind the largest time seen so far, as with a watermark delay.

    In S1 (section 2) it is the pair (0, slack + 1).

    Args:
        slack: how far behind, as in "20 seconds"; a number where the stream's time is one.
        timeout: after so long a silence the stream is taken to have sent all up to that largest time (S1 section
            3.4), so that its last windows close; "never" for none. Left out, a live stream has the default of ten
            minutes, unless `idle` is given.
        idle: time goes on with the clock while the stream is silent (S3 section 5). When the largest time was t and
            nothing has come for τ, no row comes any more below t + τ - idle. So a quiet stream holds no other back
            for longer than `idle`.

    >>> t = bounded(10).tracker(TimeDomain.SEQUENCE)
    >>> t.arrive(Arrival(rows=2, missing=0, lowest=3, highest=50, at=0))
    >>> t.heartbeat          # 40 may still come, 39 may not
    Heartbeat(tick=39)
    """
    if not is_length(slack, or_zero=True):
        raise QueryError(
            f"bounded({slack!r}): write how far rows may be behind, as in bounded('20 seconds'), or "
            "bounded('0 seconds') for a sorted stream"
        )
    if idle is not None and not is_length(idle):
        raise QueryError(f"bounded(idle={idle!r}): write a positive length, as in idle='1 minute'")
    return Bounded(slack, read_timeout(timeout), idle)


class BoundedTracker(SilenceTracker):
    """Follows the largest time seen; the heartbeat stays `slack` behind it until a silence carries it on.

    >>> t = bounded("10 seconds", idle="1 minute").tracker(TimeDomain.TIMESTAMP)
    >>> t.arrive(Arrival(rows=1, missing=0, lowest=0, highest=500_000_000, at=0))
    >>> t.tick(90_000_000); t.heartbeat       # 500 s + 90 s - 60 s may still come
    Heartbeat(tick=529999999)
    """

    STATE = (*SilenceTracker.STATE, "_quiet_since")

    def __init__(self, slack: int, timeout: int | None, idle: int | None = None) -> None:
        super().__init__(timeout)
        self._slack = slack
        self._idle = idle
        self._quiet_since = MIN_TICK
        """When the last row with a time came."""
        self.goes_on = idle is not None

    @property
    def silence(self) -> int | None:
        """The timeout; without one, `idle` for a stream that has never sent, for which the clock has no start."""
        return self._idle if self._timeout is None and self._highest == MIN_TICK else self._timeout

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's largest time."""
        self._saw(arrival)
        if arrival.highest is not None:
            self._quiet_since = max(self._quiet_since, arrival.at)
            self._raise(self._highest - self._slack - 1)

    def tick(self, now: int) -> None:
        """After a silence, promise all that was seen; while it lasts, go on with the clock."""
        super().tick(now)
        if self._idle is not None and self._highest > MIN_TICK:
            self._raise(self._highest + (now - self._quiet_since) - self._idle - 1)

    def reaches(self, tick: int) -> int | None:
        """When the silence will have lasted long enough."""
        if self._idle is None or self._highest == MIN_TICK:
            return None
        return self._quiet_since + self._idle + 1 + tick - self._highest
