"""Trackers of one heartbeat that take a long silence for the end of what was seen (S1 section 3.4)."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import MAX_TICK, MIN_TICK, microseconds


def read_timeout(timeout: str | timedelta | None) -> int | None:
    """A timeout as a user writes it, in microseconds."""
    limit = None if timeout is None else microseconds(timeout)
    if limit is not None and limit <= 0:
        raise QueryError(f"timeout={timeout!r} must be positive, as in timeout='1 minute'")
    return limit


class SilenceTracker(Tracker):
    """Keeps the heartbeat, the largest time and the last arrival; a subclass raises the heartbeat by its rule."""

    STATE: ClassVar[tuple[str, ...]] = ("_highest", "_last_arrival", "_heartbeat")

    def __init__(self, timeout: int | None) -> None:
        self._timeout = timeout
        self._highest = MIN_TICK
        self._last_arrival = MIN_TICK
        self._heartbeat = MIN_TICK

    @property
    def heartbeat(self) -> Heartbeat:
        """The strongest promise so far; it never goes back."""
        return Heartbeat(self._heartbeat)

    def _saw(self, arrival: Arrival) -> None:
        """Take a page's largest time, and that something came if it has a row, also one without a time.

        What the silence before it has promised holds, whether or not somebody asked while it lasted.
        """
        self.tick(arrival.at)
        if arrival.rows:
            self._last_arrival = max(self._last_arrival, arrival.at)
        if arrival.highest is not None:
            self._highest = max(self._highest, arrival.highest)

    def _raise(self, tick: int) -> None:
        self._heartbeat = max(self._heartbeat, min(tick, MAX_TICK))

    def tick(self, now: int) -> None:
        """After a silence of `timeout`, promise all that was seen."""
        wake = self.wake_at()
        if wake is not None and now >= wake:
            self._raise(self._highest)

    def wake_at(self) -> int | None:
        """When the silence will have lasted for `timeout`; None if there is nothing to wait for."""
        if self._timeout is None or self._heartbeat >= self._highest:
            return None
        return self._last_arrival + self._timeout
