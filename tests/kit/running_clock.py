"""A clock that goes on by itself, for tests that must see a session rest all the same."""

from __future__ import annotations

from slackwater.progress.clock import ManualClock


class Running(ManualClock):
    """Goes on by a microsecond whenever somebody looks, as a real clock does."""

    def now(self) -> int:
        self.advance(1)
        return super().now()

    def until(self, instant: int) -> float | None:
        return max(0.0, (instant - self._now) / 1e6)
