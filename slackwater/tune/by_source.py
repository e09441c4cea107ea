"""The back-test of a query that groups by the source: each source's windows end by its own heartbeat (D4, D10)."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.disorder import Tracker
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.progress.window_losses import RowsBySource, WindowLosses
from slackwater.tune.arrival_pages import ArrivalPages
from slackwater.tune.backtest import QUERY
from slackwater.tune.outcome import PolicyOutcome
from slackwater.tune.source_cells import Cells
from slackwater.windows.closed import ends_reached
from slackwater.windows.given import GivenWindows


class SourceWindows:
    """The open windows of each source, and the answers so far. Sources go by their place among all names.

    A window of a source is a key, window * sources + source.
    """

    def __init__(self, pages: ArrivalPages) -> None:
        self._pages, self._spec = pages, pages.spec
        names = pages.by_source.names
        self._sources = max(1, len(names))
        self._place = {name: k for k, name in enumerate(names)}
        self._given = GivenWindows(names)
        # The last tick that time has closed, of sources that the policy names and of all others.
        self._closed: Ints = np.full(len(names), MIN_TICK, dtype=np.int64)
        self._named = np.zeros(len(names), bool)
        self._others = MIN_TICK
        # The sources that the policy named last, and the place of each; -1 for those that send nothing.
        self._named_last: tuple[list[str], Ints] = ([], np.zeros(0, np.int64))
        # The heartbeats, in that order, at which the next windows end.
        self._due: Ints = np.zeros(0, np.int64)
        # Open windows as keys, in order; for each, the rows whose last window it is.
        self._open, self._rows_of = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._rows = 0
        self._answers: list[tuple[Ints, Ints]] = []
        self._lost, self._lost_rows, self._held = (np.zeros(len(pages), np.int64) for _ in range(3))

    @property
    def waiting(self) -> bool:
        """Whether a window that has rows is open."""
        return len(self._open) > 0

    def next_end(self, tick: int) -> None:
        """Nobody asks: policies whose time goes on with the clock know no sources."""

    def advance(self, tracker: Tracker, now: int) -> None:
        """Answer what the heartbeats have closed."""
        by = tracker.by_source()
        if by is None:
            (reached,) = ends_reached(self._spec, np.array([tracker.heartbeat.tick])).tolist()
            closed, others = np.maximum(self._closed, np.where(self._named, reached, MIN_TICK)), reached
        else:
            ticks = np.append(by.ticks, by.others)
            same = by.names == self._named_last[0]
            if same and len(self._due) and not (ticks >= self._due).any():
                return  # most pages bring no heartbeat to the end of a window
            if not same:
                self._named_last = list(by.names), np.array([self._place.get(n, -1) for n in by.names])
            reached = ends_reached(self._spec, ticks)
            self._due = reached + self._spec.slide
            known = self._named_last[1] >= 0  # a policy may name sources that send nothing
            places, closed, others = self._named_last[1][known], self._closed.copy(), int(reached[-1])
            closed[places] = np.maximum(closed[places], reached[:-1][known])
            self._named[places] = True
        others = max(self._others, others)
        if others == self._others and np.array_equal(closed, self._closed):
            return
        self._closed, self._others = closed, others
        self._close(now)

    def take(self, k: int, now: int, heartbeat: int) -> WindowLosses:
        """Take a page's rows, and report how many of each source came too late."""
        cells = self._pages.by_source.cells_of(k)
        lost = self._add(cells, now)
        if lost.any():
            self._lost[k], self._lost_rows[k] = lost.sum(), cells.rows[lost > 0].sum()
        spec, pairs = self._spec, self._pages.pairs_of(k)
        rows = partial(RowsBySource, cells.names, cells.panes, cells.rows, lost, spec.rows_by_window)
        return WindowLosses(QUERY, k, *pairs, int(self._lost[k]), rows)

    def end_page(self, k: int) -> None:
        """Note the rows of open windows."""
        self._held[k] = self._rows

    def outcome(self, met: Ints) -> PolicyOutcome:
        """The outcome of all pages."""
        rest = self._ends(self._open // self._sources)
        ends = [*(ends for ends, _ in self._answers), rest]
        closed = [*(closed for _, closed in self._answers), np.full(len(rest), MAX_TICK)]
        figures = self._lost, self._lost_rows, self._held, np.concatenate(ends), np.concatenate(closed)
        return PolicyOutcome(self._pages, met, *figures)

    def _add(self, cells: Cells, now: int) -> Ints:
        """Add a page's rows to their open windows; the pairs of each entry that were lost."""
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
            self._rows_of = np.insert(self._rows_of, place[new], 0)
            self._open = np.insert(self._open, place[new], keys[new])
        last, rows = cells.last * self._sources + cells.sources, cells.rows
        if late or passed.any():
            kept = (lost < cells.last - cells.first + 1) & ~self._passed(last)
            last, rows = last[kept], rows[kept]
        np.add.at(self._rows_of, self._open.searchsorted(last), rows)
        self._rows += int(rows.sum())
        lost_pairs: Ints = lost * cells.rows
        return lost_pairs

    def _passed(self, keys: Ints) -> NDArray[np.bool_]:
        """Which windows of which sources time has passed."""
        windows, sources = np.divmod(keys, self._sources)
        last_ticks = windows * self._spec.slide + (self._spec.offset + self._spec.range - 1)
        passed: NDArray[np.bool_] = last_ticks <= np.where(
            self._named[sources], self._closed[sources], self._others
        )
        return passed

    def _close(self, now: int) -> None:
        """Answer the open windows that time has passed."""
        passed = self._passed(self._open)
        if passed.any():
            self._answer(self._open[passed], now)
            self._rows -= int(self._rows_of[passed].sum())
            self._open, self._rows_of = self._open[~passed], self._rows_of[~passed]

    def _answer(self, keys: Ints, now: int) -> None:
        windows, sources = np.divmod(keys, self._sources)
        self._given.add_numbered(sources, windows)
        self._answers.append((self._ends(windows), np.full(len(windows), now)))

    def _ends(self, windows: Ints) -> Ints:
        ends: Ints = windows * self._spec.slide + (self._spec.offset + self._spec.range)
        return ends
