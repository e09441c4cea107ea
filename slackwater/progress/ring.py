"""The arrays τ_j[c] of S1 Figure 2 in bounded memory (section 5.1): heartbeats now, and a ring of those to come."""

from __future__ import annotations

import numpy as np

from slackwater.progress.sources import Ints
from slackwater.progress.time import MIN_TICK


class Ring:
    """Heartbeats of n streams: `beats` holds now, the ring what the clock will bring up to `span` ticks ahead.

    A cell stands for `unit` ticks of the wall clock and takes effect at its end. So a coarser unit needs fewer
    cells, and a heartbeat comes less than one unit later, never earlier.

    >>> ring = Ring(1, span=10, unit=4)
    >>> ring.cells
    4
    >>> ring.advance(0)
    >>> ring.promise(np.array([0]), np.array([9]), np.array([70]))     # 70 on stream 0 from instant 9 on
    >>> ring.next_due()
    12
    >>> ring.advance(12)
    >>> ring.beats.tolist()
    [70]
    """

    def __init__(self, n: int, span: int, unit: int) -> None:
        self.unit = unit
        self.cells = -(-span // unit) + 1
        self.now = MIN_TICK
        self.beats: Ints = np.full(n, MIN_TICK, dtype=np.int64)
        # Flat, cell after cell. A cell number is an instant divided by the unit; cells not beyond `now` are empty.
        self._ahead: Ints = np.full(self.cells * n, MIN_TICK, dtype=np.int64)

    def promise(self, targets: Ints, due: Ints, values: Ints) -> None:
        """Raise the heartbeats of `targets` to `values` once the clock shows `due`: line 4 of Figure 2.

        The targets are all different, and no `due` lies more than `span` ahead of `now`.
        """
        better = values > self.beats[targets]
        if not better.any():
            return
        targets, values, cell = targets[better], values[better], -(-due[better] // self.unit)
        current = self.now // self.unit
        ahead = cell > current
        if not ahead.all():
            self.beats[targets[~ahead]] = values[~ahead]
            targets, values, cell = targets[ahead], values[ahead], cell[ahead]
        # Positions in the ring, without the slow remainder.
        slot = cell - (current - current % self.cells)
        slot -= self.cells * (slot >= self.cells)
        slot *= len(self.beats)
        slot += targets
        self._ahead[slot] = np.maximum(self._ahead[slot], values)

    def raise_all(self, value: int) -> None:
        """Raise every heartbeat to a value, now."""
        np.maximum(self.beats, value, out=self.beats)

    def advance(self, now: int) -> None:
        """Move the clock; an earlier instant is ignored."""
        if now <= self.now:
            return
        last, self.now = self.now // self.unit, now
        current = now // self.unit
        passed = np.arange(current - min(current - last, self.cells) + 1, current + 1) % self.cells
        if len(passed):
            cells = self._ahead.reshape(self.cells, -1)
            np.maximum(self.beats, cells[passed].max(axis=0), out=self.beats)
            cells[passed] = MIN_TICK

    def next_due(self) -> int | None:
        """The next instant at which the clock raises a heartbeat."""
        rising = (self._in_order() > self.beats).any(axis=1)
        return (self.now // self.unit + 1 + int(rising.argmax())) * self.unit if rising.any() else None

    def _in_order(self) -> Ints:
        """The cells from the next one on."""
        return np.roll(self._ahead.reshape(self.cells, -1), -((self.now // self.unit + 1) % self.cells), axis=0)

    def pending(self) -> list[list[int]]:
        """What is still to come and raises a heartbeat: [instant, stream, heartbeat]."""
        cells = self._in_order()
        before = np.maximum.accumulate(np.vstack([self.beats, cells[:-1]]), axis=0)
        at, stream = np.nonzero(cells > before)
        due = (self.now // self.unit + 1 + at) * self.unit
        return np.stack([due, stream, cells[at, stream]], axis=1).tolist()  # type: ignore[no-any-return]

    def load(self, now: int, beats: list[int], pending: list[list[int]]) -> None:
        """Continue from an earlier `now`, `beats` and `pending()`."""
        self.now = now
        self.beats = np.array(beats, dtype=np.int64)
        self._ahead.fill(MIN_TICK)
        table = np.array(pending, dtype=np.int64).reshape(-1, 3)
        cell = table[:, 0] // self.unit % self.cells
        self._ahead[cell * len(self.beats) + table[:, 1]] = table[:, 2]
