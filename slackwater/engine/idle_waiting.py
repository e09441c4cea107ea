"""Idle-waiting (S3 section 6): the share of time in which an operator waits for one stream behind the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.operators.operator import Wanted


@dataclass
class IdleWaiting:
    """Adds up the time in which an operator waits so.

    >>> waiting = IdleWaiting()
    >>> for waits, now in ((False, 0), (True, 10), (True, 20), (False, 40)):
    ...     waiting.note(waits, now)
    >>> waiting.share(100)
    0.3
    """

    began: int | None = None
    since: int | None = None
    """When the spell under way began."""
    ticks: int = 0
    """Time of the waits that are over."""

    def note(self, waits: bool, now: int) -> None:
        """From this instant on it waits so, or does not."""
        if self.began is None:
            self.began = now
        if self.since is not None:
            self.ticks += max(0, now - self.since)
        self.since = now if waits else None

    def share(self, now: int) -> float | None:
        """The share of the time since it first had something to wait for; None before that."""
        if self.began is None or now <= self.began:
            return None
        return (self.ticks + (0 if self.since is None else max(0, now - self.since))) / (now - self.began)


def waits_for_one_of(streams: Sequence[int], behind: Sequence[tuple[int, Wanted]]) -> bool:
    """Whether some stream has come as far as an operator needs it, and one that holds it back has not.

    `streams` are the heartbeats of all; `behind` those that it waits for, and how far it needs them.
    """
    return any((tick := wanted(beat)) is not None and max(streams) >= tick for beat, wanted in behind)
