"""The stamp: gives rows of latent time (S3 section 5) the clock's, for the operator behind it that needs one.

It holds no time back: a demand ends here, and the clock answers it. What waits before it is stamped when it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypedDict

from slackwater.operators.operator import Emit, State, Unary, Wanted
from slackwater.operators.page import Page
from slackwater.progress.clock import Clock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import MIN_TICK
from slackwater.progress.time_kinds import StampTracker


class StampValues(TypedDict):
    """The journaled values of a stamp."""

    tracker: dict[str, object]
    last: int


class TimeByClock(Unary):
    """An operator whose time is the clock's: it tells it when that lets something out, and not before."""

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._tracker = StampTracker()

    def enable(self, now: int, emit: Emit, wanted: Wanted) -> None:
        """The clock itself, if that lets something out."""
        if self.due(now, wanted):
            self._tracker.tick(now)
            emit(Punctuation(self._tracker.heartbeat))

    def due(self, now: int, wanted: Wanted) -> bool:
        """Whether the clock is where it is wanted; also while others are busy, as in a burst there is no lull."""
        wake = self.wake_for(wanted)
        return wake is not None and wake <= now

    def wake_for(self, wanted: Wanted) -> int | None:
        """When it will be there."""
        tick = wanted(self._tracker.heartbeat.tick)
        return None if tick is None else self._tracker.reaches(tick)


class ClockStamp(TimeByClock):
    """All rows of a page get one stamp: they are simultaneous."""

    ends_demand: ClassVar[bool] = True

    def __init__(self, label: str, clock: Clock) -> None:
        super().__init__(label)
        self._clock = clock
        self._last = MIN_TICK
        """The last stamp."""

    def on_page(self, page: Page, emit: Emit) -> None:
        """Send the rows on with their time."""
        self._last = self._tracker.stamp(self._clock.now())
        emit(page.stamped(self._last))

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """The end of its streams; or so far behind the last row as a source says that lets time pass at a drain."""
        (time,) = times
        if time.heartbeat in (Heartbeat.NONE, Heartbeat.END):
            return time
        return Punctuation(Heartbeat(max(MIN_TICK, self._last + time.heartbeat.tick)))

    def state(self, whole: bool) -> State:
        """What was promised, and the last stamp."""
        return State(StampValues(tracker=self._tracker.state(), last=self._last))

    def restore(self, states: Sequence[State]) -> None:
        """Continue from the last state."""
        values = states[-1].read(StampValues)
        self._tracker.restore(values["tracker"])
        self._last = values["last"]
