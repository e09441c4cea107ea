"""Progress charts and their lower envelopes (S2 section 3): how much room an operator frees, and how fast.

Rows of a stream move through operators; each takes time and leaves less, or more, than it took. Operators whose
work pays off together are one segment of the lower envelope: a *chain*. Its slope is the room freed a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf


@dataclass(slots=True)
class Step:
    """An operator on the way of a stream's rows; times and sizes are those of one row of the stream."""

    label: str
    seconds: float
    taken: float
    """Size of what comes in."""
    left: float = 0.0
    """Size of what goes out and waits again; 0 at the end of a path."""
    then: list[Step] = field(default_factory=list)
    """The operators that read it. The first is the next one on a path; several share what it puts out."""


@dataclass(frozen=True)
class Segment:
    """Operators that are one chain, the first of them first."""

    labels: tuple[str, ...]
    seconds: float
    freed: float
    """Size that a row of the stream loses on its way through."""
    then: tuple[Segment, ...] = ()
    """The segments behind it, none of them steeper."""

    @property
    def slope(self) -> float:
        """Size freed in a second."""
        return _slope(self.freed, self.seconds)


def segments(first: Step) -> list[Segment]:
    """The segments of the lower envelope, from the first operator on.

    An operator is taken together with those behind it for as long as that makes the descent steeper. On a single
    path this gives S2's steepest descent operator points. Where several read what an operator puts out, the way
    branches, and so may a chain.

    >>> dull_then_selective = Step("dull", 1, 1.0, 0.9, [Step("selective", 1, 0.9, 0.1, [Step("slow", 8, 0.1)])])
    >>> [(s.labels, round(s.slope, 4)) for s in segments(dull_then_selective)]
    [(('dull', 'selective'), 0.45), (('slow',), 0.0125)]
    """
    made: dict[int, Segment] = {}
    for step in reversed(in_order(first)):
        made[id(step)] = _descent(step, [made[id(behind)] for behind in step.then])
    found = [made[id(first)]]
    for segment in found:
        found += segment.then
    return found


def in_order(first: Step) -> list[Step]:
    """All steps, each before what reads it."""
    steps = [first]
    for step in steps:
        steps += step.then
    return steps


def _descent(step: Step, behind: list[Segment]) -> Segment:
    """The steepest descent that begins with a step."""
    labels, seconds, freed = [step.label], step.seconds, step.taken - step.left
    while behind:
        steepest = max(behind, key=lambda segment: segment.slope)
        if steepest.slope <= _slope(freed, seconds):
            break
        behind.remove(steepest)
        behind += steepest.then
        labels += steepest.labels
        seconds, freed = seconds + steepest.seconds, freed + steepest.freed
    return Segment(tuple(labels), seconds, freed, tuple(behind))


def _slope(freed: float, seconds: float) -> float:
    if seconds > 0:
        return freed / seconds
    return inf if freed > 0 else -inf


@dataclass(frozen=True)
class ProgressChart:
    """The chart of one path: what is left of a row after so much work on it."""

    labels: tuple[str, ...]
    points: tuple[tuple[float, float], ...]
    """(seconds, size): one before the first operator, then one behind each."""
    ends: tuple[int, ...]
    """The points at which segments of the lower envelope end."""

    @property
    def envelope(self) -> tuple[tuple[float, float], ...]:
        """The points of the lower envelope."""
        return (self.points[0], *(self.points[end] for end in self.ends))

    @property
    def slopes(self) -> tuple[float, ...]:
        """Size freed in a second, on each segment."""
        pairs = zip(self.envelope, self.envelope[1:], strict=False)
        return tuple(_slope(s - s1, t1 - t) for (t, s), (t1, s1) in pairs)


def chart(labels: Sequence[str], points: Sequence[tuple[float, float]]) -> ProgressChart:
    """The chart of a path by its points; the last one should have size 0, for what comes out there leaves.

    >>> chart(("O1", "O2"), ((0, 1), (1, 0.2), (2, 0))).slopes
    (0.8, 0.2)
    """
    behind: list[Step] = []
    for place in reversed(range(len(labels))):
        (start, taken), (end, left) = points[place], points[place + 1]
        behind = [Step(labels[place], end - start, taken, left, behind)]
    ends, passed = [], 0
    for segment in segments(behind[0]):
        passed += len(segment.labels)
        ends.append(passed)
    return ProgressChart(tuple(labels), tuple(points), tuple(ends))
