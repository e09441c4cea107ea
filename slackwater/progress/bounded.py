"""Disorder bounded by a constant: S1's diagonal skew bound, with S1's timeout (section 3.4) if wanted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import MIN_TICK, Span, TimeDomain, microseconds


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
    limit = None if timeout is None else microseconds(timeout)
    if limit is not None and limit <= 0:
        raise QueryError(f"timeout={timeout!r} must be longer than nothing, as in timeout='1 minute'")
    return Bounded(slack, limit)


class BoundedTracker(Tracker):
    """Follows the largest time seen; the heartbeat stays `slack` behind it until a timeout catches it up."""

    def __init__(self, slack: int, timeout: int | None) -> None:
        self._slack = slack
        self._timeout = timeout
        self._highest: int | None = None
        self._last_arrival = MIN_TICK
        self._heartbeat = Heartbeat.NONE

    @property
    def heartbeat(self) -> Heartbeat:
        """`slack` and one tick behind the largest time seen; never goes back."""
        return self._heartbeat

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's largest time."""
        self._last_arrival = max(self._last_arrival, arrival.at)
        if arrival.highest is None or (self._highest is not None and arrival.highest <= self._highest):
            return
        self._highest = arrival.highest
        self._raise(arrival.highest - self._slack - 1)

    def tick(self, now: int) -> None:
        """After a silence of `timeout`, promise all that was seen."""
        wake = self.wake_at()
        if wake is not None and now >= wake and self._highest is not None:
            self._raise(self._highest)

    def wake_at(self) -> int | None:
        """When the silence will have lasted for `timeout`; None if there is nothing to wait for."""
        if self._timeout is None or self._highest is None or self._heartbeat.tick >= self._highest:
            return None
        return self._last_arrival + self._timeout

    def _raise(self, tick: int) -> None:
        self._heartbeat = max(self._heartbeat, Heartbeat(max(tick, Heartbeat.NONE.tick)))

    def state(self) -> dict[str, Any]:
        """Largest time, last arrival and heartbeat."""
        return {
            "highest": self._highest,
            "last_arrival": self._last_arrival,
            "heartbeat": self._heartbeat.tick,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self._highest = state["highest"]
        self._last_arrival = state["last_arrival"]
        self._heartbeat = Heartbeat(state["heartbeat"])
