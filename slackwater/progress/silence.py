"""Trackers of one heartbeat that take a long silence for the end of what was seen (S1 section 3.4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, cast

from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Disorder, Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import MAX_TICK, MIN_TICK, Span, TimeDomain, microseconds

#: The timeout of a live stream whose user names none: a guess, not measured. A network or a broker that restarts is
#: back within a few minutes, and what it held back must not be late. Ten minutes is also as long as most people
#: who watch will wait for an answer before they suspect a fault.
DEFAULT_TIMEOUT = "10 minutes"
#: The timeout of a user who wants none, in microseconds: no silence lasts 0 microseconds.
NEVER = 0


def read_timeout(timeout: str | timedelta | None) -> int | None:
    """A timeout as a user writes it, in microseconds: "never" is `NEVER`, and None names none.

    >>> read_timeout("1 minute"), read_timeout("never"), read_timeout(None)
    (60000000, 0, None)
    """
    if timeout is None or timeout == "never":
        return None if timeout is None else NEVER
    limit = microseconds(timeout)
    if limit <= 0:
        raise QueryError(
            f"timeout={timeout!r} must be positive, as in timeout='1 minute'; timeout='never' waits for ever"
        )
    return limit


def show_timeout(timeout: int) -> str:
    """A timeout as a user writes it.

    >>> show_timeout(60_000_000), show_timeout(NEVER)
    ("'1 minute'", "'never'")
    """
    return repr("never" if timeout == NEVER else TimeDomain.TIMESTAMP.show_span(timeout))


class DefaultTimeout:
    """A policy by which rows may wait for ever, its own or those of other streams: a live stream has a timeout."""

    timeout: int | None
    idle: Span | None = None

    @property
    def needs_timeout(self) -> bool:
        """Whether the last rows would wait for ever with no timeout: not if time goes on with the clock."""
        return self.timeout is None and self.idle is None

    def on_live_stream(self) -> Disorder:
        """The same policy on a stream that goes on for ever, if it needs a timeout (S1 Theorem 3.3)."""
        policy: Any = self
        return cast(Disorder, replace(policy, timeout=read_timeout(DEFAULT_TIMEOUT)))


def with_default_timeout(policy: Disorder) -> Disorder:
    """The policy of a live stream: with the default timeout, where it needs one and its user names none."""
    return policy.on_live_stream() if isinstance(policy, DefaultTimeout) and policy.needs_timeout else policy


class SilenceTracker(Tracker):
    """Keeps the heartbeat, the largest time and the last arrival; a subclass raises the heartbeat by its rule."""

    STATE: ClassVar[tuple[str, ...]] = ("_highest", "_last_arrival", "_heartbeat")

    def __init__(self, timeout: int | None) -> None:
        self._timeout = timeout or None  # NEVER is no timeout
        self._highest = MIN_TICK
        self._last_arrival = MIN_TICK
        self._heartbeat = MIN_TICK

    @property
    def heartbeat(self) -> Heartbeat:
        """The strongest promise so far; it never goes back."""
        return Heartbeat(self._heartbeat)

    @property
    def silence(self) -> int | None:
        """The timeout."""
        return self._timeout

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
