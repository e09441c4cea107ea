"""Disorder bounded by a constant (S1's diagonal skew bound); if wanted, a timeout (S1) and time while idle (S3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from slackwater.calls import called
from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival
from slackwater.progress.bounds.partitions import PartitionTracker
from slackwater.progress.disorder import Tracker
from slackwater.progress.idle import read_idle, with_idle
from slackwater.progress.silence import DefaultTimeout, SilenceTracker, read_timeout, show_timeout
from slackwater.progress.time import Span, TimeDomain, is_length


@dataclass(frozen=True)
class Bounded(DefaultTimeout):
    """No row is more than `slack` behind the largest time seen; see `bounded`."""

    slack: Span
    timeout: int | None = None
    idle: Span | None = None

    needs: ClassVar[frozenset[str]] = frozenset()
    needs_sources: ClassVar[bool] = False

    def tracker(self, domain: TimeDomain) -> Tracker:
        """A fresh tracker; reads `slack` in the stream's domain."""
        own = BoundedTracker(domain.span(self.slack, "bounded"), self.timeout)
        return with_idle(own, "bounded", self.idle, domain)

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
    return Bounded(slack, read_timeout(timeout), read_idle("bounded", idle))


class BoundedTracker(SilenceTracker):
    """Follows the largest time seen; the heartbeat stays `slack` behind it until a silence carries it on."""

    def __init__(self, slack: int, timeout: int | None) -> None:
        super().__init__(timeout)
        self._slack = slack

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's largest time."""
        self._saw(arrival)
        if arrival.highest is not None:
            self._raise(self._highest - self._slack - 1)

    def of_partitions(self) -> Tracker:
        """Each partition by its own rows, and by what the log says of its end."""
        return PartitionTracker(self._slack, self._timeout)
