"""The tracker of `drop_ratio`: cells of pages, the slack that they ask for, and when time stands still."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from datasketches import kll_doubles_sketch

from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Found, Tracker, once
from slackwater.progress.drop_ratio.lateness import Floats, Lateness, ranks_of
from slackwater.progress.drop_ratio.required_slack import AHEAD, Budget, RequiredSlack, Rows, Still
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.reference import Reference
from slackwater.progress.report import Report
from slackwater.progress.sources import Ints
from slackwater.progress.time import MIN_TICK

#: A stretch is looked at in so many cells; a cell is a page, or several where the stretch has more pages.
CELLS = 100
#: At the start and after a change, time moves when it has gone on for so long that the slack is at most this part,
SEEN = 0.6
#: or at the start this part, if rows of the newer half of the cells are at most so many times as late as the rest:
#: clocks show at once how wrong they are, delays only when they have passed. The slack is that
BEGUN, LATER = 0.8, 1.05
#: by all cells since the change and by so many of the newest alone, of whose rows 80 % are at most half of it late,
NEWEST = 4
#: or not so much later than those of all cells.
GROWN = 1.25
#: A stream begins with the time that this share of its first page lies below.
OLDEST = 0.05
#: Cells that there must be at least before time moves for the first time.
FIRST = 5
#: After a change for the better only the newest cells count, if so many rows of theirs may be lost. At the start,
#: while fewer may be, more than the slack must have been seen.
ENOUGH = 5
#: The name under which rows count when no query reports.
_ROWS = ""
T = TypeVar("T")


class DropRatioTracker(Tracker):
    """Keeps the heartbeat behind the reference by the slack that the query with the largest need asks for.

    It is for a stream or for a class of its sources. It holds time back while rows come later than they did, until
    what is still to come can be judged.
    """

    def __init__(self, p: float, stretch: int, by_time: bool, timeout: int | None) -> None:
        self._p, self._stretch, self._by_time, self._timeout = p, stretch, by_time, timeout
        self._cell_length = max(1, -(-stretch // CELLS))
        self._reference = Reference()
        self._lateness = Lateness(CELLS)
        self._queries: dict[str, RequiredSlack] = {}
        # Of each cell: where it lies (page number or arrival), the reference before it, how far that then moved.
        self._places: list[int] = []
        self._before: list[int] = []
        self._moved: list[int] = []
        # The reference that admitted pages met: of those that have not arrived, and of the last ones by number.
        self._waiting: list[int | None] = []
        self._met: dict[int, int | None] = {}
        self._pages = 0
        self._began: int | None = None
        self._last_arrival = MIN_TICK
        # How many of the newest cells count; None: all. Since which reference lateness can be seen.
        self._recent = 0
        self._since: int | None = None
        # Cells since a change for the worse while it is still unknown how late rows will be.
        self._onset = 0
        self._warned = False
        self._unknown = True
        self._slack: int | None = None
        self._heartbeat = Heartbeat.NONE
        self._found: Found | None = None
        self._rows_of: object = None

    def share(self, found: Found, rows_of: object = None) -> None:
        """Share what does not depend on `p` with trackers of the same rows; `rows_of` names them."""
        self._found, self._rows_of = found, rows_of

    def _once(self, what: tuple[object, ...], compute: Callable[[], T]) -> T:
        return once(self._found, (self._rows_of, self._stretch, self._by_time, *what), compute)

    @property
    def heartbeat(self) -> Heartbeat:
        """The slack and one tick behind the reference; never goes back."""
        return self._heartbeat

    def admit(self, page: int) -> None:
        """Note the reference that the page meets."""
        self._waiting.append(self._reference.time)
        self._met[page] = self._reference.time
        if len(self._met) > 2 * CELLS:
            del self._met[next(iter(self._met))]

    def hear(self, report: Report) -> None:
        """Note what the pages' pairs would have needed."""
        if report.query not in self._queries:
            self._queries[report.query] = RequiredSlack(CELLS)
        self._queries[report.query].hear(report, self._met.get(report.page))

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's times; then see how far the heartbeat may go."""
        met = self._waiting.pop(0) if self._waiting else self._reference.time
        if arrival.rows:
            self._last_arrival = max(self._last_arrival, arrival.at)
        self._pages += 1
        place = self._last_arrival if self._by_time else self._pages
        self._began = place if self._began is None else self._began
        if arrival.highest is None or not arrival.timed:
            return
        jumped = self._take(arrival, met, place)
        self._judge(jumped, place)
        if self._slack is not None and self._reference.time is not None:
            self._raise(self._reference.time - self._slack - 1)

    def _take(self, arrival: Arrival, met: int | None, place: int) -> bool:
        assert arrival.highest is not None
        old = self._reference.time
        jumped = self._reference.pass_arrival(arrival)
        now = self._reference.time
        assert now is not None
        new_cell = not self._places or place // self._cell_length > self._places[-1] // self._cell_length
        # After a jump the page is judged as if it came once more: what was held back may go on coming.
        base = now - self._reference.usual if jumped else met
        if old is None:
            # The stream is as old as its first rows; a few of them may be corrupt.
            self._since = int(_times(arrival, np.full(1, OLDEST))[0])
        ranks, shares = ranks_of(arrival.timed)
        if base is None:
            late = np.full(len(ranks), -np.inf)
        else:
            late = float(base) - self._once(("times",), lambda: _times(arrival, ranks))
        self._lateness.add(late, shares * arrival.timed, new_cell)
        moved = 0 if old is None or jumped else now - old
        if new_cell:
            self._places.append(place)
            self._before.append(MIN_TICK if met is None else met)
            self._moved.append(moved)
            self._recent += 1
            self._onset += 1 if self._onset else 0
        else:
            self._moved[-1] += moved
        for kept in (self._places, self._before, self._moved):
            del kept[:-CELLS]
        if not self._queries:
            self._queries[_ROWS] = RequiredSlack(CELLS)
        for name, query in self._queries.items():
            if name == _ROWS:
                query.count(arrival.timed)
            query.arrive(arrival.highest, new_cell)
        if len(self._queries) > 1:
            self._queries.pop(_ROWS, None)
        return jumped

    # --- how far time may go

    def _judge(self, jumped: bool, place: int) -> None:
        """Choose the slack; None while the heartbeat must stand."""
        n = min(self._recent, len(self._lateness))
        comparable = self._comparable(n)
        later, sooner = self._once(("changed", comparable), lambda: self._lateness.changed(comparable))
        missing = self._once(("missing", comparable), lambda: self._lateness.missing(comparable, self._moved))
        later = max(later, missing)
        if later:
            self._alarm(later, jumped)
        elif sooner and not self._unknown and self._lateness.rows[-sooner:].sum() * self._p >= ENOUGH:
            self._recent = n = sooner
            self._since = None
        elif self._onset and self._lateness.over(n, self._onset, self._moved):
            self._onset, self._unknown, self._since = 0, False, None
        self._warned = bool(later)
        cells = min(self._onset or n, n)
        slack = self._needed(cells, place)
        if self._unknown:
            newest = min(NEWEST, cells)
            slack = max(slack, self._needed(newest, None))
            self._unknown = not self._known(slack, cells, bool(later))
            if not self._unknown and self._onset:
                # It may be over already, as after a burst; if not, only what came since then counts.
                if self._lateness.changed(n)[0]:
                    self._recent = cells
                else:
                    self._since = None
                self._onset = 0
        self._slack = None if later or self._unknown else int(np.ceil(slack))

    def _comparable(self, n: int) -> int:
        """How many of the newest cells show lateness in full; none while it is growing after a change."""
        if self._onset:
            return 0
        if self._since is None or self._slack is None:
            return n
        least = self._since + self._slack
        return sum([b >= least for b in self._before[-n:]])

    def _alarm(self, later: int, jumped: bool) -> None:
        """Rows come later than before: one page may be chance, more are a change."""
        if jumped:
            self._onset, self._unknown, self._since = 1, True, self._reference.time
        elif later > 1 or self._warned:
            self._onset, self._unknown = max(later, 2), True
            self._since = self._before[-min(self._onset, len(self._before))]

    def _known(self, slack: float, cells: int, later: bool) -> bool:
        """Whether the stream has gone on for so long that more than this slack would have been seen."""
        if cells >= CELLS:
            return True
        if later or self._since is None or cells < FIRST:
            return False
        span = self._before[-1] - self._since
        newest, all_ = (self._lateness.quantiles((0.8,), n)[0] for n in (NEWEST, cells))
        if newest > max(span / 2, GROWN * all_):
            return False
        if self._onset:
            return slack <= SEEN * span
        half = cells // 2
        older, newer = (self._lateness.quantiles((0.97,), n, but)[0] for n, but in ((cells, half), (half, 0)))
        part = SEEN if newer > LATER * older else BEGUN
        losable = self._p * float(self._lateness.rows[-cells:].sum())
        # Of few rows the tail has not been seen.
        return losable >= 1 and slack * max(1.0, (ENOUGH / losable) ** 0.5) <= part * span

    def _needed(self, cells: int, place: int | None) -> float:
        """The largest need of all queries, by so many cells; by rows alone if there is no place for a budget."""
        _, known = self._part(self._places[-1])
        rows = self._once(("rows", cells, self._since), lambda: self._rows(cells))
        slack = 0.0
        for name, query in self._queries.items():
            what = ("losses", name, cells, self._since, place is None)
            losses = self._once(what, partial(query.losses, rows, place is not None))
            if losses is not None:
                budget = None if place is None else self._budget(name, query, place, known)
                slack = max(slack, losses.slack(self._p, budget))
        return slack

    def _rows(self, cells: int) -> Rows:
        spans = np.full(cells, np.inf)
        if self._since is not None:
            spans = np.array([float(b) - self._since for b in self._before[-cells:]])
        stretch, known = self._part(self._places[-1])
        return Rows(
            self._lateness.values[-cells:],
            self._lateness.rows[-cells:],
            spans,
            sum(self._moved[self._first_inside(self._places[-1]) :]) / known,
            stretch,
            self._lateness.late(cells),
        )

    def _part(self, place: int) -> tuple[float, float]:
        """How many cells a stretch has, and which part of a stretch has been seen."""
        assert self._began is not None
        first = 0 if self._by_time else 1
        known = min(1.0, max((place - self._began + first) / self._stretch, 1 / CELLS))
        return (len(self._places) - self._first_inside(place)) / known, known

    def _first_inside(self, place: int) -> int:
        """The first cell that lies in the stretch which ends here."""
        return bisect_right(self._places, place - self._stretch)

    def _budget(self, name: str, query: RequiredSlack, place: int, known: float) -> Budget:
        still = self._once(("stretch", name, place), lambda: self._still(query, place, known))
        return Budget(still, _behind(query.lost, still.first))

    def _still(self, query: RequiredSlack, place: int, known: float) -> Still:
        """What does not depend on what was lost."""
        places, pairs = np.array(self._places[-len(query.pairs) :]), np.array(query.pairs, dtype=np.float64)
        whole = float(pairs[places > place - self._stretch].sum()) / known
        first = np.searchsorted(places, place - self._stretch * (1 - AHEAD), side="right")
        # A stretch with a gap has fewer pairs: the fewest count that came lately in as long a part.
        parts = np.maximum(AHEAD, 1 - known)
        ends = places[:, None] + self._stretch * parts
        sums = np.append(0.0, np.cumsum(pairs))
        came = sums[np.searchsorted(places, ends, side="right")] - sums[1:, None]
        fewest = np.where(ends <= place, came, np.inf).min(0)
        return Still(whole, first, _behind(query.pairs, first), np.minimum(parts * whole, fewest))

    # --- silence

    def tick(self, now: int) -> None:
        """After a silence of `timeout`, promise all that was seen."""
        wake = self.wake_at()
        if wake is not None and now >= wake and self._reference.time is not None:
            self._raise(self._reference.time)

    def wake_at(self) -> int | None:
        """When the silence will have lasted for `timeout`; None if there is nothing to wait for."""
        time = self._reference.time
        if self._timeout is None or time is None or self._heartbeat.tick >= time:
            return None
        return self._last_arrival + self._timeout

    def _raise(self, tick: int) -> None:
        self._heartbeat = max(self._heartbeat, Heartbeat(max(tick, Heartbeat.NONE.tick)))

    # --- what is kept and shown

    def state(self) -> dict[str, Any]:
        """The cells as arrays, the rest as values."""
        state: dict[str, Any] = {
            "reference": self._reference.state(),
            **self._lateness.state(),
            "places": np.array(self._places, dtype=np.int64),
            "before": np.array(self._before, dtype=np.int64),
            "moved": np.array(self._moved, dtype=np.int64),
            "waiting": list(self._waiting),
            "met": [[page, time] for page, time in self._met.items()],
            "counts": [self._pages, self._began, self._last_arrival],
            "change": [self._recent, self._since, self._onset, self._warned, self._unknown],
            "slack": self._slack,
            "heartbeat": self._heartbeat.tick,
            "queries": [],
        }
        for number, (name, query) in enumerate(self._queries.items()):
            small, arrays = query.state()
            state["queries"].append([name, small])
            state.update({f"query_{number}_{key}": array for key, array in arrays.items()})
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self._reference.restore(state["reference"])
        self._lateness.restore(state)
        self._places, self._before, self._moved = (
            np.asarray(state[key]).astype(np.int64).tolist() for key in ("places", "before", "moved")
        )
        self._waiting = list(state["waiting"])
        self._met = {page: time for page, time in state["met"]}
        self._pages, self._began, self._last_arrival = state["counts"]
        self._recent, self._since, self._onset, self._warned, self._unknown = state["change"]
        self._slack = state["slack"]
        self._heartbeat = Heartbeat(state["heartbeat"])
        self._queries = {}
        for number, (name, small) in enumerate(state["queries"]):
            self._queries[name] = RequiredSlack(CELLS)
            start = f"query_{number}_"
            arrays = {key.removeprefix(start): array for key, array in state.items() if key.startswith(start)}
            self._queries[name].restore(small, arrays)

    def metrics(self) -> dict[str, Any]:
        """Shares lost (of the query that lost most), the slack, and how late rows come."""
        p50, p90, p99, most = self._lateness.quantiles((0.5, 0.9, 0.99, 1.0))
        return {
            "lost_in_stretch": max((self._lost_in_stretch(q) for q in self._queries.values()), default=0.0),
            "lost_in_all": max((q.all_lost / max(1, q.all_pairs) for q in self._queries.values()), default=0.0),
            "slack": self._slack,
            "stands_still": self._slack is None,
            "reference": self._reference.time,
            "lateness": {"p50": int(p50), "p90": int(p90), "p99": int(p99), "max": int(most)},
        }

    def _lost_in_stretch(self, query: RequiredSlack) -> float:
        if not self._places:
            return 0.0
        now = self._last_arrival if self._by_time else self._pages
        inside = [at > now - self._stretch for at in self._places[-len(query.lost) :]]
        pairs = sum(p for p, counts in zip(query.pairs, inside, strict=False) if counts)
        return sum(n for n, counts in zip(query.lost, inside, strict=False) if counts) / max(1, pairs)


def _behind(values: list[int], first: Ints) -> Floats:
    """The sum of the values from each of these places on."""
    if not any(values):
        return np.zeros(len(first))
    sums = np.array([0, *accumulate(values)], dtype=np.float64)
    found: Floats = sums[-1] - sums[first]
    return found


def _times(arrival: Arrival, ranks: Floats) -> Floats:
    """The times of a page at some ranks, from the lowest."""
    if arrival.sketch is None:
        return np.full(len(ranks), float(arrival.highest or 0))
    found = kll_doubles_sketch.deserialize(arrival.sketch).get_quantiles(ranks)
    return np.asarray(found, dtype=np.float64)
