"""The contract of a disorder policy: frozen settings that a user writes, and the tracker that runs them."""

from __future__ import annotations

from typing import Any, Protocol

from slackwater.progress.arrival import Arrival
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import TimeDomain


class Tracker(Protocol):
    """Turns arrivals and the passing of wall-clock time into heartbeats that never go back.

    It is what holds time back: a tracker that stays at `Heartbeat.NONE` keeps every window of its stream open.
    """

    @property
    def heartbeat(self) -> Heartbeat:
        """The strongest promise that holds now."""
        ...

    def arrive(self, arrival: Arrival) -> None:
        """A page has arrived."""
        ...

    def tick(self, now: int) -> None:
        """Wall-clock time is now this."""
        ...

    def wake_at(self) -> int | None:
        """The next instant at which a tick alone could move the heartbeat."""
        ...

    def state(self) -> dict[str, Any]:
        """All that a restart needs, as JSON values."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        ...


class Disorder(Protocol):
    """A policy as the user wrote it: a frozen value that compares by content."""

    def tracker(self, domain: TimeDomain) -> Tracker:
        """A fresh tracker for a stream of this domain."""
        ...

    def describe(self) -> str:
        """The policy in one line, as the user would write it."""
        ...
