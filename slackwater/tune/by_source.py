"""The back-test of a query that groups by the source: each source's windows end by its own heartbeat (D4, D10)."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.disorder import Disorder, Known, Tracker
from slackwater.progress.report import Report, RowsBySource
from slackwater.progress.sources import Ints
from slackwater.progress.time import MAX_TICK, MIN_TICK, TimeDomain
from slackwater.tune.backtest import QUERY, Clock, Playing
from slackwater.tune.outcome import Outcome
from slackwater.tune.pages import Pages
from slackwater.tune.source_cells import Cells
from slackwater.windows.closed import ends_reached
from slackwater.windows.given import GivenWindows
from slackwater.windows.spec import WindowSpec


def playing_by_source(policy: Disorder, pages: Pages, known: Known | None = None) -> Playing:
    """What a policy that knows sources makes of the pages, in a query that groups by the source, page by page."""
    tracker = policy.tracker(TimeDomain.TIMESTAMP)
    if known is not None:
        tracker.share(known)
    by_source = pages.by_source
    clock, windows = Clock(tracker), _Windows(pages.spec, by_source.names)
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
        cells = by_source.cells_of(k)
        lost_of = windows.take(cells, ats[k])
        if lost_of.any():
            lost[k], lost_rows[k] = lost_of.sum(), cells.rows[lost_of > 0].sum()
        rows = partial(RowsBySource, cells.names, cells.panes, cells.rows, lost_of, pages.spec.rows_by_window)
        tracker.hear(Report(QUERY, k, *pages.pairs_of(k), int(lost[k]), rows))
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


class _Windows:
    """The open windows of each source, and the answers so far. Sources go by their place among all names.

    A window of a source is a key, window * sources + source.
    """

    def __init__(self, spec: WindowSpec, names: list[str]) -> None:
        self.spec = spec
        self._sources = max(1, len(names))
        self._place = {name: k for k, name in enumerate(names)}
        self._given = GivenWindows(names)
        # The last tick that time has closed, of sources that the policy names and of all others.
        self._closed: Ints = np.full(len(names), MIN_TICK, dtype=np.int64)
        self._named = np.zeros(len(names), bool)
        self._others = MIN_TICK
        self._told: tuple[list[str], Ints] = ([], np.zeros(0, np.int64))
        # The heartbeats, as they are told, at which the next windows end.
        self._due: Ints = np.zeros(0, np.int64)
        # Open windows as keys, in order; of each, the rows of which it is the last window.
        self._open, self._held = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.rows = 0
        """Rows of windows that are open."""
        self._answers: list[tuple[Ints, Ints]] = []

    @property
    def holds(self) -> bool:
        """Whether a window that has rows is open."""
        return len(self._open) > 0

    def advance(self, tracker: Tracker, now: int) -> None:
        """Answer what the heartbeats have closed."""
        by = tracker.by_source()
        if by is None:
            (reached,) = ends_reached(self.spec, np.array([tracker.heartbeat.tick])).tolist()
            closed, others = np.maximum(self._closed, np.where(self._named, reached, MIN_TICK)), reached
        else:
            ticks = np.append(by.ticks, by.others)
            same = by.names == self._told[0]
            if same and len(self._due) and not (ticks >= self._due).any():
                return  # most pages bring no heartbeat to the end of a window
            if not same:
                self._told = list(by.names), np.array([self._place.get(n, -1) for n in by.names])
            reached = ends_reached(self.spec, ticks)
            self._due = reached + self.spec.slide
            known = self._told[1] >= 0  # a policy may name sources that send nothing
            places, closed, others = self._told[1][known], self._closed.copy(), int(reached[-1])
            closed[places] = np.maximum(closed[places], reached[:-1][known])
            self._named[places] = True
        others = max(self._others, others)
        if others == self._others and np.array_equal(closed, self._closed):
            return
        self._closed, self._others = closed, others
        self._close(now)

    def take(self, cells: Cells, now: int) -> Ints:
        """A page's rows; the pairs of each entry that were lost."""
        if not len(cells.rows):
            return np.zeros(0, np.int64)
        lost = self._given.count_numbered(cells.sources, cells.first, cells.last)
        keys, late = cells.keys, lost.any()
        if late:
            windows, sources = np.divmod(keys, self._sources)
            keys = keys[self._given.count_numbered(sources, windows, windows) == 0]
        # Time may have passed a window of which the source had no row yet.
        passed = self._passed(keys)
        if passed.any():
            self._answer(keys[passed], now)
            keys = keys[~passed]
        place = self._open.searchsorted(keys)
        new = place == len(self._open)
        new[~new] = self._open[place[~new]] != keys[~new]
        if new.any():
            self._held = np.insert(self._held, place[new], 0)
            self._open = np.insert(self._open, place[new], keys[new])
        last, rows = cells.last * self._sources + cells.sources, cells.rows
        if late or passed.any():
            kept = (lost < cells.last - cells.first + 1) & ~self._passed(last)
            last, rows = last[kept], rows[kept]
        np.add.at(self._held, self._open.searchsorted(last), rows)
        self.rows += int(rows.sum())
        lost_pairs: Ints = lost * cells.rows
        return lost_pairs

    def _passed(self, keys: Ints) -> NDArray[np.bool_]:
        """Which windows of which sources time has passed."""
        windows, sources = np.divmod(keys, self._sources)
        last_ticks = windows * self.spec.slide + (self.spec.offset + self.spec.range - 1)
        passed: NDArray[np.bool_] = last_ticks <= np.where(
            self._named[sources], self._closed[sources], self._others
        )
        return passed

    def _close(self, now: int) -> None:
        """Answer the open windows that time has passed."""
        passed = self._passed(self._open)
        if passed.any():
            self._answer(self._open[passed], now)
            self.rows -= int(self._held[passed].sum())
            self._open, self._held = self._open[~passed], self._held[~passed]

    def _answer(self, keys: Ints, now: int) -> None:
        windows, sources = np.divmod(keys, self._sources)
        self._given.add_numbered(sources, windows)
        self._answers.append((self._ends(windows), np.full(len(windows), now)))

    def _ends(self, windows: Ints) -> Ints:
        ends: Ints = windows * self.spec.slide + (self.spec.offset + self.spec.range)
        return ends

    def answers(self) -> tuple[Ints, Ints]:
        """Where the windows of all answers end, and when these were final."""
        rest = self._ends(self._open // self._sources)
        ends = [*(e for e, _ in self._answers), rest]
        closed = [*(c for _, c in self._answers), np.full(len(rest), MAX_TICK)]
        return np.concatenate(ends), np.concatenate(closed)
