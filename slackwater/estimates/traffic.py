"""How busy a stream is: rows of all groups in a window and in its last slide, compared with the usual numbers.

After a silence a window has few rows, but its last slide may be like any other. When a silence begins, the window
has many rows. No new ones are made, but earlier ones may still be on their way. So we guess the missing rows of the
last slide by its own rows, and those of the slides before by theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slackwater.estimates.group_history import LONG, LONG_SEEN, VARIED
from slackwater.progress.source_numbers import Floats

Flags = NDArray[np.bool_]
#: Windows: the first assumption weighs as much as this many.
AT_FIRST = 2.0
#: A window is unlike those before if its rows differ by more than so many times what they did. That of a group that
#: is not like the others also if they differ by more than this share and so many times what is chance.
VARIES = 4.0
UNLIKE, CHANCE = 0.25, 3.0
#: Such a window may go by the rows of its last slide, by what is seen of it, or be like any other: where delays
#: change and the rate does not, as many rows as usual come in the end. Errors count so many times.
BY_PACE, BY_SEEN, AS_USUAL = range(3)
WORSE: Floats = np.array([1.0, 1.0, 1.25])
#: What it counts for when there is one more.
KEPT = 0.95
#: Figures of a window: rows of all groups, in it, in its last slide and in those before; and the share of the rows
#: to come that is usually of those before.
ROWS, LATELY, BEFORE, OF_BEFORE = range(4)
FIGURES = 4


@dataclass(frozen=True)
class Pace:
    """What the rows of windows say about those that are to come, by group."""

    known: Flags
    """Whether the group is like the others, so that those tell what is to come."""
    share: Floats
    """Rows to come beside the usual number, by those of the slides that they are of; 1 where nothing is known."""
    alike: Flags
    """Whether as many rows as usual can be expected."""
    usual: Flags
    """Whether as much in all as usual can be: the window's rows are within what windows vary."""

    def as_usual(self) -> Pace:
        """The same of windows that are like those before, whatever their rows say."""
        every = np.ones_like(self.usual)
        return Pace(self.known, self.share, every, every)


def like_before(rows: Floats, usual: Floats, varied: Floats, count: Floats) -> tuple[Flags, Flags]:
    """Whether there are about as many rows as usual by now, and whether they are within what they vary.

    How much they vary has been seen; at first it is thought to be chance.
    """
    chance, off = np.sqrt(usual), np.abs(rows - usual)
    varies = (varied + AT_FIRST * chance) / (count + AT_FIRST)
    new = count < AT_FIRST
    within = np.asarray(new | (off <= 1 + VARIES * varies))
    return np.asarray(within & (new | (off <= UNLIKE * usual + CHANCE * chance))), within


class AfterChanges:
    """By what windows unlike those before have gone, by column: faded errors of three guesses.

    >>> changes = AfterChanges(columns=1)
    >>> changes.best(0) == BY_PACE
    True
    >>> changes.learn(np.array([[[9.0, 5.0, 2.0]]]))
    >>> changes.best(0) == AS_USUAL
    True
    """

    def __init__(self, columns: int) -> None:
        self.sums = np.zeros((columns, 3))

    def best(self, j: int) -> int:
        """The guess that has been closest; the pace is believed at first, the usual only if it was far closer."""
        return int(np.argmin(self.sums[j] * WORSE))

    def learn(self, errors: Floats) -> None:
        """The errors in one window, by group, column and guess."""
        usable = np.asarray(np.isfinite(errors).all(axis=2))
        summed = np.where(usable[:, :, None], errors, 0.0).sum(axis=0)
        self.sums = KEPT * self.sums + summed / np.maximum(usable.sum(axis=0), 1)[:, None]


class Traffic:
    """Faded sums over windows: how many, their rows, those of the last slide and before it, how the last vary."""

    def __init__(self) -> None:
        self.sums = np.zeros(5)

    def pace(self, rows: Floats, own: Floats, traffic: Floats) -> Pace:
        """Of groups with so many rows and such histories, and the figures of their windows."""
        count = own[:, LONG]
        usual = own[:, LONG_SEEN] / np.maximum(count, 1.0)
        alike, within = like_before(rows, usual, own[:, VARIED], count)
        n, *sums = self.sums
        if n < AT_FIRST or not all(sums[:2]):
            return Pace(np.zeros(len(rows), bool), np.ones(len(rows)), alike, within)
        everybody, lately, before, varied = (s / n for s in sums)
        fair = usual * traffic[:, ROWS] / everybody
        known = like_before(rows, fair, own[:, VARIED], count)[1] & ~np.isnan(traffic).any(axis=1)
        known &= count >= AT_FIRST
        same = np.full(len(rows), lately)
        windows = np.full(len(rows), n)
        calm = like_before(traffic[:, LATELY], same, n * varied + 0 * same, windows)[1]
        share = traffic[:, LATELY] / lately
        if before > 0:
            share = share + traffic[:, OF_BEFORE] * (traffic[:, BEFORE] / before - share)
        share = np.where(known, share, 1.0)
        return Pace(known, share, np.where(known, calm, alike), within & (calm | ~known))

    def learn(self, traffic: Floats, fade: float) -> None:
        """A window had such figures when it was answered."""
        rows, lately, before, _ = traffic.tolist()
        if not np.isfinite(rows + lately + before):
            return
        n, _, sum_lately, _, _ = self.sums
        varied = abs(lately - sum_lately / n) if n else 0.0
        self.sums = fade * self.sums + [1.0, rows, lately, before, varied]
