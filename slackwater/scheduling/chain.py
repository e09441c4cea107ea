"""Chain (S2 section 4): the operator on the steepest segment of its lower envelope goes first.

In a burst that frees room as fast as it can be freed: with selectivities of at most 1 there is never more in memory
than under any other strategy, but for one unit a query.
"""

from __future__ import annotations

from typing import ClassVar

from slackwater.scheduling.by_slope import BySlope
from slackwater.scheduling.chart import Segment, Step, segments


class Chain(BySlope):
    """By the segments of the lower envelope.

    >>> from slackwater.scheduling.paths import Work
    >>> from slackwater.scheduling.strategy import Ready
    >>> chain = Chain()
    >>> chain.learn({"s": Work((), 0.0), "where": Work(("s",), 1.0, 0.2), "map": Work(("where",), 5.0)})
    >>> chain.segment("where").labels, chain.ends_segment("where")
    (('s', 'where'), True)
    >>> chain.first([Ready("map", oldest=1), Ready("where", oldest=2)]).label
    'where'
    """

    name: ClassVar[str] = "chain"

    def cut(self, first: Step) -> list[Segment]:
        """The lower envelope."""
        return segments(first)


def chain() -> Chain:
    """In a burst, first what frees most room a second: `Session(strategy=sw.chain())`."""
    return Chain()
