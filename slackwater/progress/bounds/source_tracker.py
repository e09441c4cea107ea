"""Trackers for skew bounds: what a page says of its sources goes to S1's heartbeat generator, by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from slackwater.errors import JournalError
from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival, SourceArrivals
from slackwater.progress.bounds.heartbeat_generator import HeartbeatGenerator
from slackwater.progress.disorder import SourceHeartbeats, Tracker
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.source_numbers import Ints
from slackwater.progress.source_table import SourceNumbers
from slackwater.progress.time import MIN_TICK

#: How many discovered sources have heartbeats of their own. Further ones have that of sources not seen yet.
MOST = 100_000
#: How many of the sources that hold time back `metrics` names.
SHOWN = 5


class StreamTracker(Tracker):
    """The stream is one source, whatever its source column says."""

    STATE = ("_generator", "_unknown")

    def __init__(self, generator: HeartbeatGenerator) -> None:
        self._generator = generator
        self._unknown = 0

    @property
    def heartbeat(self) -> Heartbeat:
        """The least of all sources."""
        return self._generator.heartbeat

    @property
    def silence(self) -> int | None:
        """The timeout; on a live stream whose bounds need none, the default one."""
        return self._generator.silence

    def arrive(self, arrival: Arrival) -> None:
        """Take a page; a row without a time, or of a source unknown to the bounds, ends a silence, too."""
        self._take(arrival)
        if arrival.rows:
            self._generator.came(arrival.at)

    def _take(self, arrival: Arrival) -> None:
        if arrival.highest is not None:
            self._generator.arrive(0, arrival.timed, arrival.highest, arrival.at)

    def tick(self, now: int) -> None:
        self._generator.tick(now)

    def wake_at(self) -> int | None:
        return self._generator.wake_at()

    def metrics(self) -> Figures:
        """Figures of the sources, and which of them (or of their groups) have the lowest heartbeats."""
        names, ticks = self._held()
        return {
            "sources": self._known(),
            "unknown_source_rows": self._unknown,
            "held_back_by": SourceHeartbeats(list(names), ticks, MIN_TICK).lowest(SHOWN),
        }

    def _known(self) -> int:
        return 1

    def _held(self) -> tuple[Sequence[str], Ints]:
        """The sources or groups that have a heartbeat, and their heartbeats."""
        return self._generator.bounds.names, self._generator.ticks()


class KnownSources(StreamTracker):
    """Sources that the bounds name, each with a heartbeat, or in groups that have one.

    Rows of another source move nothing and are counted: the bounds do not speak of it.
    """

    def __init__(self, generator: HeartbeatGenerator, names: Sequence[str], group_of: Ints | None = None) -> None:
        super().__init__(generator)
        self._numbers = SourceNumbers(names)
        self._group_of = group_of
        self._digest = crc32("\0".join(names).encode())

    def by_source(self) -> SourceHeartbeats:
        """The heartbeats of all sources that the bounds name; any other source gets the least."""
        ticks = self._generator.ticks()
        least = int(ticks.min())
        each = ticks if self._group_of is None else ticks[self._group_of]
        return SourceHeartbeats(self._numbers.names, each, least)

    def _take(self, arrival: Arrival) -> None:
        if arrival.sources is not None:
            numbers = self._numbers.of(arrival.sources.names)
            streams, rows, highest = self._counted(arrival.sources, numbers)
            if self._group_of is not None:
                streams, rows, highest = _by_group(self._group_of[streams], rows, highest, self._generator)
            self._generator.arrive_page(streams, rows, highest, arrival.at)
        elif len(self._numbers) == 1:
            super()._take(arrival)
        else:
            self._unknown += arrival.timed

    def _counted(self, page: SourceArrivals, numbers: Ints) -> tuple[Ints, Ints, Ints]:
        """The numbers, rows and largest timestamps of the sources that are known and have sent rows."""
        known = (numbers >= 0) & (page.rows > 0)
        if known.all():
            return numbers, page.rows, page.highest
        self._unknown += int(page.rows[numbers < 0].sum())
        return numbers[known], page.rows[known], page.highest[known]

    def state(self) -> dict[str, Any]:
        """The names are the policy's: only a checksum of them is kept."""
        return {**super().state(), "sources": self._digest}

    def restore(self, state: dict[str, Any]) -> None:
        if state["sources"] != self._digest:
            raise JournalError(
                "the kept heartbeats are of other sources; continue with the policy that they were kept with"
            )
        super().restore(state)

    def _known(self) -> int:
        return len(self._numbers)


def _by_group(groups: Ints, rows: Ints, highest: Ints, generator: HeartbeatGenerator) -> tuple[Ints, Ints, Ints]:
    n = len(generator.bounds.names)
    counts, tops = np.zeros(n, dtype=np.int64), np.full(n, np.iinfo(np.int64).min)
    np.add.at(counts, groups, rows)
    np.maximum.at(tops, groups, highest)
    some = np.nonzero(counts)[0]
    return some, counts[some], tops[some]


class DiscoveredSources(KnownSources):
    """Sources that all have the same bounds, and show up as the stream goes on.

    It is what holds time back for sources that nobody has seen: beyond those with a name there is always at least
    one slot without. It has the heartbeat of every source that has not sent yet, takes part in the least of all,
    and is where a new name begins. `build` makes a generator for a number of slots.
    """

    def __init__(self, build: Callable[[int], HeartbeatGenerator], slots: int = 16) -> None:
        super().__init__(build(slots), [])
        self._build = build
        self._slots = slots
        self._alone = False

    @property
    def heartbeat(self) -> Heartbeat:
        """The least of all sources, seen or not; in a stream without a source column, that of the one it has."""
        return self._generator.of(0) if self._alone else self._generator.heartbeat

    def by_source(self) -> SourceHeartbeats | None:  # type: ignore[override]
        """The heartbeats of all sources seen; the others have that of a slot without a name."""
        if self._alone:
            return None
        ticks, n = self._generator.ticks(), len(self._numbers)
        return SourceHeartbeats(self._numbers.names, ticks[:n], int(ticks[n]))

    def _take(self, arrival: Arrival) -> None:
        if arrival.sources is None or self._alone:
            self._alone = self._alone or (arrival.timed > 0 and len(self._numbers) == 0)
            if self._alone:
                StreamTracker._take(self, arrival)
            else:
                self._unknown += arrival.timed
            return
        numbers = self._numbers.meet(arrival.sources.names, MOST)
        if len(self._numbers) >= self._slots:
            self._grow(min(max(2 * self._slots, len(self._numbers) + 1), MOST + 1))
        self._generator.arrive_page(*self._counted(arrival.sources, numbers), arrival.at)

    def _grow(self, slots: int) -> None:
        larger = self._build(slots)
        larger.take_over(self._generator)
        self._generator, self._slots = larger, slots

    def state(self) -> dict[str, Any]:
        """The generator's, and the names in the order of their numbers."""
        return {**super().state(), "names": self._numbers.names, "alone": self._alone}

    def restore(self, state: dict[str, Any]) -> None:
        self._slots = len(state["generator.ring.beats"])
        self._generator = self._build(self._slots)
        self._numbers = SourceNumbers(state["names"])
        self._alone = state["alone"]
        super().restore(state)

    def _held(self) -> tuple[Sequence[str], Ints]:
        n = len(self._numbers)
        return [*self._numbers.names, "(not seen yet)"], self._generator.ticks()[: n + 1]
