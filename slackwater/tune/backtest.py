"""A policy on pages that have come: its own tracker is told all that a replay would tell it, in the same order.

A page meets the heartbeat of the pages before it and of what fell due meanwhile. Then the windows report, the
page's arrival is learned, and the clock answers those who wait, as in the engine's cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slackwater.progress.disorder import Disorder, Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.report import Report
from slackwater.progress.sources import Ints
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.tune.outcome import Outcome
from slackwater.tune.pages import Pages
from slackwater.windows.spec import WindowSpec

#: The operator that reports.
QUERY = "tune"

Told = Callable[[int], None]
"""Is told how many pages are done."""


def ignore(_: int) -> None:
    """Nobody wants to know."""


@dataclass
class _Held:
    """The panes that some open window needs."""

    spec: WindowSpec
    panes: Ints
    beat: int = MIN_TICK
    """What windows have been told."""

    def take(self, panes: Ints) -> None:
        """The panes of a page."""
        fresh = panes[self._open(panes)]
        if len(fresh):
            self.panes = np.union1d(self.panes, fresh)

    def close(self, beat: int) -> None:
        """Time has come so far."""
        if beat > self.beat:
            self.beat = beat
            self.panes = self.panes[self._open(self.panes)]

    def _open(self, panes: Ints) -> Ints:
        if self.beat == MIN_TICK:
            return np.arange(len(panes))
        closed = self.spec.last_closed(Heartbeat(self.beat))
        found: Ints = np.flatnonzero(self.spec.windows_of(panes)[1] > closed)
        return found

    def wanted(self, tick: int) -> int | None:
        """The last tick of the next window that has rows, behind this one."""
        if not len(self.panes):
            return None
        low, high = int(self.panes[0]), int(self.panes[-1])
        window = max(self.spec.last_closed(Heartbeat(tick)) + 1, self.spec.first_window(low))
        return self.spec.bounds(window)[1] - 1 if window <= self.spec.last_window(high) else None


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


def backtest(policy: Disorder, pages: Pages, told: Told = ignore) -> Outcome:
    """What a policy would have made of the pages, in a query with one heartbeat for all rows."""
    tracker = policy.tracker(TimeDomain.TIMESTAMP)
    clock, held = Clock(tracker), _Held(pages.spec, np.zeros(0, np.int64))
    n, ats, arrivals = len(pages), pages.ats.tolist(), pages.arrivals
    met, after = np.empty(n, np.int64), np.empty(n, np.int64)
    steps: list[tuple[int, int]] = []

    def say(now: int) -> bool:
        beat = tracker.heartbeat.tick
        if beat > held.beat:
            steps.append((now, beat))
            held.close(beat)
        return len(held.panes) > 0

    for k in range(n):
        clock.until(ats[k], held.wanted, say)
        say(ats[k])
        met[k] = beat = tracker.heartbeat.tick
        tracker.admit(k)
        last_ticks, pairs = pages.pairs_of(k)
        lost = int(pairs[: np.searchsorted(last_ticks, beat, side="right")].sum())
        held.take(pages.panes_of(k)[0])
        tracker.hear(Report(QUERY, k, last_ticks, pairs, lost))
        asks = len(held.panes) > 0
        tracker.arrive(arrivals[k])
        if asks:
            clock.tell(ats[k], held.wanted)
        say(ats[k])
        after[k] = held.beat
        told(k + 1)
    instants, beats = np.array(steps, dtype=np.int64).reshape(-1, 2).T
    return Outcome.of(pages, met, after, instants, beats)
