"""Whether rows come later, or sooner, in the newest cells than in those before them.

The shares of rows beyond a few quantiles of the older cells are compared, not the tail alone: when delays grow, the
middle of the distribution shows it at once, the tail only when the late rows have arrived.
"""

from __future__ import annotations

import numpy as np

from slackwater.progress.drop_ratio.cells import LateRows
from slackwater.progress.source_numbers import Floats

#: Standard deviations: rows come later than before when this many more than expected are beyond a quantile.
LATER = 5.0
#: Standard deviations: if the rows beyond a quantile are fewer by this, rows come sooner than before.
SOONER = 6.0
#: Cells over which a change for the better must last. With 32, outages lost up to 1.4 % (docs/lab/drop-ratio.md).
SETTLED = 16
#: Cells that are needed to see a change: fewer say nothing of their variance.
FEWEST = 32
#: Numbers of newest cells that are compared with the rest.
_NEWEST = np.array([1, 2, 4, 8, 16, 32])
_QUANTILES = (0.5, 0.75, 0.9, 0.97)


def changed(values: Floats, rows: Floats) -> tuple[int, int]:
    """In how many of the newest cells rows come later than in the rest, and in how many they come sooner.

    How late rows came, and for how many rows each value stands: tables with a line for each cell.
    """
    n = len(rows)
    if n < FEWEST:
        return 0, 0
    totals = rows.sum(1)
    base = n - min(8, n // 3)
    before = float(totals[:base].sum())
    bounds = _quantiles(LateRows.of(values[:base], rows[:base]), before)
    if not len(bounds):
        return 0, 0
    beyond: Floats = ((values > bounds[:, None, None]) * rows).sum(2)
    newest, heard = beyond[:, ::-1].cumsum(1), totals[::-1].cumsum()
    counts = _NEWEST[: _NEWEST.searchsorted(min(n - 8, n // 2 + 1), side="right")]
    came = heard[counts - 1]
    some = (came > 0) & (heard[-1] > came)
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
    variance, steps = _variance(beyond[:, :base] - shares[:, None] * totals[:base], totals[:base], least)
    # Fewer than three rows more than expected may be chance, whatever their variance.
    grown = (more / np.sqrt(variance[:, None] * spread + 1) > LATER) & (more > 3)
    z = more / np.sqrt(steps[:, None] * spread + 1)
    settled = (counts >= SETTLED) & (z < -SOONER).any(0) & ~(z > 2).any(0)
    sooner = int(counts[settled.argmax()]) if settled.any() else 0
    return int(counts[grown.any(0)].max(initial=0)), sooner


def _quantiles(late: LateRows, total: float) -> Floats:
    """Some quantiles of the lateness of so many rows; 0 where it is negative."""
    if total <= 0:
        return np.zeros(0)
    punctual = total - float(late.rows.sum())
    sums = punctual + late.rows.cumsum()
    found = {
        0.0 if punctual >= q * total else float(late.values[sums.searchsorted(q * sums[-1])]) for q in _QUANTILES
    }
    return np.array(sorted(found))


def _variance(rest: Floats, totals: Floats, least: Floats) -> tuple[Floats, Floats]:
    """Of the number of rows beyond a bound, per row; in blocks of four cells, for neighbours are alike.

    It is at least that of chance. The second is by differences of neighbouring blocks, so that a change among them
    is no variance.
    """
    whole = rest.shape[1] // 4 * 4
    blocks = rest[:, -whole:].reshape(len(rest), -1, 4).sum(2)
    # Of few blocks the variance is not well known.
    per_block = max(float(totals[-whole:].mean()) * 4, 1e-9) * (whole - 4) / (whole + 12)
    variance: Floats = np.maximum((blocks**2).mean(1) / per_block, least)
    steps: Floats = np.maximum(((blocks[:, 1:] - blocks[:, :-1]) ** 2).mean(1) / 2 / per_block, least)
    return variance, steps
