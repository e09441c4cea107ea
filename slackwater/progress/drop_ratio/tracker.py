"""The tracker of `drop_ratio`: the slack that the last cells need, the length of a stretch, and when time stops."""

from __future__ import annotations

from typing import Any

import numpy as np

from slackwater.events import decision
from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival
from slackwater.progress.drop_ratio.by_source import ReferenceTracker
from slackwater.progress.drop_ratio.cells import CELLS, LatenessCells, LateRows
from slackwater.progress.drop_ratio.changes import changed
from slackwater.progress.drop_ratio.loss_curve import LossCurve
from slackwater.progress.drop_ratio.query_losses import QueryLosses
from slackwater.progress.restorable import restore_each, state_of_each
from slackwater.progress.silence import SilenceTracker
from slackwater.progress.source_numbers import Floats
from slackwater.progress.time import MIN_TICK
from slackwater.progress.window_losses import WindowLosses

#: Time begins to move when the slack is at most this part of the observed time. With 0.6 streams with wrong clocks
#: begin after 29 pages and not 11.
BEGUN = 0.8
#: Time moves again after a change when the slack is at most this part of the time observed since then. With 0.7 two
#: kinds of streams waited 0.02 less, and another lost 2.5 % of 1 % (docs/lab/drop-ratio.md).
OBSERVED = 0.6
#: Cells to observe at the start. Five made slow streams wait longer and lost as much.
FIRST = 3
#: Rows that may be lost of those observed at the start: while this number is lower, time does not begin to move.
LOSABLE = 0.5
#: Cells to observe after a change. With three, a year of flights lost 1.58 % in its worst stretch and not 1.38 %.
AGAIN = 5
#: Rows that may be lost: after a change for the better we forget older cells once the newest ones allow this many.
#: While fewer may be lost at the start, the tail has not been seen, and more time must be observed.
ENOUGH = 5
#: Backlogs of the usual size that a learned stretch may lose; chosen on streams with backlogs
#: (docs/lab/drop-ratio.md).
BACKLOGS = 25
#: Pages of a learned stretch at least.
SHORTEST = 100
#: The name under which rows count when no query reports.
_ROWS = ""


class DropRatioTracker(ReferenceTracker):
    """Keeps the heartbeat behind the reference by the slack that the query with the largest need asks for.

    It is for a stream or for a class of its sources. It holds time back while rows come later than they did, until
    what is still to come can be judged.
    """

    STATE = (
        *SilenceTracker.STATE,
        "_cells",
        "_stretch",
        "_begin",
        "_since",
        "_ahead",
        "_onset",
        "_met",
        "_unknown",
        "_slack",
    )

    def __init__(self, p: float, stretch: int | None, by_time: bool, timeout: int | None, timestamps: bool) -> None:
        super().__init__(timeout)
        self._p, self._learns, self._by_time = p, stretch is None, by_time
        self._stretch = SHORTEST if stretch is None else stretch
        self._cells = LatenessCells(p, by_time, timestamps)
        self._queries: dict[str, QueryLosses] = {}
        # Where the cells begin that count.
        self._begin = MIN_TICK
        # Since which reference lateness can be seen: that of the stream's beginning, during an onset also that of
        # the onset; none: for long enough. By how much of it the reference went ahead of other clocks.
        self._since: list[int] = []
        self._ahead = 0
        # Where a change for the worse began, while it is still unknown how late rows will be.
        self._onset: int | None = None
        self._met: int | None = None
        """The slack that it met."""
        self._unknown = True
        self._slack: int | None = None

    @property
    def reference(self) -> int | None:
        """The largest time that can be believed, as of the last page."""
        return self._cells.reference.time

    @property
    def ahead(self) -> int:
        """How far clocks that are ahead carried the reference away from other rows, with the last page."""
        return self._cells.jump

    def admit(self, page: int) -> None:
        """Note the reference that the page meets."""
        self._cells.admit()

    def hear(self, report: WindowLosses) -> None:
        """Note the pairs of a page, and how many were lost."""
        if report.query not in self._queries:
            self._queries[report.query] = QueryLosses(len(self._cells))
        self._queries[report.query].hear(report)

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's times; then see how far the heartbeat may go."""
        cells = self._cells
        cells.arrive(arrival)
        self._last_arrival = cells.last_arrival
        if not cells.timed:
            return
        assert cells.reference.time is not None and arrival.highest is not None
        self._highest = cells.reference.time
        self._since = [cells.oldest] if cells.oldest is not None else [since + cells.jump for since in self._since]
        self._ahead += cells.jump
        if not self._queries:
            self._queries[_ROWS] = QueryLosses(len(cells) - 1)
        for name, query in self._queries.items():
            if name == _ROWS:
                query.count(arrival.timed)
            query.arrive(arrival.highest)
        if len(self._queries) > 1:
            self._queries.pop(_ROWS, None)
        begins = cells.merge(self._stretch)
        if begins is not None:
            for query in self._queries.values():
                query.merge(begins)
        self._judge()
        if self._slack is not None:
            self._raise(max(self._highest - self._slack - 1, MIN_TICK))

    # --- how far time may go

    def _judge(self) -> None:
        """Choose the slack; None while the heartbeat must stand."""
        cells = self._cells
        n = max(1, self._newest(max(self._begin, cells.now - self._stretch + 1)))
        later, sooner = (0, 0) if self._onset is not None else self._changed(self._comparable(min(n, CELLS)))
        if later and self._slack is not None and self._affordable(later, n, self._slack):
            later = 0
        if later:
            self._onset, self._met = int(cells.places[-max(later, 2)]), self._slack
            self._since.append(int(cells.before[-max(later, 2)]))
        elif sooner and not self._unknown and cells.rows[-sooner:].sum() * self._p >= ENOUGH:
            self._begin, self._since, n = int(cells.places[-sooner]), [], sooner
            decision("drop_ratio.sooner", cells=sooner, slack_before=self._slack, reference=self.reference)
        counted = n if self._onset is None else min(n, self._newest(self._onset))
        waited = self._onset is not None and not later and counted >= AGAIN
        if waited and self._met is not None and self._affordable(counted // 2, n, self._met):
            self._onset, self._since, counted = None, self._since[:-1], n
        slack = self._needed(counted)
        self._unknown = not self._known(slack, counted, bool(later))
        if self._onset is not None and not self._unknown:
            # The change may be over already, as after a burst. If not, only rows that came since then count.
            if self._changed(min(n, CELLS))[0]:
                self._begin, self._since, self._ahead = self._onset, self._since[-1:], 0
            else:
                self._since = self._since[:-1]
            self._onset = None
        before, self._slack = self._slack, None if self._unknown else int(np.ceil(slack))
        if (before is None) != (self._slack is None):
            begun = "restarted" if self._heartbeat > MIN_TICK else "started"
            what = "stopped" if self._slack is None else begun
            decision(f"drop_ratio.{what}", cells=counted, slack=self._slack, reference=self.reference)

    def _newest(self, place: int) -> int:
        """How many cells begin at this place or behind it."""
        return len(self._cells) - int(self._cells.places.searchsorted(place))

    def _changed(self, n: int) -> tuple[int, int]:
        return changed(self._cells.values[-n:], self._cells.rows[-n:]) if n else (0, 0)

    def _comparable(self, n: int) -> int:
        """How many of the newest cells show lateness in full."""
        if not self._since or self._slack is None:
            return n
        return int((self._cells.before[-n:] >= self._since[-1] + self._slack).sum())

    def _affordable(self, newest: int, n: int, slack: int) -> bool:
        """Whether the stretch can lose AGAIN times what the newest cells lose: then time need not stop."""
        rows, beyond = self._cells.rows[-n:], np.maximum(self._cells.values[-newest:] - slack, 0.0)
        newest_rows, all_rows = rows[-newest:], rows.sum()
        lost = [(newest_rows * np.minimum(beyond / q.range, 1.0)).sum() / all_rows for q in self._queries.values()]
        left = [query.remaining(self._p, n) for query in self._queries.values()]
        return all(AGAIN * some <= rest for some, rest in zip(lost, left, strict=True))

    def _known(self, slack: float, cells: int, later: bool) -> bool:
        """Whether the stream has gone on for so long that more than this slack would have been seen."""
        if later or not self._since or cells < (FIRST if self._onset is None else AGAIN):
            return not later and not self._since
        spans, slack = self._cells.before[-cells:] - float(self._since[-1]), max(0.0, slack - self._ahead)
        if self._onset is not None:
            return bool(slack <= OBSERVED * spans[-1])
        # Only rows that came late enough in the stream could show that more is needed.
        losable = self._p * float(self._cells.rows[-cells:][(spans >= slack) | (slack == 0)].sum())
        return losable >= LOSABLE and bool(slack * max(1.0, (ENOUGH / losable) ** 0.5) <= BEGUN * spans[-1])

    def _needed(self, n: int) -> float:
        """The largest need of all queries, by the newest cells; a learned stretch grows where one asks for it."""
        cells, slack, wanted = self._cells, 0.0, 0.0
        late, totals = LateRows.of(cells.values[-n:], cells.rows[-n:]), cells.rows[-n:].sum(1)
        spans: Floats = np.full(n, np.inf)
        if self._since:
            spans = cells.before[-n:] - np.float64(self._since[-1])
        pages = cells.now - int(cells.places[-n]) + (not self._by_time)
        for query in self._queries.values():
            pairs = query.pairs[-n:]
            if not pairs.any():
                continue
            curve = LossCurve(late, totals, spans, pairs, query.range)
            plain = curve.slack(self._p)
            dispersion = curve.dispersion(plain)
            budget = query.budget(self._p, cells.places, cells.now, self._stretch, dispersion)
            slack = max(slack, plain, curve.slack(budget))
            wanted = max(wanted, BACKLOGS * dispersion / self._p / float(pairs.sum()) * pages)
        if self._learns:
            self._stretch = int(max(SHORTEST, min(wanted, 2 * self._stretch), self._stretch - 1))
        return slack

    # --- what is kept and shown

    def state(self) -> dict[str, Any]:
        """What has been seen, and what each query has lost."""
        return {**super().state(), **state_of_each("queries", self._queries)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        super().restore(state)
        self._queries = restore_each("queries", state, lambda name: QueryLosses())

    @property
    def may_lose(self) -> int:
        """The pairs that the share allows in the pages seen of a stretch, of the query that has most."""
        n = self._newest(self._cells.now - self._stretch + 1)
        return int(self._p * max((q.pairs[-n:].sum() for q in self._queries.values() if n), default=0))

    @property
    def warning(self) -> str | None:
        """Where time moves, but the share allows to lose fewer rows than one backlog may have."""
        if self._slack is None or len(self._cells) < SHORTEST or self.may_lose >= ENOUGH:
            return None
        return (
            f"drop_ratio: so far the share allows to lose {self.may_lose} rows of a stretch. One backlog may have "
            "more, so the share may not be kept. Write a longer stretch=, or a larger share."
        )

    def metrics(self) -> Figures:
        """Shares lost (of the query that lost most), the slack, and how late rows come."""
        p50, p90, p99, most = self._cells.quantiles((0.5, 0.9, 0.99, 1.0))
        n = self._newest(self._cells.now - self._stretch + 1)
        queries = self._queries.values()
        inside = [(q.lost[-n:].sum(), q.pairs[-n:].sum()) for q in queries if n]
        return {
            "lost_in_stretch": max((float(lost / max(1, pairs)) for lost, pairs in inside), default=0.0),
            "lost_in_all": max((q.all_lost / max(1, q.all_pairs) for q in queries), default=0.0),
            "slack": self._slack,
            "stretch": self._stretch,
            "may_lose": self.may_lose,
            "stands_still": self._slack is None,
            "reference": self.reference,
            "lateness": {"p50": int(p50), "p90": int(p90), "p99": int(p99), "max": int(most)},
        }
