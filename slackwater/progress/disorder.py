"""The contract of a disorder policy: frozen settings that a user writes, and the tracker that runs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.intervals import Intervals
from slackwater.progress.log_ends import LogEnds
from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MAX_TICK, TimeDomain
from slackwater.progress.window_losses import WindowLosses


@dataclass(frozen=True, slots=True, eq=False)
class SourceHeartbeats:
    """A heartbeat for each source of a stream (D4)."""

    names: list[str]
    ticks: Ints
    others: int
    """The heartbeat, as a tick, of every source that is not named, for it has not sent anything yet.

    MIN_TICK where nothing is promised of such a source (D10)."""

    def lowest(self, most: int) -> dict[str, int]:
        """The sources that are furthest behind, the last of them first.

        >>> SourceHeartbeats(["a", "b", "c"], np.array([30, 10, 20]), 0).lowest(2)
        {'b': 10, 'c': 20}
        """
        # Of a hundred thousand only a few are wanted: the least again and again is cheaper than any sorting.
        left, found = self.ticks.copy(), list[int]()
        while len(found) < min(most, len(left)) and left[least := int(left.argmin())] < MAX_TICK:
            found.append(least)
            left[least] = MAX_TICK
        ended = np.flatnonzero(self.ticks == MAX_TICK)[: most - len(found)]
        return {self.names[i]: int(self.ticks[i]) for i in (*found, *ended)}


class Tracker(Restorable, ABC):
    """Turns arrivals and the passing of wall-clock time into heartbeats that never go back.

    It is what holds time back: a tracker that stays at `Heartbeat.NONE` keeps every window of its stream open.
    The order of calls for a page: `admit` before its rows are judged by the heartbeat of that moment, then `arrive`
    and one `hear` for each query, in any order, then perhaps `tick`.
    """

    #: Whether it sets the clock beside the times of rows; the others only ask how much of it has passed.
    absolute_clock: bool = False
    #: Whether its heartbeat goes on with the clock, beyond the times of rows: then it has `reaches`.
    goes_on: bool = False
    #: Whether heartbeats are what the senders promised, so that a row behind one is the sender's fault.
    promised_by_sender: bool = False
    #: Whether it needs to know how far a log of partitions has been read.
    asks_log: bool = False

    @property
    @abstractmethod
    def heartbeat(self) -> Heartbeat:
        """The strongest promise that holds now, for the stream as a whole."""

    @property
    def silence(self) -> int | None:
        """The silence after which the stream is idle: others do not wait for it any more. None: they always do."""
        return None

    @property
    def silent_with_others(self) -> bool:
        """Whether the silence counts from the last row of all streams that have bounds with this one."""
        return False

    def by_source(self) -> SourceHeartbeats | None:
        """The same for each source; None where the policy knows no sources.

        A source that came late may be below the stream's own, which does not go back for it (D10).
        """
        return None

    @property
    def ranges(self) -> Intervals:
        """Stretches of time (after, until] above the heartbeat that have passed, too (S5 section 6.2)."""
        return ()

    @abstractmethod
    def arrive(self, arrival: Arrival) -> None:
        """A page has arrived."""

    def arrive_on(self, stream: str, arrival: Arrival) -> None:
        """A page has arrived on a stream that has bounds with this one, or on this one itself.

        No page of this stream that came before it has still to be sent on.
        """

    def admit(self, page: int) -> None:
        """The page of this number goes down the plan now, behind the heartbeat of this moment."""

    def hear(self, report: WindowLosses) -> None:
        """A query tells what it made of an admitted page."""

    def read_to(self, ends: LogEnds, highest: int | None) -> None:
        """The log that the stream is read from says how far it has been read.

        `highest` is the largest time of all rows that had been read when it was asked.
        """

    def of_partitions(self) -> Tracker:
        """A fresh tracker of the same policy for a stream whose sources are the partitions of a log."""
        return self

    def tick(self, now: int) -> None:
        """Wall-clock time is now this."""

    def wake_at(self) -> int | None:
        """The next instant at which a tick alone could move the heartbeat."""
        return None

    def reaches(self, tick: int) -> int | None:
        """The instant at which the clock alone carries the heartbeat to a tick that it has not reached.

        None where it never does. The source tells a tracker that `goes_on` the clock when that instant has come, or
        that of `wake_at`, and not before: otherwise every tick would wake the engine for nothing.
        """
        return None

    def metrics(self) -> Figures:
        """Figures for a person."""
        return {}


class Disorder(Protocol):
    """A policy as the user wrote it: a frozen value that compares by content."""

    @property
    def needs(self) -> frozenset[str]:
        """What it needs of every page beyond rows, lowest and highest: "total", "sketch" (see `Arrival`)."""

    @property
    def needs_sources(self) -> bool:
        """Whether it speaks of sources, so that the stream must say which column names them."""

    def tracker(self, domain: TimeDomain) -> Tracker:
        """A fresh tracker for a stream of this domain; wrong settings are refused here."""

    def describe(self) -> str:
        """The policy in one line, as the user would write it."""
