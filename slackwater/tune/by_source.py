"""The same for a query that groups by the source: each source's windows end by its own heartbeat (D4, D10)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slackwater.columns import PANE, ROWS, SOURCE
from slackwater.progress.disorder import Disorder, Found, Tracker, once
from slackwater.progress.report import Report, RowsBySource
from slackwater.progress.sources import Ints
from slackwater.progress.time import MAX_TICK, MIN_TICK, TimeDomain
from slackwater.tune.backtest import QUERY, Clock, Playing, played
from slackwater.tune.outcome import Outcome
from slackwater.tune.pages import Pages
from slackwater.windows.closed import ends_reached
from slackwater.windows.given import GivenWindows
from slackwater.windows.spec import WindowSpec


def backtest_by_source(policy: Disorder, pages: Pages) -> Outcome:
    """What a policy that knows sources would have made of the pages, in a query that groups by the source."""
    return played(playing_by_source(policy, pages))


def playing_by_source(policy: Disorder, pages: Pages, found: Found | None = None) -> Playing:
    """The same, page by page."""
    tracker = policy.tracker(TimeDomain.TIMESTAMP)
    if found is not None:
        tracker.share(found)
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
        cells = once(found, "cells", partial(windows.cells, pages.cells_of(k)))
        lost_of = windows.take(cells, ats[k])
        lost[k], lost_rows[k] = lost_of.sum(), cells.rows[lost_of > 0].sum()
        by_source = partial(RowsBySource, cells.names, cells.panes, cells.rows, lost_of, pages.spec.rows_by_window)
        tracker.hear(Report(QUERY, k, *pages.pairs_of(k), int(lost[k]), by_source))
        asks = windows.holds
        tracker.arrive(arrivals[k])
        if asks:
            clock.tell(ats[k], _nobody)
        say(ats[k])
        held[k] = windows.rows
        yield
    ends, closed = windows.answers()
    return Outcome(pages, met, lost, lost_rows, held, ends, closed)


def _nobody(tick: int) -> None:
    """Policies whose time goes on with the clock know no sources."""


@dataclass(frozen=True, eq=False)
class _Cells:
    """A page's rows by source and pane: an entry for each, and its windows."""

    names: list[str]
    sources: Ints
    """Places of the names."""
    panes: Ints
    rows: Ints
    first: Ints
    last: Ints
    """The earliest and the latest window of each entry."""
    entry: Ints
    windows: Ints
    """Each window of each entry, side by side: which entry, and which window."""
    keys: Ints
    """The same as window * sources + source, in order and each once."""


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
        self._ticks: Ints = np.zeros(0, np.int64)
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
            ticks = np.append(by.ticks, by.others)
            if np.array_equal(ticks, self._ticks) and by.names == self._told[0]:
                return  # most pages move no heartbeat before they come
            self._ticks = ticks
            if by.names != self._told[0]:
                self._told = list(by.names), np.array([self._place.get(n, -1) for n in by.names])
            reached = ends_reached(self.spec, ticks)
            known = self._told[1] >= 0  # a policy may name sources that send nothing
            places = self._told[1][known]
            self._closed[places] = np.maximum(self._closed[places], reached[:-1][known])
            self._named[places] = True
            self._others = max(self._others, int(reached[-1]))
        self._answer(now)

    def cells(self, page: pl.DataFrame) -> _Cells:
        """A page's rows by source and pane."""
        names, panes = page[SOURCE].to_list(), page[PANE].to_numpy()
        sources = np.fromiter(map(self._place.__getitem__, names), np.int64, len(names))
        first, last = self.spec.windows_of(panes)
        counts = last - first + 1
        entry = np.repeat(np.arange(len(names)), counts)
        windows = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts) + first[entry]
        keys = np.unique(windows * len(self._names) + sources[entry])
        return _Cells(names, sources, panes, page[ROWS].to_numpy(), first, last, entry, windows, keys)

    def take(self, cells: _Cells, now: int) -> Ints:
        """A page's rows; the pairs of each entry that were lost."""
        if not len(cells.rows):
            return np.zeros(0, np.int64)
        lost = self._given.count(cells.names, cells.first, cells.last)
        keys = cells.keys
        if lost.any():
            windows, sources = np.divmod(keys, len(self._names))
            names = [self._names[k] for k in sources.tolist()]
            keys = keys[self._given.count(names, windows, windows) == 0]
        place = np.searchsorted(self._open, keys)
        new = place == len(self._open)
        new[~new] = self._open[place[~new]] != keys[~new]
        if new.any():
            self._open = np.insert(self._open, place[new], keys[new])
        kept = lost < cells.last - cells.first + 1
        self._panes = np.append(self._panes, (cells.last * len(self._names) + cells.sources)[kept])
        self._rows = np.append(self._rows, cells.rows[kept])
        self._answer(now)  # time may have passed a window of which the source had no row yet
        lost_pairs: Ints = lost * cells.rows
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
