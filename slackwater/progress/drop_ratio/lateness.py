"""How late rows come: of each page a sample of its rows' lateness, and whether it has changed of late.

Lateness is how far a row lies behind the reference that the page met. Only few values of each page are kept: more
of the late rows than of the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Values kept of a page.
SAMPLE = 32
_EDGES: Floats = np.append(0.0, np.geomspace(1e-3, 1, SAMPLE))
#: The ranks, from the lowest time, whose times are kept, and the share of the rows that each stands for.
RANKS: Floats = np.append(5e-4, np.sqrt(_EDGES[2:] * _EDGES[1:-1]))
SHARES: Floats = np.diff(_EDGES)

#: Later than before: so many standard deviations (the least number of rows beyond what was expected is 3).
LATER = 5.0
#: Sooner than before: so many, over at least SETTLED cells.
SOONER, SETTLED = 6.0, 16
#: A change is over when the newest rows are so many standard deviations later at most, and this part has come.
OVER, CAME = 2.0, 0.7
#: Rows are missing when so many times those that came have not.
MISSING = 1.0
#: The newest cells are compared with the rest in these numbers.
_NEWEST = (1, 2, 4, 8, 16, 32)
_QUANTILES = (0.5, 0.75, 0.9, 0.97)


def ranks_of(rows: int) -> tuple[Floats, Floats]:
    """Which ranks to take of a page of so many rows, and what share each stands for."""
    if rows <= SAMPLE:
        return (np.arange(rows) + 0.5) / rows, np.full(rows, 1 / rows)
    return RANKS, SHARES


class Lateness:
    """Samples of the last cells (a page or, in a long stretch, several): values, and the rows they stand for."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self.values: Floats = np.zeros((0, SAMPLE))
        self.rows: Floats = np.zeros((0, SAMPLE))

    def __len__(self) -> int:
        return len(self.values)

    def add(self, values: Floats, rows: Floats, new_cell: bool) -> None:
        """Take the sample of a page."""
        if not new_cell and len(self):
            old = self.rows[-1] > 0
            values, rows = np.append(self.values[-1][old], values), np.append(self.rows[-1][old], rows)
            if len(values) > SAMPLE:
                values, rows = _thinned(values, rows)
            self.values, self.rows = self.values[:-1], self.rows[:-1]
        padded = np.full((2, SAMPLE), -np.inf)
        padded[1] = 0
        padded[0, : len(values)], padded[1, : len(rows)] = values, rows
        self.values = np.concatenate([self.values, padded[:1]])[-self._cells :]
        self.rows = np.concatenate([self.rows, padded[1:]])[-self._cells :]

    def quantiles(self, shares: tuple[float, ...], newest: int = 0, but: int = 0) -> list[float]:
        """The lateness that these shares of the rows (of the newest cells but the very last) stay at or below."""
        end = len(self) - but
        values, rows = (table[-newest:end].ravel() for table in (self.values, self.rows))
        order = np.argsort(values)
        heard = np.cumsum(rows[order])
        if not len(heard) or heard[-1] <= 0:
            return [0.0] * len(shares)
        places = np.minimum(np.searchsorted(heard, np.multiply(shares, heard[-1])), len(order) - 1)
        return [max(0.0, float(v)) for v in values[order][places]]

    def changed(self, cells: int) -> tuple[int, int]:
        """Over how many of the newest cells rows come later than in the rest of the last `cells`; and sooner.

        The shares of rows beyond a few quantiles of the older cells are compared, not the tail alone: when delays
        grow, the middle of the distribution tells at once, the tail only when the late rows have arrived. What was
        usual before (bursts) is no change.
        """
        if cells < 12:
            return 0, 0
        values, rows = self.values[-cells:], self.rows[-cells:]
        n = len(values)
        base = n - min(8, n // 3)
        totals = rows.sum(1)
        bounds = _quantiles(values[:base], rows[:base])
        if not len(bounds):
            return 0, 0
        beyond = np.stack([(rows * (values > bound)).sum(1) for bound in bounds])
        shares = beyond[:, :base].sum(1) / totals[:base].sum()
        rest = beyond[:, :base] - shares[:, None] * totals[:base]
        variance, steps = _variance(rest, totals[:base], shares)
        sums = np.append(np.zeros((len(bounds), 1)), np.cumsum(rest, 1), axis=1)
        newest, heard = np.cumsum(beyond[:, ::-1], 1), np.cumsum(totals[::-1])
        later = sooner = 0
        for j in _NEWEST:
            if not 0 < j <= min(n - 8, n // 2 + 1) or heard[j - 1] <= 0 or heard[-1] <= heard[j - 1]:
                continue
            others = heard[-1] - heard[j - 1]
            more = newest[:, j - 1] - (newest[:, -1] - newest[:, j - 1]) / others * heard[j - 1]
            spread = heard[j - 1] * (1 + heard[j - 1] / others)
            z = more / np.sqrt(variance * spread + 1)
            usual = (sums[:, j:] - sums[:, :-j]).max(1) if j < base else np.zeros(len(bounds))
            if ((z > LATER) & (more > 3) & (more > 1.2 * usual)).any():
                later = max(later, j)
            z = more / np.sqrt(steps * spread + 1)
            if j >= SETTLED and (z < -SOONER).any() and not (z > 2).any():
                sooner = min(sooner or j, j)
        return later, sooner

    def over(self, cells: int, since: int, moved: list[int]) -> bool:
        """Whether the newer half of the cells since a change is as the last `cells` were before it.

        Then it was chance, or has passed, as when a source was cut off for a while. Where rows are missing, those
        that are late may still come.
        """
        newest, old = since // 2, min(cells, len(self)) - since
        if newest < 4 or old < 12:
            return False
        values, rows = self.values[-cells:], self.rows[-cells:]
        totals, times = rows.sum(1), np.array(moved[-cells:], dtype=np.float64)
        before, heard = float(totals[:old].sum()), float(totals[-newest:].sum())
        if heard * float(times[:old].sum()) < CAME * before * float(times[-newest:].sum()):
            return False
        bounds = _quantiles(values[:old], rows[:old])
        beyond = np.stack([(rows * (values > bound)).sum(1) for bound in bounds])
        shares = beyond[:, :old].sum(1) / before
        variance, _ = _variance(beyond[:, :old] - shares[:, None] * totals[:old], totals[:old], shares)
        more = beyond[:, -newest:].sum(1) - shares * heard
        return bool((more <= OVER * np.sqrt(variance * heard * (1 + heard / before) + 1)).all())

    def missing(self, cells: int, moved: list[int]) -> int:
        """Over how many of the newest cells far fewer rows have come than time has moved for: they may be late."""
        if cells < 12:
            return 0
        totals, times = self.rows[-cells:].sum(1), np.array(moved[-cells:], dtype=np.float64)
        base = len(totals) - 4
        if times[:base].sum() <= 0:
            return 0
        rest = totals[:base].sum() / times[:base].sum() * times - totals
        blocks = rest[base % 4 : base].reshape(-1, 4).sum(1)
        variance = max(float((blocks**2).mean()) / 4, float(totals[:base].mean()))
        sums = np.append(0.0, np.cumsum(rest[:base]))
        for j in (1, 2, 4):
            less, came = float(rest[-j:].sum()), float(totals[-j:].sum())
            usual = float((sums[j:] - sums[:-j]).max())
            if less > LATER * np.sqrt(variance * j) and less > MISSING * came and less > 1.2 * usual:
                return j
        return 0

    def state(self) -> dict[str, Any]:
        """Both tables as arrays."""
        return {"lateness": self.values.ravel().copy(), "lateness_rows": self.rows.ravel().copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self.values = np.asarray(state["lateness"], dtype=np.float64).reshape(-1, SAMPLE)
        self.rows = np.asarray(state["lateness_rows"], dtype=np.float64).reshape(-1, SAMPLE)


def _thinned(values: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Two samples as one, late rows in the same detail as before."""
    order = np.argsort(-values)
    heard = np.cumsum(rows[order])
    places = np.searchsorted(heard, RANKS * heard[-1])
    return values[order][np.minimum(places, len(order) - 1)], SHARES * heard[-1]


def _quantiles(values: Floats, rows: Floats) -> Floats:
    order = np.argsort(values, axis=None)
    heard = np.cumsum(rows.ravel()[order])
    if heard[-1] <= 0:
        return np.zeros(0)
    places = np.searchsorted(heard, np.multiply(_QUANTILES, heard[-1]))
    found: Floats = np.unique(np.maximum(0.0, values.ravel()[order][np.minimum(places, len(order) - 1)]))
    return found


def _variance(rest: Floats, totals: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Of the number of rows beyond a bound, per row; in blocks of four cells, for neighbours are alike.

    The second is by differences of neighbouring blocks, so that a change among them is no variance.
    """
    whole = rest.shape[1] // 4 * 4
    blocks = rest[:, -whole:].reshape(len(rest), -1, 4).sum(2)
    per_block = max(float(totals[-whole:].mean()) * 4, 1e-9)
    least = np.maximum(shares * (1 - shares), 1e-12)
    variance: Floats = np.maximum((blocks**2).mean(1) / per_block, least)
    steps: Floats = np.maximum((np.diff(blocks, axis=1) ** 2).mean(1) / 2 / per_block, least)
    return variance, steps
