"""The window aggregate (S5 section 2.3): folds pages into panes, answers a window when time has passed its end.

A row is lost to a window only when that window has been emitted; it still counts for the open ones (D3). Where the
groups contain the stream's source, each group's windows end by its own source's heartbeat (D4), and a row is lost
only to a window that has been emitted for its source (D10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import cast

import polars as pl
import pyarrow as pa

from slackwater.columns import SOURCE, WINDOW
from slackwater.errors import QueryError, RunError
from slackwater.estimates.early import Early
from slackwater.estimates.estimates import Estimates
from slackwater.estimates.no_estimates import NoEstimates
from slackwater.events import decision
from slackwater.figures import Figures
from slackwater.operators.backend import LateTimes, PartialsTooLarge
from slackwater.operators.late_counts import LateCounts
from slackwater.operators.operator import LATE, Emit, Input, State, Unary, Wanted
from slackwater.operators.page import Page
from slackwater.operators.pane_store import Absorbed, PaneStore, ResidentPanes, Results, windows_by_source
from slackwater.operators.payload import Payload, payload_rows
from slackwater.operators.prod import Prod
from slackwater.operators.result_parts import result_parts
from slackwater.operators.result_time import next_end, result_time, wanted_of_rows
from slackwater.operators.shared_fold import SharedFold
from slackwater.operators.window_settings import NO_SETTINGS, WindowSettings
from slackwater.operators.window_values import WindowValues
from slackwater.plan.nodes import WindowNode
from slackwater.progress.clock import Clock
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.punctuation import Punctuation
from slackwater.progress.time import TimeDomain
from slackwater.progress.window_losses import WindowLosses
from slackwater.windows.closed import Closed
from slackwater.windows.closing import close
from slackwater.windows.fill import KnownGroups
from slackwater.windows.frames import frame_of
from slackwater.windows.given import GivenWindows
from slackwater.windows.results import early_rows, ordered_values, result_rows


class WindowAggregate(Unary):
    """Results of one windowed query, final ones and those that prods ask for."""

    def __init__(
        self,
        label: str,
        node: WindowNode,
        clock: Clock,
        settings: WindowSettings = NO_SETTINGS,
        fold: SharedFold | None = None,
    ) -> None:
        super().__init__(label)
        self._node = node
        self._spec = node.kernel.spec
        self._clock = clock
        self._settings = settings
        self._fold = fold or SharedFold()
        """Folds pages, perhaps for other windows over the same rows too."""
        self._fold.join(node.kernel.panes)
        self._panes: PaneStore = ResidentPanes(node.kernel, node.schema, self._fold)
        self._given = 0
        """Pages of results so far."""
        by_source = node.kernel.source is not None
        self._closed = Closed(by_source=by_source, given=GivenWindows() if by_source else None)
        self._kept_closed: pl.DataFrame | None = None
        """What the journal knows of the sources' windows."""
        self._late = LateCounts(self._spec, node.domain)
        self._windows = self._results = self._early = self._refused = self._filled = 0
        by_clock = node.domain is TimeDomain.TIMESTAMP
        # What another aggregate is made of is what has arrived, not an estimate.
        self._estimates: Estimates = NoEstimates(node.kernel)
        self._timing = None if settings.inner else settings.timing
        if not settings.inner and self._spec.alike:
            self._estimates = Estimates(node.kernel, settings.early or Early(), by_clock, settings.timing)
        self._known = None if node.fill is None else KnownGroups(node.kernel, node.fill, node.schema)

    def on_page(self, page: Page, emit: Emit) -> None:
        """Fold a page in; count, and send on if wanted, the rows that some window no longer takes."""
        try:
            counts, partials = self._absorb(page)
        except PartialsTooLarge:
            self._go_large()
            counts, partials = self._absorb(page)
        report, lost = self._count(counts, page)
        if partials is not None:
            report = replace(report, results=cache(partial(result_parts, self._node.kernel, partials)))
        self._reports.append(report)
        arrival = self.pages.arrival(page)
        self._estimates.page(self._clock.now(), report.last_ticks, report.pairs, arrival)
        missing = 0 if arrival is None else arrival.missing
        if self._settings.route_late and (lost or missing):
            self._send_late(page, emit)
        self._restate_all(emit)
        if self._closed.reopened(counts, self._spec).height:
            # Time has passed these windows already, but their sources had no row in them.
            self._emit_final(self._closed, self._closed, emit, ended=False)
            self._purge(self._closed)
        if self._resident is not None and self._panes.bytes > self._settings.resident_limit:
            self._go_large()

    def _absorb(self, page: Page) -> Absorbed:
        return self._panes.absorb(self.pages, page, self._closed)

    def _count(self, counts: pl.DataFrame, page: Page) -> tuple[WindowLosses, int]:
        """The report for the source, and how many (row, window) pairs are lost."""
        report = self._late.count(counts, self._closed, self.label, page.number)
        return report, report.lost

    def _lost(self) -> Closed:
        """The windows that take no more rows."""
        return self._closed

    def _restate_all(self, emit: Emit) -> None:
        """Correct the answers that the page has changed."""

    def _purge(self, closed: Closed) -> None:
        self._panes.purge(closed)

    def _send_late(self, page: Page, emit: Emit) -> None:
        lost = self._lost()
        by_source = None if lost.given is None else lost.given.late_ranges(self._late.sources_that_lost, self._spec)
        before, within = lost.late_before(self._spec), tuple(lost.late_within(self._spec))
        late = self.pages.late(page, LateTimes(before, within, by_source, self._node.closing_groups))
        if late is not None:  # a filter may have dropped those without a time
            emit(late, LATE)

    def waits_for_time(self, inputs: Sequence[Input]) -> bool:
        """Whether a window is open that has rows, or that a known group may have none in."""
        return not self._panes.empty or self._fills

    def next_useful_time(self, tick: int) -> int | None:
        """The last tick of the next window that may have rows."""
        return next_end(self._spec, tick, self._panes.span(), self._fills)

    def map_demand(self, wanted: Wanted) -> Wanted:
        """Results come as far as the last window that is closed."""
        return partial(wanted_of_rows, self._spec, wanted)

    def on_punctuation(self, time: Punctuation, emit: Emit) -> None:
        """Emit the windows that have ended, and drop the panes that no open window needs."""
        closed = self._closed.advanced(self._spec, time.heartbeat, time.sources)
        for after, until in time.ranges:
            closed = closed.ranged(self._spec, after, Heartbeat(until))
        if closed is not self._closed:
            # What was closed has been given; only a page can open such windows again.
            for before, after_all in replace(self._closed, given=None).steps(closed):
                self._emit_final(before, after_all, emit, time.heartbeat == Heartbeat.END)
            self._closed = closed
            self._estimates.closed(closed)
            self._purge(closed)

    def output(self, times: Sequence[Punctuation]) -> Punctuation:
        """How far results have come; a source's windows end by its own heartbeat where the groups contain it."""
        return result_time(self._spec, times[0], self._node.kernel.source is not None)

    def _emit_final(self, before: Closed, after: Closed, emit: Emit, ended: bool) -> None:
        if self._resident is not None and self._resident.exceeds(before, after, self._settings.resident_limit):
            self._go_large()
        results = self._panes.results(self.pages, before, after, self._clock.now(), self._commit)
        if results is not None and results.values is not None:
            self._estimates.final(results.values, self._clock.now(), ended)
        if results is not None and results.given is not None and self._closed.given is not None:
            self._closed.given.add(results.given[SOURCE].to_list(), results.given[WINDOW].to_numpy())
        if results is not None and payload_rows(results.payload):
            self._results += payload_rows(results.payload)
            self._windows += results.windows
            self._answering(before, after, results)
            emit(self._page(results.payload))
        if self._known is not None:
            self._fill(None if results is None else results.values, before, after, emit, ended)

    def _answering(self, before: Closed, after: Closed, results: Results) -> None:
        """These windows are answered by the next page."""

    def _answering_gaps(self, gaps: pl.DataFrame) -> None:
        """These windows and groups too."""

    @property
    def _fills(self) -> bool:
        """Whether a group is known that may have a window without rows."""
        known = None if self._known is None else self._known.frame
        return known is not None and known.height > 0

    def _fill(self, values: pl.DataFrame | None, before: Closed, after: Closed, emit: Emit, ended: bool) -> None:
        """Answer the windows that have ended and in which known groups had no row."""
        gaps = None if self._known is None else self._known.missing(values, before, after, ended)
        if gaps is None:
            return
        kernel = self._node.kernel
        if self._closed.given is not None:
            given = windows_by_source(kernel, gaps)
            self._closed.given.add(given[SOURCE].to_list(), given[WINDOW].to_numpy())
        self._filled += gaps.height
        self._answering_gaps(gaps)
        emit(self._page(result_rows(kernel, gaps, self._node.schema, self._clock.now(), self._commit)))

    @property
    def _commit(self) -> int | None:
        """The commit of the next page, where rows have it."""
        return None if self._node.corrections is None else self._given + 1

    def _page(self, payload: Payload, prod: Prod | None = None) -> Page:
        self._given += 1
        return self.pages.results(self.label, self._given, payload, self._node, self._clock.now(), prod)

    def on_prod(self, prod: Prod, emit: Emit) -> None:
        """Answer the open windows it speaks of, from what has arrived; nothing is purged. Then let it pass.

        The windows and groups of a prod are those of the topmost aggregate. Those below it give all that these may
        be made of; one that cannot makes the prod void, for an answer without its rows would be wrong. A condition
        that fails on the groups at hand asks for nothing.
        """
        merged, refused, mine = None, prod.void, self._settings.inner or prod.asks(self.label)
        try:
            merged = (
                None if prod.void or not mine else self._asked(self._below(prod) if self._settings.inner else prod)
            )
        except (PartialsTooLarge, QueryError) as error:
            decision("prod.refused", operator=self.label, error=error)
            self._refused += 1
            refused = True
        if merged is not None and merged.height:
            now = self._clock.now()
            kernel = self._node.kernel
            values = ordered_values(kernel, close(kernel, merged, self.pages.backend.close))
            estimated = self._estimates.early(values, now, prod.timed)
            self._early += estimated.height
            emit(self._page(early_rows(kernel, estimated, self._node.schema, now, self._commit), prod))
        if mine and self._timing is not None and prod.timed and prod.after is not None and prod.until is not None:
            first, last = (self._spec.last_closed(Heartbeat(end - 1)) for end in (prod.after, prod.until))
            windows = range(first + 1, last + 1)
            answered = set() if merged is None else set(merged[WINDOW].to_list())
            self._timing.asked(windows, windows if refused else answered, self._clock.now())
        emit(replace(prod, void=refused) if self._settings.inner else prod)

    def open_rows(self) -> pa.Table | None:
        """What the open windows have, as their results would be now."""
        kernel, merged = self._node.kernel, self._asked(Prod())
        if merged is None:
            return self._node.schema.empty_table()
        values = ordered_values(kernel, close(kernel, merged, self.pages.backend.close))
        return result_rows(kernel, values, self._node.schema, self._clock.now(), self._commit)

    def _below(self, prod: Prod) -> Prod:
        return Prod() if self._settings.asks_all else Prod(prod.until)

    def _asked(self, prod: Prod) -> pl.DataFrame | None:
        span = self._span()
        if span is None:
            return None
        until = self._spec.bounds(self._spec.last_window(span[1]))[1] if prod.until is None else prod.until
        before = replace(self._closed, given=None)
        if prod.after is not None:
            before = before.advanced(self._spec, Heartbeat(prod.after - 1), None)
        after = before.advanced(self._spec, Heartbeat(until - 1), None)
        if after is before:
            return None
        merged = self._merged(before, after)
        if merged is None or prod.where is None:
            return merged
        return merged[self.pages.backend.matching(merged.select(self._node.kernel.keys), prod.where)]

    def _span(self) -> tuple[int, int] | None:
        return self._panes.span()

    def _merged(self, before: Closed, after: Closed) -> pl.DataFrame | None:
        parts = [self._panes.merged(*step) for step in before.steps(after)]
        found = [part for part in parts if part is not None]
        return pl.concat(found) if found else None

    @property
    def _resident(self) -> ResidentPanes | None:
        """The store, while it is in the driver."""
        here = isinstance(self._panes, ResidentPanes) and self._panes.kind == ResidentPanes.kind
        return cast(ResidentPanes, self._panes) if here else None

    def _go_large(self) -> None:
        assert isinstance(self._panes, ResidentPanes)
        if self._known is not None:
            raise RunError(
                f"{self.label}: fill= knows the groups in the driver, and they are more than it may hold; raise "
                "Session(resident_limit=…), or write forget= with a shorter time"
            )
        decision("panes.spilled", operator=self.label, bytes=self._panes.bytes, limit=self._settings.resident_limit)
        self._panes = self.pages.stores.panes(self.label, self._panes, self._node.domain)
        self.detach()

    def detach(self) -> None:
        """Pages need not be folded for it any more."""
        self._fold.detach(self._node.kernel.panes)

    def state(self, whole: bool) -> State:
        """Counts, the closed windows, and the store's own changes."""
        kept = self._panes.state(whole)
        whole = kept.whole  # what came before a whole state is not read again
        kept.values = WindowValues(
            store=self._panes.kind,
            panes=kept.values,
            closed=self._closed.emitted_through,
            ahead=list(self._closed.ahead),
            counts=(self._windows, self._results, self._early, self._given),
            estimates=self._estimates.state(),
            measured=self._estimates.measured,
            partials=self._node.kernel.saved_columns(),
            late=self._late.state(),
            filled=self._filled,
        )
        learned = self._estimates.table(whole)
        if learned is not None:
            kept.tables["estimates"] = learned
        news = self._closed.news(None if whole else self._kept_closed)
        if news is not None:
            kept.tables["closed"] = news.to_arrow()
        self._kept_closed = self._closed.named
        known = None if self._known is None else self._known.take_news(whole)
        if known is not None:
            kept.tables["known"] = known.to_arrow()
        given = None if self._closed.given is None else self._closed.given.table(whole)
        if given is not None:
            kept.tables["given"] = given.to_arrow()
        return kept

    def restore(self, states: Sequence[State]) -> None:
        """Continue from journaled states; those of a store that was left for a larger one do not matter."""
        values = states[-1].read(WindowValues)
        self._windows, self._results, self._early, self._given = values["counts"]
        mine = [s for s in states if s.values.get("measured") == self._estimates.measured]
        if mine and mine[-1] is states[-1]:  # else early answers learn anew
            learned = [s.tables["estimates"] for s in mine if "estimates" in s.tables]
            self._estimates.restore(values["estimates"], learned)
        self._late.restore(values["late"])
        ahead = tuple((first, last) for first, last in values.get("ahead", ()))
        self._closed = replace(self._closed, emitted_through=values["closed"], ahead=ahead)
        tables = [frame_of(s.tables["closed"]) for s in states if "closed" in s.tables]
        if tables:
            self._closed = self._closed.with_news(pl.concat(tables))
        self._kept_closed = self._closed.named
        if self._closed.given is not None:
            self._closed.given.load([frame_of(s.tables["given"]) for s in states if "given" in s.tables])
        if self._known is not None:
            self._filled = values["filled"]
            self._known.restore([frame_of(s.tables["known"]) for s in states if "known" in s.tables], self._closed)
        kind = values["store"]
        if kind != self._panes.kind:
            self._go_large()
        mine = [self._adopted(s) for s in states if s.values["store"] == kind]
        self._panes.restore(mine, self._closed)

    def _adopted(self, state: State) -> State:
        """The store's part of a state, with the partials of this query, which a restart may have changed."""
        saved, kernel, tables = state.read(WindowValues)["partials"], self._node.kernel, dict(state.tables)
        if saved != kernel.saved_columns():
            if self._panes.kind != ResidentPanes.kind:
                raise RunError(f"{self.label}: its windows lie in files, which keep the aggregates that they have")
            if "panes" in tables:
                tables["panes"] = kernel.adopt(tables["panes"], saved)
        return replace(state.at("panes"), tables=tables)

    def settle(self) -> None:
        """Purged panes may be deleted."""
        self._panes.settle()
        self._estimates.settle()

    def metrics(self) -> Figures:
        """Late rows, windows, and the size of the state."""
        return {
            **self._late.metrics(),
            "windows": self._windows,
            "results": self._results,
            "early_results": self._early,
            **({"prods_refused": self._refused} if self._refused else {}),
            **({"filled_results": self._filled} if self._known is not None else {}),
            **self._estimates.metrics(),
            "store": self._panes.kind,
            **self._panes.size,
        }
