"""Sets of whole numbers as intervals: stretches of time, or runs of windows."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[int, int]
#: In order and apart.
Intervals = tuple[Interval, ...]


def united(intervals: Iterable[Interval], touching: int = 0) -> Intervals:
    """The intervals in order; those that overlap, or lie no further than `touching` apart, are one.

    Stretches (after, until] touch where one ends and the next begins. Runs of windows, from a first to a last,
    touch where the next first is one more.

    >>> united([(7, 9), (1, 3), (4, 5)], touching=1)
    ((1, 5), (7, 9))
    """
    apart: list[Interval] = []
    for low, high in sorted(intervals):
        if apart and low <= apart[-1][1] + touching:
            apart[-1] = (apart[-1][0], max(apart[-1][1], high))
        else:
            apart.append((low, high))
    return tuple(apart)


def in_both(one: Intervals, other: Intervals) -> Intervals:
    """The stretches (after, until] that lie in both.

    >>> in_both(((0, 5), (8, 20)), ((3, 10),))
    ((3, 5), (8, 10))
    """
    pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return tuple((after, until) for after, until in pairs if after < until)
