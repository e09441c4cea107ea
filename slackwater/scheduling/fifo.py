"""FIFO (S2 section 2): each page goes through all its operators before the next one starts."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.calls import called
from slackwater.scheduling.strategy import STRATEGIES, Ordered, Ready


class Fifo(Ordered):
    """Oldest page first; of one page's elements, the one furthest down the plan (S3's depth-first rules).

    Results that are on their way out come before all pages (Forward). What others wait for is as old as those
    (S3 section 3.2, Backtrack).

    >>> Fifo().first([Ready("a", oldest=2, depth=1), Ready("b", oldest=1, depth=2)]).label
    'b'
    >>> Fifo().first([Ready("a", oldest=2), Ready("b", oldest=7, oldest_in_need=2)]).label
    'b'
    """

    name = "fifo"

    def first(self, ready: Sequence[Ready]) -> Ready:
        """The operator that holds the oldest element."""
        return min(ready, key=_urgency)

    def because(self, picked: Ready, ready: Sequence[Ready]) -> str:
        """It has the oldest page, or that page waits for it."""
        if picked.results:
            return "its rows are on their way out"
        if _age(picked) < picked.oldest:
            return f"rows of page {picked.oldest_in_need} would wait for it"
        return f"its page is the oldest, {picked.oldest}"


def _age(ready: Ready) -> int:
    return ready.oldest if ready.oldest_in_need is None else min(ready.oldest, ready.oldest_in_need)


def _urgency(ready: Ready) -> tuple[bool, int, bool, int]:
    """The lowest goes first."""
    return not ready.results, _age(ready), ready.oldest_in_need is None, -ready.depth


@called()
def fifo() -> Fifo:
    """The soonest answers: each page goes through all its operators before the next. For `Session(strategy=…)`."""
    return Fifo()


STRATEGIES["fifo"] = fifo
