"""Wall-clock time as a value: the system's, or one that a test or a replay moves by hand (D5)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Gives wall-clock time in microseconds since 1970, UTC."""

    def now(self) -> int:
        """The time now."""

    def until(self, instant: int) -> float | None:
        """Seconds until an instant; None where it only comes when somebody moves the clock."""

    def after(self, seconds: float) -> int | None:
        """What the clock will say after this many real seconds; None if it moves only by hand."""


class SystemClock:
    """The machine's clock, without its steps back.

    Time goes on with the machine's monotonic clock. It follows the wall clock when that is ahead, as after a
    suspend or a step forward. After a step back it stays ahead of the wall clock, and nothing that waits stops.

    >>> wall, monotonic = iter([5_000_000, 1_000_000, 9_000_000]), iter([0, 1_000_000, 2_000_000])
    >>> clock = SystemClock(lambda: next(wall), lambda: next(monotonic))
    >>> clock.now(), clock.now(), clock.now()
    (5000, 6000, 9000)
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._offset: int | None = None
        """The most by which the wall clock was ahead of the monotonic one, in nanoseconds."""

    def now(self) -> int:
        """The time now, never below an earlier answer."""
        # In this order: a thread that is held up between the two calls must not push time ahead.
        wall = self._wall()
        monotonic = self._monotonic()
        ahead = wall - monotonic
        self._offset = ahead if self._offset is None else max(self._offset, ahead)
        return (monotonic + self._offset) // 1_000

    def until(self, instant: int) -> float | None:
        """Seconds until an instant, 0 if it has passed."""
        return max(0.0, (instant - self.now()) / 1e6)

    def after(self, seconds: float) -> int | None:
        """The clock's time in this many seconds."""
        return self.now() + round(seconds * 1e6)


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

    def until(self, instant: int) -> float | None:
        """It stands."""
        return None

    def after(self, seconds: float) -> int | None:
        """It stands."""
        return None


class ReplayClock(ManualClock):
    """The clock of a replay: it stands until it is moved, or goes on by itself at some speed.

    >>> real = iter([100.0, 100.5, 101.0, 101.0])
    >>> clock = ReplayClock(0, lambda: next(real))
    >>> clock.go(60)
    >>> clock.now(), clock.now()
    (30000000, 60000000)
    >>> clock.until(120_000_000)
    1.0
    """

    def __init__(self, start: int = 0, real: Callable[[], float] = time.monotonic) -> None:
        super().__init__(start)
        self._real = real
        self._speed = 0.0
        self._began = (0.0, start)

    def go(self, speed: float) -> None:
        """From now on a real second is `speed` seconds of this clock."""
        self._began, self._speed = (self._real(), self._now), speed

    def stand(self) -> None:
        """Stop here."""
        self._now, self._speed = self.now(), 0.0

    def now(self) -> int:
        """Where it was set, or has come to."""
        if self._speed:
            real, start = self._began
            self.set(start + round((self._real() - real) * self._speed * 1e6))
        return self._now

    def until(self, instant: int) -> float | None:
        """Real seconds until an instant; None while it stands."""
        return max(0.0, (instant - self.now()) / 1e6 / self._speed) if self._speed else None

    def after(self, seconds: float) -> int | None:
        """The clock's time after this many real seconds, at its speed; None while it stands."""
        return self.now() + round(seconds * self._speed * 1e6) if self._speed else None
