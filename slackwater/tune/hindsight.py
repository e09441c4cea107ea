"""The fixed delay that hindsight would have chosen: exact, by what each (row, window) pair would have needed.

A watermark is the largest time of the micro-batches before, less the delay. It closes the windows that end by then.
`bounded(delay)` is the same promise, and a page plays the micro-batch. So a pair of a window that ends at e, in a
page that met the largest time M, is kept just when delay > M - e.
"""

from __future__ import annotations

import numpy as np

from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK
from slackwater.tune.arrival_pages import ArrivalPages
from slackwater.tune.outcome import PolicyOutcome

_MILLISECOND, _SECOND, _MINUTE, _HOUR = 1_000, 1_000_000, 60_000_000, 3_600_000_000
_UNITS = (
    *(_HOUR, 10 * _MINUTE, _MINUTE, 10 * _SECOND, _SECOND),
    *(100 * _MILLISECOND, 10 * _MILLISECOND, _MILLISECOND),
)
#: A delay is written in a unit of which it has at least this many, so rounding makes it at most 2 % longer.
_PARTS = 50


def needed(pages: ArrivalPages) -> tuple[Ints, Ints]:
    """The least delay that keeps the pairs of each page and window, and their number; 0 where any will do."""
    places, last_ticks, pairs = pages.pairs
    before = pages.before[places]
    late = before > last_ticks
    return np.where(late, before - np.where(late, last_ticks, before), 0), pairs


def hindsight(pages: ArrivalPages, share: float) -> int:
    """The smallest delay with which a fixed one loses at most this share of all pairs."""
    return least(*needed(pages), share)


def least(delays: Ints, pairs: Ints, share: float) -> int:
    """The smallest delay that keeps all but a share of the pairs, of which each group needs one.

    >>> least(np.array([5, 0, 9]), np.array([10, 80, 10]), 0.1)
    5
    """
    order = np.argsort(-delays, kind="stable")
    lost = np.cumsum(pairs[order])
    # The first group that may not be lost any more must be kept, so the delay is what it needs.
    first = int(np.searchsorted(lost, share * lost[-1], side="right")) if len(lost) else 0
    return int(delays[order][first]) if first < len(order) else 0


def written(delay: int) -> int:
    """A delay as a person would write it: rounded up to a unit, so that it loses no more.

    >>> written(10_800_000_001) / 60_000_000, written(31_000_001), written(0)
    (181.0, 31100000, 0)
    """
    unit = next((u for u in _UNITS if u * _PARTS <= delay), _MILLISECOND)
    return -(-delay // unit) * unit


def curve(pages: ArrivalPages, points: int = 40) -> list[tuple[int, float, float]]:
    """Fixed delays, the share that each loses, and the mean wait of its windows in seconds."""
    delays, pairs = needed(pages)
    order = np.argsort(delays, kind="stable")
    beyond = pairs.sum() - np.cumsum(pairs[order])
    longest = int(delays.max()) if len(delays) else 0
    if longest == 0:
        return []
    shares = np.geomspace(max(1e-5, 0.5 / pairs.sum()), max(2e-5, beyond[0] / pairs.sum()), points)
    found = np.unique([longest, *(hindsight(pages, float(s)) for s in shares)]).tolist()
    return [
        (delay, outcome.share, float(outcome.waits().mean()) / 1e6)
        for delay in found
        if (outcome := fixed(pages, delay))
    ]


def fixed(pages: ArrivalPages, delay: int) -> PolicyOutcome:
    """What a fixed delay makes of the pages: `bounded(delay)` by arithmetic alone."""
    after = np.maximum.accumulate(pages.highest)
    after = np.where(after > MIN_TICK, np.maximum(after, MIN_TICK + delay + 1) - delay - 1, MIN_TICK)
    met = np.append(MIN_TICK, after)[: len(pages)]
    changed = np.flatnonzero(np.diff(after, prepend=MIN_TICK))
    return PolicyOutcome.of(pages, met, after, pages.ats[changed], after[changed])
