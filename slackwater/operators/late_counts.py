"""Late rows, counted per query, source and window: a pair of these is lost when the window has been emitted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
import polars as pl

from slackwater.columns import PANE, ROWS, SOURCE
from slackwater.figures import Figures
from slackwater.operators.losses import OTHERS, Losses, LossesEntry
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import TimeDomain
from slackwater.progress.window_losses import RowsBySource, WindowLosses
from slackwater.windows.closed import Closed
from slackwater.windows.given import GivenWindows
from slackwater.windows.spec import WindowSpec

#: How many sources, and how many of the latest windows, are counted one by one.
MOST = 1_000
#: How many of them are shown.
SHOWN = 10

#: As a journal keeps them: rows, pairs lost and all pairs; rows by source, pairs by window, and losses.
LateValues: TypeAlias = tuple[int, int, int, dict[str, int], list[tuple[int, int]], list[LossesEntry]]


class LateCounts:
    """Counts of lost rows, by window and by source."""

    def __init__(self, spec: WindowSpec, domain: TimeDomain) -> None:
        self._spec = spec
        self._domain = domain
        self.rows = 0
        """Rows that some window no longer took."""
        self.pairs = 0
        """(row, window) pairs lost."""
        self.all_pairs = 0
        """All pairs, lost or not."""
        self.sources_that_lost: list[str] = []
        """By source: those with late rows in the page that was counted last."""
        self._lost_of: Ints = np.zeros(0, np.int64)
        """By source: the lost pairs of each entry of that page."""
        self._by_source: Counter[str] = Counter()
        self._by_window: Counter[int] = Counter()
        self._losses = Losses(spec, domain)

    def count(self, counts: pl.DataFrame, closed: Closed, label: str, page: int) -> WindowLosses:
        """Take a page's rows by pane; gives the report for the source."""
        by_source = None
        if closed.given is not None:
            lost = self._count_given(counts, closed.given)
            by_source = partial(_by_source, counts, self._lost_of, self._spec)
        else:
            lost = self._count_lost(counts, closed) + self._count_ahead(counts, closed)
        if len(self._by_window) > MOST:
            for window in sorted(self._by_window)[:-MOST]:
                del self._by_window[window]
        return self._report(counts, lost, label, page, by_source)

    def count_late(self, counts: pl.DataFrame, late: pl.DataFrame, label: str, page: int) -> WindowLosses:
        """The same where each row has one window: all rows of a page by pane, and those that are lost."""
        lost, by_source = int(late[ROWS].sum()), None
        if lost:
            self._count_rows(late)
        if SOURCE in late.columns:
            entries = pl.concat([counts.select(late.columns), late.with_columns(pl.col(ROWS) * 0)])
            lost_of = np.concatenate([np.zeros(counts.height, np.int64), late[ROWS].to_numpy()])
            by_source = partial(_by_source, entries, lost_of, self._spec)
        return self._report(counts, lost, label, page, by_source)

    def _report(
        self, counts: pl.DataFrame, lost: int, label: str, page: int, by_source: Callable[[], RowsBySource] | None
    ) -> WindowLosses:
        self.pairs += lost
        panes = counts.group_by(PANE).agg(pl.col(ROWS).sum()) if SOURCE in counts.columns else counts
        last_ticks, pairs = self._spec.rows_by_window(panes[PANE].to_numpy(), panes[ROWS].to_numpy())
        self.all_pairs += int(pairs.sum())
        return WindowLosses(label, page, last_ticks, pairs, lost, by_source)

    def _count_lost(self, counts: pl.DataFrame, closed: Closed) -> int:
        through = closed.emitted_through
        if counts.height == 0 or through is None:
            return 0
        first_open = self._spec.panes(through)[1]
        if not (counts[PANE] < first_open).any():  # of most pages; a query of polars takes much longer
            return 0
        late = counts.filter(pl.col(PANE) < first_open)
        self._count_rows(late)
        lost = 0
        for pane, rows in late.group_by(PANE).agg(pl.col(ROWS).sum()).sort(PANE).iter_rows():
            first, last = self._spec.first_window(pane), min(through, self._spec.last_window(pane))
            lost += (last - first + 1) * rows
            for window in range(max(first, last - MOST), last + 1):
                self._by_window[window] += rows
        return lost

    def _count_given(self, counts: pl.DataFrame, given: GivenWindows) -> int:
        """Pairs lost to windows that have been given for the row's own source."""
        self.sources_that_lost, self._lost_of = [], np.zeros(counts.height, np.int64)
        if counts.height == 0 or given.highest is None:
            return 0
        # Rows on time are in later windows than any that was given.
        passed = counts[PANE].to_numpy() < self._spec.panes(given.highest)[1]
        if not passed.any():
            return 0
        late = counts.filter(pl.Series(passed))
        sources, rows = late[SOURCE].to_list(), late[ROWS].to_numpy()
        first, last = self._spec.windows_of(late[PANE].to_numpy())
        lost = given.count(sources, first, last)
        if not lost.any():
            return 0
        self._lost_of[passed] = lost * rows
        late = late.filter(pl.Series(lost > 0))
        self._count_rows(late)
        self.sources_that_lost = late[SOURCE].unique().sort().to_list()
        self._by_window.update(dict(given.lost_by_window(sources, first, last, rows, MOST)))
        return int(self._lost_of.sum())

    def _count_ahead(self, counts: pl.DataFrame, closed: Closed) -> int:
        """Pairs lost to windows emitted ahead; a row that lost an earlier window too has been counted already."""
        if not closed.ahead:
            return 0
        lost, panes = 0, []
        for pane, rows in counts.group_by(PANE).agg(pl.col(ROWS).sum()).sort(PANE).iter_rows():
            first, last = self._spec.first_window(pane), self._spec.last_window(pane)
            windows = [w for low, high in closed.ahead for w in range(max(first, low), min(last, high) + 1)]
            if windows and (closed.emitted_through is None or first > closed.emitted_through):
                panes.append(pane)
            lost += len(windows) * rows
            self._by_window.update(dict.fromkeys(windows, rows))
        self._count_rows(counts.filter(pl.col(PANE).is_in(panes)))
        return lost

    def _count_rows(self, late: pl.DataFrame) -> None:
        self.rows += int(late[ROWS].sum())
        self._losses.count(late)
        if SOURCE in late.columns:
            for source, rows in late.group_by(SOURCE).agg(pl.col(ROWS).sum()).sort(SOURCE).iter_rows():
                name = source if source in self._by_source or len(self._by_source) < MOST else OTHERS
                self._by_source[name] += rows

    def state(self) -> LateValues:
        """As JSON values."""
        by_window = sorted(self._by_window.items())
        return self.rows, self.pairs, self.all_pairs, dict(self._by_source), by_window, self._losses.state()

    def restore(self, state: LateValues) -> None:
        """Continue from an earlier `state()`."""
        self.rows, self.pairs, self.all_pairs, by_source, by_window, *losses = state
        self._losses.restore(losses[0] if losses else [])
        self._by_source = Counter(by_source)
        self._by_window = Counter({w: n for w, n in by_window})

    def metrics(self) -> Figures:
        """Figures for a person: the sources that lost most, the latest windows that lost something."""
        latest = sorted(self._by_window.items())[-SHOWN:]
        return {
            "late_rows": self.rows,
            "lost_pairs": self.pairs,
            "lost_share": self.pairs / self.all_pairs if self.all_pairs else 0.0,
            "late_by_source": dict(self._by_source.most_common(SHOWN)),
            "lost_by_window": {self._domain.show(self._spec.bounds(w)[0]): n for w, n in latest},
            "losses": self._losses.figures(),
        }


def _by_source(counts: pl.DataFrame, lost: Ints, spec: WindowSpec) -> RowsBySource:
    rows, panes = counts[ROWS].to_numpy(), counts[PANE].to_numpy()
    return RowsBySource(counts[SOURCE].to_list(), panes, rows, lost, spec.rows_by_window)
