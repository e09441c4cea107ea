"""How late rows come: of each page a sample of its rows' lateness, and whether it has changed of late.

Lateness is how far a row lies behind the reference that the page met. Only few values of each page are kept: more
of the late rows than of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Floats, Ints

#: Values kept of a page.
SAMPLE = 32
_EDGES: Floats = np.append(0.0, np.geomspace(1e-3, 1, SAMPLE))
#: The ranks, from the lowest time, whose times are kept.
RANKS: Floats = np.append(5e-4, np.sqrt(_EDGES[2:] * _EDGES[1:-1]))
#: The share of the rows that each rank stands for.
SHARES: Floats = np.diff(_EDGES)

#: Standard deviations: rows come later than before when so many more than expected are beyond a quantile.
LATER = 5.0
#: Rows more than expected that a change for the worse needs at least.
FEWEST = 3
#: Standard deviations: rows come sooner than before when so many fewer are beyond a quantile.
SOONER = 6.0
#: Cells over which a change for the better must last. With 32, outages lost up to 1.4 % (docs/rooms/progress.md).
SETTLED = 16
#: Standard deviations: a change is over when no more than this many more rows are beyond each quantile.
OVER = 2.0
#: Part of the usual rows that must have come before a change is over: where rows are missing, late ones may still
#: come.
CAME = 0.7
#: Numbers of newest cells that are compared with the rest.
_NEWEST = np.array([1, 2, 4, 8, 16, 32])
_QUANTILES = (0.5, 0.75, 0.9, 0.97)


def ranks_of(rows: int) -> tuple[Floats, Floats]:
    """Which ranks to take of a page of so many rows, and what share each stands for."""
    if rows <= SAMPLE:
        return (np.arange(rows) + 0.5) / rows, np.full(rows, 1 / rows)
    return RANKS, SHARES


@dataclass(frozen=True, slots=True, eq=False)
class LateRows:
    """The values of some cells that are late, the least first; arrays side by side."""

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


class Lateness(Restorable):
    """Samples of the last cells (a page or, in a long stretch, several): values, and the rows they stand for."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        # Values, and rows, of the cells up to `_end`. There is room for more, so that most pages move nothing.
        self._room: Floats = np.zeros((2, 4 * cells, SAMPLE))
        self._sums: Floats = np.zeros(4 * cells)
        self._end = 0
        self._late: dict[int, LateRows] = {}
        """Late rows of so many of the newest cells, in order: sorting them is much of the work on a page."""

    def __len__(self) -> int:
        return min(self._end, self._cells)

    @property
    def values(self) -> Floats:
        """By cell, how late the rows of its sample came; the oldest cell first."""
        return self._room[0, max(0, self._end - self._cells) : self._end]

    @property
    def rows(self) -> Floats:
        """For how many rows each of the values stands."""
        return self._room[1, max(0, self._end - self._cells) : self._end]

    @property
    def totals(self) -> Floats:
        """All rows of each cell."""
        return self._sums[max(0, self._end - self._cells) : self._end]

    def late(self, cells: int) -> LateRows:
        """The late rows of the last so many cells, in order."""
        if cells not in self._late:
            self._late[cells] = LateRows.of(self.values[-cells:], self.rows[-cells:])
        return self._late[cells]

    def add(self, values: Floats, rows: Floats, new_cell: bool) -> None:
        """Take the sample of a page."""
        self._late = {}
        if not new_cell and len(self):
            old = self.rows[-1] > 0
            values, rows = np.append(self.values[-1][old], values), np.append(self.rows[-1][old], rows)
            if len(values) > SAMPLE:
                values, rows = _thinned(values, rows)
            self._end -= 1
        if self._end == len(self._sums):
            self._room[:, : self._cells], self._sums[: self._cells] = (
                self._room[:, -self._cells :].copy(),
                self._sums[-self._cells :],
            )
            self._end = self._cells
        cell = self._room[:, self._end]
        cell[0], cell[1] = -np.inf, 0
        cell[0, : len(values)], cell[1, : len(rows)] = values, rows
        self._sums[self._end] = cell[1].sum()
        self._end += 1

    def quantiles(self, shares: tuple[float, ...]) -> list[float]:
        """The lateness that these shares of the rows stay at or below."""
        values, rows = self.values.ravel(), self.rows.ravel()
        order = np.argsort(values)
        heard = np.cumsum(rows[order])
        if not len(heard) or heard[-1] <= 0:
            return [0.0] * len(shares)
        places = np.minimum(np.searchsorted(heard, np.multiply(shares, heard[-1])), len(order) - 1)
        return [max(0.0, float(v)) for v in values[order][places]]

    def changed(self, cells: int) -> tuple[int, int]:
        """Over how many of the newest cells rows come later than in the rest of the last `cells`; and sooner.

        The shares of rows beyond a few quantiles of the older cells are compared, not the tail alone: when delays
        grow, the middle of the distribution tells at once, the tail only when the late rows have arrived.
        """
        if cells < 12:
            return 0, 0
        values, rows, totals = self.values[-cells:], self.rows[-cells:], self.totals[-cells:]
        n = len(values)
        base = n - min(8, n // 3)
        before = float(totals[:base].sum())
        bounds = _quantiles(self.late(n), base, before)
        if not len(bounds):
            return 0, 0
        beyond = _beyond(values, rows, bounds)
        newest, heard = beyond[:, ::-1].cumsum(1), totals[::-1].cumsum()
        counts = _NEWEST[: _NEWEST.searchsorted(min(n - 8, n // 2 + 1), side="right")]
        came = heard[counts - 1]
        some = (came > 0) & (heard[-1] > came)
        if not some.all():
            counts, came = counts[some], came[some]
        of, others = newest[:, counts - 1], heard[-1] - came
        more = of - (newest[:, -1:] - of) / others * came
        spread = came * (1 + came / others)
        shares = beyond[:, :base].sum(1) / before
        least = np.maximum(shares * (1 - shares), 1e-12)
        # The variance is never less than this. Where even this least one shows no change, as on most pages, the
        # variance itself does not matter.
        z = more / np.sqrt(least[:, None] * spread + 1)
        if not ((z > LATER) | (z < -SOONER)).any():
            return 0, 0
        rest = beyond[:, :base] - shares[:, None] * totals[:base]
        variance, steps = _variance(rest, totals[:base], least)
        z = more / np.sqrt(variance[:, None] * spread + 1)
        grown = (z > LATER) & (more > FEWEST)
        later = int(counts[grown.any(0)].max(initial=0))
        z = more / np.sqrt(steps[:, None] * spread + 1)
        settled = (counts >= SETTLED) & (z < -SOONER).any(0) & ~(z > 2).any(0)
        return later, int(counts[settled.argmax()]) if settled.any() else 0

    def over(self, cells: int, since: int, moved: list[int]) -> bool:
        """Whether the newer half of the cells since a change is as the last `cells` were before it.

        Then it was chance, or has passed, as when a source was cut off for a while. Where rows are missing, those
        that are late may still come.
        """
        newest, old = since // 2, min(cells, len(self)) - since
        if newest < 4 or old < 12:
            return False
        values, rows, totals = self.values[-cells:], self.rows[-cells:], self.totals[-cells:]
        times = np.array(moved[-cells:], dtype=np.float64)
        before, heard = float(totals[:old].sum()), float(totals[-newest:].sum())
        if heard * float(times[:old].sum()) < CAME * before * float(times[-newest:].sum()):
            return False
        bounds = _quantiles(self.late(len(values)), old, before)
        beyond = _beyond(values, rows, bounds)
        shares = beyond[:, :old].sum(1) / before
        least = np.maximum(shares * (1 - shares), 1e-12)
        variance, _ = _variance(beyond[:, :old] - shares[:, None] * totals[:old], totals[:old], least)
        more = beyond[:, -newest:].sum(1) - shares * heard
        return bool((more <= OVER * np.sqrt(variance * heard * (1 + heard / before) + 1)).all())

    def state(self) -> dict[str, Any]:
        """Both tables as arrays."""
        return {"lateness": self.values.ravel().copy(), "lateness_rows": self.rows.ravel().copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        for table, name in enumerate(("lateness", "lateness_rows")):
            kept = np.asarray(state[name], dtype=np.float64).reshape(-1, SAMPLE)
            self._end = len(kept)
            self._room[table, : self._end] = kept
        self._sums[: self._end] = self._room[1, : self._end].sum(1)


def _thinned(values: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Two samples as one, late rows in the same detail as before."""
    order = np.argsort(-values)
    heard = np.cumsum(rows[order])
    places = np.searchsorted(heard, RANKS * heard[-1])
    return values[order][np.minimum(places, len(order) - 1)], SHARES * heard[-1]


def _quantiles(late: LateRows, cells: int, heard: float) -> Floats:
    """Some quantiles of the lateness in the first cells, which have so many rows; 0 where it is negative."""
    if heard <= 0:
        return np.zeros(0)
    first = late.cells < cells
    values, sums = late.values[first], late.rows[first].cumsum()
    punctual = heard - float(sums[-1]) if len(sums) else heard
    sums += punctual
    found = {0.0 if punctual >= q * heard else float(values[sums.searchsorted(q * sums[-1])]) for q in _QUANTILES}
    return np.array(sorted(found))


def _beyond(values: Floats, rows: Floats, bounds: Floats) -> Floats:
    """By bound and cell, how many rows come later."""
    found: Floats = ((values > bounds[:, None, None]) * rows).sum(2)
    return found


def _variance(rest: Floats, totals: Floats, least: Floats) -> tuple[Floats, Floats]:
    """Of the number of rows beyond a bound, per row; in blocks of four cells, for neighbours are alike.

    It is at least that of chance. The second is by differences of neighbouring blocks, so that a change among them
    is no variance.
    """
    whole = rest.shape[1] // 4 * 4
    blocks = rest[:, -whole:].reshape(len(rest), -1, 4).sum(2)
    per_block = max(float(totals[-whole:].mean()) * 4, 1e-9)
    variance: Floats = np.maximum((blocks**2).mean(1) / per_block, least)
    steps: Floats = np.maximum((np.diff(blocks, axis=1) ** 2).mean(1) / 2 / per_block, least)
    return variance, steps
