"""A policy on pages that have come: its own tracker is told all that a replay would tell it, in the same order.

A page meets the heartbeat of the pages before it and of what fell due meanwhile. Then the windows report, the
page's arrival is learned, and the clock answers those who wait, as in the engine's cycle.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator

import numpy as np

from slackwater.progress.disorder import Disorder, Known, Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.report import Report
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.tune.outcome import Outcome
from slackwater.tune.pages import Pages
from slackwater.windows.spec import WindowSpec

#: The operator that reports.
QUERY = "tune"

Playing = Generator[None, None, Outcome]
"""Goes on by a page each time, and gives the outcome at the end."""


def played(playing: Playing) -> Outcome:
    """Go on to the end."""
    while True:
        try:
            next(playing)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


class _Held:
    """The panes that some open window needs."""

    def __init__(self, spec: WindowSpec) -> None:
        self._spec = spec
        self._panes: list[int] = []
        self._first: int | None = None
        """The first pane of which a window is open; None while all are."""
        self.beat = MIN_TICK
        """What windows have been told."""

    def __bool__(self) -> bool:
        return bool(self._panes)

    def take(self, panes: list[int]) -> None:
        """The panes of a page, in order."""
        for pane in panes if self._first is None else panes[bisect_left(panes, self._first) :]:
            place = bisect_left(self._panes, pane)
            if place == len(self._panes) or self._panes[place] != pane:
                self._panes.insert(place, pane)

    def close(self, beat: int) -> None:
        """Time has come so far."""
        if beat > self.beat:
            self.beat = beat
            self._first = (self._spec.last_closed(Heartbeat(beat)) + 1) * self._spec.panes_per_slide
            del self._panes[: bisect_left(self._panes, self._first)]

    def wanted(self, tick: int) -> int | None:
        """The last tick of the next window that has rows, behind this one."""
        if not self._panes:
            return None
        low, high = self._panes[0], self._panes[-1]
        window = max(self._spec.last_closed(Heartbeat(tick)) + 1, self._spec.first_window(low))
        return self._spec.bounds(window)[1] - 1 if window <= self._spec.last_window(high) else None


class Clock:
    """Wakes a tracker between pages, where it asks for it and somebody waits."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._now = MIN_TICK

    def until(self, at: int, wanted: Callable[[int], int | None], say: Callable[[int], bool]) -> None:
        """Stop at each wake before `at`; `say` hands the heartbeat on, and tells whether something is held."""
        while (wake := self._next(wanted)) is not None and wake < at:
            self._now = wake
            if say(wake):
                self.tell(wake, wanted)
                say(wake)
        self._now = at

    def tell(self, now: int, wanted: Callable[[int], int | None]) -> None:
        """Somebody waits: the tracker is told of the clock, unless that carries time on for nobody."""
        due = (self._reaches(wanted), self._tracker.wake_at())
        if not self._tracker.goes_on or any(t is not None and t <= now for t in due):
            self._tracker.tick(now)

    def _next(self, wanted: Callable[[int], int | None]) -> int | None:
        wakes = (self._tracker.wake_at(), self._reaches(wanted))
        return min((t for t in wakes if t is not None and t > self._now), default=None)

    def _reaches(self, wanted: Callable[[int], int | None]) -> int | None:
        tick = wanted(self._tracker.heartbeat.tick) if self._tracker.goes_on else None
        return None if tick is None else self._tracker.reaches(tick)


def playing(policy: Disorder, pages: Pages, known: Known | None = None) -> Playing:
    """What a policy makes of the pages, in a query with one heartbeat for all rows, page by page.

    Policies that play in turns share what is `known` of the rows.
    """
    tracker = policy.tracker(TimeDomain.TIMESTAMP)
    if known is not None:
        tracker.share(known)
    clock, held = Clock(tracker), _Held(pages.spec)
    n, ats, arrivals = len(pages), pages.ats.tolist(), pages.arrivals
    met, after = np.empty(n, np.int64), np.empty(n, np.int64)
    steps: list[tuple[int, int]] = []

    def say(now: int) -> bool:
        beat = tracker.heartbeat.tick
        if beat > held.beat:
            steps.append((now, beat))
            held.close(beat)
        return bool(held)

    for k in range(n):
        clock.until(ats[k], held.wanted, say)
        say(ats[k])
        met[k] = beat = tracker.heartbeat.tick
        tracker.admit(k)
        last_ticks, pairs = pages.pairs_of(k)
        lost = int(pairs[: np.searchsorted(last_ticks, beat, side="right")].sum())
        held.take(pages.panes_of(k)[0].tolist())
        tracker.hear(Report(QUERY, k, last_ticks, pairs, lost))
        asks = bool(held)
        tracker.arrive(arrivals[k])
        if asks:
            clock.tell(ats[k], held.wanted)
        say(ats[k])
        after[k] = held.beat
        yield
    instants, beats = np.array(steps, dtype=np.int64).reshape(-1, 2).T
    return Outcome.of(pages, met, after, instants, beats)
