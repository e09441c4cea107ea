"""Round-robin (S2 section 2): every ready operator gets its turn."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.scheduling.strategy import Ordered, Ready


class RoundRobin(Ordered):
    """The operator that has not run for longest.

    >>> RoundRobin().first([Ready("a", last_run=7), Ready("b", last_run=3)]).label
    'b'
    """

    name = "round-robin"

    def first(self, ready: Sequence[Ready]) -> Ready:
        """Of operators that never ran, the one nearest to the source."""
        return min(ready, key=lambda r: (r.last_run, r.depth))


def round_robin() -> RoundRobin:
    """Every ready operator gets its turn: `Session(strategy=sw.round_robin())`."""
    return RoundRobin()
