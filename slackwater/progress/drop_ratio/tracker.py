"""The tracker of `drop_ratio`: the slack that the cells of pages ask for, and when time stands still."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np

from slackwater.events import decision
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Known
from slackwater.progress.drop_ratio.evidence import CELLS, Evidence
from slackwater.progress.drop_ratio.lost_pairs import LostPairs, sums_behind
from slackwater.progress.drop_ratio.required_slack import RequiredSlack
from slackwater.progress.restorable import restore_each, state_of_each
from slackwater.progress.silence import SilenceTracker
from slackwater.progress.time import MIN_TICK
from slackwater.progress.window_losses import WindowLosses

#: Time begins to move when the slack is at most this part of the observed time. With 0.6 streams with wrong clocks
#: begin after 29 pages and not 11.
BEGUN = 0.8
#: Time moves again after a change when the slack is at most this part of the time observed since then. With 0.7 two
#: kinds of streams waited 0.02 less, and another lost 2.5 % of 1 % (docs/rooms/progress.md).
OBSERVED = 0.6
#: Cells to observe at the start. Five made slow streams wait longer and lost as much.
FIRST = 3
#: Rows that may be lost of those observed at the start: with fewer, time does not begin to move.
LOSABLE = 0.5
#: Cells to observe after a change. With three, a year of flights lost 1.58 % in its worst stretch and not 1.38 %.
AGAIN = 5
#: Rows that may be lost: after a change for the better only the newest cells count once they allow this many. While
#: fewer may be lost at the start, the tail has not been seen, and more time must be observed.
ENOUGH = 5


class DropRatioTracker(SilenceTracker):
    """Keeps the heartbeat behind the reference by the slack that the query with the largest need asks for.

    It is for a stream or for a class of its sources. It holds time back while rows come later than they did, until
    what is still to come can be judged.
    """

    STATE = (*SilenceTracker.STATE, "_seen", "_recent", "_since", "_onset", "_unknown", "_slack")

    def __init__(self, p: float, stretch: int, by_time: bool, timeout: int | None, timestamps: bool) -> None:
        super().__init__(timeout)
        self._p, self._stretch, self._by_time = p, stretch, by_time
        self._seen = Evidence(stretch, by_time, timestamps)
        self._takes_in = True
        """Whether it is the one that keeps what it has seen up to date, also for those that share it."""
        self._lost: dict[str, LostPairs] = {}
        # How many of the newest cells count; None: all. Since which reference lateness can be seen.
        self._recent = 0
        self._since: int | None = None
        # Cells since a change for the worse while it is still unknown how late rows will be.
        self._onset = 0
        self._unknown = True
        self._slack: int | None = None

    def share(self, known: Known, rows_of: Hashable = None) -> None:
        """Share what has been seen with trackers of other shares of the same rows; `rows_of` names these."""
        first = known.setdefault(("drop_ratio", rows_of, self._stretch, self._by_time), self._seen)
        self._takes_in, self._seen = first is self._seen, first

    @property
    def reference(self) -> int | None:
        """The largest time that can be believed, as of the last page that this tracker has taken."""
        return None if self._highest == MIN_TICK else self._highest

    @property
    def jumped(self) -> bool:
        """Whether the last page made the reference jump."""
        return self._seen.jumped

    def admit(self, page: int) -> None:
        """Note the reference that the page meets."""
        if self._takes_in:
            self._seen.admit(page)

    def hear(self, report: WindowLosses) -> None:
        """Note what the pages' pairs would have needed, and how many were lost."""
        if self._takes_in:
            self._seen.hear(report)
        if report.query not in self._lost:
            self._lost[report.query] = LostPairs()
        self._lost[report.query].hear(report.lost)

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's times; then see how far the heartbeat may go."""
        seen = self._seen
        if self._takes_in:
            seen.arrive(arrival)
        self._last_arrival = seen.last_arrival
        if not seen.timed:
            return
        assert seen.reference.time is not None
        self._highest = seen.reference.time
        self._since = self._since if seen.oldest is None else seen.oldest
        if seen.new_cell:
            self._recent += 1
            self._onset += 1 if self._onset else 0
        self._lost = {name: self._lost.get(name) or LostPairs() for name in seen.queries}
        for lost in self._lost.values():
            lost.arrive(seen.new_cell, CELLS)
        self._judge()
        if self._slack is not None:
            self._raise(max(self._highest - self._slack - 1, MIN_TICK))

    # --- how far time may go

    def _judge(self) -> None:
        """Choose the slack; None while the heartbeat must stand."""
        lateness = self._seen.lateness
        n = min(self._recent, len(lateness))
        later, sooner = self._seen.changed(self._comparable(n))
        if later:
            self._alarm(later)
        elif sooner and not self._unknown and lateness.rows[-sooner:].sum() * self._p >= ENOUGH:
            self._recent = n = sooner
            self._since = None
            decision("drop_ratio.sooner", cells=sooner, slack_before=self._slack, reference=self.reference)
        elif self._onset and lateness.over(n, self._onset, self._seen.moved):
            self._onset, self._unknown, self._since = 0, False, None
        cells = min(self._onset or n, n)
        slack = self._needed(cells)
        if self._unknown:
            self._unknown = not self._known(slack, cells, bool(later))
            if not self._unknown and self._onset:
                # It may be over already, as after a burst; if not, only what came since then counts.
                if lateness.changed(n)[0]:
                    self._recent = cells
                else:
                    self._since = None
                self._onset = 0
        before, self._slack = self._slack, None if later or self._unknown else int(np.ceil(slack))
        if (before is None) != (self._slack is None):
            self._log_change(cells, later)

    def _log_change(self, cells: int, later: int) -> None:
        """Time begins to move, stands still because rows come later, or moves again."""
        if self._slack is None:
            decision("drop_ratio.stopped", cells=cells, later=later, reference=self.reference)
        elif self._heartbeat == MIN_TICK:
            decision("drop_ratio.started", cells=cells, slack=self._slack, reference=self.reference)
        else:
            decision("drop_ratio.restarted", cells=cells, slack=self._slack, reference=self.reference)

    def _comparable(self, n: int) -> int:
        """How many of the newest cells show lateness in full; none while it is growing after a change."""
        if self._onset:
            return 0
        if self._since is None or self._slack is None:
            return n
        least = self._since + self._slack
        return sum([b >= least for b in self._seen.before[-n:]])

    def _alarm(self, later: int) -> None:
        """Rows come later than before."""
        before = self._seen.before
        if self._seen.jumped:
            self._onset, self._since = 1, self._highest
        else:
            self._onset = max(later, 2)
            self._since = before[-min(self._onset, len(before))]
        self._unknown = True

    def _known(self, slack: float, cells: int, later: bool) -> bool:
        """Whether the stream has gone on for so long that more than this slack would have been seen."""
        if cells >= CELLS:
            return True
        if later or self._since is None or cells < (AGAIN if self._onset else FIRST):
            return False
        span = self._seen.before[-1] - self._since
        if self._onset:
            return slack <= OBSERVED * span
        losable = self._p * float(self._seen.lateness.rows[-cells:].sum())
        return losable >= LOSABLE and slack * max(1.0, (ENOUGH / losable) ** 0.5) <= BEGUN * span

    def _needed(self, cells: int) -> float:
        """The largest need of all queries, by the newest cells."""
        slack = 0.0
        for name, lost in self._lost.items():
            curve = self._seen.curve(name, cells, self._since)
            if curve is not None:
                rest = self._seen.budget(name)
                budget = partial(rest.share, self._p, sums_behind(lost.cells, rest.first))
                slack = max(slack, curve.slack(self._p, budget))
        return slack

    # --- what is kept and shown

    def state(self) -> dict[str, Any]:
        """What has been seen, and what each query has lost."""
        return {**super().state(), **state_of_each("lost", self._lost)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        super().restore(state)
        self._lost = restore_each("lost", state, lambda name: LostPairs())

    def metrics(self) -> dict[str, Any]:
        """Shares lost (of the query that lost most), the slack, and how late rows come."""
        p50, p90, p99, most = self._seen.lateness.quantiles((0.5, 0.9, 0.99, 1.0))
        told = [(self._seen.queries[name], lost) for name, lost in self._lost.items() if name in self._seen.queries]
        return {
            "lost_in_stretch": max((self._lost_in_stretch(*of) for of in told), default=0.0),
            "lost_in_all": max((lost.all / max(1, query.all_pairs) for query, lost in told), default=0.0),
            "slack": self._slack,
            "stands_still": self._slack is None,
            "reference": self.reference,
            "lateness": {"p50": int(p50), "p90": int(p90), "p99": int(p99), "max": int(most)},
        }

    def _lost_in_stretch(self, query: RequiredSlack, lost: LostPairs) -> float:
        if not self._seen.places:
            return 0.0
        first = self._seen.now - self._stretch
        inside = [at > first for at in self._seen.places[-len(lost.cells) :]]
        pairs = sum(p for p, counts in zip(query.pairs, inside, strict=False) if counts)
        return sum(n for n, counts in zip(lost.cells, inside, strict=False) if counts) / max(1, pairs)
