"""Ready-made environments against simulations of them, bounds from per-source values, groups (S1 sections 4, 5)."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from itertools import product as combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import QueryError
from slackwater.papers.global_counter import counter_bounds
from slackwater.progress.bounds.environments import PerSource, sensor_bounds
from slackwater.progress.bounds.groups import aggregate, weaker, weakest_of
from slackwater.progress.bounds.heartbeat_generator import HeartbeatGenerator
from slackwater.progress.bounds.skew import BoundSet, Pair, SkewMatrix, TuplePair, irredundant, timeout_needed
from slackwater.progress.heartbeat import Heartbeat
from tests.kit.emissions import (
    STEADY,
    Emission,
    World,
    counter_worlds,
    guarantees,
    keeps,
    pairs,
    play,
    sensor_worlds,
    violations,
    worlds,
)
from tests.kit.policy_checks import kept

LATENCY = st.integers(0, 4)


def assert_keeps_and_is_never_violated(bounds: PerSource, emissions: list[Emission]) -> None:
    """That what was simulated keeps the bounds, direct and indirect, and that the heartbeats hold."""
    world = World(bounds.matrix(), sorted(emissions, key=lambda e: e.emitted), bounds.latency.tolist())
    implied = guarantees(world.matrix)
    for k, emission in enumerate(world.emissions):
        assert keeps(implied, world.emissions[:k], emission)
    generator = HeartbeatGenerator(bounds, unit=1)
    for now in play(generator, world):
        for source, beat in enumerate(generator.ticks().tolist()):
            assert violations(world, source, beat, now) == []


# --- global counter (section 4.1)


@STEADY
@given(counter_worlds(), st.booleans())
def test_sources_with_a_global_counter_keep_the_bounds_of_section_4_1(
    made: tuple[list[tuple[int, int]], World], counted: bool
) -> None:
    times, world = made
    bounds = counter_bounds(times, latency=world.latency, counted=counted)
    assert_keeps_and_is_never_violated(bounds, world.emissions)


def test_the_bounds_of_section_4_1() -> None:
    bounds = counter_bounds([(1, 4), (6, 9)], counted=True)
    assert bounds[0, 1] == (Pair(8, 0), TuplePair(1, 0))
    assert bounds[1, 0] == (Pair(0, 0),)  # it cannot be slower, so one more tuple adds nothing
    assert bounds[0, 0] == bounds[1, 1] == (Pair(0, 0),)
    assert not timeout_needed(bounds)


@STEADY
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda t: tuple(sorted(t))), min_size=1, max_size=4
    )
)
def test_the_bounds_of_a_global_counter_are_idempotent(times: list[tuple[int, int]]) -> None:
    bounds = counter_bounds(times, counted=True)
    assert bounds.closure() is bounds
    matrix = bounds.matrix()
    assert matrix.closure() == matrix
    assert not timeout_needed(bounds)


# --- sensors (section 4.2)


@STEADY
@given(sensor_worlds())
def test_sensors_keep_the_bounds_of_section_4_2(made: tuple[list[int], list[int] | None, World]) -> None:
    deviation, rates, world = made
    bounds = sensor_bounds(deviation, rate=rates, latency=world.latency)
    assert_keeps_and_is_never_violated(bounds, world.emissions)


@STEADY
@given(st.data())
def test_sensors_with_ties_may_show_the_same_twice(data: st.DataObject) -> None:
    """The clock advances by one in every second instant."""
    deviation = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    rate = data.draw(st.sampled_from([None, Fraction(1, 2)]))
    lowest = [data.draw(st.integers(-d, 0)) for d in deviation]
    emissions = [
        Emission(source, local, now, now)
        for now in range(14)
        for source in data.draw(st.sets(st.integers(0, len(deviation) - 1)))
        for local in [now // 2 + lowest[source] + data.draw(st.integers(0, deviation[source]))]
    ]
    assert_keeps_and_is_never_violated(sensor_bounds(deviation, rate=rate, ties=True), emissions)


def test_the_bounds_of_section_4_2() -> None:
    bounds = sensor_bounds([2, 5])
    assert bounds[0, 1] == bounds[1, 0] == (Pair(0, 7),)
    assert (bounds[0, 0], bounds[1, 1]) == ((Pair(0, 2),), (Pair(0, 5),))
    assert timeout_needed(bounds)


def test_a_minimum_rate_makes_the_timeout_unnecessary() -> None:
    bounds = sensor_bounds({"a": 2, "b": 5}, rate={"a": 2, "b": Fraction(1, 3)})
    assert bounds["a", "b"] == (Pair(0, 7), Pair(21, 0))
    assert bounds["b", "a"] == (Pair(0, 7), Pair(4, 0))
    assert bounds["b", "b"] == (Pair(0, 5), Pair(15, 0))
    assert not timeout_needed(bounds)
    assert not timeout_needed(bounds.closure())


@STEADY
@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.data())
def test_the_closure_of_sensors_is_that_of_their_matrix(deviation: list[int], data: st.DataObject) -> None:
    rate = data.draw(st.sampled_from([None, 1, Fraction(1, 2), [1, 5, 2, 3][: len(deviation)]]))
    bounds = sensor_bounds(deviation, rate=rate, latency=3)
    closed, matrix = bounds.closure(), bounds.matrix().closure()
    for i, j in combinations(range(len(deviation)), repeat=2):
        assert closed[i, j] == matrix[i, j]
    assert timeout_needed(closed) == timeout_needed(matrix)


def test_a_third_sensor_with_a_good_clock_ties_two_others_together() -> None:
    assert Pair(5, 5) in sensor_bounds([5, 5, 0], rate=1).closure()[0, 1]


# --- one value per source (section 5.1)


@st.composite
def environments(draw: st.DrawFn) -> PerSource:
    n = draw(st.integers(1, 5))

    def each(strategy: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(strategy, min_size=n, max_size=n))

    latency = each(LATENCY)
    if draw(st.booleans()):
        shortest, more = each(st.integers(0, 4)), each(st.integers(0, 4))
        times = [(a, a + b) for a, b in zip(shortest, more, strict=True)]
        return counter_bounds(times, latency=latency, counted=draw(st.booleans()))
    rate = draw(st.sampled_from([None, 2, Fraction(2, 3), each(st.integers(1, 3))]))
    return sensor_bounds(each(st.integers(0, 4)), rate=rate, latency=latency, ties=draw(st.booleans()))


@STEADY
@given(environments(), st.data())
def test_computed_entries_give_the_heartbeats_of_stored_ones(bounds: PerSource, data: st.DataObject) -> None:
    """Also where only some rows of a page are worked out, and where a page is given source by source."""
    computed = HeartbeatGenerator(bounds, unit=2, indirect=False)
    stored = HeartbeatGenerator(bounds.matrix(), unit=2, indirect=False)
    assert computed.bounds.span >= stored.bounds.span
    row = st.tuples(st.integers(1, 3), st.integers(0, 12))
    for now in range(12):
        page = data.draw(st.dictionaries(st.integers(0, len(bounds.names) - 1), row, max_size=5))
        sources = np.array(list(page), dtype=np.int64)
        rows, highest = np.array(list(page.values()), dtype=np.int64).reshape(-1, 2).T
        computed.arrive_page(sources, rows, highest + now, now)
        for source, (came, top) in page.items():
            stored.arrive(source, came, top + now, now)
        computed.tick(now)
        stored.tick(now)
        assert computed.ticks().tolist() == stored.ticks().tolist()
        assert computed.wake_at() == stored.wake_at()


def test_many_equal_sensors_are_stored_as_one_value_each() -> None:
    n = 20_000
    bounds = sensor_bounds([3] * n, rate=1, latency=5)
    assert bounds.closure() is bounds
    assert not timeout_needed(bounds)
    generator = HeartbeatGenerator(bounds)
    generator.arrive_page(np.arange(n), np.ones(n), np.arange(n), at=0)
    assert generator.wake_at() == 5
    generator.tick(5)
    assert generator.heartbeat == Heartbeat(n - 1 - 6)
    generator.tick(5 + 6)
    assert generator.heartbeat == Heartbeat(n - 1)
    again = HeartbeatGenerator(bounds)
    again.restore(kept(generator.state()))
    assert again.heartbeat == generator.heartbeat


def test_indirect_guarantees_of_many_different_sensors_are_refused() -> None:
    bounds = sensor_bounds(list(range(100)), rate=1)
    with pytest.raises(QueryError, match=r"of 100 sources would be stored.*indirect=False.*aggregate"):
        HeartbeatGenerator(bounds)
    assert not HeartbeatGenerator(bounds, indirect=False).timeout_needed


# --- groups (section 5.2)


def spelled_out(bounds: BoundSet, longest: int) -> BoundSet:
    """The paper's S⁺ (S1 section 5.2): the strongest time-based guarantee for each t from 0 to `longest`."""
    timed = [b for b in bounds if isinstance(b, Pair)]
    given = ((t, [b.delta for b in timed if b.t <= t]) for t in range(longest + 1))
    return tuple(Pair(t, min(deltas)) for t, deltas in given if deltas)


@STEADY
@given(st.lists(pairs(5), max_size=4), st.lists(pairs(5), max_size=4))
def test_the_weaker_of_two_sets_is_that_of_the_sets_spelled_out(a: list[Pair], b: list[Pair]) -> None:
    """S⁺ ⊔ S⁺ as the paper defines it, tick by tick."""
    one, other = ({p.t: p.delta for p in spelled_out(irredundant(s), 6)} for s in (a, b))
    joined = [Pair(t, max(one[t], other[t])) for t in one.keys() & other.keys()]
    assert weaker(irredundant(a), irredundant(b)) == irredundant(joined)


@STEADY
@given(worlds(counted=True), st.data())
def test_a_group_has_no_stronger_heartbeat_than_any_stream_in_it(world: World, data: st.DataObject) -> None:
    n = len(world.latency)
    into = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    numbers = sorted(set(into))
    closed = world.matrix.closure()
    joined = aggregate(closed, {f"g{g}": [i for i in range(n) if into[i] == g] for g in numbers})
    grouped, single = HeartbeatGenerator(joined, unit=1), HeartbeatGenerator(closed, unit=1)
    for now in play(single, world):
        for g in range(len(numbers)):
            came = [t for i, ts in world.arrivals(now).items() if into[i] == numbers[g] for t in ts]
            if came:
                grouped.arrive(g, len(came), max(came), now)
        grouped.tick(now)
        for i in range(n):
            beat = grouped.of(numbers.index(into[i])).tick
            assert beat <= single.of(i).tick
            assert violations(world, i, beat, now) == []


@STEADY
@given(environments(), st.data())
def test_groups_of_computed_entries_are_groups_of_stored_ones(bounds: PerSource, data: st.DataObject) -> None:
    n = len(bounds.names)
    into = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    groups = {f"g{g}": [i for i in range(n) if into[i] == g] for g in sorted(set(into))}
    assert aggregate(bounds, groups) == aggregate(bounds.matrix(), groups)


@pytest.mark.parametrize(
    "bounds",
    [
        counter_bounds([(0, 8), (3, 4)]),  # the slowest to guarantee is also the slowest to come
        sensor_bounds([5, 4], rate=[Fraction(1, 3), 2]),
        sensor_bounds([5, 4, 1], rate=[2, Fraction(1, 3), Fraction(1, 9)], ties=True),
    ],
)
def test_what_the_others_guarantee_of_the_weakest_source_of_a_group_counts(bounds: PerSource) -> None:
    everyone = {"all": list(range(len(bounds.names)))}
    assert aggregate(bounds, everyone) == aggregate(bounds.matrix(), everyone)


@STEADY
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(0, 5), st.integers(0, 5)), min_size=1))
def test_the_weakest_of_many_entries_at_once_is_that_of_one_after_the_other(
    drawn: list[tuple[int, int, int, int]],
) -> None:
    t, wait, delta, more = np.array(drawn, dtype=np.int64).T
    which = np.arange(len(drawn))
    blocks = [(which, t, delta + more), (which, t + wait, delta)]
    entries = [irredundant([Pair(t, d + m), Pair(t + w, d)]) for t, w, d, m in drawn]
    assert weakest_of([blocks]) == reduce(weaker, entries, entries[0])


def test_of_very_many_steps_some_are_left_out_but_never_the_first_and_the_last() -> None:
    bounds = sensor_bounds(list(range(1_000)), rate=[1 + d for d in range(1_000)])
    joined = aggregate(bounds, {"all": list(range(1_000))})["all", "all"]
    exact = weakest_of([bounds.own(np.arange(1_000))])
    assert 2 <= len(joined) <= 64
    assert joined[0].t == 0
    assert joined[-1].delta == exact[-1].delta == 0


def test_groups_of_one_source_each_change_nothing() -> None:
    b = SkewMatrix([[(0, 1), [Pair(3, 4), TuplePair(2, 0)]], [None, TuplePair(5, 0)]], latency=[1, 2])
    assert aggregate(b, {"0": [0], "1": ["1"]}) == b


def test_all_streams_in_one_group_have_the_weakest_bound_and_the_largest_latency() -> None:
    b = SkewMatrix([[(0, 1), [(1, 2), (3, 1)]], [(2, 0), (0, 3)]], latency=[4, 9])
    joined = aggregate(b, {"all": [0, 1]})
    assert joined["all", "all"] == (Pair(2, 3),)
    assert joined.latency.tolist() == [9]


# --- what cannot be meant


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: sensor_bounds([]), "no sources; write at least one"),
        (lambda: sensor_bounds([1, -2]), "deviation of source '1' is -2, which is negative"),
        (lambda: sensor_bounds([1], rate=0), r"rate of source '0' is 0; write a positive one"),
        (
            lambda: sensor_bounds([1], rate=0.5),
            "rate of source '0' is 0.5; write a positive one, as in 1 or Fra",
        ),
        (lambda: sensor_bounds({"a": 1}, rate={"b": 1}), "unknown source 'b'; the sources are 'a'"),
        (lambda: sensor_bounds({"a": 1, "b": 1}, rate={"b": 1}), "rate of source 'a' is None"),
        (lambda: sensor_bounds([1, 2], rate=[1]), "rate has 1 numbers for 2 sources"),
        (lambda: sensor_bounds([2**40], rate=Fraction(1, 2**30)), "beyond what can be computed"),
        (lambda: sensor_bounds([1], latency=-1), "latency is -1"),
        (
            lambda: counter_bounds([(5, 2)]),
            r"processing of source '0' is \(5, 2\); write the shortest and the long",
        ),
        (lambda: counter_bounds({"a": 3}), "processing of source 'a' is 3"),
        (lambda: counter_bounds([(-1, 2)]), "a processing time of source '0' is -1"),
        (
            lambda: aggregate(sensor_bounds([1, 2]), {"g": [0]}),
            "source '1' is in 0 groups; write each source into exactly",
        ),
        (lambda: aggregate(sensor_bounds([1]), {"g": [0], "h": [0]}), "source '0' is in 2 groups"),
        (lambda: aggregate(sensor_bounds([1]), {"g": [0], "h": []}), "group 'h' has no source"),
        (lambda: aggregate(sensor_bounds([1]), {"g": ["x"]}), "unknown source 'x'"),
    ],
)
def test_what_cannot_be_meant_is_refused(build: object, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        build()  # type: ignore[operator]
