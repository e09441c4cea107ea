"""The arrays τ_j[c] of S1 Figure 2 in bounded memory (section 5.1): heartbeats now, and a ring of those to come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK

_NOTHING: Ints = np.zeros(0, dtype=np.int64)


class Ring(Restorable):
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
        self.span = span
        self.cells = -(-span // unit) + 1
        self.now = MIN_TICK
        self.beats: Ints = np.full(n, MIN_TICK, dtype=np.int64)
        # Flat, cell after cell. A cell number is an instant divided by the unit; cells not beyond `now` are empty.
        self._ahead: Ints = np.full(self.cells * n, MIN_TICK, dtype=np.int64)
        # The cells that may hold something: with many streams, looking at the others would cost most of the time.
        self._used: NDArray[np.bool_] = np.zeros(self.cells, dtype=np.bool_)

    def promise(self, targets: Ints, due: Ints, values: Ints) -> None:
        """Raise the heartbeats of `targets` to `values` once the clock shows `due`: line 4 of Figure 2.

        The targets are all different, and no `due` lies more than `span` ahead of `now`.
        """
        better = values > self.beats[targets]
        if not better.any():
            return
        if not better.all():
            targets, values, due = targets[better], values[better], due[better]
        current = self.now // self.unit
        # Rounded up to a cell, these lie beyond the current one.
        ahead = due > current * self.unit
        if not ahead.all():
            self.beats[targets[~ahead]] = values[~ahead]
            targets, values, due = targets[ahead], values[ahead], due[ahead]
        if len(targets):
            self._put(targets, -(-due // self.unit), values)

    def promise_ahead(self, values: Ints) -> None:
        """Raise the heartbeats of all streams: values[j, t] on stream j, when t units of the clock have passed.

        >>> ring = Ring(1, span=10, unit=5)
        >>> ring.advance(7)
        >>> ring.promise_ahead(np.array([[3, 3, 8]]))
        >>> ring.beats.tolist(), ring.next_due()
        ([3], 15)
        """
        np.maximum(self.beats, values[:, 0], out=self.beats)
        later = values[:, 1:].T
        better = later > self.beats
        slots = (self.now // self.unit + 1 + np.arange(len(later))) % self.cells
        cells = self._ahead.reshape(self.cells, -1)
        cells[slots] = np.maximum(cells[slots], np.where(better, later, MIN_TICK))
        self._used[slots] |= better.any(1)

    def _put(self, targets: Ints, cell: Ints, values: Ints) -> None:
        first = self.now // self.unit + 1
        if cell[0] == cell[-1] and int(cell.min()) == int(cell.max()):
            # The usual case with many equal sources: all in one cell.
            slot = int(cell[0]) % self.cells
            row = self._ahead[slot * len(self.beats) : (slot + 1) * len(self.beats)]
            row[targets] = np.maximum(row[targets], values)
            self._used[slot] = True
            return
        # Positions in the ring, without the slow remainder.
        slots = cell - (first - first % self.cells)
        slots -= self.cells * (slots >= self.cells)
        self._used[slots] = True
        slots *= len(self.beats)
        slots += targets
        self._ahead[slots] = np.maximum(self._ahead[slots], values)

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
        cells = self._ahead.reshape(self.cells, -1)
        for slot in passed[self._used[passed]].tolist():
            np.maximum(self.beats, cells[slot], out=self.beats)
            cells[slot] = MIN_TICK
            self._used[slot] = False

    def highest(self) -> Ints:
        """The highest that is promised to each stream, for now or for later."""
        found: Ints = np.maximum(self.beats, self._ahead.reshape(self.cells, -1).max(0))
        return found

    def next_due(self) -> int | None:
        """The next instant at which the clock raises a heartbeat."""
        for due, cell in self._in_order():
            if (cell > self.beats).any():
                return due
        return None

    def _in_order(self) -> Iterator[tuple[int, Ints]]:
        """The cells that may hold something, from the next one on, with the instants at which they take effect."""
        first = self.now // self.unit + 1
        cells = self._ahead.reshape(self.cells, -1)
        for k in np.nonzero(np.roll(self._used, -(first % self.cells)))[0].tolist():
            yield (first + k) * self.unit, cells[(first + k) % self.cells]

    def pending(self) -> tuple[Ints, Ints, Ints]:
        """What is still to come and raises a heartbeat: instants, streams, heartbeats, side by side."""
        known = self.beats.copy()
        found: list[tuple[Ints, Ints, Ints]] = [(_NOTHING, _NOTHING, _NOTHING)]
        for due, cell in self._in_order():
            streams = np.nonzero(cell > known)[0]
            found.append((np.full(len(streams), due, dtype=np.int64), streams, cell[streams]))
            np.maximum(known, cell, out=known)
        at, streams, beats = (np.concatenate(column) for column in zip(*found, strict=True))
        return at, streams, beats

    def state(self) -> dict[str, Any]:
        """Heartbeats now and to come, as arrays."""
        at, streams, beats = self.pending()
        pending = {"pending_at": at, "pending_streams": streams, "pending_beats": beats}
        return {"now": self.now, "beats": self.beats.copy(), **pending}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`, also of a finer unit."""
        self.now, self.beats = state["now"], np.array(state["beats"], dtype=np.int64)
        self._ahead.fill(MIN_TICK)
        self._used.fill(False)
        at, streams, values = (state[f"pending_{part}"] for part in ("at", "streams", "beats"))
        if len(at):
            # An instant was rounded up to its unit, but never lay more than `span` ahead.
            cell = -(-np.minimum(at, self.now + self.span) // self.unit) % self.cells
            np.maximum.at(self._ahead, cell * len(self.beats) + streams, values)
            self._used[cell] = True
