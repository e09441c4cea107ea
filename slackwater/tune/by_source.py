"""The same for a query that groups by the source: each source's windows end by its own heartbeat (D4, D10)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import polars as pl

from slackwater.columns import CLOSED, PANE, ROWS, SOURCE, WINDOW
from slackwater.progress.disorder import Disorder, Tracker
from slackwater.progress.report import Report, RowsBySource
from slackwater.progress.sources import Ints
from slackwater.progress.time import MAX_TICK, TimeDomain
from slackwater.tune.backtest import QUERY, Clock, Told, ignore
from slackwater.tune.outcome import Outcome
from slackwater.tune.pages import Pages
from slackwater.windows.closed import Closed
from slackwater.windows.given import GivenWindows
from slackwater.windows.spec import WindowSpec

_LAST = "__last_window"


def backtest_by_source(policy: Disorder, pages: Pages, told: Told = ignore) -> Outcome:
    """What a policy that knows sources would have made of the pages, in a query that groups by the source."""
    tracker = policy.tracker(TimeDomain.TIMESTAMP)
    clock, windows = Clock(tracker), _Windows(pages.spec)
    n, ats, arrivals = len(pages), pages.ats.tolist(), pages.arrivals
    met, lost, lost_rows, held = (np.zeros(n, np.int64) for _ in range(4))

    def say(now: int) -> bool:
        windows.advance(tracker, now)
        return windows.open.height > 0

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
        asks = windows.open.height > 0
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


@dataclass
class _Windows:
    """The open windows of each source, and the answers so far."""

    spec: WindowSpec
    closed: Closed = field(default_factory=lambda: Closed(by_source=True, given=GivenWindows()))
    open: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema={SOURCE: pl.String, WINDOW: pl.Int64}))
    """Windows that have rows and have not been answered."""
    _panes: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={SOURCE: pl.String, _LAST: pl.Int64, ROWS: pl.Int64})
    )
    _answers: list[tuple[Ints, Ints]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows of windows that are open."""
        return int(self._panes[ROWS].sum())

    def advance(self, tracker: Tracker, now: int) -> None:
        """Answer what the heartbeats have closed."""
        closed = self.closed.advanced(self.spec, tracker.heartbeat, tracker.by_source())
        if closed is not self.closed:
            self.closed = closed
            self._answer(now)

    def take(self, cells: pl.DataFrame, now: int) -> Ints:
        """A page's rows by source and pane; the pairs of each that were lost."""
        if cells.height == 0:
            return np.zeros(0, np.int64)
        given = self.closed.given
        assert given is not None
        sources, rows = cells[SOURCE].to_list(), cells[ROWS].to_numpy()
        first, last = self.spec.windows_of(cells[PANE].to_numpy())
        lost = given.count(sources, first, last)
        spread = pl.DataFrame({SOURCE: sources, WINDOW: pl.int_ranges(first, last + 1, eager=True), _LAST: last})
        windows = spread.select(SOURCE, WINDOW).explode(WINDOW).unique()
        if lost.any():
            numbers = windows[WINDOW].to_numpy()
            windows = windows.filter(pl.Series(given.count(windows[SOURCE].to_list(), numbers, numbers) == 0))
        kept = cells.select(SOURCE, pl.Series(_LAST, last), ROWS).filter(pl.Series(lost < last - first + 1))
        self.open = pl.concat([self.open, windows]).unique()
        self._panes = pl.concat([self._panes, kept]).group_by(SOURCE, _LAST).agg(pl.col(ROWS).sum())
        if self.closed.reopened(cells, self.spec).height:
            self._answer(now)
        return lost * rows

    def _answer(self, now: int) -> None:
        """Answer the windows that time has passed, and forget the panes that only they need."""
        beside = self.closed.beside(self.open, pl.col(SOURCE))
        passed = (pl.col(WINDOW) <= pl.col(CLOSED)).fill_null(False)
        due = beside.filter(passed)
        if due.height:
            windows = due[WINDOW].to_numpy()
            assert self.closed.given is not None
            self.closed.given.add(due[SOURCE].to_list(), windows)
            self._answers.append((self._ends(windows), np.full(len(windows), now)))
            self.open = beside.filter(~passed).drop(CLOSED)
        panes = self.closed.beside(self._panes, pl.col(SOURCE))
        self._panes = panes.filter((pl.col(_LAST) > pl.col(CLOSED)).fill_null(True)).drop(CLOSED)

    def _ends(self, windows: Ints) -> Ints:
        ends: Ints = windows * self.spec.slide + (self.spec.offset + self.spec.range)
        return ends

    def answers(self) -> tuple[Ints, Ints]:
        """Where the windows of all answers end, and when these were final."""
        rest = self._ends(self.open[WINDOW].to_numpy())
        ends = [*(e for e, _ in self._answers), rest]
        closed = [*(c for _, c in self._answers), np.full(len(rest), MAX_TICK)]
        return np.concatenate(ends), np.concatenate(closed)
