"""Kinds of time (S3 section 5): external, from the rows; internal, stamped at entry; latent, stamped when needed.

Internal and latent time stand where a disorder policy does: rows are stamped as they come, so none is out of order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Disorder, Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import MIN_TICK, TimeDomain

#: SQL of the time of a row that has not been stamped.
UNSTAMPED = "CAST(0 AS BIGINT)"


@dataclass(frozen=True)
class Internal:
    """Rows are stamped when their page is admitted; see `internal`."""

    needs: ClassVar[frozenset[str]] = frozenset()
    needs_sources: ClassVar[bool] = False

    def tracker(self, domain: TimeDomain) -> StampTracker:
        """A fresh tracker."""
        _check(self, domain)
        return StampTracker()

    def describe(self) -> str:
        """As the user would write it."""
        return "internal()"


@dataclass(frozen=True)
class Latent:
    """Rows are stamped by the first operator that needs their time; see `latent`."""

    needs: ClassVar[frozenset[str]] = frozenset()
    needs_sources: ClassVar[bool] = False

    def tracker(self, domain: TimeDomain) -> LatentTracker:
        """A fresh tracker."""
        _check(self, domain)
        return LatentTracker()

    def describe(self) -> str:
        """As the user would write it."""
        return "latent()"


def internal() -> Internal:
    """The time of a row is the session clock's when its page is admitted: `s.stream(…, time=sw.internal())`.

    All rows of a page have one stamp (S3 section 4.1: simultaneous tuples). When an operator waits for a quiet
    stream of such rows, the clock answers: no later row can be stamped before now.
    """
    return Internal()


def latent() -> Latent:
    """A row has no time until an operator needs one, and gets the clock's then: `s.stream(…, time=sw.latent())`.

    A union of such streams never waits. A query that only filters or maps has no time at all.
    """
    return Latent()


def is_stamped(disorder: Disorder) -> bool:
    """Whether the times of rows are stamps of ours, and not from the rows."""
    return isinstance(disorder, (Internal, Latent))


def _check(kind: Internal | Latent, domain: TimeDomain) -> None:
    if domain is not TimeDomain.TIMESTAMP:
        raise QueryError(f"{kind.describe()} is the time of a clock, and this stream counts in {domain.value}s")


class StampTracker(Tracker):
    """Stamps pages by the clock, and promises that no later page has a stamp below the clock.

    A later page may have the stamp of this very microsecond, so the promise ends one tick before it.

    >>> t = internal().tracker(TimeDomain.TIMESTAMP)
    >>> t.stamp(70)
    70
    >>> t.tick(100); t.heartbeat, t.stamp(100)
    (Heartbeat(tick=99), 100)
    >>> t.stamp(40)                   # a clock that was set back: the promise holds all the same
    100
    """

    STATE = ("_heartbeat",)
    absolute_clock = True
    goes_on = True

    def __init__(self) -> None:
        self._heartbeat = MIN_TICK

    @property
    def heartbeat(self) -> Heartbeat:
        return Heartbeat(self._heartbeat)

    def stamp(self, now: int) -> int:
        """The time of the rows of a page that comes now."""
        return max(now, self._heartbeat + 1)

    def arrive(self, arrival: Arrival) -> None:
        """Later pages have this stamp or a later one."""
        if arrival.highest is not None:
            self.tick(arrival.highest)

    def tick(self, now: int) -> None:
        self._heartbeat = max(self._heartbeat, now - 1)

    def reaches(self, tick: int) -> int | None:
        """One tick later."""
        return tick + 1


class LatentTracker(Tracker):
    """Promises nothing: the operator that stamps the rows does."""

    @property
    def heartbeat(self) -> Heartbeat:
        return Heartbeat.NONE

    def arrive(self, arrival: Arrival) -> None:
        """Its rows have no time yet."""
