"""What `drop_ratio` has seen of a stream, or of a class of its sources: how late the rows of its last pages came.

Lateness is how far a row lies behind the reference that its page met. Each of the newest pages is a *cell*. If the
stretch is long, older pages are merged into larger cells. A cell keeps a few values, most of them of late rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from datasketches import kll_doubles_sketch

from slackwater.progress.arrival import Arrival
from slackwater.progress.credible_time import CredibleTime
from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Floats, Ints
from slackwater.progress.time import MIN_TICK

#: The newest pages, each a cell of its own. A cell of older pages is as long as a stretch divided by this number.
CELLS = 100
#: Cells kept: while a stretch grows, its first cells are short.
MOST = 400
#: Values kept of a cell: of its latest rows, by ranks that grow evenly in logarithms, and of all of them, evenly.
TAIL, BODY = 24, 16
SAMPLE = TAIL + BODY - 1
#: A stream begins with the time that this share of its first page lies below: fewer rows may be corrupt.
OLDEST = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class LateRows:
    """The late values of some cells, the least first; arrays side by side."""

    values: Floats
    rows: Floats
    """For how many rows each stands."""
    cells: Ints
    """The place of its cell."""

    @staticmethod
    def of(values: Floats, rows: Floats) -> LateRows:
        """Those of a table with a line for each cell."""
        late = np.flatnonzero(values > 0)
        some = values.ravel()[late]
        order = some.argsort()
        late = late[order]
        return LateRows(some[order], rows.ravel()[late], late // values.shape[1])


class LatenessCells(Restorable):
    """The cells of the last stretch, the oldest first."""

    STATE = ("reference", "places", "before", "values", "rows", "merged", "_waiting", "_pages", "last_arrival")

    def __init__(self, p: float, by_time: bool, timestamps: bool) -> None:
        self._by_time, self._timestamps = by_time, timestamps
        # The share of a cell's rows that each value stands for, and the ranks of the values, from the lowest time.
        edges = np.sort([0.0, *np.geomspace(p / 10, 1, TAIL), *np.arange(1, BODY) / BODY])
        self._shares: Floats = np.diff(edges)
        self._ranks: Floats = (edges[1:] + edges[:-1]) / 2
        self.reference = CredibleTime()
        self.places: Ints = np.zeros(0, np.int64)
        """Where each cell begins: a number of pages, or an instant of arrival."""
        self.before: Ints = np.zeros(0, np.int64)
        """The reference before each cell."""
        self.values: Floats = np.zeros((0, SAMPLE))
        """By cell, how late the rows of its sample came; -inf where there are fewer."""
        self.rows: Floats = np.zeros((0, SAMPLE))
        """For how many rows each of the values stands."""
        self.merged = 0
        """Cells of several pages."""
        self._waiting: list[int | None] = []
        """The reference that admitted pages met which have not arrived."""
        self._pages = 0
        self.last_arrival = MIN_TICK
        self.oldest: int | None = None
        """Of the first page with times: the time that a share of OLDEST lies below."""
        self.timed = False
        """Whether the last page has times."""
        self.jump = 0
        """How far clocks that are ahead carried the reference away from the other rows, with the last page."""

    def __len__(self) -> int:
        return len(self.places)

    @property
    def now(self) -> int:
        """Where a page that comes now lies."""
        return self.last_arrival if self._by_time else self._pages

    def admit(self) -> None:
        """A page goes down the plan: note the reference that it meets."""
        self._waiting.append(self.reference.time)

    def arrive(self, arrival: Arrival) -> None:
        """Take a page's times."""
        met = self._waiting.pop(0) if self._waiting else self.reference.time
        if arrival.rows:
            self.last_arrival = max(self.last_arrival, arrival.at)
        self._pages += 1
        self.timed = arrival.highest is not None and arrival.timed > 0
        if not self.timed:
            return
        old = self.reference.time
        jumped = self.reference.pass_arrival(arrival, arrival.at if self._timestamps else None)
        time = self.reference.time
        assert time is not None
        self.jump = time - old if jumped and old is not None and not self.reference.leapt else 0
        if jumped and not self.jump:
            # As if the page came once more: rows that were held back may still be coming.
            met = time - self.reference.usual
        if self.jump:
            # Rows still come as late as before behind their own clocks. The clocks that jumped are ahead of these.
            self.values += self.jump
            self.before += self.jump
            met = None if met is None else met + self.jump
            self._waiting = [None if w is None else w + self.jump for w in self._waiting]
        self.oldest = int(_times(arrival, np.full(1, OLDEST))[0]) if old is None else None
        ranks, shares = self._ranks, self._shares
        if arrival.timed <= SAMPLE:
            ranks, shares = (
                (np.arange(arrival.timed) + 0.5) / arrival.timed,
                np.full(arrival.timed, 1 / arrival.timed),
            )
        late = np.full(len(ranks), -np.inf) if met is None else float(met) - _times(arrival, ranks)
        self.places = np.append(self.places, self.now)
        self.before = np.append(self.before, MIN_TICK if met is None else met)
        values, rows = np.full((1, SAMPLE), -np.inf), np.zeros((1, SAMPLE))
        values[0, : len(late)], rows[0, : len(late)] = late, shares * arrival.timed
        self.values, self.rows = np.concatenate((self.values, values)), np.concatenate((self.rows, rows))

    def merge(self, stretch: int) -> list[int] | None:
        """Put the oldest single pages together; drop cells that are too many, or older than two stretches.

        Where the cells begin that are left, by their places before; None if nothing has changed.
        """
        n, first = len(self), self.merged
        old = int(self.places.searchsorted(self.now - 2 * stretch, side="right")) - 1
        dropped = max(0, n - MOST, min(old, n - CELLS))
        end = (
            int(self.places.searchsorted(self.places[min(first, n - 1)] + stretch // CELLS))
            if stretch > CELLS
            else 0
        )
        if end - first < 2 or end > n - CELLS:
            end = first
        if not dropped and end == first:
            return None
        if end > first:
            values, rows = self.values[first:end].ravel(), self.rows[first:end].ravel()
            order = np.argsort(-values)
            sums = np.cumsum(rows[order])
            middles = (sums - rows[order] / 2) / sums[-1]
            self.values[first] = values[order][np.minimum(middles.searchsorted(self._ranks), len(order) - 1)]
            self.rows[first] = self._shares * sums[-1]
        begins = [k for k in range(dropped, n) if not first < k < end]
        self.merged = max(0, first + (end > first) - dropped)
        self.places, self.before = self.places[begins], self.before[begins]
        self.values, self.rows = self.values[begins], self.rows[begins]
        return begins

    def quantiles(self, shares: tuple[float, ...]) -> list[float]:
        """The lateness that these shares of the rows of the last CELLS stay at or below."""
        values, rows = self.values[-CELLS:].ravel(), self.rows[-CELLS:].ravel()
        order = np.argsort(values)
        sums = np.cumsum(rows[order])
        if not len(sums) or sums[-1] <= 0:
            return [0.0] * len(shares)
        places = np.minimum(np.searchsorted(sums, np.multiply(shares, sums[-1])), len(order) - 1)
        return [max(0.0, float(v)) for v in values[order][places]]

    def state(self) -> dict[str, object]:
        """The tables as flat arrays."""
        tables = {"values": self.values, "rows": self.rows}
        return {**super().state(), **{name: table.ravel().copy() for name, table in tables.items()}}

    def restore(self, state: dict[str, object]) -> None:
        """Continue from an earlier `state()`."""
        super().restore(state)
        self.values, self.rows = self.values.reshape(-1, SAMPLE), self.rows.reshape(-1, SAMPLE)


def _times(arrival: Arrival, ranks: Floats) -> Floats:
    """The times of a page at some ranks, from the lowest."""
    if arrival.sketch is None:
        return np.full(len(ranks), float(arrival.highest or 0))
    found = kll_doubles_sketch.deserialize(arrival.sketch).get_quantiles(ranks)
    return np.asarray(found, dtype=np.float64)
