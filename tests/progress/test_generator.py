"""Heartbeats from skew bounds (S1 Figure 2): never violated, the strongest that the bounds allow, and lasting.

Violations and strength are checked against environments that keep their bounds by construction:
see `tests.kit.emissions`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.errors import JournalError, QueryError
from slackwater.progress.bounds.heartbeat_generator import HeartbeatGenerator
from slackwater.progress.bounds.skew import Pair, SkewMatrix, TuplePair
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.ring import Ring
from slackwater.progress.time import MAX_TICK, MIN_TICK
from tests.kit.emissions import (
    STEADY,
    World,
    by_the_rule,
    could_have_come,
    guarantees,
    may_come,
    play,
    violations,
    worlds,
)
from tests.kit.policy_checks import kept, plain


def assert_never_violated(generator: HeartbeatGenerator, world: World) -> None:
    for now in play(generator, world):
        beats = generator.ticks().tolist()
        assert generator.heartbeat == Heartbeat(min(beats))
        for source, beat in enumerate(beats):
            assert violations(world, source, beat, now) == []


# --- correct


@settings(STEADY, max_examples=150)
@given(worlds(counted=True), st.integers(1, 5))
def test_no_heartbeat_is_violated(world: World, unit: int) -> None:
    assert_never_violated(HeartbeatGenerator(world.matrix, unit=unit), world)


@settings(STEADY, max_examples=150)
@given(worlds(counted=True, most=8, largest=2))
def test_no_tuple_at_or_below_a_heartbeat_could_come_without_breaking_a_bound(world: World) -> None:
    """At every instant, the tuple that would break the heartbeat is tried out, not only what happens to come."""
    implied = guarantees(world.matrix)
    generator = HeartbeatGenerator(world.matrix, unit=1)
    for now in play(generator, world, beyond=4):
        for source, beat in enumerate(generator.ticks().tolist()):
            assert beat == MIN_TICK or not could_have_come(world, implied, source, beat, now)


@STEADY
@given(worlds(counted=True, indirect=False))
def test_without_indirect_guarantees_only_what_sources_really_emit_needs_to_keep_the_bounds(world: World) -> None:
    assert_never_violated(HeartbeatGenerator(world.matrix, indirect=False), world)


def test_indirect_guarantees_take_a_silent_source_to_keep_its_bounds() -> None:
    """S1's virtual tuple: the second source says nothing, yet it holds the third one to the first."""
    b = SkewMatrix([[None, (0, 0), None], [None, None, (0, 0)], [None, None, None]])
    direct, indirect = HeartbeatGenerator(b, indirect=False), HeartbeatGenerator(b)
    for generator in (direct, indirect):
        generator.arrive(0, 1, 10, at=0)
    assert (direct.of(2), indirect.of(2)) == (Heartbeat.NONE, Heartbeat(10))


@settings(STEADY, max_examples=100)
@given(worlds(counted=True))
def test_heartbeats_never_go_back(world: World) -> None:
    generator = HeartbeatGenerator(world.matrix, timeout=3)
    last = generator.ticks()
    for _ in play(generator, world, beyond=10):
        assert (generator.ticks() >= last).all()
        last = generator.ticks()


@settings(STEADY, max_examples=150)
@given(worlds(counted=True))
def test_heartbeats_are_those_of_figure_2_tuple_by_tuple(world: World) -> None:
    closed = world.matrix.closure()
    generator = HeartbeatGenerator(world.matrix, unit=1)
    for now in play(generator, world, beyond=8):
        for source, beat in enumerate(generator.ticks().tolist()):
            assert beat == by_the_rule(world, closed, source, now)


# --- the strongest (Theorem 3.2)


@STEADY
@given(worlds(most=7), st.data())
def test_a_heartbeat_is_the_strongest_that_the_bounds_imply(world: World, data: st.DataObject) -> None:
    """Every timestamp up to the heartbeat is out of the question, the one above it could come next."""
    implied = guarantees(world.matrix)
    looked_at = data.draw(st.sets(st.integers(0, world.end + 8), max_size=5))
    stamps = [e.timestamp for e in world.emissions] or [0]
    generator = HeartbeatGenerator(world.matrix, unit=1)
    for now in play(generator, world, beyond=8):
        for source in range(len(world.latency)) if now in looked_at else ():
            beat = generator.of(source).tick
            possible = [
                timestamp
                for timestamp in range(min(stamps) - 12, max(stamps) + 3)
                if may_come(world, implied, source, timestamp, now)
            ]
            lowest = min(stamps) - 12 if beat == MIN_TICK else beat + 1
            assert possible[0] == lowest


def test_the_example_of_section_3_2() -> None:
    rows = [[None, (1, 1), (1, 3)], [None, None, (1, 1)], [None, None, None]]
    generator = HeartbeatGenerator(SkewMatrix(rows, latency=[0, 5, 2]))
    generator.arrive(0, 1, 100, at=10)
    beats = {}
    for now in range(10, 20):
        generator.tick(now)
        beats[now] = (generator.of(1).tick, generator.of(2).tick)
    assert beats[12] == (MIN_TICK, MIN_TICK)
    assert beats[13] == (MIN_TICK, 97)  # 10 + 1 + L, from (1, 3)
    assert beats[14] == beats[15] == (MIN_TICK, 98)  # 10 + 2 + L, from (2, 2)
    assert beats[16] == (99, 98)


# --- tuple-based pairs


def test_up_to_k_duplicates_of_section_3_1() -> None:
    """(0, 1) is sorted, (2, 0) says that a timestamp comes at most twice again."""
    generator = HeartbeatGenerator(SkewMatrix([[[TuplePair(0, 1), TuplePair(2, 0)]]]))
    beats = []
    for now, timestamp in enumerate([7, 7, 7, 8, 9, 9, 9]):
        generator.arrive(0, 1, timestamp, at=now)
        beats.append(generator.heartbeat.tick)
    assert beats == [6, 6, 7, 7, 8, 8, 9]


def test_tuples_that_the_network_may_have_overtaken_are_not_counted() -> None:
    generator = HeartbeatGenerator(SkewMatrix([[TuplePair(2, 0)]], latency=3))
    generator.arrive(0, 1, 50, at=10)
    for now in (11, 12, 13):  # may have been emitted before 50 was
        generator.arrive(0, 5, 40, at=now)
    assert generator.wake_at() is None
    generator.arrive(0, 1, 40, at=14)
    assert generator.wake_at() is None
    generator.arrive(0, 1, 40, at=20)  # the second: what was emitted before it is here by 23
    assert generator.wake_at() == 23
    generator.tick(23)
    assert generator.heartbeat == Heartbeat(50)


def test_rows_of_one_page_do_not_count_for_each_other() -> None:
    generator = HeartbeatGenerator(SkewMatrix([[TuplePair(2, 0)]]))
    generator.arrive(0, 100, 50, at=10)
    assert generator.heartbeat == Heartbeat.NONE
    generator.arrive(0, 2, 40, at=11)
    assert generator.heartbeat == Heartbeat(50)


def test_a_page_stamped_before_an_earlier_one_is_not_counted() -> None:
    generator = HeartbeatGenerator(SkewMatrix([[[Pair(0, 9), TuplePair(2, 0)]]]))
    generator.arrive(0, 1, 50, at=10)
    generator.arrive(0, 1, 48, at=11)
    generator.arrive(0, 9, 48, at=9)
    assert generator.heartbeat == Heartbeat(41)
    generator.arrive(0, 1, 48, at=12)
    assert generator.heartbeat == Heartbeat(50)


def test_what_waits_to_be_counted_stays_small_however_long_a_stream_is_silent() -> None:
    pairs = [TuplePair(1, 4), TuplePair(3, 0)]
    generator = HeartbeatGenerator(SkewMatrix([[None, pairs], [None, None]], latency=[0, 10]))
    largest = 0
    for now in range(1000):
        generator.arrive(0, 1, now, at=now)
        if now % 100 == 0:
            generator.arrive(1, 1, now, at=now)
        [watch] = generator.state()["watches"]
        largest = max(largest, len(watch["waiting"]) + len(watch["open"]))
    assert largest <= 10 + 2 + 3 + 1


# --- the ring


@settings(STEADY, max_examples=100)
@given(worlds(counted=True), st.integers(2, 7))
def test_a_coarser_unit_delays_a_heartbeat_by_less_than_one_unit(world: World, unit: int) -> None:
    exact, coarse = HeartbeatGenerator(world.matrix, unit=1), HeartbeatGenerator(world.matrix, unit=unit)
    history: list[list[int]] = []
    for now, _ in zip(play(exact, world, beyond=20), play(coarse, world, beyond=20), strict=True):
        history.append(exact.ticks().tolist())
        then = history[now - unit + 1] if now >= unit - 1 else [MIN_TICK] * len(world.latency)
        for least, beat, most in zip(then, coarse.ticks().tolist(), history[now], strict=True):
            assert least <= beat <= most


@settings(STEADY, max_examples=100)
@given(
    st.integers(0, 12),
    st.integers(1, 5),
    st.integers(1, 7),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(0, 50)), min_size=1, max_size=8),
)
@example(span=8, unit=3, coarser=1, promised=[(11, 8, 50)])  # due at 19, kept as 21, which is a cell too far
def test_what_a_coarser_ring_takes_over_comes_no_sooner(
    span: int, unit: int, coarser: int, promised: list[tuple[int, int, int]]
) -> None:
    exact, fine, coarse = Ring(1, span, 1), Ring(1, span, unit), Ring(1, span, unit + coarser)
    target, now = np.array([0]), 0
    for wait, ahead, beat in promised:
        now += wait
        for ring in (exact, fine):
            ring.advance(now)
            ring.promise(target, np.array([now + min(ahead, span)]), np.array([beat]))
    coarse.restore(fine.state())
    for later in range(now, now + span + 15):
        exact.advance(later)
        coarse.advance(later)
        assert coarse.beats[0] <= exact.beats[0]
    assert coarse.beats[0] == exact.beats[0]


def test_a_coarser_unit_needs_fewer_cells() -> None:
    b = SkewMatrix([[(900, 0), (0, 5)], [None, (0, 0)]], latency=[100, 50])
    assert [HeartbeatGenerator(b, unit=u).cells for u in (1, 10, 400)] == [1001, 101, 4]


def test_the_unit_is_chosen_so_that_the_ring_stays_small() -> None:
    second = 1_000_000
    b = SkewMatrix([[(600 * second, 0)]], latency=10 * second)
    generator = HeartbeatGenerator(b)
    assert generator.cells <= 1025
    assert generator.unit * 1024 < 611 * second
    assert HeartbeatGenerator(SkewMatrix([[(3, 0)]], latency=4)).unit == 1


@STEADY
@given(st.integers(-50, 50), st.integers(1, 7), st.integers(0, 9))
def test_instants_before_1970_are_instants(at: int, unit: int, latency: int) -> None:
    generator = HeartbeatGenerator(SkewMatrix([[(4, 1)]], latency=latency), unit=unit)
    generator.arrive(0, 1, 10, at=at)
    due = -(-(at + 4 + latency) // unit) * unit
    assert generator.wake_at() == due
    generator.tick(due - 1)
    assert generator.heartbeat == Heartbeat.NONE
    generator.tick(due)
    assert generator.heartbeat == Heartbeat(9)


def test_timestamps_at_the_ends_of_time_do_not_wrap() -> None:
    generator = HeartbeatGenerator(SkewMatrix([[(0, 2**60)]]))
    generator.arrive(0, 1, MIN_TICK + 5, at=0)
    assert generator.heartbeat == Heartbeat.NONE
    generator.arrive(0, 1, MAX_TICK, at=1)
    assert generator.heartbeat == Heartbeat(MAX_TICK - 2**60)


# --- progress (section 3.4)


@STEADY
@given(worlds(counted=True), st.integers(1, 6))
def test_every_tuple_is_released_once_all_streams_have_paused_past_the_timeout(world: World, timeout: int) -> None:
    generator = HeartbeatGenerator(world.matrix, timeout=timeout)
    for _ in play(generator, world, beyond=timeout):
        pass
    assert not any(generator.heartbeat.admits(e.timestamp) for e in world.emissions)
    assert generator.wake_at() is None


@STEADY
@given(worlds(counted=True))
def test_where_no_timeout_is_needed_every_tuple_is_released_without_one(world: World) -> None:
    rows = [[[*entry, Pair(3, 0)] for entry in row] for row in world.matrix.entries]
    generator = HeartbeatGenerator(SkewMatrix(rows, world.latency))
    assert not generator.timeout_needed
    for _ in play(generator, world, beyond=20):
        pass
    assert not any(generator.heartbeat.admits(e.timestamp) for e in world.emissions)


def test_a_tuple_on_any_stream_puts_the_timeout_off() -> None:
    generator = HeartbeatGenerator(SkewMatrix([[None, None], [None, None]]), timeout=10)
    generator.arrive(0, 1, 70, at=0)
    generator.arrive(1, 1, 60, at=8)
    assert generator.wake_at() == 18
    generator.tick(17)
    assert generator.heartbeat == Heartbeat.NONE
    generator.tick(18)
    assert generator.ticks().tolist() == [70, 70]


def test_no_rows_are_no_arrival() -> None:
    generator = HeartbeatGenerator(SkewMatrix([[None]]), timeout=10)
    generator.arrive(0, 0, 99, at=5)
    generator.arrive_page(np.array([]), np.array([]), np.array([]), at=5)
    generator.tick(100)
    assert (generator.heartbeat, generator.wake_at()) == (Heartbeat.NONE, None)


# --- waking, keeping, continuing


@STEADY
@given(worlds(counted=True), st.integers(1, 4), st.sampled_from([None, 2, 7]))
def test_the_clock_alone_moves_a_heartbeat_just_when_it_was_said_to(
    world: World, unit: int, timeout: int | None
) -> None:
    generator = HeartbeatGenerator(world.matrix, unit=unit, timeout=timeout)
    wake, before = None, generator.ticks()
    for now in play(generator, world, beyond=30):
        if not world.arrivals(now):
            moved = not np.array_equal(generator.ticks(), before)
            assert moved == (wake == now)
        wake, before = generator.wake_at(), generator.ticks()
        assert wake is None or wake > now


@STEADY
@given(worlds(counted=True), st.integers(1, 4), st.sampled_from([None, 3]), st.integers(0, 20))
def test_a_restored_generator_continues_identically(
    world: World, unit: int, timeout: int | None, kept_at: int
) -> None:
    first = HeartbeatGenerator(world.matrix, unit=unit, timeout=timeout)
    other = HeartbeatGenerator(world.matrix, unit=unit, timeout=timeout)
    for now in play(first, world, beyond=15):
        if now == kept_at:
            other.restore(kept(first.state()))
        if now > kept_at:
            for source, timestamps in world.arrivals(now).items():
                other.arrive(source, len(timestamps), max(timestamps), now)
            other.tick(now)
            assert other.ticks().tolist() == first.ticks().tolist()
            assert other.wake_at() == first.wake_at()
            assert plain(other.state()) == plain(first.state())


def test_a_fresh_generator_can_be_kept_too() -> None:
    b = SkewMatrix([[(0, 0)]])
    generator = HeartbeatGenerator(b)
    generator.restore(kept(HeartbeatGenerator(b).state()))
    generator.arrive(0, 1, 5, at=0)
    assert generator.heartbeat == Heartbeat(5)


def test_heartbeats_that_were_kept_with_another_unit_are_refused() -> None:
    b = SkewMatrix([[(9, 0)]])
    with pytest.raises(JournalError, match="continue with the bounds and the unit"):
        HeartbeatGenerator(b, unit=3).restore(HeartbeatGenerator(b, unit=1).state())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"timeout": 0}, "timeout is 0, which is less than 1; write 1 or more"),
        ({"unit": -5}, "unit is -5"),
        ({"unit": 0.5}, "unit is 0.5; write a whole number"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, int], says: str) -> None:
    with pytest.raises(QueryError, match=says):
        HeartbeatGenerator(SkewMatrix([[None]]), **settings)


def test_an_unknown_source_is_refused() -> None:
    generator = HeartbeatGenerator(SkewMatrix([[None]], names=["north"]))
    with pytest.raises(QueryError, match="unknown source 3; the sources are 'north'"):
        generator.arrive(3, 1, 1, at=0)
    with pytest.raises(QueryError, match="unknown source 'south'"):
        generator.of("south")
