"""A constant bound for a log of several partitions, which a reader does not read in the order of their writing.

The bound is about writing: a row is at most `slack` older than the newest row that was written to the log before
it, to whatever partition. So a partition that still has unread rows has come as far as its own last row says. One
that has been read to its end has come as far as the newest row of all that were read by then. Only the log knows
which have been read to their end (`LogEnds`); until it is asked, partitions without rows hold time back.
"""

from __future__ import annotations

import numpy as np

from slackwater.figures import Figures
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import SourceHeartbeats
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.log_ends import LogEnds
from slackwater.progress.silence import SilenceTracker
from slackwater.progress.source_table import SourceNumbers
from slackwater.progress.time import MIN_TICK

#: How many of the partitions that hold time back `metrics` names.
_SHOWN = 5


class PartitionTracker(SilenceTracker):
    """Keeps a heartbeat for each partition; that of the stream is the least of them.

    It holds time back for partitions that have not sent anything, until the log says that they are empty.

    >>> t = PartitionTracker(slack=10, timeout=None)
    >>> t.read_to(LogEnds(0, frozenset({"0", "1"}), frozenset()), highest=100); t.heartbeat
    Heartbeat(tick=89)
    """

    STATE = (*SilenceTracker.STATE, "_ticks", "_others")
    asks_log = True

    def __init__(self, slack: int, timeout: int | None) -> None:
        super().__init__(timeout)
        self._slack = slack
        self._numbers = SourceNumbers([])
        self._ticks = np.empty(0, dtype=np.int64)
        self._others = MIN_TICK
        """The heartbeat of partitions that were made after the log was last asked."""

    @property
    def heartbeat(self) -> Heartbeat:
        """The least of all partitions, or what a silence has promised."""
        least = int(self._ticks.min(initial=self._others))
        return Heartbeat(max(self._heartbeat, least))

    def by_source(self) -> SourceHeartbeats:
        """The heartbeats of the partitions."""
        ticks = np.maximum(self._ticks, self._heartbeat)
        return SourceHeartbeats(self._numbers.names, ticks, max(self._others, self._heartbeat))

    def arrive(self, arrival: Arrival) -> None:
        """Each partition that has sent rows has come as far as they say."""
        self._saw(arrival)
        by = arrival.sources
        if by is not None:
            sent = by.rows > 0
            numbers = self._meet([name for name, some in zip(by.names, sent, strict=True) if some])
            self._ticks[numbers] = np.maximum(self._ticks[numbers], by.highest[sent] - self._slack - 1)

    def read_to(self, ends: LogEnds, highest: int | None) -> None:
        """Partitions without unread rows have come as far as all others, and so have those still to be made."""
        self._meet(sorted(ends.unread))
        if highest is None:
            self._meet(sorted(ends.read))
            return
        promised = highest - self._slack - 1
        # What the log does not name is gone, and sends no more.
        unread = self._numbers.of(sorted(ends.unread))
        raised = np.maximum(self._ticks, promised)
        raised[unread] = self._ticks[unread]
        self._ticks = raised
        self._others = max(self._others, promised)
        self._meet(sorted(ends.read))

    def _meet(self, names: list[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The numbers of partitions; a new one has the heartbeat of those that were not known."""
        numbers = self._numbers.meet(names, len(self._numbers) + len(names))
        new = len(self._numbers) - len(self._ticks)
        self._ticks = np.concatenate([self._ticks, np.full(new, self._others, dtype=np.int64)])
        return numbers

    def state(self) -> dict[str, object]:
        """With the names in the order of their numbers."""
        return {**super().state(), "names": self._numbers.names}

    def restore(self, state: dict[str, object]) -> None:
        super().restore(state)
        self._numbers = SourceNumbers(list(state["names"]))  # type: ignore[call-overload]

    def metrics(self) -> Figures:
        """How many partitions are known, and which have the lowest heartbeats."""
        return {"sources": len(self._numbers), "held_back_by": self.by_source().lowest(_SHOWN)}
