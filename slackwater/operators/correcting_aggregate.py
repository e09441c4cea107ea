"""The window aggregate whose final answers are corrected by late rows (D16).

The operator moves partials of closed panes to an archive instead of dropping them. When a page has rows of windows
that have their final answers, it reads the partials of these windows again, and emits one corrected row for each
window and group that has changed. A page without late rows costs nothing. A window that closes costs one more file.

A corrected row replaces the last answer of its window and group. If the query has HAVING, the operator also emits
the previous answer (`withdrawn`). Then the sink sees which of the two meet the condition
(`slackwater/operators/corrected_rows.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.columns import CLOSED, PANE, SOURCE, WINDOW
from slackwater.figures import Figures
from slackwater.operators.late_counts import LateCounts
from slackwater.operators.operator import Emit, State
from slackwater.operators.page import Page
from slackwater.operators.pane_store import Absorbed, Results
from slackwater.operators.past_answers import PastAnswers
from slackwater.operators.shared_fold import SharedFold
from slackwater.operators.window_aggregate import WindowAggregate
from slackwater.operators.window_settings import WindowSettings
from slackwater.operators.window_values import CorrectionValues, WindowValues
from slackwater.plan.nodes import WindowNode
from slackwater.progress.clock import Clock
from slackwater.progress.window_losses import WindowLosses
from slackwater.windows.closed import Closed
from slackwater.windows.closing import close
from slackwater.windows.results import CORRECTED, WITHDRAWN, ordered_values, result_rows

#: (partial, window) pairs in one step, some 20 MB: so a page whose rows are all late does not fill the driver.
MOST_PAIRS = 200_000
_AT, _HAD = "__at", "had"


@dataclass(frozen=True)
class _Restatement:
    """The values of some windows and groups after a late page and before it."""

    now: pl.DataFrame
    before: pl.DataFrame | None


class CorrectingAggregate(WindowAggregate):
    """Gives final answers, and corrects them when late rows come."""

    def __init__(
        self, label: str, node: WindowNode, clock: Clock, settings: WindowSettings, fold: SharedFold
    ) -> None:
        super().__init__(label, node, clock, settings, fold)
        assert node.corrections is not None
        self._correction = node.corrections
        self._missed = LateCounts(self._spec, self._node.domain)
        """Counts all rows that came after the answer; `_late` counts those that correct nothing."""
        self._restated: list[_Restatement] = []
        self._corrected = 0
        self._kept: PastAnswers | None = None

    @property
    def _past(self) -> PastAnswers:
        if self._kept is None:  # the stores are there once the operator is in the graph
            cells = self.pages.stores.cells(f"{self.label}-answered")
            self._kept = PastAnswers(self._node.kernel, cells)
        return self._kept

    # --- late rows

    def _absorb(self, page: Page) -> Absorbed:
        self._restated = []
        return self._panes.absorb(self.pages, page, self._closed, self._take_late)

    def _count(self, counts: pl.DataFrame, page: Page) -> tuple[WindowLosses, int]:
        """Report all rows that came after the answer, and count as lost those that correct nothing."""
        report, lost = self._missed.count(counts, self._closed, self.label, page.number), 0
        if report.lost:
            lost = self._late.count(counts, self._lost(), self.label, page.number).lost
        self._late.all_pairs = self._missed.all_pairs
        return report, lost

    def _lost(self) -> Closed:
        return self._closed.before(self._correction.windows, self._past.first)

    def _take_late(self, parts: Iterable[pl.DataFrame]) -> None:
        """Correct the answered windows that these partials of a page belong to, before the partials count."""
        late = pl.concat(parts, how="vertical_relaxed")
        self._restate_windows(late, self._answered(late).sort(WINDOW))
        if self._panes.keeps_late:
            return
        numbered = late.with_row_index(_AT)
        taken = self._closed.taken(numbered, self._spec, PANE, self._node.kernel.source_of)
        if taken.height < late.height:
            self._past.keep(numbered.join(taken.select(_AT), on=_AT, how="anti").drop(_AT))

    def _restate_windows(self, late: pl.DataFrame, places: pl.DataFrame) -> None:
        """Compute the answers that late partials change, some windows at a time."""
        windows, begin = places[WINDOW], 0
        while begin < places.height:
            end = places.height
            if begin + MOST_PAIRS < end:  # do not split a window
                end = int(windows.search_sorted(windows[begin + MOST_PAIRS], side="right"))
            some = places.slice(begin, end - begin)
            self._restated.append(self._restate(late[some[_AT].to_numpy()].hstack([some[WINDOW]])))
            begin = end

    def _answered(self, part: pl.DataFrame) -> pl.DataFrame:
        """Pairs of a partial (its row number, _AT) and an answered window that it corrects."""
        kernel, spec = self._node.kernel, self._spec
        beside = self._closed.beside(part.with_row_index(_AT), kernel.source_of)
        beside = beside.filter(pl.col(CLOSED).is_not_null())
        first, last = spec.windows_of(beside[PANE].to_numpy())
        through = beside[CLOSED].to_numpy()
        first = np.maximum(first, through - self._correction.windows + 1)
        if self._past.first is not None:
            first = np.maximum(first, self._past.first)
        last = np.minimum(last, through)
        windows = pl.int_ranges(pl.Series(first), pl.Series(last) + 1, dtype=pl.Int64).alias(WINDOW)
        source = kernel.source_of.alias(SOURCE)
        places = beside.select(_AT, source).with_columns(windows).filter(pl.Series(first <= last)).explode(WINDOW)
        if self._closed.given is not None and places.height:
            numbers = places[WINDOW].to_numpy()
            given = self._closed.given.count(places[SOURCE].to_list(), numbers, numbers)
            places = places.filter(pl.Series(given > 0))
        return places.select(_AT, WINDOW)

    def _restate(self, late: pl.DataFrame) -> _Restatement:
        """The answers of the windows and groups of some late partials, from all rows that have come."""
        kernel, spec, panes = self._node.kernel, self._spec, self._node.kernel.panes
        asked = late.select(WINDOW, *kernel.keys).unique(maintain_order=True)
        low, high = int(asked[WINDOW].to_numpy().min()), int(asked[WINDOW].to_numpy().max())
        by = [WINDOW, *panes.keys]
        columns = [WINDOW, *(name for name in late.columns if name not in (WINDOW, PANE))]
        before = [part.select(columns) for part in self._earlier(asked, spec.first_pane(low), spec.panes(high)[1])]
        now, had = late.select(columns), asked.clear()
        values = None
        if before:
            merged = panes.merge(pl.concat(before, how="vertical_relaxed").group_by(by)).select(columns)
            had = merged.select(asked.columns).unique()
            now = pl.concat([merged, now], how="vertical_relaxed")
            if self._correction.filters:
                values = self._values(merged)
        there = pl.lit(True).alias(_HAD)
        found = asked.join(had.with_columns(there), on=asked.columns, how="left", nulls_equal=True)
        commits = self._past.commits(found.with_columns(pl.col(_HAD).fill_null(False))).drop(_HAD)
        values_now = self._values(panes.merge(now.group_by(by)))

        def beside(frame: pl.DataFrame) -> pl.DataFrame:
            return frame.join(commits, on=asked.columns, how="left", nulls_equal=True, maintain_order="left")

        return _Restatement(beside(values_now), None if values is None else beside(values))

    def _values(self, merged: pl.DataFrame) -> pl.DataFrame:
        kernel = self._node.kernel
        return ordered_values(kernel, close(kernel, merged, self.pages.backend.close))

    def _earlier(self, asked: pl.DataFrame, low: int, high: int) -> Iterator[pl.DataFrame]:
        """The partials of these windows and groups before the late page, by window, from open panes and archive."""
        keys, spec = self._node.kernel.keys, self._spec
        wanted = asked[WINDOW].to_numpy()
        least, most = int(wanted.min()), int(wanted.max())
        groups = asked.select(keys).unique() if keys else None
        for parts in (self._panes.partials_between(low, high), self._past.partials(low, high)):
            for part in parts:
                mine = part
                if groups is not None:
                    mine = alike(part, groups.schema).join(groups, on=keys, how="semi", nulls_equal=True)
                if not mine.height:
                    continue
                first, last = spec.windows_of(mine[PANE].to_numpy())
                first, last = np.maximum(first, least), np.minimum(last, most)
                windows = pl.int_ranges(pl.Series(first), pl.Series(last) + 1, dtype=pl.Int64).alias(WINDOW)
                laid = mine.with_columns(windows).filter(pl.Series(first <= last)).explode(WINDOW)
                yield laid.join(asked, on=asked.columns, how="semi", nulls_equal=True)

    def _restate_all(self, emit: Emit) -> None:
        """Emit the corrected rows of the page."""
        kernel, schema, now = self._node.kernel, self._node.schema, self._clock.now()
        restated, self._restated = self._restated, []
        for each in restated:
            commit = self._given + 1
            rows = result_rows(kernel, each.now, schema, now, commit, CORRECTED)
            self._corrected += rows.num_rows
            self._past.note_groups(each.now, commit)
            if each.before is not None:
                rows = pa.concat_tables([rows, result_rows(kernel, each.before, schema, now, commit, WITHDRAWN)])
            emit(self._page(rows))

    # --- answers

    def _answering(self, before: Closed, after: Closed, results: Results) -> None:
        commit = self._given + 1
        if results.given is not None:
            self._past.note_windows(results.given, commit)
        elif after.emitted_through is not None:
            first = None if before.emitted_through is None else before.emitted_through + 1
            self._past.note_windows((first, after.emitted_through), commit)

    def _answering_gaps(self, gaps: pl.DataFrame) -> None:
        self._past.note_groups(gaps, self._given + 1)

    def _purge(self, closed: Closed) -> None:
        self._past.advance(closed, self._correction.windows)
        for part in self._panes.closed_partials(closed):
            self._past.keep(part)
        super()._purge(closed)

    # --- the journal

    def state(self, whole: bool) -> State:
        """The state of the window aggregate, and the past answers."""
        kept, (past, tables) = super().state(whole), self._past.state()
        mine = CorrectionValues(
            past=past,
            corrected=self._corrected,
            missed=self._missed.state(),
            filters=list(self._correction.filters),
        )
        kept.values = {**kept.values, "corrections": mine}
        kept.tables.update(tables)
        return kept

    def restore(self, states: Sequence[State]) -> None:
        """Continue. Windows whose answers came without corrections, or from other aggregates, are not corrected."""
        super().restore(states)
        values = states[-1].read(WindowValues)
        kept = values.get("corrections")
        same = values["partials"] == self._node.kernel.saved_columns()
        if kept is not None and same and kept["filters"] == list(self._correction.filters):
            self._past.restore(kept["past"], states[-1].tables)
            self._corrected = kept["corrected"]
            self._missed.restore(kept["missed"])
            return
        highest = self._closed.highest_closed()
        self._past.first = None if highest is None else highest + 1

    def settle(self) -> None:
        """Files that were dropped may be deleted."""
        super().settle()
        self._past.settle()

    def metrics(self) -> Figures:
        """Also the number of corrected rows, and the size of the archive."""
        return {**super().metrics(), "corrected_results": self._corrected, **self._past.metrics()}


def alike(part: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The frame with the types of this schema: files that Spark wrote may have other types than the driver."""
    return part.with_columns(pl.col(name).cast(kind) for name, kind in schema.items() if part.schema[name] != kind)
