"""Guesses of final values that compete, from what is seen, the share that is usually in, and the group's history.

S5 answers with what has arrived (section 3.4). For counts and sums the rest can be guessed: from the seen rows and
the share that is usually in, or from what usually came after, or from the season. Averages, minima and maxima
may be moved by what late rows usually add.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.aggregates.growth import Growth
from slackwater.estimates.group_history import COUNT, FINAL, LONG, LONG_FINAL, LONG_SEEN, MISSING, SEEN
from slackwater.estimates.small_arrays import finite, side_by_side
from slackwater.estimates.traffic import Pace
from slackwater.progress.source_numbers import Floats

#: Number of guesses without those of seasons. A group takes the first until another one has been closer.
GUESSES = 6
#: Those of a count or sum that expect what was usual.
EXPECTING = (2, 3, 4)
#: The guess by the rows of the last slide.
PACED = 5
#: Windows: the history of all groups weighs as much as this many of a group's own. The curve weighs as much as
#: FROM_CURVE windows of all groups.
COMMON = 4.0
FROM_CURVE = 2.0
#: Share of the rows: while fewer have arrived, nobody can guess the rest.
LEAST = 0.05
#: To these a guess may add the usual change. Other values are best as they are seen.
SHIFTS = {Growth.SETTLES, Growth.RISES, Growth.FALLS}
SUMS = {Growth.COUNTS, Growth.ADDS}


def share_in(own: Floats, common: Floats, curve: Floats, rows: bool) -> Floats:
    """What share of a value is in: by the group's history, that of all groups, and the curve of the rows.

    Where nothing is known it is not a number; of other values than `rows` the curve alone says nothing.
    """
    count, seen, final = common[COUNT], common[SEEN], common[FINAL]
    usual = curve
    if count and 0 < seen / (final or -seen or -1.0) <= 1:
        share = seen / final
        usual = np.where(np.isnan(curve), share, (count * share + FROM_CURVE * curve) / (count + FROM_CURVE))
    elif not rows:
        return np.full(len(own), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        mine = own[:, SEEN] / own[:, FINAL]
    usable = (mine > 0) & (mine <= 1)
    weight = np.where(usable, own[:, COUNT], 0.0)
    share = (weight * np.where(usable, mine, 0.0) + COMMON * usual) / (weight + COMMON)
    return np.minimum(share, 1.0)


def guess_sum(
    growth: Growth,
    seen: Floats,
    share: Floats,
    own: Floats,
    values: Floats | None,
    pace: Pace,
    by_pace: bool,
    seasons: Sequence[tuple[Floats, Floats]],
) -> Floats:
    """Guesses of a count or sum by group; the first is what is seen over the mean completeness.

    Args:
        growth: how the value grows.
        seen: the value of what has arrived.
        share: that is in, by the recent history.
        own: history of the groups.
        values: of the rows that are missing, if they are like those that are here; None for the rows themselves.
        pace: what the rows of these windows say about those to come; where they are unlike those before, nothing
            usual can be expected.
        by_pace: whether such windows go by their pace, or by what is seen of them.
        seasons: for each, how much faster the missing rows come than those that are here, and by what share final
            values exceed even that.
    """
    by_share = seen * (1 / np.where(share >= LEAST, share, np.nan) - 1) if values is None else values
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = own[:, LONG_SEEN] / own[:, LONG_FINAL]
        simple = np.where((mean >= LEAST) & (mean <= 1), seen / mean - seen, by_share)
    paced = pace.share * (own[:, LONG_FINAL] - own[:, LONG_SEEN]) / np.maximum(own[:, LONG], 1.0)
    paced = np.where(pace.known, paced, simple)
    weight = own[:, COUNT] + FROM_CURVE
    instead = paced if by_pace else simple
    usual = np.where(pace.alike, (own[:, FINAL] - own[:, SEEN] + FROM_CURVE * by_share) / weight, instead)
    whole = (own[:, FINAL] + FROM_CURVE * (seen + by_share)) / weight - seen  # as much in all as usual
    if growth is Growth.COUNTS:
        whole = np.maximum(whole, 0.0)
    whole = np.where(pace.usual, whole, instead)
    rests = [simple, by_share, usual, (simple + usual) / 2, whole, paced]
    for faster, left in seasons:
        by_season = (seen + simple * faster) * (1 + left) - seen
        rests.append(np.maximum(by_season, 0.0) if growth is Growth.COUNTS else by_season)
    return seen[:, None] + finite(side_by_side(rests))


def guess_shift(seen: Floats, missing: Floats, own: Floats, seasons: Sequence[Floats]) -> Floats:
    """Guesses of a value that late rows may move: as it is seen, by as much as usual, or by the rows missing.

    And by as much as each season says.
    """
    made = np.repeat(seen[:, None], GUESSES + len(seasons), axis=1)
    change = own[:, FINAL] - own[:, SEEN]
    made[:, 1] += change / (own[:, COUNT] + FROM_CURVE)
    made[:, 2] += change * missing / (own[:, MISSING] + FROM_CURVE * np.maximum(missing, LEAST))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (own[:, FINAL] + FROM_CURVE * seen) / (own[:, SEEN] + FROM_CURVE * seen)
    made[:, 3] *= np.where((ratio > 0.5) & (ratio < 2), ratio, 1.0)
    for place, shift in enumerate(seasons, GUESSES):
        made[:, place] += shift
    return made
