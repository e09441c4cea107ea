"""What `drop_ratio` has seen of a stream, or of a class of its sources, whatever share may be lost.

Trackers of several shares that are told of the same rows may share it: then one of them takes the rows in.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np
from datasketches import kll_doubles_sketch

from slackwater.progress.arrival import Arrival
from slackwater.progress.credible_time import CredibleTime
from slackwater.progress.drop_ratio.budget import AHEAD, RemainingBudget
from slackwater.progress.drop_ratio.lateness import Lateness, ranks_of
from slackwater.progress.drop_ratio.loss_curve import LossCurve, RecentRows
from slackwater.progress.drop_ratio.lost_pairs import sums_behind
from slackwater.progress.drop_ratio.required_slack import RequiredSlack
from slackwater.progress.restorable import Restorable, restore_each, state_of_each
from slackwater.progress.source_numbers import Floats
from slackwater.progress.time import MIN_TICK
from slackwater.progress.window_losses import WindowLosses

#: A stretch is looked at in so many cells; a cell is a page, or several where the stretch has more pages.
CELLS = 100
#: A stream begins with the time that this share of its first page lies below.
OLDEST = 0.05
#: The name under which rows count when no query reports.
_ROWS = ""
T = TypeVar("T")


class Evidence(Restorable):
    """The cells of the last stretch: how late their rows came, and what the pairs of each query needed."""

    STATE = (
        *("reference", "lateness", "places", "before", "moved", "_waiting", "_met"),
        *("_pages", "_began", "last_arrival"),
    )

    def __init__(self, stretch: int, by_time: bool, timestamps: bool) -> None:
        self._stretch, self._by_time, self._timestamps = stretch, by_time, timestamps
        self._cell_length = max(1, -(-stretch // CELLS))
        self.reference = CredibleTime()
        self.lateness = Lateness(CELLS)
        self.queries: dict[str, RequiredSlack] = {}
        # Of each cell: where it lies (page number or arrival), the reference before it, how far that then moved.
        self.places: list[int] = []
        self.before: list[int] = []
        self.moved: list[int] = []
        # The reference that admitted pages met: of those that have not arrived, and of the last ones by number.
        self._waiting: list[int | None] = []
        self._met: dict[int, int | None] = {}
        self._pages = 0
        self._began: int | None = None
        self.last_arrival = MIN_TICK
        self.place = 0
        """Where the last page lies."""
        self.oldest: int | None = None
        """Of the first page with times: the time that a share of OLDEST lies below."""
        self.timed = self.new_cell = self.jumped = False
        """Of the last page: whether it has times, began a cell, and made the reference jump."""
        self._found: dict[Hashable, Any] = {}
        """What has been computed since the last page."""

    def once(self, what: Hashable, compute: Callable[[], T]) -> T:
        """What has been computed already since the last page, or what is computed now."""
        if what not in self._found:
            self._found[what] = compute()
        known: T = self._found[what]
        return known

    def admit(self, page: int) -> None:
        """Note the reference that the page meets."""
        self._waiting.append(self.reference.time)
        self._met[page] = self.reference.time
        if len(self._met) > 2 * CELLS:
            del self._met[next(iter(self._met))]

    def hear(self, report: WindowLosses) -> None:
        """Note what the pages' pairs would have needed."""
        if report.query not in self.queries:
            self.queries[report.query] = RequiredSlack(CELLS)
        self.queries[report.query].hear(report, self._met.get(report.page))

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's times."""
        met = self._waiting.pop(0) if self._waiting else self.reference.time
        if arrival.rows:
            self.last_arrival = max(self.last_arrival, arrival.at)
        self._pages += 1
        self.place = self.now
        self._began = self.place if self._began is None else self._began
        self.timed = arrival.highest is not None and arrival.timed > 0
        if self.timed:
            self._take(arrival, met)

    @property
    def now(self) -> int:
        """Where a page that comes now lies."""
        return self.last_arrival if self._by_time else self._pages

    def _take(self, arrival: Arrival, met: int | None) -> None:
        assert arrival.highest is not None
        self._found = {}
        place, old = self.place, self.reference.time
        self.jumped = self.reference.pass_arrival(arrival, arrival.at if self._timestamps else None)
        now = self.reference.time
        assert now is not None
        self.new_cell = not self.places or place // self._cell_length > self.places[-1] // self._cell_length
        # After a jump the page is judged as if it came once more: what was held back may go on coming.
        base = now - self.reference.usual if self.jumped else met
        # The stream is as old as its first rows; a few of them may be corrupt.
        self.oldest = int(_times(arrival, np.full(1, OLDEST))[0]) if old is None else None
        ranks, shares = ranks_of(arrival.timed)
        late = np.full(len(ranks), -np.inf) if base is None else float(base) - _times(arrival, ranks)
        self.lateness.add(late, shares * arrival.timed, self.new_cell)
        moved = 0 if old is None or self.jumped or self.reference.after_silence else now - old
        if self.new_cell:
            self.places.append(place)
            self.before.append(MIN_TICK if met is None else met)
            self.moved.append(moved)
        else:
            self.moved[-1] += moved
        for kept in (self.places, self.before, self.moved):
            del kept[:-CELLS]
        if not self.queries:
            self.queries[_ROWS] = RequiredSlack(CELLS)
        for name, query in self.queries.items():
            if name == _ROWS:
                query.count(arrival.timed)
            query.arrive(arrival.highest, self.new_cell)
        if len(self.queries) > 1:
            self.queries.pop(_ROWS, None)

    # --- what follows from the cells

    def changed(self, cells: int) -> tuple[int, int]:
        """Over how many of the newest cells rows come later, and over how many sooner; see `Lateness.changed`."""
        return self.once(("changed", cells), lambda: self.lateness.changed(cells))

    def curve(self, name: str, cells: int, since: int | None) -> LossCurve | None:
        """What each slack would lose of a query's pairs, by the newest cells; see `RequiredSlack.curve`."""
        rows = self.once(("rows", cells, since), lambda: self._rows(cells, since))
        return self.once(("curve", name, cells, since), lambda: self.queries[name].curve(rows))

    def _rows(self, cells: int, since: int | None) -> RecentRows:
        spans = np.full(cells, np.inf)
        if since is not None:
            spans = np.array([float(b) - since for b in self.before[-cells:]])
        # The first cell that lies in the stretch which ends here.
        first = bisect_right(self.places, self.places[-1] - self._stretch)
        advance = sum(self.moved[first:]) / self._observed()
        return RecentRows(self.lateness.late(cells), self.lateness.rows[-cells:].sum(1), spans, advance)

    def _observed(self) -> float:
        """Which part of a stretch has been seen."""
        assert self._began is not None
        first = 0 if self._by_time else 1
        return min(1.0, max((self.places[-1] - self._began + first) / self._stretch, 1 / CELLS))

    def budget(self, name: str) -> RemainingBudget:
        """What the stretches to come may still lose of a query's pairs."""
        return self.once(("budget", name), lambda: self._budget(self.queries[name]))

    def _budget(self, query: RequiredSlack) -> RemainingBudget:
        place, known = self.place, self._observed()
        places, pairs = np.array(self.places[-len(query.pairs) :]), np.array(query.pairs, dtype=np.float64)
        whole = float(pairs[places > place - self._stretch].sum()) / known
        first = places.searchsorted(place - self._stretch * (1 - AHEAD), side="right")
        # A stretch with a gap has fewer pairs: the fewest count that came lately in as long a part.
        parts = np.maximum(AHEAD, 1 - known)
        ends = places[:, None] + self._stretch * parts
        sums = np.append(0.0, pairs.cumsum())
        came = sums[places.searchsorted(ends, side="right")] - sums[1:, None]
        fewest = np.where(ends <= place, came, np.inf).min(0)
        return RemainingBudget(whole, first, sums_behind(query.pairs, first), np.minimum(parts * whole, fewest))

    # --- what is kept

    def state(self) -> dict[str, Any]:
        """The cells, and those of each query."""
        return {**super().state(), **state_of_each("queries", self.queries)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        super().restore(state)
        self.queries = restore_each("queries", state, lambda name: RequiredSlack(CELLS))
        self._found = {}


def _times(arrival: Arrival, ranks: Floats) -> Floats:
    """The times of a page at some ranks, from the lowest."""
    if arrival.sketch is None:
        return np.full(len(ranks), float(arrival.highest or 0))
    found = kll_doubles_sketch.deserialize(arrival.sketch).get_quantiles(ranks)
    return np.asarray(found, dtype=np.float64)
