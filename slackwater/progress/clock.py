"""Wall-clock time as a value: the system's, or one that a test or a replay moves by hand (D5)."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Gives wall-clock time in microseconds since 1970, UTC."""

    def now(self) -> int:
        """The time now."""
        ...


class SystemClock:
    """The machine's clock, kept from going back."""

    def __init__(self) -> None:
        self._last = 0

    def now(self) -> int:
        """The machine's time, never below an earlier answer."""
        self._last = max(self._last, time.time_ns() // 1_000)
        return self._last


class ManualClock:
    """A clock that stands until it is moved.

    >>> clock = ManualClock(10)
    >>> clock.advance(5)
    >>> clock.now()
    15
    """

    def __init__(self, start: int = 0) -> None:
        self._now = start

    def now(self) -> int:
        """Where the clock was last set."""
        return self._now

    def advance(self, by: int) -> None:
        """Move forward by some microseconds."""
        self.set(self._now + by)

    def set(self, to: int) -> None:
        """Move forward to an instant; an earlier one is ignored, time does not go back."""
        self._now = max(self._now, to)
