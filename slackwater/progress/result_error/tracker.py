"""The tracker of `result_error`: the slack with which enough results are within the bound."""

from __future__ import annotations

import numpy as np

from slackwater.events import decision
from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival
from slackwater.progress.credible_time import CredibleTime
from slackwater.progress.drop_ratio.by_source import ReferenceTracker
from slackwater.progress.restorable import restore_each, state_of_each
from slackwater.progress.result_error.window_results import WindowResults
from slackwater.progress.silence import SilenceTracker
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK
from slackwater.progress.window_losses import WindowLosses

#: The share of the allowed wrong results that we plan to use; the rest is a reserve.
PLANNED = 0.9
#: Windows that must have ended before the first heartbeat.
FIRST = 3
#: The first heartbeat comes when the slack is at most this share of the observed time, as in `drop_ratio`.
BEGUN = 0.8
#: A window counts when it ended this number of slacks ago. Before that, late rows may still come.
SETTLED = 2
#: One in this number of results, the newest ones, is also judged alone, to see a change early.
NEWEST = 8
#: Pages whose reference we remember until queries have reported them.
PAGES = 1_000
#: The name of the query that stands for pages while no query reports.
_PAGES = ""


class ResultErrorTracker(ReferenceTracker):
    """Keeps the heartbeat behind the reference by the slack that the query with the largest need asks for."""

    STATE = (*SilenceTracker.STATE, "_time", "_oldest", "_met", "_slack", "_ahead", "_arrived")

    def __init__(self, error: float, share: float, timeout: int | None, timestamps: bool) -> None:
        super().__init__(timeout)
        self._error, self._share, self._timestamps = error, share, timestamps
        self._time = CredibleTime()
        self._oldest: int | None = None
        self._met: dict[int, int | None] = {}
        """For each page, the reference before it arrived."""
        self._slack: int | None = None
        self._ahead = self._arrived = 0
        self._queries: dict[str, WindowResults] = {}

    @property
    def reference(self) -> int | None:
        """The largest time that can be believed, as of the last page."""
        return self._time.time

    @property
    def ahead(self) -> int:
        """How far clocks that are ahead moved the reference, with the last page."""
        return self._ahead

    def admit(self, page: int) -> None:
        """Note the reference before the page arrives."""
        self._met[page] = self.reference
        if len(self._met) > PAGES:
            del self._met[min(self._met)]

    def hear(self, report: WindowLosses) -> None:
        """Take a query's report on a page."""
        if self._queries.pop(_PAGES, None) is not None or report.query not in self._queries:
            self._queries.setdefault(report.query, WindowResults(self._error))
        self._queries[report.query].hear(report, self._met.get(report.page))

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's times; then see how far the heartbeat may go."""
        old, self._ahead = self.reference, 0
        if old is not None:
            for query in self._queries.values():
                query.close(self._heartbeat, old)
        if arrival.rows:
            self._last_arrival = max(self._last_arrival, arrival.at)
        if arrival.highest is None or not arrival.timed:
            return
        assert arrival.lowest is not None
        jumped = self._time.pass_arrival(arrival, arrival.at if self._timestamps else None)
        time = self._time.time
        assert time is not None
        if jumped and old is not None and not self._time.leapt:
            self._ahead = time - old
            self._met = {page: None if met is None else met + self._ahead for page, met in self._met.items()}
            for query in self._queries.values():
                query.shift(self._ahead)
        self._oldest = min(arrival.lowest, time) if self._oldest is None else self._oldest + self._ahead
        self._highest = time
        self._arrived += 1
        if not self._queries or _PAGES in self._queries:
            self._count_page(arrival.lowest, arrival.timed, old)
        self._judge(time)
        if self._slack is not None:
            self._raise(max(time - self._slack - 1, MIN_TICK))

    def _count_page(self, lowest: int, rows: int, met: int | None) -> None:
        """No query reports: count each page as a window that ends at its lowest time."""
        one = np.ones(1, np.int64)
        pages = self._queries.setdefault(_PAGES, WindowResults(self._error))
        pages.hear(WindowLosses(_PAGES, self._arrived, one * lowest, one * rows, 0), met)

    def _judge(self, time: int) -> None:
        slacks = [self._needed(query, time) for query in self._queries.values()]
        slack = max((s for s in slacks if s is not None), default=None)
        if slack is None:
            return
        assert self._oldest is not None
        if self._slack is None:
            if slack > BEGUN * (time - self._oldest):
                return
            decision("result_error.started", slack=slack, reference=time)
        self._slack = slack

    def _needed(self, query: WindowResults, time: int) -> int | None:
        """The slack that a query needs; None while too few of its windows have ended."""
        ticks, needed = query.needed()
        before = self._slack or 0
        known = (ticks <= time - SETTLED * before) | (needed > before)
        ticks, needed = ticks[known], needed[known]
        if not len(ticks) or (self._slack is None and len(np.unique(ticks)) < FIRST):
            return self._slack
        results, _, all_results, all_outside = query.broken()
        to_come = max(results, len(ticks)) / 2
        allowed = PLANNED * self._share
        left = (allowed * (all_results + to_come) - all_outside) / to_come
        slack = _slack_of(needed, min(allowed, left))
        newest = needed[-max(1, len(needed) // NEWEST) :]
        few = max(0.0, 1 - len(np.unique(ticks)) * self._share)  # too few windows to see the share
        return int(max(slack, _slack_of(newest, 2 * min(allowed, left))) * (1 + few))

    def state(self) -> dict[str, object]:
        """The reference and the slack, and the results of each query."""
        return {**super().state(), **state_of_each("queries", self._queries)}

    def restore(self, state: dict[str, object]) -> None:
        """Continue from an earlier `state()`."""
        super().restore(state)
        self._queries = restore_each("queries", state, lambda name: WindowResults(self._error))

    def metrics(self) -> Figures:
        """The shares of results outside of the bound, of the query with the largest share; and the slack."""
        counts = [query.broken() for query in self._queries.values()]
        return {
            "outside": max((outside / max(1, results) for results, outside, _, _ in counts), default=0.0),
            "outside_in_all": max((outside / max(1, results) for _, _, results, outside in counts), default=0.0),
            "results_judged": max((results for _, _, results, _ in counts), default=0),
            "groups_followed": min((query.followed for query in self._queries.values()), default=1.0),
            "slack": self._slack,
            "stands_still": self._slack is None,
            "reference": self.reference,
        }


def _slack_of(needed: Ints, share: float) -> int:
    """The shortest slack that is enough for all later results except this share."""
    may_exceed = max(0, int(share * (len(needed) + 1)) - 1) if share > 0 else 0
    return int(np.partition(needed, len(needed) - 1 - may_exceed)[len(needed) - 1 - may_exceed])
