"""Groups of streams with one heartbeat each (S1 section 5.2): chosen, and the bounds B̂ and L of the groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from slackwater.errors import QueryError
from slackwater.progress.bounds.environments import PerSource
from slackwater.progress.bounds.skew import Block, BoundSet, Pair, SkewBounds, SkewMatrix, irredundant
from slackwater.progress.source_numbers import Ints, index_of

#: How many pairs of a group's bound are kept. Leaving one out makes a heartbeat later, never wrong.
STEPS = 64
_NEVER = 2**62


def weaker(first: BoundSet, second: BoundSet) -> BoundSet:
    """The paper's ⊔ (S1 section 5.2): at every t the weaker of the two guarantees, redundant pairs removed.

    It is computed where one of the two changes, without spelling out each t. Tuple-based pairs are left out.

    >>> weaker((Pair(1, 2), Pair(3, 1)), (Pair(0, 4), Pair(2, 0)))
    (Pair(t=1, delta=4), Pair(t=2, delta=2), Pair(t=3, delta=1))
    """
    one, other = ([b for b in s if isinstance(b, Pair)] for s in (first, second))
    found = []
    for t in {b.t for b in (*one, *other)}:
        a, b = ([p.delta for p in s if p.t <= t] for s in (one, other))
        if a and b:
            found.append(Pair(t, max(min(a), min(b))))
    return irredundant(found)


def aggregate(bounds: SkewBounds, groups: Mapping[str, Sequence[int | str]]) -> SkewMatrix:
    """Streams in groups, each of which is then one stream with one heartbeat (S1 section 5.2): B̂ and L.

    B̂_ab is the weakest that any source of group a guarantees of any in group b, and L the largest; give B* to have
    the indirect guarantees in it. Tuple-based pairs stay only between groups of one source: n tuples of a group are
    not n tuples of each of its sources.

    >>> from slackwater.progress.bounds.environments import sensor_bounds
    >>> b = aggregate(sensor_bounds([1, 2, 5], latency=[3, 4, 9]), {"hall": [0, 1], "roof": [2]})
    >>> b["hall", "hall"], b["hall", "roof"], b.latency.tolist()
    ((Pair(t=0, delta=3),), (Pair(t=0, delta=7),), [4, 9])
    """
    members = numbered(bounds.names, groups)
    rows = [[_joined(bounds, a, b) for b in members] for a in members]
    return SkewMatrix(rows, [int(bounds.latency[group].max()) for group in members], list(groups))


def numbered(names: tuple[str, ...], groups: Mapping[str, Sequence[int | str]]) -> list[Ints]:
    """The numbers of the sources of each group, of which every source must be in exactly one."""
    number = {name: i for i, name in enumerate(names)}
    members = []
    for name, group in groups.items():
        if len(group) == 0:
            raise QueryError(f"group {name!r} has no source; write at least one, or leave the group out")
        found = [number[s] if isinstance(s, str) and s in number else index_of(s, names) for s in group]
        members.append(np.array(found, dtype=np.int64))
    counts = np.bincount(np.concatenate(members), minlength=len(names)) if members else np.zeros(len(names))
    for i in np.nonzero(counts != 1)[0].tolist():
        raise QueryError(
            f"source {names[i]!r} is in {int(counts[i])} groups; write each source into exactly one group"
        )
    return members


def _joined(bounds: SkewBounds, first: Ints, second: Ints) -> BoundSet:
    if len(first) == len(second) == 1:
        return bounds[int(first[0]), int(second[0])]
    if not isinstance(bounds, PerSource):
        return reduce(weaker, [bounds[i, j] for i in first.tolist() for j in second.tolist()])
    return weakest_of(_entries(bounds, first, second))


def _entries(bounds: PerSource, first: Ints, second: Ints) -> list[list[Block]]:
    """Of all entries between two groups those that matter, without going through every two of their sources."""
    weakest, *next_weakest = bounds.weakest(first)
    if not np.array_equal(first, second):
        return [bounds.others(weakest, second)]
    rest = second[second != weakest]
    self_too = [bounds.others(i, np.array([weakest], dtype=np.int64)) for i in next_weakest]
    return [bounds.own(second), bounds.others(weakest, rest), *self_too]


def weakest_of(entries: Iterable[list[Block]]) -> BoundSet:
    """⊔ over many entries at once: each list of blocks has, side by side, the pairs of as many entries, t rising.

    A pair is in force until the t of the next pair of its entry. So at any t the weakest guarantee is the largest δ
    of the pairs that end after t, and there is none before all entries have begun.

    >>> two = np.array([0, 1])
    >>> weakest_of([[(two, np.array([0, 1]), np.array([9, 4])), (two, np.array([2, 3]), np.array([0, 1]))]])
    (Pair(t=1, delta=9), Pair(t=2, delta=4), Pair(t=3, delta=1))
    """
    begins, ends, deltas = [0], [], []
    for blocks in entries:
        times = [t for _, t, _ in blocks]
        begins.append(int(times[0].max()))
        for k, (_, _, delta) in enumerate(blocks):
            ends.append(times[k + 1] if k + 1 < len(blocks) else np.full(len(delta), _NEVER))
            deltas.append(delta)
    start, end, delta = max(begins), np.concatenate(ends), np.concatenate(deltas)
    order = np.argsort(-end, kind="stable")
    end, largest = end[order], np.maximum.accumulate(delta[order])
    # At t, the largest δ of those that end after t holds. It changes at the ends, and not at all of them.
    last_of_end = np.append(end[1:] != end[:-1], True) & (end > start)
    end, largest = end[last_of_end], largest[last_of_end]
    last_of_delta = np.append(largest[1:] != largest[:-1], True)
    since, largest = np.append(end[1:], start)[last_of_delta], largest[last_of_delta]
    kept = range(len(since)) if len(since) <= STEPS else np.linspace(0, len(since) - 1, STEPS).astype(int).tolist()
    return tuple(Pair(int(since[k]), int(largest[k])) for k in reversed(kept))


def similar(bounds: SkewBounds, most: int) -> dict[str, list[int]]:
    """At most `most` groups of sources with similar bounds; the paper leaves the choice open (S1 section 5.2).

    Each of a source's values (deviation, latency …) is taken as a share of the largest of its kind; two sources are
    as far apart as the values in which they differ most. The first group begins with the first source that has the
    smallest values; each next one with the source that lies furthest from all groups so far (between equals the
    first). Each source joins the nearest. So none is further from its group's first than twice what the best choice
    of groups would have. Equal sources are always together, so there may be fewer groups.

    >>> from slackwater.progress.bounds.environments import sensor_bounds
    >>> similar(sensor_bounds([10, 11, 50, 10, 52]), 2)
    {'0': [0, 1, 3], '1': [2, 4]}
    """
    traits = bounds.traits if isinstance(bounds, PerSource) else _profiles(bounds)
    largest = traits.max(axis=1, keepdims=True)
    shares = traits / np.where(largest > 0, largest, 1)
    begin = int(np.lexsort(shares[::-1])[0])
    nearest, group = _distance(shares, begin), np.zeros(shares.shape[1], dtype=np.int64)
    found = 1
    while found < most and nearest.max() > 0:
        distance = _distance(shares, int(nearest.argmax()))
        closer = distance < nearest
        group[closer], nearest[closer] = found, distance[closer]
        found += 1
    return {str(g): np.nonzero(group == g)[0].tolist() for g in range(found)}


def _distance(shares: NDArray[np.float64], source: int) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.abs(shares - shares[:, [source]]).max(axis=0)
    return found


def _profiles(bounds: SkewBounds) -> NDArray[np.float64]:
    """For a stored matrix: the latency, and the smallest t and δ in a source's row and column."""
    n = range(len(bounds.names))
    least = np.array([[_smallest(bounds[i, j]) for j in n] for i in n])
    # Nothing guaranteed is further than all that is.
    least[least < 0] = 2 * least.max() + 1
    return np.vstack([bounds.latency, *least.transpose(2, 0, 1), *least.transpose(2, 1, 0)]).astype(np.float64)


def _smallest(entry: BoundSet) -> tuple[int, int]:
    timed = [b for b in entry if isinstance(b, Pair)]
    return (timed[0].t, timed[-1].delta) if timed else (-1, -1)
