"""What tuple-based skew bounds allow to conclude from arrivals (S1 section 3.1), under latency and reordering."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from slackwater.progress.bounds.skew import TuplePair
from slackwater.progress.restorable import Restorable


class Watch(Restorable):
    """Counts tuples of one stream S_j behind the timestamps of one origin φi, for the pairs (n, δ) of B_ij.

    The paper's interval is n tuples that φj *emits* after φi has emitted τ; only arrivals are seen. Let τ arrive at
    c. φi emitted it at c or before. The network may reorder S_j, so a tuple which arrives after c can have been
    emitted before τ was; but one that arrives after c + L_j was emitted after c. So counting *opens* behind instant
    c + L_j, and every tuple counted from there is one of the interval. (Tuples that got lost, or that arrived
    before, may be of the interval too: not counting them only delays.) Let the n-th arrive at a. By then φj has
    emitted n tuples of the interval, so all that it emits after a is > τ − δ, and what it emitted before is here by
    a + L_j. Hence the heartbeat τ − δ on S_j from a + L_j on. With L_j = 0 this is the paper's rule.

    A page says how many tuples arrived at one instant, and their largest timestamp. All of its rows count for what
    opened before that instant, none for a timestamp of the page itself, whose place among them is not known. Of
    what opens before the same tuple only the largest timestamp is kept, and a smaller one that comes later says
    nothing new: so at most max n + 1 are open, and those of the last L_j ticks wait, however long S_j is silent.

    >>> watch = Watch((TuplePair(2, 0),))
    >>> watch.saw(70, opens=5, now=3)
    >>> watch.counted(at=5, before=0, after=9)       # may have been emitted before 70 was
    []
    >>> watch.counted(at=6, before=9, after=10), watch.counted(at=7, before=10, after=11)
    ([], [70])
    """

    STATE = ("_waiting", "_open")

    def __init__(self, pairs: tuple[TuplePair, ...]) -> None:
        self._pairs = pairs
        self._longest = max(pair.n for pair in pairs)
        # (instant behind which counting opens, τ), both increasing, all τ above those of `_open`.
        self._waiting: list[tuple[int, int]] = []
        # (count of S_j at the opening, τ), both increasing; the last one stays, to tell what is new.
        self._open: list[tuple[int, int]] = []

    def saw(self, timestamp: int, opens: int, now: int) -> None:
        """A timestamp came from the origin; tuples of S_j count for it that arrive behind the instant `opens`."""
        if timestamp <= self._largest():
            return
        if self._waiting and self._waiting[-1][0] >= opens:
            opens = self._waiting.pop()[0]
        self._waiting.append((opens, timestamp))
        # Those before now open all together, at the next tuple of S_j.
        del self._waiting[: max(self._opening(now) - 1, 0)]

    def _largest(self) -> float:
        known = self._waiting or self._open
        return known[-1][1] if known else float("-inf")

    def counted(self, at: int, before: int, after: int) -> list[int]:
        """Tuples of S_j arrived at `at`, which makes `after` of `before`; the heartbeats τ − δ that follow."""
        opening = self._opening(at)
        if opening:
            if self._open and self._open[-1][0] == before:
                self._open.pop()
            self._open.append((before, self._waiting[opening - 1][1]))
            del self._waiting[:opening]
        passed = [(self._passed(after - pair.n), pair.delta) for pair in self._pairs]
        concluded = [self._open[k - 1][1] - delta for k, delta in passed if k]
        del self._open[: max(self._passed(after - self._longest) - 1, 0)]
        return concluded

    def _opening(self, at: int) -> int:
        return bisect_left(self._waiting, at, key=lambda waiting: waiting[0])

    def _passed(self, count: int) -> int:
        return bisect_right(self._open, count, key=lambda opened: opened[0])
