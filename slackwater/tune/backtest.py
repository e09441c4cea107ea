"""The back-test of one policy: its own tracker, called on pages that have arrived in the order of the engine.

A page meets the heartbeat of the pages before it, moved on by what fell due meanwhile. Then the windows report, the
tracker learns the page's arrival, and the clock answers those who wait, as in the engine's cycle.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator
from typing import Protocol

import numpy as np

from slackwater.progress.disorder import Disorder, Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.progress.window_losses import WindowLosses
from slackwater.tune.arrival_pages import ArrivalPages
from slackwater.tune.outcome import PolicyOutcome

#: The name under which the windows report to the tracker.
QUERY = "tune"

Playing = Generator[None, None, PolicyOutcome]
"""A back-test in progress: each step plays one page; it returns the outcome."""


class Windows(Protocol):
    """The open windows of a query, by one heartbeat or by that of each source."""

    @property
    def waiting(self) -> bool:
        """Whether a window that has rows is open."""

    def advance(self, tracker: Tracker, now: int) -> None:
        """Answer the windows that the tracker's heartbeats have closed by now."""

    def next_end(self, tick: int) -> int | None:
        """The last tick of the next window after `tick` that has rows; None if nobody asks the clock for it."""

    def take(self, k: int, now: int, heartbeat: int) -> WindowLosses:
        """Take a page's rows, and report how many came too late."""

    def end_page(self, k: int) -> None:
        """Note the state after a page."""

    def outcome(self, met: Ints) -> PolicyOutcome:
        """The outcome of all pages, given the heartbeat that each page met."""


def play(playing: Playing) -> PolicyOutcome:
    """Play the pages that are left."""
    while True:
        try:
            next(playing)
        except StopIteration as end:
            outcome: PolicyOutcome = end.value
            return outcome


class StreamWindows:
    """The windows of a query with one heartbeat for all rows; it keeps the panes that some open window needs."""

    def __init__(self, pages: ArrivalPages) -> None:
        self._pages = pages
        self._panes: list[int] = []
        self._first: int | None = None
        """The first pane of which a window is open; None while all are."""
        self._beat = MIN_TICK
        self._after = np.empty(len(pages), np.int64)
        self._steps: list[tuple[int, int]] = []
        """When the heartbeat rose, and to what."""

    @property
    def waiting(self) -> bool:
        """Whether a window that has rows is open."""
        return bool(self._panes)

    def advance(self, tracker: Tracker, now: int) -> None:
        """Drop the panes of windows that the heartbeat has closed."""
        beat = tracker.heartbeat.tick
        if beat > self._beat:
            self._steps.append((now, beat))
            self._beat, spec = beat, self._pages.spec
            self._first = (spec.last_closed(Heartbeat(beat)) + 1) * spec.panes_per_slide
            del self._panes[: bisect_left(self._panes, self._first)]

    def next_end(self, tick: int) -> int | None:
        """The last tick of the next window after `tick` that has rows."""
        if not self._panes:
            return None
        spec, low, high = self._pages.spec, self._panes[0], self._panes[-1]
        window = max(spec.last_closed(Heartbeat(tick)) + 1, spec.first_window(low))
        return spec.bounds(window)[1] - 1 if window <= spec.last_window(high) else None

    def take(self, k: int, now: int, heartbeat: int) -> WindowLosses:
        """Keep the panes of a page that some open window needs, and report the pairs that came too late."""
        last_ticks, pairs = self._pages.pairs_of(k)
        panes: list[int] = self._pages.panes_of(k)[0].tolist()
        for pane in panes if self._first is None else panes[bisect_left(panes, self._first) :]:
            place = bisect_left(self._panes, pane)
            if place == len(self._panes) or self._panes[place] != pane:
                self._panes.insert(place, pane)
        lost = int(pairs[: np.searchsorted(last_ticks, heartbeat, side="right")].sum())
        return WindowLosses(QUERY, k, last_ticks, pairs, lost)

    def end_page(self, k: int) -> None:
        """Note the heartbeat after a page."""
        self._after[k] = self._beat

    def outcome(self, met: Ints) -> PolicyOutcome:
        """The outcome of all pages."""
        instants, beats = np.array(self._steps, dtype=np.int64).reshape(-1, 2).T
        return PolicyOutcome.of(self._pages, met, self._after, instants, beats)


class TrackerClock:
    """Wakes a tracker between pages, where it asks for it and somebody waits."""

    def __init__(self, tracker: Tracker, windows: Windows) -> None:
        self._tracker, self._windows = tracker, windows
        self._now = MIN_TICK

    def until(self, at: int) -> None:
        """Stop at each wake before `at`, then go on to `at`."""
        while (wake := self._next()) is not None and wake < at:
            self._now = wake
            self._windows.advance(self._tracker, wake)
            if self._windows.waiting:
                self.tick(wake)
                self._windows.advance(self._tracker, wake)
        self._now = at
        self._windows.advance(self._tracker, at)

    def tick(self, now: int) -> None:
        """Somebody waits: call the tracker's `tick`, unless its time goes on with the clock and nothing is due."""
        due = (self._reached_at(), self._tracker.wake_at())
        if not self._tracker.goes_on or any(t is not None and t <= now for t in due):
            self._tracker.tick(now)

    def _next(self) -> int | None:
        wakes = (self._tracker.wake_at(), self._reached_at())
        return min((t for t in wakes if t is not None and t > self._now), default=None)

    def _reached_at(self) -> int | None:
        """When the clock alone carries the heartbeat to the end of the next window."""
        tick = self._windows.next_end(self._tracker.heartbeat.tick) if self._tracker.goes_on else None
        return None if tick is None else self._tracker.reaches(tick)


def playing(
    policy: Disorder,
    pages: ArrivalPages,
    windows_of: Callable[[ArrivalPages], Windows] = StreamWindows,
) -> Playing:
    """Play a policy on the pages, page by page."""
    tracker = policy.tracker(TimeDomain.TIMESTAMP)
    windows = windows_of(pages)
    clock, ats, arrivals = TrackerClock(tracker, windows), pages.ats.tolist(), pages.arrivals
    met = np.empty(len(pages), np.int64)
    for k, at in enumerate(ats):
        clock.until(at)
        met[k] = tracker.heartbeat.tick
        tracker.admit(k)
        tracker.hear(windows.take(k, at, int(met[k])))
        # As in the engine, somebody who waits before the page's arrival is known is answered after it.
        waiting = windows.waiting
        tracker.arrive(arrivals[k])
        if waiting:
            clock.tick(at)
        windows.advance(tracker, at)
        windows.end_page(k)
        yield
    return windows.outcome(met)
