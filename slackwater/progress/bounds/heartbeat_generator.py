"""Heartbeats from skew bounds: the algorithm of S1 Figure 2 with B*, and the timeout of section 3.4."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slackwater.errors import JournalError
from slackwater.progress.bounds.counted import Watch
from slackwater.progress.bounds.skew import SkewBounds, timeout_needed
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.restorable import Restorable
from slackwater.progress.ring import Ring
from slackwater.progress.source_numbers import Ints, index_of, lowered, whole
from slackwater.progress.time import MIN_TICK

#: If the user chose no unit: the most cells of a stream in the ring, and about how many in all (8 bytes each).
CELLS, CELLS_IN_ALL = 1024, 2**20


class HeartbeatGenerator(Restorable):
    """Turns arrivals and the clock into a heartbeat for each stream: S1 Figure 2, with the memory of section 5.1.

    It is what holds time back: a stream of which no other and not itself guarantees anything stays at
    `Heartbeat.NONE`, and with it the heartbeat of all, until a timeout.

    When timestamp τ arrives from φi at instant c, then for every j and every time-based pair (t, δ) of B*_ij the
    heartbeat of S_j becomes at least τ − δ at instant c + t + L_j. `Watch` tells what tuple-based pairs give.

    >>> from slackwater.progress.bounds.skew import SkewMatrix
    >>> bounds = SkewMatrix([[(0, 0), (2, 5)], [None, (0, 0)]], latency=[1, 3], names=["fast", "slow"])
    >>> g = HeartbeatGenerator(bounds, timeout=60)
    >>> g.arrive(0, rows=10, highest=100, at=0)
    >>> g.tick(1); g.of("fast"), g.of("slow") == Heartbeat.NONE
    (Heartbeat(tick=100), True)
    >>> g.wake_at()                   # 0 + 2 + 3
    5
    >>> g.tick(5); g.heartbeat        # of all: the least
    Heartbeat(tick=95)
    >>> g.tick(60); g.heartbeat       # nothing came for so long
    Heartbeat(tick=100)

    Args:
        bounds: B and L. An instant of arrival is the page's, so L covers the wait for the page, too.
        timeout: ticks of the wall clock without any tuple after which all that was seen is taken to be all (section
            3.4); `timeout_needed` tells whether one is needed.
        unit: ticks of the wall clock in one cell of the ring. A heartbeat comes less than one unit later than with
            unit 1, never earlier. By default the smallest with at most 1024 cells a stream, fewer for many streams.
        indirect: use B*, and not only what B says directly; `SkewMatrix.closure` says what that takes for granted.
        ordered: the network keeps the order of each stream (section 2): what arrives later was emitted later. So
            what a tuple says of its own stream at once, by a pair (0, δ), holds on its arrival and not L later; and
            of n tuples that were counted, none of an earlier one is still under way.
    """

    STATE = ("_ring", "_highest", "_last_arrival", "_counts")

    def __init__(
        self,
        bounds: SkewBounds,
        *,
        timeout: int | None = None,
        unit: int | None = None,
        indirect: bool = True,
        ordered: bool = False,
    ) -> None:
        self.bounds = bounds.closure() if indirect else bounds
        self._own = self.bounds.at_once() if ordered else None
        self.timeout = None if timeout is None else whole(timeout, "timeout", least=1)
        self.silence = self.timeout
        """The silence after which other streams do not wait for this one."""
        n, span = len(bounds.names), self.bounds.span
        cells = max(8, min(CELLS, CELLS_IN_ALL // n))
        self._ring = Ring(n, span, max(1, -(-span // cells)) if unit is None else whole(unit, "unit", least=1))
        self._highest: int | None = None
        self._last_arrival = MIN_TICK
        self._by_target: dict[int, list[Watch]] = {}
        self._by_origin: dict[int | None, list[tuple[int, Watch]]] = {}
        for origin, target, pairs in self.bounds.counted():
            watch = Watch(pairs)
            self._by_target.setdefault(target, []).append(watch)
            self._by_origin.setdefault(origin, []).append((target, watch))
        # How many tuples of each stream have been counted, where any are.
        self._counts: Ints = np.zeros(n if self._by_target else 0, dtype=np.int64)

    @property
    def unit(self) -> int:
        """Ticks of the wall clock in one cell of the ring."""
        return self._ring.unit

    @property
    def cells(self) -> int:
        """Cells of the ring for each stream: those of t_max + L_max, and the one that the clock is in."""
        return self._ring.cells

    @property
    def timeout_needed(self) -> bool:
        """Theorem 3.3: whether, without a timeout, tuples could stay behind for ever when all streams pause."""
        return timeout_needed(self.bounds)

    @property
    def heartbeat(self) -> Heartbeat:
        """The heartbeat of all streams together: the least of theirs.

        A heartbeat of instant c speaks of what arrives after c. Read it when all that arrived at c has been given.
        """
        return Heartbeat(int(self._ring.beats.min()))

    def of(self, source: int | str) -> Heartbeat:
        """The heartbeat of one stream, by number or name."""
        return Heartbeat(int(self._ring.beats[index_of(source, self.bounds.names)]))

    def ticks(self) -> Ints:
        """The heartbeats of all streams, as plain ticks."""
        return self._ring.beats.copy()

    def arrive(self, source: int, rows: int, highest: int, at: int) -> None:
        """At instant `at`, `rows` tuples came from a source, with `highest` as their largest timestamp.

        They all came at one instant, so what a smaller timestamp would guarantee by a time-based pair, the largest
        guarantees as well. For tuple-based pairs see `Watch`.
        """
        if rows > 0:
            number = index_of(source, self.bounds.names)
            self._arrive(_ints([number]), _ints([rows]), _ints([highest]), at)

    def arrive_page(self, sources: Ints, rows: Ints, highest: Ints, at: int) -> None:
        """`arrive` for many sources at one instant; each source at most once, each with a row or more.

        >>> from slackwater.progress.bounds.environments import sensor_bounds
        >>> g = HeartbeatGenerator(sensor_bounds([1, 2, 3]))
        >>> g.arrive_page(np.array([0, 2]), np.array([5, 1]), np.array([50, 54]), at=0)
        >>> g.ticks().tolist()        # the third gives 54 − 3 − 1, 54 − 3 − 2, 54 − 3
        [50, 49, 51]
        """
        if len(sources):
            self._arrive(_ints(sources), _ints(rows), _ints(highest), at)

    def came(self, at: int) -> None:
        """A tuple came at this instant, of whatever source and with whatever time: there is no silence."""
        self._last_arrival = max(self._last_arrival, at)

    def _arrive(self, sources: Ints, rows: Ints, highest: Ints, at: int) -> None:
        ring, bounds = self._ring, self.bounds
        ring.advance(at)
        for targets, t, beats in bounds.promises(sources, highest):
            ring.promise(targets, at + t + bounds.latency[targets], beats)
        if self._own is not None:
            delta = self._own[sources]
            here = delta >= 0
            ring.promise(sources[here], np.full(int(here.sum()), at), lowered(highest[here], delta[here]))
        if self._by_target:
            self._count(sources, rows, highest, at)
        top = int(highest.max())
        self._highest = top if self._highest is None else max(self._highest, top)
        self.came(at)

    def _count(self, sources: Ints, rows: Ints, highest: Ints, at: int) -> None:
        latency = self.bounds.latency
        # A page that is stamped before an earlier one is not counted: it may lie before an opening. And what it
        # says opens no sooner than what came before it. Both only delay.
        latest = max(at, self._last_arrival)
        promised: list[tuple[int, int]] = []
        for source, came in zip(sources.tolist(), rows.tolist(), strict=True):
            if at < latest or source not in self._by_target:
                continue
            before = int(self._counts[source])
            self._counts[source] = after = before + came
            values = [v for watch in self._by_target[source] for v in watch.counted(at, before, after)]
            if values:
                promised.append((source, max(*values, MIN_TICK)))
        if promised:
            targets, best = _ints(promised).T
            self._ring.promise(targets, at + (latency[targets] if self._own is None else 0 * targets), best)
        seen: list[tuple[int | None, int]] = list(zip(sources.tolist(), highest.tolist(), strict=True))
        for origin, top in [*seen, (None, int(highest.max()))]:
            for target, watch in self._by_origin.get(origin, ()):
                own = self._own is not None and origin == target
                watch.saw(top, latest if own else latest + int(latency[target]), latest)

    def tick(self, now: int) -> None:
        """Wall-clock time is now this."""
        self._ring.advance(now)
        if self.timeout is not None and self._highest is not None and now >= self._last_arrival + self.timeout:
            self._ring.raise_all(self._highest)

    def wake_at(self) -> int | None:
        """The next instant at which the clock alone moves a heartbeat; None if there is none."""
        due = self._ring.next_due()
        if self.timeout is None or self._highest is None or int(self._ring.beats.min()) >= self._highest:
            return due
        silent = self._last_arrival + self.timeout
        return silent if due is None else min(due, silent)

    def state(self) -> dict[str, Any]:
        """Heartbeats now and to come (arrays), what was seen last, and what is being counted."""
        return {**super().state(), "unit": self.unit, "watches": [watch.state() for watch in self._watches()]}

    def _watches(self) -> list[Watch]:
        return [watch for watches in self._by_target.values() for watch in watches]

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()` of the same bounds and unit."""
        kept = (len(state["ring.beats"]), state["unit"], len(state["counts"]))
        here = (len(self._ring.beats), self.unit, len(self._counts))
        if kept != here:
            raise JournalError(
                f"the kept heartbeats are for (streams, unit, counted streams) = {kept}, here it is {here}; "
                "continue with the bounds and the unit that they were kept with"
            )
        self._load(state)

    def _load(self, state: dict[str, Any]) -> None:
        super().restore(state)
        for watch, kept in zip(self._watches(), state["watches"], strict=True):
            watch.restore(kept)

    def take_over(self, smaller: HeartbeatGenerator) -> None:
        """Continue from a generator with fewer of the same sources, whose last one has sent nothing yet.

        Every further source is taken to have the bounds of that last one. So it is where it would be, had it been
        there from the start.

        >>> from slackwater.progress.bounds.environments import sensor_bounds
        >>> two, five = HeartbeatGenerator(sensor_bounds([3] * 2)), HeartbeatGenerator(sensor_bounds([3] * 5))
        >>> two.arrive(0, rows=1, highest=50, at=0)
        >>> five.take_over(two); five.ticks().tolist()
        [47, 44, 44, 44, 44]
        """
        state, n = smaller.state(), len(self._ring.beats)
        old = len(state["ring.beats"])
        last = state["ring.pending_streams"] == old - 1
        new = np.repeat(np.arange(old, n), int(last.sum()))
        state["ring.pending_streams"] = np.append(state["ring.pending_streams"], new)
        for name in ("ring.pending_at", "ring.pending_beats"):
            state[name] = np.append(state[name], np.tile(state[name][last], n - old))
        state["ring.beats"] = np.append(state["ring.beats"], np.repeat(state["ring.beats"][-1:], n - old))
        if len(self._counts):
            state["counts"] = np.append(state["counts"], np.zeros(n - old, dtype=np.int64))
            state["watches"] += [state["watches"][-1]] * (n - old)
        self._load(state)


def _ints(values: ArrayLike) -> Ints:
    return np.asarray(values, dtype=np.int64)
