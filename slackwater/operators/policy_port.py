"""A disorder policy at work for a stream: its tracker, and the queries that go by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from slackwater.columns import BEFORE, SOURCE
from slackwater.operators.operator import Wanted
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Tracker
from slackwater.progress.punctuation import Punctuation

#: How many of the sources that hold time back are named.
_SLOWEST = 5


@dataclass(frozen=True)
class Subscription:
    """A query that goes by a policy."""

    reporter: str
    """Label of the operator that reports what it lost of a page."""
    needs: frozenset[str]
    by_source: bool
    """Whether it closes its windows by source."""
    reach: int = 0
    """How far behind a row the last window ends that it belongs to, through all aggregates of the query."""


class PolicyPort:
    """One disorder policy at work: its tracker, and the queries that go by it."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self.followers: dict[tuple[str, str], Subscription] = {}
        """Subscriptions by query and by the operator that reports: a query may read a stream in several ways."""
        self.bound: dict[str, str] = {}
        """Streams that have bounds with each other, including this one, by the labels of their sources."""
        self.idle = False
        """Whether nothing has come for as long as its timeout: others do not wait for the stream."""

    def away(self, away: int) -> int:
        """By how much its clock is behind the session's."""
        return 0 if self.tracker.absolute_clock else away

    def reaches(self, wanted: Wanted) -> int | None:
        """When the clock alone brings the heartbeat as far as it is wanted, by the policy's clock."""
        tick = wanted(self.tracker.heartbeat.tick) if self.tracker.goes_on else None
        return None if tick is None else self.tracker.reaches(tick)

    def moves(self, now: int, wanted: Wanted) -> bool:
        """Whether the policy should hear of the clock: not if nobody waits for the time that it would add."""
        if not self.tracker.goes_on:
            return True
        return any(at is not None and at <= now for at in (self.reaches(wanted), self.tracker.wake_at()))

    @property
    def by_source(self) -> bool:
        """Whether some query closes its windows by source."""
        return any(follower.by_source for follower in self.followers.values())

    @property
    def reach(self) -> int:
        """How far behind a row its last window ends."""
        return max((follower.reach for follower in self.followers.values()), default=0)

    def idle_at(self, silent_since: Sequence[int | None]) -> int | None:
        """When the streams of which a policy speaks are idle, if nothing comes until then; None: not for now."""
        silence, since = self.tracker.silence, [at for at in silent_since if at is not None]
        return None if silence is None or len(since) < len(silent_since) else max(since) + silence

    def now(self) -> Punctuation:
        """How far time has come by this policy."""
        by_source = self.tracker.by_source() if self.by_source else None
        return Punctuation(self.tracker.heartbeat, by_source, self.tracker.ranges, self.idle)

    def ungrammatical(self, pages: Pages, page: Page, arrival: Arrival) -> int:
        """Rows at or behind the punctuation that their own source had sent; costs a job where there are some."""
        if arrival.lowest is None:
            return 0
        sources, whole = self.tracker.by_source(), self.tracker.heartbeat
        if sources is None or arrival.sources is None:
            return pages.count(page, whole.tick) if arrival.lowest <= whole.tick else 0
        limits = pl.DataFrame({SOURCE: sources.names, BEFORE: sources.ticks})
        here = pl.DataFrame({SOURCE: arrival.sources.names, "low": arrival.sources.lowest})
        broken = here.join(limits, on=SOURCE).filter(pl.col("low") <= pl.col(BEFORE))
        late = broken.height or arrival.lowest <= sources.others
        return pages.count(page, sources.others, limits) if late else 0

    def slowest(self) -> dict[str, int]:
        """The sources with the lowest heartbeats, where each has one."""
        beats = self.tracker.by_source()
        return {} if beats is None else beats.lowest(_SLOWEST)
