"""A constant bound for a log of several partitions, whose rows are not read in the order of their writing.

The bound is about writing: a row is at most `slack` older than the newest row that was written to the log before
it, in any partition. So the heartbeat of a partition with unread rows follows its own last row. The heartbeat of a
partition that has been read to its end follows the newest row that was read from any partition. Only the log knows
which partitions have been read to their end (`LogEnds`). Until it answers, partitions without rows hold time back.
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

#: The number of partitions in `held_back_by` of the metrics.
_SHOWN = 5


class PartitionTracker(SilenceTracker):
    """Keeps a heartbeat for each partition; the lowest one is the heartbeat of the stream.

    Partitions without rows hold time back, until the log says that they have been read to their end.

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
        """The heartbeat of partitions that were created after the log's last answer."""

    @property
    def heartbeat(self) -> Heartbeat:
        """The lowest heartbeat of all partitions, or the largest time seen if a timeout has passed."""
        least = int(self._ticks.min(initial=self._others))
        return Heartbeat(max(self._heartbeat, least))

    def by_source(self) -> SourceHeartbeats:
        """The heartbeats of the partitions."""
        ticks = np.maximum(self._ticks, self._heartbeat)
        return SourceHeartbeats(self._numbers.names, ticks, max(self._others, self._heartbeat))

    def arrive(self, arrival: Arrival) -> None:
        """Raise the heartbeat of each partition that has rows in this page."""
        self._saw(arrival)
        by = arrival.sources
        if by is not None:
            sent = by.rows > 0
            numbers = self._meet([name for name, some in zip(by.names, sent, strict=True) if some])
            self._ticks[numbers] = np.maximum(self._ticks[numbers], by.highest[sent] - self._slack - 1)

    def read_to(self, ends: LogEnds, highest: int | None) -> None:
        """Raise the heartbeats of partitions without unread rows, and of partitions still to be created."""
        self._meet(sorted(ends.unread))
        if highest is None:
            self._meet(sorted(ends.read))
            return
        promised = highest - self._slack - 1
        # A partition that the log does not name was deleted. It holds nothing back.
        unread = self._numbers.of(sorted(ends.unread))
        raised = np.maximum(self._ticks, promised)
        raised[unread] = self._ticks[unread]
        self._ticks = raised
        self._others = max(self._others, promised)
        self._meet(sorted(ends.read))

    def _meet(self, names: list[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The numbers of these partitions. A new partition begins with the heartbeat `_others`."""
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
        """The number of partitions, and the lowest heartbeats."""
        return {"sources": len(self._numbers), "held_back_by": self.by_source().lowest(_SHOWN)}
