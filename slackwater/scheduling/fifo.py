"""FIFO (S2 section 2): each page goes through all its operators before the next one starts."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.scheduling.strategy import STRATEGIES, Ordered, Ready


class Fifo(Ordered):
    """Oldest page first; of one page's elements, the one furthest down the plan (S3's depth-first rules).

    >>> Fifo().first([Ready("a", oldest=2, depth=1), Ready("b", oldest=1, depth=2)]).label
    'b'
    """

    name = "fifo"

    def first(self, ready: Sequence[Ready]) -> Ready:
        """The operator that holds the oldest element."""
        return min(ready, key=lambda r: (r.oldest, -r.depth))

    def because(self, picked: Ready, ready: Sequence[Ready]) -> str:
        """It has the oldest page."""
        return f"its page is the oldest, {picked.oldest}"


def fifo() -> Fifo:
    """The soonest answers: each page goes through all its operators before the next. For `Session(strategy=…)`."""
    return Fifo()


STRATEGIES["fifo"] = fifo
