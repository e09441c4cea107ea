"""Guesses of final values that compete, from what is seen, the share that is usually in, and the group's history.

S5 answers with what has arrived (section 3.4). For counts and sums the rest can be guessed: from the share that is
usually in, from what usually came after, from the rows that came last, or from the usual total. Averages, minima
and maxima may be moved by what late rows usually add.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slackwater.aggregates.growth import Growth
from slackwater.progress.source_numbers import Floats

#: Figures of a group's aggregate: faded sums over its windows of how many, seen early, final, a row's size; and
#: the same more slowly; how many changed after they were seen, how far what was seen was from the usual, the
#: share that intervals leave outside, and from here on the errors of each guess, in units.
COUNT, SEEN, FINAL, SIZE, LONG, LONG_SEEN, LONG_FINAL, CHANGED, VARIED, OUTSIDE, OFF = range(11)
#: Ways to guess the rest: by the share that is in, by the pace of what usually came lately, as much as usually came
#: lately, by the pace of what usually came, and as much in all as usual. One more guess is a mix of all.
SHARE, LATELY, ADDED, PACED, WHOLE, MIX = range(6)
WAYS, GUESSES, FIGURES = 5, 6, OFF + 6
#: Windows: what all groups have in common weighs as much as so many of a group's own.
BORROWED = 4.0
#: Share of the rows: with less of them in, the rest is anybody's guess.
LEAST = 0.05
#: Rows: so many are thought to be missing at the least, however complete a window looks.
LEAST_MISSING = 0.25
#: Scales of errors: what is usually missing, what is missing now, and the latter by the time of the day.
USUAL, NOW, WAVY = range(3)
UNITS = 3
SUMS = {Growth.COUNTS, Growth.ADDS}
SHIFTS = {Growth.SETTLES, Growth.RISES, Growth.FALLS}
Flags = NDArray[np.bool_]


def _share(own: Floats, common: Floats, curve: Floats, count: int, seen: int, final: int) -> Floats:
    """What share of each value is in: by the group's history, that of all groups, and the curve of the rows."""
    usual = np.broadcast_to(common[:, seen] / common[:, final], own.shape[:2])
    usual = np.where((usual > 0) & (usual <= 1), usual, np.nan)
    weight = np.where(np.isnan(curve), 0.0, BORROWED)
    weights = np.where(np.isnan(usual[:, 0]), 0.0, common[0, count])
    rows = (weights * np.nan_to_num(usual[:, 0]) + weight * np.nan_to_num(curve)) / (weights + weight)
    usual = np.where(np.isnan(usual), rows[:, None], usual)
    usual[:, 0] = rows
    mine = own[:, :, seen] / own[:, :, final]
    known = np.where((mine > 0) & (mine <= 1), own[:, :, count], 0.0)
    share = (known * np.where(known > 0, mine, 0.0) + BORROWED * usual) / (known + BORROWED)
    return np.where(share >= LEAST, np.minimum(share, 1.0), np.nan)


def rests(
    seen: Floats, curve: Floats, recent: Floats, own: Floats, common: Floats, sums: Flags, shifts: Flags
) -> Floats:
    """What is still to come, by group, column and way; the first column is the number of rows.

    Args:
        seen: the values of what has arrived, by group and column.
        curve: the share of rows that is in, by the curve of all rows.
        recent: the rows that came last, of all groups, and their usual number.
        own: figures of the groups.
        common: figures of all groups, by column.
        sums: which columns count or add.
        shifts: which ones late rows may move.
    """
    made = np.zeros((*seen.shape, WAYS))
    with np.errstate(all="ignore"):
        slow = _share(own, common, curve, LONG, LONG_SEEN, LONG_FINAL)
        quick = _share(own, common, curve, COUNT, SEEN, FINAL)
        by_share, by_quick = (np.nan_to_num(seen * (1 / share - 1)) for share in (slow, quick))
        later, long_later = own[:, :, FINAL] - own[:, :, SEEN], own[:, :, LONG_FINAL] - own[:, :, LONG_SEEN]
        added = (later + BORROWED * by_quick) / (own[:, :, COUNT] + BORROWED)
        usual = (long_later + BORROWED * by_share) / (own[:, :, LONG] + BORROWED)
        pace = np.where(recent[:, 1] >= 1, recent[:, 0] / recent[:, 1], np.nan)[:, None]
        whole = np.where(own[:, :, COUNT] > 0, own[:, :, FINAL] / own[:, :, COUNT] - seen, by_quick)
        whole[:, 0] = np.maximum(whole[:, 0], 0.0)
        paced, lately = (
            np.where(np.isnan(pace), by, more * pace) for by, more in ((by_share, usual), (by_quick, added))
        )
        for way, rest in ((SHARE, by_share), (LATELY, lately), (ADDED, added), (PACED, paced), (WHOLE, whole)):
            made[:, sums, way] = rest[:, sums]
        if shifts.any():
            here, mine = seen[:, shifts], own[:, shifts]
            made[:, shifts, LATELY] = later[:, shifts] / (mine[:, :, COUNT] + BORROWED)
            ratio = (mine[:, :, LONG_FINAL] + BORROWED * here) / (mine[:, :, LONG_SEEN] + BORROWED * here)
            made[:, shifts, ADDED] = here * np.where((ratio > 0.5) & (ratio < 2), ratio - 1, 0.0)
            missing = made[:, 0, SHARE] / (seen[:, 0] + made[:, 0, SHARE])
            by_missing = missing / np.maximum(1 - own[:, 0, LONG_SEEN] / own[:, 0, LONG_FINAL], LEAST)
            shift = long_later[:, shifts] / (mine[:, :, LONG] + BORROWED)
            made[:, shifts, PACED] = shift * np.nan_to_num(np.minimum(by_missing, 3.0), nan=1.0)[:, None]
    return made


def units(columns: Sequence[Growth], seen: Floats, rest: Floats, own: Floats) -> Floats:
    """How far values would be off if rows came independently, by group, column and scale.

    Groups of all sizes become comparable by it.
    """
    count = own[:, 0, LONG] + BORROWED
    usual = (own[:, 0, LONG_FINAL] - own[:, 0, LONG_SEEN] + BORROWED * rest) / count
    usual_rows = (own[:, 0, LONG_SEEN] + BORROWED * seen[:, 0]) / count
    missing = np.maximum(np.stack([usual, rest, rest], axis=1), LEAST_MISSING)
    rows = np.stack([usual_rows, seen[:, 0], seen[:, 0]], axis=1)
    share = missing / (rows + missing)
    made = np.empty((*seen.shape, UNITS))
    size = (np.abs(seen / seen[:, :1]) + own[:, :, SIZE]) / (1 + own[:, :, COUNT])
    for j, growth in enumerate(columns):
        if growth in SUMS:
            made[:, j] = np.sqrt(missing) * np.where((size[:, [j]] > 0) & (j > 0), size[:, [j]], 1.0)
        elif growth is Growth.SETTLES:
            made[:, j] = np.sqrt(share / rows)
        elif growth is Growth.SPREADS:
            made[:, j] = share * np.maximum(seen[:, [j]], 1.0)
        else:
            made[:, j] = 1.0 if growth is Growth.JUMPS else share
    return made
