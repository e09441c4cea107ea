"""Greedy (S2 section 4.2): each operator for itself, by the room that it frees in a second."""

from __future__ import annotations

from slackwater.calls import called
from slackwater.scheduling.by_slope import BySlope
from slackwater.scheduling.chart import PathStep, Segment, in_order
from slackwater.scheduling.strategy import STRATEGIES


class Greedy(BySlope):
    """Runs the operator with the largest (1 - s) / t: s its selectivity, t its seconds for a unit of input.

    >>> from slackwater.scheduling.paths import PathWork
    >>> from slackwater.scheduling.strategy import Ready
    >>> greedy = Greedy()
    >>> greedy.learn({"s": PathWork((), 0.1), "dull": PathWork(("s",), 1.0, 0.9), "end": PathWork(("dull",), 2.0)})
    >>> greedy.first([Ready("dull", oldest=1), Ready("end", oldest=2)]).label
    'end'
    """

    name = "greedy"

    def cut(self, first: PathStep) -> list[Segment]:
        """Each operator is a segment of its own, but for a source, which only passes pages on to the next one."""
        alone = {s.label: Segment((s.label,), s.seconds, s.taken - s.left) for s in in_order(first)}
        if first.then:
            source = alone.pop(first.label)
            to = max((alone[behind.label] for behind in first.then), key=lambda segment: segment.slope)
            alone[to.labels[0]] = Segment(
                source.labels + to.labels, source.seconds + to.seconds, source.freed + to.freed
            )
        return list(alone.values())


@called()
def greedy() -> Greedy:
    """First the operator that frees most room a second by itself; to compare. For `Session(strategy=…)`."""
    return Greedy()


STRATEGIES["greedy"] = greedy
