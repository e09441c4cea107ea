"""How busy a stream is: rows of all groups in a window and in its last slide, beside what is usual.

After a silence a window has few rows, but its last slide may be like any other; when a silence begins it has many,
and none are to come. So what comes next goes by the last slide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slackwater.estimates.completeness import Floats
from slackwater.estimates.group_history import LONG, LONG_SEEN, VARIED

Flags = NDArray[np.bool_]
#: What is thought of windows at first counts for so many of them.
AT_FIRST = 2.0
#: A window is unlike those before if its rows differ by more than so many times what they did, or by more than this
#: share and so many times what is chance.
VARIES = 4.0
UNLIKE, CHANCE = 0.25, 3.0
_COUNT, _ROWS, _LATELY, _VARIED = range(4)


@dataclass(frozen=True)
class Pace:
    """What the rows of windows say about those that are to come, by group."""

    known: Flags
    """Whether the group is like the others, so that those tell what is to come."""
    share: Floats
    """Rows of the last slide beside the usual number; 1 where nothing is known."""
    alike: Flags
    """Whether as many rows as usual can be expected."""
    usual: Flags
    """Whether as much in all as usual can be: the window's rows are within what windows vary."""


def like_before(rows: Floats, usual: Floats, varied: Floats, count: Floats) -> tuple[Flags, Flags]:
    """Whether there are about as many rows as usual by now, and whether they are within what they vary.

    How much they vary has been seen; at first it is thought to be chance.
    """
    chance, off = np.sqrt(usual), np.abs(rows - usual)
    varies = (varied + AT_FIRST * chance) / (count + AT_FIRST)
    new = count < AT_FIRST
    within = np.asarray(new | (off <= 1 + VARIES * varies))
    return np.asarray(within & (new | (off <= UNLIKE * usual + CHANCE * chance))), within


class Traffic:
    """Faded sums over windows: how many, rows when they were answered, rows of the last slide, how these vary."""

    def __init__(self) -> None:
        self.sums = np.zeros(4)

    def pace(self, rows: Floats, own: Floats, traffic: Floats) -> Pace:
        """Of groups with so many rows and such histories, and the rows of all groups: in the window, lately."""
        count = own[:, LONG]
        usual = own[:, LONG_SEEN] / np.maximum(count, 1.0)
        alike, within = like_before(rows, usual, own[:, VARIED], count)
        n, *sums = self.sums
        if n < AT_FIRST or not all(sums[:2]):
            return Pace(np.zeros(len(rows), bool), np.ones(len(rows)), alike, within)
        everybody, lately, varied = (s / n for s in sums)
        fair = usual * traffic[:, 0] / everybody
        known = like_before(rows, fair, own[:, VARIED], count)[1] & ~np.isnan(traffic).any(axis=1)
        known &= count >= AT_FIRST
        same = np.full(len(rows), lately)
        calm, calm_within = like_before(traffic[:, 1], same, np.full(len(rows), n * varied), np.full(len(rows), n))
        share = np.where(known, traffic[:, 1] / lately, 1.0)
        return Pace(known, share, np.where(known, calm, alike), within & (calm_within | ~known))

    def learn(self, traffic: Floats, fade: float) -> None:
        """A window had so many rows when it was answered, and so many in its last slide."""
        rows, lately = traffic.tolist()
        if not np.isfinite(rows + lately):
            return
        n, _, sum_lately, _ = self.sums
        varied = abs(lately - sum_lately / n) if n else 0.0
        self.sums = fade * self.sums + [1.0, rows, lately, varied]
