"""A light trial of a disorder policy: pages go through its tracker, windows are counted by arithmetic.

It gives what a policy is judged by: the share of lost (row, window) pairs, in all and in the worst stretch of
pages, how long after its end a window is final, and how many rows wait above the heartbeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from slackwater.progress.arrival import Arrival, sketch_of
from slackwater.progress.disorder import Tracker
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK
from slackwater.progress.window_losses import WindowLosses
from slackwater.tune.hindsight import least
from slackwater.tune.outcome import worst_share
from slackwater.windows.spec import WindowSpec


@dataclass(frozen=True, eq=False)
class Paged:
    """A stream cut into pages: rows in the order of arrival, and where each page begins."""

    times: Ints
    begins: Ints
    """Of each page and, at the end, of none: page k has rows begins[k] to begins[k + 1]."""
    ats: Ints
    """When each page arrives as a whole."""
    sketches: list[bytes | None]

    @staticmethod
    def cut(arrival: Ints, times: Ints, page: int) -> Paged:
        """Pages of so many ticks of arrival time, the empty ones included."""
        numbers = (arrival - arrival[0]) // page
        pages = int(numbers[-1]) + 1
        begins = np.searchsorted(numbers, np.arange(pages + 1)).astype(np.int64)
        ats = arrival[0] + page * np.arange(1, pages + 1)
        return Paged._of(times, begins, ats)

    @staticmethod
    def counted(arrival: Ints, times: Ints, rows: int) -> Paged:
        """Pages of so many rows."""
        begins = np.append(np.arange(0, len(times), rows), len(times)).astype(np.int64)
        return Paged._of(times, begins, arrival[begins[1:] - 1])

    @staticmethod
    def _of(times: Ints, begins: Ints, ats: Ints) -> Paged:
        sketches = [sketch_of(times[a:b]) if b > a else None for a, b in pairwise(begins)]
        return Paged(times, begins, ats, sketches)

    def __len__(self) -> int:
        return len(self.ats)

    def page(self, k: int) -> Ints:
        """The times of a page."""
        return self.times[self.begins[k] : self.begins[k + 1]]

    def arrival(self, k: int) -> Arrival:
        """The arrival statistics of a page."""
        rows = self.page(k)
        low, high = (int(rows.min()), int(rows.max())) if len(rows) else (None, None)
        # From the lowest on, so that the sum of a large page does not leave 64 bits.
        total = None if low is None else low * len(rows) + int((rows - low).sum())
        return Arrival(len(rows), 0, low, high, int(self.ats[k]), total=total, sketch=self.sketches[k])

    def highest_before(self) -> Ints:
        """The largest time before each page and, at the end, after the last; MIN_TICK before the first."""
        if not len(self.times):
            return np.full(len(self) + 1, MIN_TICK)
        peaks = np.append(MIN_TICK, np.maximum.accumulate(self.times))
        return peaks[self.begins]


def report(query: str, page: int, rows: Ints, spec: WindowSpec, heartbeat: int) -> WindowLosses:
    """What a window operator tells of a page."""
    panes, counts = np.unique((rows - spec.offset) // spec.pane, return_counts=True)
    last_ticks, pairs = spec.rows_by_window(panes, counts)
    return WindowLosses(query, page, last_ticks, pairs, int(pairs[last_ticks <= heartbeat].sum()))


@dataclass(frozen=True, eq=False)
class Case:
    """A paged stream, the windows over it, and the reports that do not depend on the policy."""

    paged: Paged
    spec: WindowSpec
    reports: list[WindowLosses]

    @staticmethod
    def of(paged: Paged, spec: WindowSpec) -> Case:
        """Count the windows once, for all policies."""
        return Case(paged, spec, [report("q", k, paged.page(k), spec, MIN_TICK) for k in range(len(paged))])

    def report(self, k: int, heartbeat: int) -> WindowLosses:
        """The report of a page that came behind a heartbeat."""
        told = self.reports[k]
        lost = int(told.pairs[: np.searchsorted(told.last_ticks, heartbeat, side="right")].sum())
        return WindowLosses(told.query, told.page, told.last_ticks, told.pairs, lost)


@dataclass(frozen=True, eq=False)
class TrialOutcome:
    """What a policy made of a case, page by page."""

    case: Case
    heartbeats: Ints
    """Before each page and, at the end, after the last."""
    lost: Ints
    pairs: Ints

    @property
    def share(self) -> float:
        """Lost pairs of all pairs."""
        return float(self.lost.sum() / max(1, self.pairs.sum()))

    def worst(self, stretch: int = 100, warm_up: int = 0) -> float:
        """The largest share lost in any stretch of so many pages behind the warm-up."""
        return worst_share(self.lost[warm_up:], self.pairs[warm_up:], stretch)

    def waits(self, warm_up: int = 0) -> Ints:
        """From the end of each window to its final result.

        Windows that end in the warm-up, or in the last tenth of the stream (the stream's end cuts their wait short
        for every policy), are left out; one that is still open at the end of the stream is taken as closed there.
        """
        last_ticks = np.unique(np.concatenate([r.last_ticks for r in self.case.reports]))
        ats = self.case.paged.ats
        begin, end = int(ats[min(warm_up, len(ats) - 1)]), int(ats[-1])
        last_ticks = last_ticks[(last_ticks >= begin) & (last_ticks < end - (end - int(ats[0])) // 10)]
        closed = np.searchsorted(self.heartbeats[1:], last_ticks)
        waits: Ints = ats[np.minimum(closed, len(ats) - 1)] - (last_ticks + 1)
        return waits

    def buffered(self) -> Ints:
        """Rows above the heartbeat after each page."""
        times, paged = self.case.paged.times, self.case.paged
        # A row is in the buffer from its page to the first heartbeat at or above it.
        came = np.searchsorted(paged.begins, np.arange(len(times)), side="right") - 1
        left = np.maximum(np.searchsorted(self.heartbeats[1:], times), came)
        change = np.bincount(came, minlength=len(paged) + 1) - np.bincount(left, minlength=len(paged) + 1)
        return np.cumsum(change)[: len(paged)]


def run(tracker: Tracker, case: Case) -> TrialOutcome:
    """Send all pages of a case through a tracker."""
    pages = len(case.paged)
    beats, lost = np.empty(pages + 1, np.int64), np.empty(pages, np.int64)
    for k in range(pages):
        beats[k] = tracker.heartbeat.tick
        tracker.admit(k)
        told = case.report(k, int(beats[k]))
        lost[k] = told.lost
        tracker.hear(told)
        tracker.arrive(case.paged.arrival(k))
        tracker.tick(int(case.paged.ats[k]))
    beats[pages] = tracker.heartbeat.tick
    return TrialOutcome(case, beats, lost, np.array([r.all for r in case.reports]))


# --- the fixed bound that hindsight would have chosen


def required(case: Case) -> tuple[Ints, Ints, Ints]:
    """Of all pairs, grouped by page and window: the page, the slack that keeps them, their number."""
    before = case.paged.highest_before()
    counts = [len(r.last_ticks) for r in case.reports]
    pages = np.repeat(np.arange(len(counts)), counts)
    last_ticks = np.concatenate([r.last_ticks for r in case.reports])
    known = before[pages] > MIN_TICK
    # Before the first row there is no heartbeat, so nothing can be lost: no slack is needed.
    slack = np.where(known, np.where(known, before[pages], last_ticks) - last_ticks, 0)
    return pages, slack, np.concatenate([r.pairs for r in case.reports])


def fixed(case: Case, slack: int) -> TrialOutcome:
    """What `bounded(slack)` makes of a case."""
    before = case.paged.highest_before()
    beats = np.where(before > MIN_TICK, np.maximum(before, MIN_TICK + slack + 1) - slack - 1, MIN_TICK)
    pages, needed, pairs = required(case)
    lost = np.bincount(pages, np.where(needed > slack, pairs, 0), len(case.paged)).astype(np.int64)
    return TrialOutcome(case, beats, lost, np.array([r.all for r in case.reports]))


def hindsight(case: Case, p: float) -> int:
    """The smallest slack, at least 0, with which a fixed bound loses at most the share p of all pairs."""
    _, needed, pairs = required(case)
    return least(np.maximum(needed, 0), pairs, p)


def hindsight_in_every_stretch(case: Case, p: float, stretch: int = 100, warm_up: int = 0) -> int:
    """The same for a fixed bound that keeps to p in every stretch."""
    candidates = np.unique(np.maximum(required(case)[1], 0))
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if fixed(case, int(candidates[middle])).worst(stretch, warm_up) <= p:
            high = middle
        else:
            low = middle + 1
    return int(candidates[low])


def figures(
    outcome: TrialOutcome, against: Sequence[TrialOutcome], stretch: int = 100, warm_up: int = 0
) -> dict[str, Any]:
    """Shares, waits in ticks, rows buffered; waits also as ratios to those of other outcomes."""
    waits, buffered = outcome.waits(warm_up), outcome.buffered()
    values: dict[str, Any] = {
        "share": outcome.share,
        "worst": outcome.worst(stretch, warm_up),
        "wait_mean": float(waits.mean()),
        "wait_p95": float(np.quantile(waits, 0.95)),
        "wait_mean_with_warm_up": float(outcome.waits(0).mean()),
        "buffer_mean": float(buffered.mean()),
        "buffer_max": int(buffered.max()),
    }
    for n, other in enumerate(against):
        base = other.waits(warm_up)
        values[f"mean_ratio_{n}"] = values["wait_mean"] / max(1.0, float(base.mean()))
        values[f"p95_ratio_{n}"] = values["wait_p95"] / max(1.0, float(np.quantile(base, 0.95)))
    return values
