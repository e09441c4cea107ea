"""The tracker of `drop_ratio`: the slack that the cells of pages ask for, and when time stands still."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from slackwater.events import decision
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Known, Tracker
from slackwater.progress.drop_ratio.budget import Budget
from slackwater.progress.drop_ratio.evidence import CELLS, Evidence
from slackwater.progress.drop_ratio.lost_pairs import LostPairs, sums_behind
from slackwater.progress.drop_ratio.required_slack import RequiredSlack
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.report import Report
from slackwater.progress.time import MIN_TICK

#: After a change, start again when the stream has been observed for slack / SEEN.
SEEN = 0.6
#: At the start, slack / BEGUN is enough if the newer half of the cells is not later than the older half, by the
#: factor LATER: a wrong clock shows at once, a long delay only when it has passed.
BEGUN, LATER = 0.8, 1.05
#: Cells that count as the newest. Time moves again when 80 % of their rows are late by at most half of the slack,
NEWEST = 4
#: or when they are not later than the rows of all cells by this factor.
GROWN = 1.25
#: Time first moves after at least FIRST cells, and when the allowance is at least LOSABLE rows.
FIRST, LOSABLE = 3, 0.5
#: Cells to observe after a change.
AGAIN = 5
#: After a change for the better only the newest cells count, once their allowance is this number of rows. At the
#: start, with a smaller allowance, the stream must have been observed for longer than the slack.
ENOUGH = 5


class DropRatioTracker(Tracker):
    """Keeps the heartbeat behind the reference by the slack that the query with the largest need asks for.

    It is for a stream or for a class of its sources. It holds time back while rows come later than they did, until
    what is still to come can be judged.
    """

    def __init__(self, p: float, stretch: int, by_time: bool, timeout: int | None, timestamps: bool) -> None:
        self._p, self._stretch, self._by_time, self._timeout = p, stretch, by_time, timeout
        self._seen = Evidence(stretch, by_time, timestamps)
        self._takes_in = True
        """Whether it is the one that keeps what it has seen up to date, also for those that share it."""
        self._lost: dict[str, LostPairs] = {}
        # As of the last page that this tracker was told of.
        self._time: int | None = None
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

    @property
    def has_timeout(self) -> bool:
        """Whether a silence tells something."""
        return self._timeout is not None

    def share(self, known: Known, rows_of: Hashable = None) -> None:
        """Share what has been seen with trackers of other shares of the same rows; `rows_of` names these."""
        first = known.setdefault(("drop_ratio", rows_of, self._stretch, self._by_time), self._seen)
        self._takes_in, self._seen = first is self._seen, first

    @property
    def reference(self) -> int | None:
        """The largest time that can be believed."""
        return self._time

    @property
    def jumped(self) -> bool:
        """Whether the last page made the reference jump."""
        return self._seen.jumped

    @property
    def heartbeat(self) -> Heartbeat:
        """The slack and one tick behind the reference; never goes back."""
        return self._heartbeat

    def admit(self, page: int) -> None:
        """Note the reference that the page meets."""
        if self._takes_in:
            self._seen.admit(page)

    def hear(self, report: Report) -> None:
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
        self._time = seen.reference.time
        self._since = self._since if seen.oldest is None else seen.oldest
        if seen.new_cell:
            self._recent += 1
            self._onset += 1 if self._onset else 0
        self._lost = {name: self._lost.get(name) or LostPairs() for name in seen.queries}
        for lost in self._lost.values():
            lost.arrive(seen.new_cell, CELLS)
        self._judge()
        if self._slack is not None and self._time is not None:
            self._raise(self._time - self._slack - 1)

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
            decision("drop_ratio.sooner", cells=sooner, slack_before=self._slack, reference=self._time)
        elif self._onset and lateness.over(n, self._onset, self._seen.moved):
            self._onset, self._unknown, self._since = 0, False, None
        self._warned = bool(later)
        cells = min(self._onset or n, n)
        slack = self._needed(cells, exactly=True)
        if self._unknown:
            newest = min(NEWEST, cells)
            slack = max(slack, self._needed(newest, exactly=False))
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
            decision("drop_ratio.stopped", cells=cells, later=later, reference=self._time)
        elif self._heartbeat == Heartbeat.NONE:
            decision("drop_ratio.started", cells=cells, slack=self._slack, reference=self._time)
        else:
            decision("drop_ratio.restarted", cells=cells, slack=self._slack, reference=self._time)

    def _comparable(self, n: int) -> int:
        """How many of the newest cells show lateness in full; none while it is growing after a change."""
        if self._onset:
            return 0
        if self._since is None or self._slack is None:
            return n
        least = self._since + self._slack
        return sum([b >= least for b in self._seen.before[-n:]])

    def _alarm(self, later: int) -> None:
        """Rows come later than before: one page may be chance, more are a change."""
        before = self._seen.before
        if self._seen.jumped:
            self._onset, self._unknown, self._since = 1, True, self._time
        elif later > 1 or self._warned:
            self._onset, self._unknown = max(later, 2), True
            self._since = before[-min(self._onset, len(before))]

    def _known(self, slack: float, cells: int, later: bool) -> bool:
        """Whether the stream has gone on for so long that more than this slack would have been seen."""
        if cells >= CELLS:
            return True
        if later or self._since is None or cells < (AGAIN if self._onset else FIRST):
            return False
        lateness, span = self._seen.lateness, self._seen.before[-1] - self._since
        newest, all_ = (lateness.quantiles((0.8,), n)[0] for n in (NEWEST, cells))
        if newest > max(span / 2, GROWN * all_):
            return False
        if self._onset:
            return slack <= SEEN * span
        half = cells // 2
        older, newer = (lateness.quantiles((0.97,), n, but)[0] for n, but in ((cells, half), (half, 0)))
        part = SEEN if newer > LATER * older else BEGUN
        losable = self._p * float(lateness.rows[-cells:].sum())
        # Of few rows the tail has not been seen.
        return losable >= LOSABLE and slack * max(1.0, (ENOUGH / losable) ** 0.5) <= part * span

    def _needed(self, cells: int, exactly: bool) -> float:
        """The largest need of all queries, by so many cells; if not exactly, by rows alone and without a budget."""
        slack = 0.0
        for name, lost in self._lost.items():
            losses = self._seen.losses(name, cells, self._since, exactly)
            if losses is not None:
                slack = max(slack, losses.slack(self._p, self._budget(name, lost) if exactly else None))
        return slack

    def _budget(self, name: str, lost: LostPairs) -> Budget:
        still = self._seen.still(name)
        return Budget(still, sums_behind(lost.cells, still.first))

    # --- silence

    def tick(self, now: int) -> None:
        """After a silence of `timeout`, promise all that was seen."""
        wake = self.wake_at()
        if wake is not None and now >= wake and self._time is not None:
            self._raise(self._time)

    def wake_at(self) -> int | None:
        """When the silence will have lasted for `timeout`; None if there is nothing to wait for."""
        if self._timeout is None or self._time is None or self._heartbeat.tick >= self._time:
            return None
        return self._last_arrival + self._timeout

    def _raise(self, tick: int) -> None:
        self._heartbeat = max(self._heartbeat, Heartbeat(max(tick, Heartbeat.NONE.tick)))

    # --- what is kept and shown

    def state(self) -> dict[str, Any]:
        """The cells as arrays, the rest as values."""
        state: dict[str, Any] = {
            **self._seen.state(),
            "change": [self._recent, self._since, self._onset, self._warned, self._unknown],
            "slack": self._slack,
            "heartbeat": self._heartbeat.tick,
            "queries": [],
        }
        for number, (name, query) in enumerate(self._seen.queries.items()):
            small, arrays = query.state(self._lost.get(name) or LostPairs())
            state["queries"].append([name, small])
            state.update({f"query_{number}_{key}": array for key, array in arrays.items()})
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self._seen.restore(state)
        self._time, self._last_arrival = self._seen.reference.time, self._seen.last_arrival
        self._recent, self._since, self._onset, self._warned, self._unknown = state["change"]
        self._slack = state["slack"]
        self._heartbeat = Heartbeat(state["heartbeat"])
        self._lost = {}
        for number, (name, small) in enumerate(state["queries"]):
            start = f"query_{number}_"
            arrays = {key.removeprefix(start): array for key, array in state.items() if key.startswith(start)}
            self._seen.queries[name], self._lost[name] = RequiredSlack.restored(CELLS, small, arrays)

    def metrics(self) -> dict[str, Any]:
        """Shares lost (of the query that lost most), the slack, and how late rows come."""
        p50, p90, p99, most = self._seen.lateness.quantiles((0.5, 0.9, 0.99, 1.0))
        told = [(self._seen.queries[name], lost) for name, lost in self._lost.items() if name in self._seen.queries]
        return {
            "lost_in_stretch": max((self._lost_in_stretch(*of) for of in told), default=0.0),
            "lost_in_all": max((lost.all / max(1, query.all_pairs) for query, lost in told), default=0.0),
            "slack": self._slack,
            "stands_still": self._slack is None,
            "reference": self._time,
            "lateness": {"p50": int(p50), "p90": int(p90), "p99": int(p99), "max": int(most)},
        }

    def _lost_in_stretch(self, query: RequiredSlack, lost: LostPairs) -> float:
        if not self._seen.places:
            return 0.0
        first = self._seen.now - self._stretch
        inside = [at > first for at in self._seen.places[-len(lost.cells) :]]
        pairs = sum(p for p, counts in zip(query.pairs, inside, strict=False) if counts)
        return sum(n for n, counts in zip(lost.cells, inside, strict=False) if counts) / max(1, pairs)
