"""Progress charts and their lower envelopes (S2 section 3): how much room an operator frees, and how fast.

Rows of a stream move through operators; each takes time and leaves less, or more, than it took. Operators whose
work pays off together are one segment of the lower envelope: a *chain*. Its slope is the room freed a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from math import inf

#: The share of an operator's rows, that of their size, and how much more room they take up than that share of all:
#: rows that other operators read too take up only a part of their size.
Shares = tuple[float, float, float]
#: All rows.
ALL = (1.0, 1.0, 0.0)


@dataclass(slots=True)
class PathStep:
    """An operator on the way of a stream's rows; times and sizes are those of one row of the stream."""

    label: str
    seconds: float
    taken: float
    """Room that is free when what comes in is done: of rows that several operators read, a part of their size."""
    left: float = 0.0
    """Size of what goes out and waits again; 0 at the end of a path."""
    then: list[PathStep] = field(default_factory=list)
    """The operators that read it. The first is the next one on a path; several share what it puts out."""
    shares: dict[str, Shares] = field(default_factory=dict)
    """Where branches meet: the share of its rows that each operator before it sends. Without an entry: all."""


@dataclass(frozen=True)
class Segment:
    """Operators that are one chain, the first of them first."""

    labels: tuple[str, ...]
    seconds: float
    freed: float
    """Size that a row of the stream loses on its way through."""

    @property
    def slope(self) -> float:
        """Size freed in a second."""
        return _slope(self.freed, self.seconds)

    def part(self, shares: Shares) -> Segment:
        """The segment for a part of the rows that come to it."""
        rows, size, more = shares
        return self if shares == ALL else Segment(self.labels, self.seconds * rows, self.freed * size + more)


@dataclass(frozen=True)
class _Descent:
    """The steepest descent from an operator, and the operators behind it, with the shares of their rows."""

    segment: Segment
    then: Mapping[str, Shares]


def segments(first: PathStep) -> list[Segment]:
    """The segments of the lower envelope, from the first operator on.

    An operator is taken together with those behind it for as long as that makes the descent steeper. On a single
    path this gives S2's steepest descent operator points. Where several read what an operator puts out, the way
    branches, and so may a chain. Where branches meet, each has its share in what follows, and several segments may
    contain the same operator.

    >>> selective = PathStep("selective", 1, 0.9, 0.1, [PathStep("slow", 8, 0.1)])
    >>> dull = PathStep("dull", 1, 1.0, 0.9, [selective])
    >>> [(s.labels, round(s.slope, 4)) for s in segments(dull)]
    [(('dull', 'selective'), 0.45), (('slow',), 0.0125)]
    """
    steps = in_order(first)
    descents: dict[str, _Descent] = {}
    for step in reversed(steps):
        descents[step.label] = _descent(step, descents)
    shares, found = {first.label: ALL}, list[Segment]()
    for step in steps:
        if step.label in shares:
            descent = descents[step.label]
            found.append(descent.segment.part(shares[step.label]))
            _add(shares, descent.then, shares[step.label])
    return found


def in_order(first: PathStep) -> list[PathStep]:
    """All steps, each before what reads it."""
    steps = {first.label: first}
    for step in (waiting := [first]):
        new = [behind for behind in step.then if behind.label not in steps]
        steps |= {behind.label: behind for behind in new}
        waiting += new
    sorter = TopologicalSorter[str]()
    for step in waiting:
        for behind in step.then:
            sorter.add(behind.label, step.label)
    sorter.add(first.label)
    return [steps[label] for label in sorter.static_order()]


def _descent(step: PathStep, descents: Mapping[str, _Descent]) -> _Descent:
    """The steepest descent that begins with a step; those of its readers are known."""
    labels, segment = {step.label: None}, Segment((step.label,), step.seconds, step.taken - step.left)
    behind = {reader.label: reader.shares.get(step.label, ALL) for reader in step.then}
    while behind:
        parts = {label: descents[label].segment.part(shares) for label, shares in behind.items()}
        label = max(parts, key=lambda label: parts[label].slope)
        steepest = parts[label]
        if steepest.slope <= segment.slope:
            break
        _add(behind, descents[label].then, behind.pop(label))
        labels |= dict.fromkeys(steepest.labels)
        segment = Segment(tuple(labels), segment.seconds + steepest.seconds, segment.freed + steepest.freed)
    return _Descent(segment, behind)


def _add(shares: dict[str, Shares], more: Mapping[str, Shares], part: Shares) -> None:
    """Rows that come to an operator on several ways are counted together."""
    for label, (rows, size, room) in more.items():
        known = shares.get(label, (0.0, 0.0, 0.0))
        shares[label] = (known[0] + rows * part[0], known[1] + size * part[1], known[2] + room * part[1])


def _slope(freed: float, seconds: float) -> float:
    if seconds > 0:
        return freed / seconds
    return inf if freed > 0 else -inf


@dataclass(frozen=True)
class ProgressChart:
    """The chart of one path: what is left of a row after some work on it."""

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
    behind: list[PathStep] = []
    for place in reversed(range(len(labels))):
        (start, taken), (end, left) = points[place], points[place + 1]
        behind = [PathStep(labels[place], end - start, taken, left, behind)]
    ends, passed = [], 0
    for segment in segments(behind[0]):
        passed += len(segment.labels)
        ends.append(passed)
    return ProgressChart(tuple(labels), tuple(points), tuple(ends))
