"""Small environments that keep their skew and latency bounds, and what these imply, found without the closure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from slackwater.progress.bounds.heartbeat_generator import HeartbeatGenerator
from slackwater.progress.bounds.skew import Bound, Pair, SkewMatrix, TuplePair
from slackwater.progress.time import MIN_TICK

STEADY = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])

#: Between two sources: (t, δ) of time-based and (n, δ) of tuple-based guarantees.
Guarantees = dict[tuple[int, int], tuple[set[tuple[int, int]], set[tuple[int, int]]]]


@dataclass(frozen=True)
class Emission:
    source: int
    timestamp: int
    emitted: int
    arrives: int


@dataclass(frozen=True)
class World:
    matrix: SkewMatrix
    emissions: list[Emission]
    latency: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        return max((e.arrives for e in self.emissions), default=0)

    def arrivals(self, at: int) -> dict[int, list[int]]:
        """The timestamps that arrive at an instant, by source."""
        found: dict[int, list[int]] = defaultdict(list)
        for e in self.emissions:
            if e.arrives == at:
                found[e.source].append(e.timestamp)
        return found


def guarantees(matrix: SkewMatrix, indirect: bool = True) -> Guarantees:
    """What a source guarantees of another along every walk over the matrix, none left out as redundant."""
    n = len(matrix.names)
    found: Guarantees = {(i, j): (set(), set()) for i in range(n) for j in range(n)}

    def walk(start: int, at: int, t: int, delta: int, steps: int) -> None:
        for j in range(n):
            for bound in matrix[at, j]:
                if isinstance(bound, Pair):
                    found[start, j][0].add((t + bound.t, delta + bound.delta))
                    if steps > 1:
                        walk(start, j, t + bound.t, delta + bound.delta, steps - 1)
                elif t == 0:
                    found[start, j][1].add((bound.n, delta + bound.delta))

    for i in range(n):
        walk(i, i, 0, 0, n if indirect else 1)
    return found


def keeps(implied: Guarantees, before: list[Emission], new: Emission) -> bool:
    """Whether an emission, no earlier than those before, keeps all that they guarantee."""
    for e in before:
        timed, counted = implied[e.source, new.source]
        if any(new.emitted > e.emitted + t and new.timestamp <= e.timestamp - delta for t, delta in timed):
            return False
        between = [b for b in before if b.source == new.source and e.emitted < b.emitted < new.emitted]
        if any(len(between) >= n and new.timestamp <= e.timestamp - delta for n, delta in counted):
            return False
    return True


def pairs(largest: int) -> st.SearchStrategy[Bound]:
    return st.builds(Pair, st.integers(0, largest), st.integers(0, largest))


def tuple_pairs(largest: int) -> st.SearchStrategy[Bound]:
    return st.builds(TuplePair, st.integers(0, largest), st.integers(0, largest))


@st.composite
def matrices(draw: st.DrawFn, counted: bool = False, largest: int = 3) -> SkewMatrix:
    n = draw(st.integers(1, 3))
    bound = st.one_of(pairs(largest), tuple_pairs(largest)) if counted else pairs(largest)
    entry = st.one_of(st.lists(bound, min_size=1, max_size=2), st.lists(bound, max_size=2))
    rows = [[draw(entry) for _ in range(n)] for _ in range(n)]
    return SkewMatrix(rows, latency=draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))


@st.composite
def worlds(
    draw: st.DrawFn, counted: bool = False, indirect: bool = True, most: int = 12, largest: int = 3
) -> World:
    """A matrix, and emissions that keep it: those that would not are left out."""
    matrix = draw(matrices(counted, largest))
    implied, latency = guarantees(matrix, indirect), matrix.latency.tolist()
    emissions: list[Emission] = []
    now = 0
    event = st.tuples(
        st.integers(0, len(latency) - 1), st.sampled_from([0, 1, 1, 2, 5]), st.integers(-4, 4), st.integers(0, 3)
    )
    for source, gap, offset, delay in draw(st.lists(event, max_size=most)):
        now += gap
        new = Emission(source, now + offset, now, now + min(delay, latency[source]))
        if keeps(implied, emissions, new):
            emissions.append(new)
    return World(matrix, emissions, latency)


def play(generator: HeartbeatGenerator, world: World, beyond: int = 0) -> Iterator[int]:
    """Give the arrivals of each instant to the generator, and yield the instant when its heartbeats can be read."""
    for now in range(world.end + beyond + 1):
        for source, timestamps in world.arrivals(now).items():
            generator.arrive(source, len(timestamps), max(timestamps), now)
        generator.tick(now)
        yield now


def violations(world: World, source: int, beat: int, now: int) -> list[Emission]:
    """What arrives of a source after `now` in spite of its heartbeat."""
    return [e for e in world.emissions if e.source == source and e.arrives > now and e.timestamp <= beat]


def could_have_come(world: World, implied: Guarantees, source: int, timestamp: int, now: int) -> bool:
    """Whether one more tuple, beside those that arrived up to `now`, keeps all bounds and arrives after `now`."""
    seen = [e for e in world.emissions if e.arrives <= now]
    for emitted in range(now + 1 - world.latency[source], now + 2):
        order = sorted([*seen, Emission(source, timestamp, emitted, now + 1)], key=lambda e: e.emitted)
        if all(keeps(implied, order[:k], e) for k, e in enumerate(order)):
            return True
    return False


def by_the_rule(world: World, closed: SkewMatrix, source: int, now: int) -> int:
    """The heartbeat of a stream as Figure 2 and the rule for counted tuples give it, worked out tuple by tuple."""
    wait = world.latency[source]
    behind = [e.arrives for e in world.emissions if e.source == source and e.arrives <= now]
    beats = [MIN_TICK]
    for e in world.emissions:
        for bound in closed[e.source, source]:
            if isinstance(bound, Pair):
                due = e.arrives + bound.t + wait
            else:
                counted = sorted(a for a in behind if a > e.arrives + wait)
                due = counted[bound.n - 1] + wait if len(counted) >= bound.n else now + 1
            if e.arrives <= now and due <= now:
                beats.append(e.timestamp - bound.delta)
    return max(beats)


def may_come(world: World, implied: Guarantees, source: int, timestamp: int, now: int) -> bool:
    """Whether, by the bounds and by what has arrived up to `now`, this timestamp can still arrive from the source.

    The unknowns are the instants of emission: of each tuple that arrived, and of the one in question. A guarantee
    (t, δ) that a tuple x would break, if it came later than t behind y, says emitted(x) ≤ emitted(y) + t. Such
    inequalities have a greatest solution below the instants of arrival; it need only not fall short of the least
    instants that the latencies allow.
    """
    seen = [e for e in world.emissions if e.arrives <= now]
    far = now + 100
    tuples = [(e.source, e.timestamp) for e in seen] + [(source, timestamp)]
    latest = [e.arrives for e in seen] + [far]
    earliest = [e.arrives - world.latency[e.source] for e in seen] + [now + 1 - world.latency[source]]
    rules = [
        (x, y, t)
        for x, (to, low) in enumerate(tuples)
        for y, (of, high) in enumerate(tuples)
        if x != y
        for t, delta in implied[of, to][0]
        if low <= high - delta
    ]
    changed = True
    while changed:
        changed = False
        for x, y, t in rules:
            if latest[x] > latest[y] + t:
                latest[x] = latest[y] + t
                changed = True
                if latest[x] < earliest[x]:
                    return False
    return True


@st.composite
def counter_worlds(draw: st.DrawFn) -> tuple[list[tuple[int, int]], World]:
    """Sources with a global counter (S1 section 4.1) at work, and their processing times; the matrix is empty."""
    n = draw(st.integers(1, 3))
    each = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda t: (min(t), max(t)))
    times = draw(st.lists(each, min_size=n, max_size=n))
    latency = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    free, now, emissions = [0] * n, 0, []
    for token in range(12):
        source = draw(st.integers(0, n - 1))
        now = max(now + draw(st.integers(0, 2)), free[source])
        emitted = now + draw(st.integers(*times[source]))
        free[source] = emitted  # only then is the next token asked for
        emissions.append(Emission(source, token, emitted, emitted + draw(st.integers(0, latency[source]))))
    return times, World(SkewMatrix([[None] * n] * n), sorted(emissions, key=lambda e: e.emitted), latency)


@st.composite
def sensor_worlds(draw: st.DrawFn, alike: bool = False) -> tuple[list[int], list[int] | None, World]:
    """Sensors (S1 section 4.2) at work, their deviations and perhaps rates; the matrix is empty.

    Local clocks jump about in a range as wide as the deviation; what they follow advances at every instant.
    """
    n = draw(st.integers(1, 3))

    def values(strategy: st.SearchStrategy[int]) -> list[int]:
        return [draw(strategy)] * n if alike else draw(st.lists(strategy, min_size=n, max_size=n))

    deviation, latency = values(st.integers(0, 4)), values(st.integers(0, 4))
    rates = values(st.integers(1, 3)) if draw(st.booleans()) else None
    lowest = [draw(st.integers(-d, 0)) for d in deviation]
    shows, emissions = 0, []
    for now in range(14):
        shows += draw(st.integers(max(rates or [1]), 4))
        for source in draw(st.sets(st.integers(0, n - 1))):
            local = shows + lowest[source] + draw(st.integers(0, deviation[source]))
            emissions.append(Emission(source, local, now, now + draw(st.integers(0, latency[source]))))
    return deviation, rates, World(SkewMatrix([[None] * n] * n), emissions, latency)
