"""Skew bounds and S1's environments as policies: never violated, the strongest, lasting (S1 sections 2 to 5).

What comes goes through `Arrival` and `SourceArrivals`, as pages of a stream do; what must come out is told by the
oracles of `tests.kit.emissions`.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.progress.bounds.skew import Pair, SkewMatrix, TuplePair
from slackwater.progress.disorder import Disorder
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import MIN_TICK, TimeDomain
from tests.kit.emissions import (
    STEADY,
    World,
    by_the_rule,
    counter_worlds,
    guarantees,
    may_come,
    sensor_worlds,
    violations,
    worlds,
)
from tests.kit.policy_checks import beats, of, page, play_pages

SEQUENCE, TIMESTAMP = TimeDomain.SEQUENCE, TimeDomain.TIMESTAMP
SECOND = 1_000_000
#: Longer than anything here lasts.
NEVER = 10_000


def assert_never_violated(policy: Disorder, world: World) -> None:
    tracker = policy.tracker(SEQUENCE)
    for now in play_pages(tracker, world, beyond=4):
        found = beats(tracker)
        assert found["(stream)"] <= min(found.values())
        for source in range(len(world.latency)):
            assert violations(world, source, of(tracker, source), now) == []


def by_names(values: list[object]) -> dict[str, object]:
    return {str(i): v for i, v in enumerate(values)}


# --- correct, and the strongest (Theorems 3.1 and 3.2)


@STEADY
@given(worlds(counted=True), st.integers(1, 5))
def test_no_heartbeat_of_skew_is_violated(world: World, unit: int) -> None:
    assert_never_violated(sw.skew(world.matrix, timeout=NEVER, unit=unit), world)


@STEADY
@given(worlds(counted=True, indirect=False))
def test_without_indirect_guarantees_what_sources_emit_is_all_that_need_keep_the_bounds(world: World) -> None:
    assert_never_violated(sw.skew(world.matrix, timeout=NEVER, indirect=False), world)


@STEADY
@given(worlds(counted=True))
def test_heartbeats_are_those_of_figure_2_tuple_by_tuple(world: World) -> None:
    closed = world.matrix.closure()
    tracker = sw.skew(world.matrix, timeout=NEVER, unit=1).tracker(SEQUENCE)
    for now in play_pages(tracker, world, beyond=8):
        each = [by_the_rule(world, closed, source, now) for source in range(len(world.latency))]
        assert [of(tracker, source) for source in range(len(each))] == each
        assert tracker.heartbeat == Heartbeat(min(each))


@settings(STEADY, max_examples=40)
@given(worlds(most=7), st.data())
def test_a_heartbeat_is_the_strongest_that_the_bounds_imply(world: World, data: st.DataObject) -> None:
    """Every timestamp up to the heartbeat is out of the question, the one above it could come next."""
    implied = guarantees(world.matrix)
    looked_at = data.draw(st.sets(st.integers(0, world.end + 8), max_size=4))
    stamps = [e.timestamp for e in world.emissions] or [0]
    tracker = sw.skew(world.matrix, timeout=NEVER, unit=1).tracker(SEQUENCE)
    for now in play_pages(tracker, world, beyond=8):
        for source in range(len(world.latency)) if now in looked_at else ():
            beat = of(tracker, source)
            possible = [
                timestamp
                for timestamp in range(min(stamps) - 12, max(stamps) + 3)
                if may_come(world, implied, source, timestamp, now)
            ]
            assert possible[0] == (min(stamps) - 12 if beat == MIN_TICK else beat + 1)


@STEADY
@given(counter_worlds(), st.booleans(), st.booleans())
def test_no_heartbeat_of_a_global_counter_is_violated(
    made: tuple[list[tuple[int, int]], World], counted: bool, discovered: bool
) -> None:
    times, world = made
    if discovered:
        widest = min(low for low, _ in times), max(high for _, high in times)
        policy = sw.papers.global_counter(widest, latency=max(world.latency), counted=counted)
    else:
        policy = sw.papers.global_counter(by_names(times), latency=by_names(world.latency), counted=counted)
    assert_never_violated(policy, world)


@STEADY
@given(sensor_worlds(), st.sampled_from(["by name", "discovered", "groups", "one group"]))
def test_no_heartbeat_of_sensors_is_violated(made: tuple[list[int], list[int] | None, World], written: str) -> None:
    deviation, rates, world = made
    timeout = None if rates else NEVER
    if written in ("by name", "groups"):
        rate = None if rates is None else by_names(rates)
        policy = sw.sensors(
            by_names(deviation),
            rate=rate,
            latency=by_names(world.latency),
            timeout=timeout,
            groups=2 if written == "groups" else None,
        )
    else:
        rate = None if rates is None else min(rates)
        groups = 1 if written == "one group" else None
        policy = sw.sensors(max(deviation), rate=rate, latency=max(world.latency), timeout=timeout, groups=groups)
        if groups:
            tracker = policy.tracker(SEQUENCE)
            for now in play_pages(tracker, world):
                for source in range(len(world.latency)):
                    assert violations(world, source, tracker.heartbeat.tick, now) == []
            return
    assert_never_violated(policy, world)


# --- progress (section 3.4)


@STEADY
@given(worlds(counted=True), st.integers(1, 6))
def test_every_row_is_released_once_all_streams_have_paused_past_the_timeout(world: World, timeout: int) -> None:
    tracker = sw.skew(world.matrix, timeout=timeout).tracker(SEQUENCE)
    for _ in play_pages(tracker, world, beyond=timeout):
        pass
    assert not any(tracker.heartbeat.admits(e.timestamp) for e in world.emissions)
    assert tracker.wake_at() is None


@STEADY
@given(sensor_worlds(alike=True), st.booleans())
def test_sensors_with_a_rate_release_every_row_without_a_timeout(
    made: tuple[list[int], list[int] | None, World], discovered: bool
) -> None:
    deviation, _, world = made
    written = deviation[0] if discovered else by_names(deviation)
    tracker = sw.sensors(written, rate=1, latency=world.latency[0]).tracker(SEQUENCE)
    for _ in play_pages(tracker, world):
        pass
    while (wake := tracker.wake_at()) is not None:
        tracker.tick(wake)
    assert not any(tracker.heartbeat.admits(e.timestamp) for e in world.emissions)


def test_a_global_counter_releases_every_row_without_a_timeout() -> None:
    tracker = sw.papers.global_counter((1, 8), latency=2).tracker(SEQUENCE)
    tracker.arrive(page(0, {"a": [7]}))
    assert (tracker.heartbeat, of(tracker, "a"), tracker.wake_at()) == (Heartbeat.NONE, MIN_TICK, 2)
    tracker.tick(2)
    assert of(tracker, "a") == 7
    tracker.tick(0 + (8 - 1) + 2)
    assert tracker.heartbeat == Heartbeat(7)


# --- the paper's figures


def test_the_example_of_section_3_2() -> None:
    policy = sw.skew(
        {("1", "2"): (1, 1), ("1", "3"): (1, 3), ("2", "3"): (1, 1)},
        latency={"1": 0, "2": 5, "3": 2},
        timeout=NEVER,
    )
    tracker = policy.tracker(SEQUENCE)
    tracker.arrive(page(10, {"1": [100]}))
    found = {}
    for now in range(10, 20):
        tracker.tick(now)
        found[now] = (of(tracker, "2"), of(tracker, "3"))
    assert found[12] == (MIN_TICK, MIN_TICK)
    assert found[13] == (MIN_TICK, 97)  # 10 + 1 + L, from (1, 3)
    assert found[14] == found[15] == (MIN_TICK, 98)  # 10 + 2 + L, from (2, 2) through the second source
    assert found[16] == (99, 98)


def test_up_to_k_duplicates_of_section_3_1() -> None:
    tracker = sw.skew([[[sw.tuples(0, 1), sw.tuples(2, 0)]]], timeout=NEVER).tracker(SEQUENCE)
    found = []
    for now, timestamp in enumerate([7, 7, 7, 8, 9, 9, 9]):
        tracker.arrive(page(now, {"": [timestamp]}))
        found.append(tracker.heartbeat.tick)
    assert found == [6, 6, 7, 7, 8, 8, 9]


def test_the_global_counter_of_section_4_1() -> None:
    """φa takes 1 to 4, φb 6 to 9 seconds: a binds b after 9 − 1 = 8 seconds, b binds a at once."""
    policy = sw.papers.global_counter(
        {"a": ("1 second", "4 seconds"), "b": ("6 seconds", "9 seconds")}, unit="1 second"
    )
    tracker = policy.tracker(SEQUENCE)
    tracker.arrive(page(0, {"a": [70]}))
    assert (of(tracker, "a"), of(tracker, "b"), tracker.wake_at()) == (70, MIN_TICK, 8 * SECOND)
    tracker.arrive(page(SECOND, {"b": [60]}))
    assert of(tracker, "b") == 60
    tracker.tick(8 * SECOND)
    assert tracker.heartbeat == Heartbeat(70)
    tracker.arrive(page(9 * SECOND, {"b": [90]}))
    assert (of(tracker, "a"), of(tracker, "b")) == (90, 90)


def test_one_more_token_tells_that_a_source_is_not_behind() -> None:
    tracker = sw.papers.global_counter({"a": (1, 4), "b": (6, 90)}, counted=True).tracker(SEQUENCE)
    tracker.arrive(page(0, {"a": [70]}))
    tracker.arrive(page(5, {"b": [60]}))
    assert of(tracker, "b") == 70


def test_the_sensors_of_section_4_2() -> None:
    policy = sw.sensors({"a": "2 seconds", "b": "5 seconds"}, timeout="1 minute")
    tracker = policy.tracker(TIMESTAMP)
    tracker.arrive(page(0, {"a": [100 * SECOND]}))
    assert (of(tracker, "a"), of(tracker, "b")) == (98 * SECOND, 93 * SECOND)
    assert tracker.wake_at() == 60 * SECOND
    tracker.tick(60 * SECOND)
    assert tracker.heartbeat == Heartbeat(100 * SECOND)


def test_the_minimum_rate_of_section_4_2() -> None:
    """B_ab gets (⌈7 / r_b⌉, 0) and B_aa (⌈2 / r_a⌉, 0)."""
    policy = sw.sensors({"a": "2 seconds", "b": "5 seconds"}, rate={"a": 1, "b": 0.5}, unit="1 second")
    tracker = policy.tracker(TIMESTAMP)
    tracker.arrive(page(0, {"a": [100 * SECOND]}))
    tracker.tick(2 * SECOND)
    assert of(tracker, "a") == 100 * SECOND
    tracker.tick(13 * SECOND)
    assert of(tracker, "b") < 100 * SECOND
    tracker.tick(14 * SECOND)
    assert of(tracker, "b") == 100 * SECOND
    assert tracker.wake_at() is None


def test_a_rate_can_be_said_in_numbers_a_second() -> None:
    """40 numbers at 5 a second are 8 seconds."""
    tracker = sw.sensors({"a": 40}, rate=(5, "1 second"), unit="1 second").tracker(SEQUENCE)
    tracker.arrive(page(0, {"a": [100]}))
    assert (tracker.heartbeat, tracker.wake_at()) == (Heartbeat(60), 8 * SECOND)


# --- what a user writes


def test_bounds_are_read_in_wall_clock_time_and_in_the_stream_s_time() -> None:
    policy = sw.skew({("fast", "slow"): ("2 seconds", "5 seconds")}, timeout="1 minute", latency="1 second")
    assert policy.matrix(TIMESTAMP)["fast", "slow"] == (Pair(2 * SECOND, 5 * SECOND),)
    assert policy.matrix(TIMESTAMP).latency.tolist() == [SECOND, SECOND]
    policy = sw.skew({("fast", "slow"): [("2 seconds", 7), (5, 3), sw.tuples(4, 0)]}, timeout="1 minute")
    assert policy.matrix(SEQUENCE)["fast", "slow"] == (Pair(5, 3), TuplePair(4, 0))


def test_the_same_bounds_can_be_written_in_several_ways() -> None:
    by_name = sw.skew({("a", "b"): (2, 5), ("b", "b"): [(0, 1), sw.tuples(3, 0)]}, timeout="1 minute")
    as_matrix = sw.skew(
        [[None, (2, 5)], [None, [sw.tuples(3, 0), (0, 1)]]], sources=["a", "b"], timeout="60 seconds"
    )
    turned = sw.skew([[[(0, 1), sw.tuples(3, 0)], None], [[(2, 5)], None]], sources=["b", "a"], timeout=60 * SECOND)
    assert by_name == as_matrix == turned
    ready = SkewMatrix([[None, (2, 5)], [None, [Pair(0, 1), TuplePair(3, 0)]]], names=["a", "b"])
    assert sw.skew(ready, timeout="1 minute").matrix(SEQUENCE) == by_name.matrix(SEQUENCE)


def test_a_description_says_what_was_written() -> None:
    policy = sw.skew({("fast", "slow"): ("2 seconds", "5 seconds")}, latency="90 seconds", timeout="1 minute")
    assert policy.describe() == (
        "skew({('fast', 'slow'): ('2 seconds', '5 seconds')}, latency='90 seconds', timeout='1 minute')"
    )
    assert sw.sensors("2 seconds", rate=0.9).describe() == "sensors('2 seconds', rate=0.9)"
    many = sw.sensors({f"s{i}": i for i in range(1_000)}, timeout="1 minute")
    assert many.describe().startswith("sensors({'s0': 0, 's1': 1, ")
    assert many.describe().endswith("… 1000 in all}, timeout='1 minute')")


def test_no_timeout_is_asked_for_where_none_is_needed() -> None:
    sw.skew([[(0, 0), (3, 0)], [(1, 0), (0, 0)]], sources=["a", "b"]).tracker(SEQUENCE)
    sw.skew({("a", "b"): (1, 0), ("b", "a"): (1, 0)}).tracker(SEQUENCE)  # the diagonal by way of the other
    sw.sensors(0).tracker(SEQUENCE)


# --- groups (section 5.2)


def test_a_group_has_one_heartbeat_by_the_weakest_bound_and_the_largest_latency() -> None:
    policy = sw.sensors(
        {"a": 1, "b": 2, "c": 5},
        latency={"a": 3, "b": 4, "c": 9},
        timeout=NEVER,
        groups={"hall": ["a", "b"], "roof": ["c"]},
    )
    tracker = policy.tracker(SEQUENCE)
    tracker.arrive(page(0, {"a": [100]}))
    tracker.tick(3)
    assert set(beats(tracker).values()) == {MIN_TICK}
    tracker.tick(4)
    assert (of(tracker, "a"), of(tracker, "b"), of(tracker, "c")) == (97, 97, MIN_TICK)
    tracker.tick(9)
    assert beats(tracker) == {"(stream)": 93, "a": 97, "b": 97, "c": 93, "(others)": 93}


@STEADY
@given(worlds(counted=True), st.integers(1, 3), st.data())
def test_groups_are_never_ahead_of_their_sources(world: World, most: int, data: st.DataObject) -> None:
    n = len(world.latency)
    into = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    by_user = {f"g{g}": [str(i) for i in range(n) if into[i] == g] for g in set(into)}
    for groups in (most, by_user):
        grouped = sw.skew(world.matrix, timeout=NEVER, unit=1, groups=groups).tracker(SEQUENCE)
        single = sw.skew(world.matrix, timeout=NEVER, unit=1).tracker(SEQUENCE)
        for now, _ in zip(play_pages(grouped, world), play_pages(single, world), strict=True):
            for source in range(n):
                assert of(grouped, source) <= of(single, source)
                assert violations(world, source, of(grouped, source), now) == []


def test_as_many_groups_as_different_sources_make_groups_of_equal_ones() -> None:
    policy = sw.sensors({"a": 1, "b": 7, "c": 1, "d": 4}, timeout=NEVER, groups=3)
    tracker = policy.tracker(SEQUENCE)
    tracker.arrive(page(0, {"a": [100]}))
    assert [of(tracker, name) for name in "abcd"] == [98, 92, 98, 95]
    assert set(tracker.metrics()["held_back_by"]) == {"a and 1 more", "b", "d"}


def test_equal_sources_are_one_group_however_many_there_are() -> None:
    tracker = sw.sensors(3, timeout=NEVER, groups=8).tracker(SEQUENCE)
    tracker.arrive(page(0, {f"s{i}": [100] for i in range(50)}))
    assert (tracker.heartbeat, tracker.by_source()) == (Heartbeat(94), None)


def test_many_different_sensors_with_rates_can_be_grouped() -> None:
    """Every two of them would be 400 million entries."""
    n = 20_000
    deviation = np.random.default_rng(7).integers(0, 1_000, n).tolist()
    policy = sw.sensors({f"s{i}": d for i, d in enumerate(deviation)}, rate=1, groups=8)
    tracker = policy.tracker(SEQUENCE)
    tracker.arrive(page(0, {"s0": [5_000]}))
    assert 5_000 - 2_000 <= tracker.heartbeat.tick < 5_000
    tracker.tick(2_000)
    assert tracker.heartbeat == Heartbeat(5_000)
