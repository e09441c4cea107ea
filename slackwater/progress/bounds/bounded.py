"""Disorder bounded by a constant: S1's diagonal skew bound, with S1's timeout (section 3.4) if wanted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival
from slackwater.progress.silence import SilenceTracker, read_timeout
from slackwater.progress.time import Span, TimeDomain


@dataclass(frozen=True)
class Bounded:
    """No row is more than `slack` behind the largest time seen; see `bounded`."""

    slack: Span
    timeout: int | None = None

    needs: ClassVar[frozenset[str]] = frozenset()
    needs_sources: ClassVar[bool] = False

    def tracker(self, domain: TimeDomain) -> BoundedTracker:
        """A fresh tracker; reads `slack` in the stream's domain."""
        slack = domain.span(self.slack, "bounded")
        if slack < 0:
            raise QueryError(f"bounded({self.slack!r}) is negative; write bounded('0 seconds') for a sorted stream")
        return BoundedTracker(slack, self.timeout)

    def describe(self) -> str:
        """The policy as the user would write it."""
        timeout = "" if self.timeout is None else f", timeout='{self.timeout} microseconds'"
        return f"bounded({self.slack!r}{timeout})"


def bounded(slack: Span, timeout: str | timedelta | None = None) -> Bounded:
    """Rows come at most `slack` behind the largest time seen so far (S1 section 2, the pair (0, slack + 1)).

    With `timeout`, a stream that has been silent for so long is taken to have sent all up to that largest time
    (S1 section 3.4), so that its last windows close.

    >>> t = bounded(10).tracker(TimeDomain.SEQUENCE)
    >>> t.arrive(Arrival(rows=2, missing=0, lowest=3, highest=50, at=0))
    >>> t.heartbeat          # 40 may still come, 39 may not
    Heartbeat(tick=39)
    """
    return Bounded(slack, read_timeout(timeout))


class BoundedTracker(SilenceTracker):
    """Follows the largest time seen; the heartbeat stays `slack` behind it until a timeout catches it up."""

    def __init__(self, slack: int, timeout: int | None) -> None:
        super().__init__(timeout)
        self._slack = slack

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's largest time."""
        self._saw(arrival)
        if arrival.highest is not None:
            self._raise(self._highest - self._slack - 1)
