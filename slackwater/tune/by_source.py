"""The same for a query that groups by the source: each source's windows end by its own heartbeat (D4, D10)."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slackwater.columns import PANE, ROWS, SOURCE
from slackwater.progress.disorder import Disorder, Tracker
from slackwater.progress.report import Report, RowsBySource
from slackwater.progress.sources import Ints
from slackwater.progress.time import MAX_TICK, MIN_TICK, TimeDomain
from slackwater.tune.backtest import QUERY, Clock, Told, ignore
from slackwater.tune.outcome import Outcome
from slackwater.tune.pages import Pages
from slackwater.windows.closed import ends_reached
from slackwater.windows.given import GivenWindows
from slackwater.windows.spec import WindowSpec


def backtest_by_source(policy: Disorder, pages: Pages, told: Told = ignore) -> Outcome:
    """What a policy that knows sources would have made of the pages, in a query that groups by the source."""
    tracker = policy.tracker(TimeDomain.TIMESTAMP)
    clock, windows = Clock(tracker), _Windows(pages.spec, pages.cells[SOURCE].unique().sort().to_list())
    n, ats, arrivals = len(pages), pages.ats.tolist(), pages.arrivals
    met, lost, lost_rows, held = (np.zeros(n, np.int64) for _ in range(4))

    def say(now: int) -> bool:
        windows.advance(tracker, now)
        return windows.holds

    for k in range(n):
        clock.until(ats[k], _nobody, say)
        say(ats[k])
        met[k] = tracker.heartbeat.tick
        tracker.admit(k)
        cells = pages.cells_of(k)
        lost_of = windows.take(cells, ats[k])
        lost[k], lost_rows[k] = lost_of.sum(), cells[ROWS].to_numpy()[lost_of > 0].sum()
        by_source = partial(_by_source, cells, lost_of, pages.spec)
        tracker.hear(Report(QUERY, k, *pages.pairs_of(k), int(lost[k]), by_source))
        asks = windows.holds
        tracker.arrive(arrivals[k])
        if asks:
            clock.tell(ats[k], _nobody)
        say(ats[k])
        held[k] = windows.rows
        told(k + 1)
    ends, closed = windows.answers()
    return Outcome(pages, met, lost, lost_rows, held, ends, closed)


def _nobody(tick: int) -> None:
    """Policies whose time goes on with the clock know no sources."""


def _by_source(cells: pl.DataFrame, lost: Ints, spec: WindowSpec) -> RowsBySource:
    rows, panes = cells[ROWS].to_numpy(), cells[PANE].to_numpy()
    return RowsBySource(cells[SOURCE].to_list(), panes, rows, lost, spec.rows_by_window)


class _Windows:
    """The open windows of each source, and the answers so far. Sources go by their place among all names."""

    def __init__(self, spec: WindowSpec, names: list[str]) -> None:
        self.spec = spec
        self._names = names
        self._place = {name: k for k, name in enumerate(names)}
        self._given = GivenWindows()
        # The last tick that time has closed, of sources that the policy names and of all others.
        self._closed: Ints = np.full(len(names), MIN_TICK, dtype=np.int64)
        self._named = np.zeros(len(names), bool)
        self._others = MIN_TICK
        self._told: tuple[list[str], Ints] = ([], np.zeros(0, np.int64))
        # Open windows as window * sources + source; of panes, the same of their last window, and their rows.
        self._open, self._panes, self._rows = (np.zeros(0, np.int64) for _ in range(3))
        self._answers: list[tuple[Ints, Ints]] = []

    @property
    def holds(self) -> bool:
        """Whether a window that has rows is open."""
        return len(self._open) > 0

    @property
    def rows(self) -> int:
        """Rows of windows that are open."""
        return int(self._rows.sum())

    def advance(self, tracker: Tracker, now: int) -> None:
        """Answer what the heartbeats have closed."""
        by = tracker.by_source()
        if by is None:
            (reached,) = ends_reached(self.spec, np.array([tracker.heartbeat.tick])).tolist()
            self._closed = np.maximum(self._closed, np.where(self._named, reached, MIN_TICK))
            self._others = max(self._others, reached)
        else:
            if by.names != self._told[0]:
                self._told = list(by.names), np.array([self._place.get(n, -1) for n in by.names])
            reached = ends_reached(self.spec, np.append(by.ticks, by.others))
            known = self._told[1] >= 0  # a policy may name sources that send nothing
            places = self._told[1][known]
            self._closed[places] = np.maximum(self._closed[places], reached[:-1][known])
            self._named[places] = True
            self._others = max(self._others, int(reached[-1]))
        self._answer(now)

    def take(self, cells: pl.DataFrame, now: int) -> Ints:
        """A page's rows by source and pane; the pairs of each that were lost."""
        if cells.height == 0:
            return np.zeros(0, np.int64)
        names, rows = cells[SOURCE].to_list(), cells[ROWS].to_numpy()
        sources = np.array([self._place[name] for name in names], dtype=np.int64)
        first, last = self.spec.windows_of(cells[PANE].to_numpy())
        lost = self._given.count(names, first, last)
        counts = last - first + 1
        entry = np.repeat(np.arange(len(rows)), counts)
        windows = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts) + first[entry]
        keys = windows * len(self._names) + sources[entry]
        if lost.any():
            keys = keys[self._given.count([names[k] for k in entry.tolist()], windows, windows) == 0]
        self._open = np.union1d(self._open, keys)
        kept = lost < counts
        self._panes = np.append(self._panes, (last * len(self._names) + sources)[kept])
        self._rows = np.append(self._rows, rows[kept])
        self._answer(now)  # time may have passed a window of which the source had no row yet
        lost_pairs: Ints = lost * rows
        return lost_pairs

    def _passed(self, keys: Ints) -> NDArray[np.bool_]:
        """Which windows of which sources time has passed."""
        windows, sources = np.divmod(keys, len(self._names))
        last_ticks = windows * self.spec.slide + (self.spec.offset + self.spec.range - 1)
        passed: NDArray[np.bool_] = last_ticks <= np.where(
            self._named[sources], self._closed[sources], self._others
        )
        return passed

    def _answer(self, now: int) -> None:
        """Answer the windows that time has passed, and forget the panes that only they need."""
        passed = self._passed(self._open)
        if passed.any():
            windows, sources = np.divmod(self._open[passed], len(self._names))
            self._given.add([self._names[k] for k in sources.tolist()], windows)
            self._answers.append((self._ends(windows), np.full(len(windows), now)))
            self._open = self._open[~passed]
        left = ~self._passed(self._panes)
        self._panes, self._rows = self._panes[left], self._rows[left]

    def _ends(self, windows: Ints) -> Ints:
        ends: Ints = windows * self.spec.slide + (self.spec.offset + self.spec.range)
        return ends

    def answers(self) -> tuple[Ints, Ints]:
        """Where the windows of all answers end, and when these were final."""
        rest = self._ends(self._open // len(self._names))
        ends = [*(e for e, _ in self._answers), rest]
        closed = [*(c for _, c in self._answers), np.full(len(rest), MAX_TICK)]
        return np.concatenate(ends), np.concatenate(closed)
