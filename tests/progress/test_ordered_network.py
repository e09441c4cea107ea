"""A network that keeps the order of each stream (S1 section 2): what arrives later was emitted later."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.progress.bounds.heartbeat_generator import HeartbeatGenerator
from slackwater.progress.bounds.skew import Pair, SkewMatrix, TuplePair
from slackwater.progress.disorder import Disorder
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import TimeDomain
from tests.kit.emissions import STEADY, Emission, World, play, violations, worlds
from tests.kit.policy_checks import beats, page


def in_order(world: World) -> World:
    """The same world over a network that keeps order; of what a source emits at one instant only the first."""
    latest: dict[int, Emission] = {}
    kept = []
    for e in world.emissions:
        before = latest.get(e.source)
        if before is None or e.emitted > before.emitted:
            latest[e.source] = e if before is None else replace(e, arrives=max(e.arrives, before.arrives))
            kept.append(latest[e.source])
    return replace(world, emissions=kept)


ORDERED = worlds(counted=True).map(in_order)


@STEADY
@given(ORDERED, st.integers(1, 4))
def test_no_heartbeat_is_violated(world: World, unit: int) -> None:
    generator = HeartbeatGenerator(world.matrix, unit=unit, ordered=True)
    for now in play(generator, world, beyond=8):
        for source, beat in enumerate(generator.ticks().tolist()):
            assert not violations(world, source, beat, now)


@STEADY
@given(ORDERED)
def test_knowing_the_order_delays_nothing(world: World) -> None:
    ordered, other = (HeartbeatGenerator(world.matrix, unit=1, ordered=o) for o in (True, False))
    for _ in zip(play(ordered, world, beyond=8), play(other, world, beyond=8), strict=True):
        assert (ordered.ticks() >= other.ticks()).all()


def test_what_a_row_says_of_its_own_source_holds_when_it_arrives() -> None:
    bounds = SkewMatrix([[(0, 1), (2, 5)], [None, [Pair(0, 3), Pair(4, 0)]]], latency=[10, 7], names=["a", "b"])
    generator = HeartbeatGenerator(bounds, timeout=90, ordered=True)
    generator.arrive(0, rows=1, highest=50, at=0)
    assert generator.of("a") == Heartbeat(49), "without the order: at 10"
    generator.arrive(1, rows=1, highest=40, at=1)
    assert generator.of("b") == Heartbeat(37)
    generator.tick(9)
    assert generator.of("b") == Heartbeat(45), "a's promise of b still takes b's latency: 0 + 2 + 7"


def test_no_tuple_before_the_last_one_counted_is_under_way() -> None:
    """Up to two duplicates (S1 section 3.1) over a network that takes up to 10."""
    generator = HeartbeatGenerator(
        SkewMatrix([[[Pair(0, 1), TuplePair(2, 0)]]], latency=10), timeout=90, ordered=True
    )
    for at, beat in ((0, 69), (1, 69), (2, 70)):
        generator.arrive(0, rows=1, highest=70, at=at)
        assert generator.heartbeat == Heartbeat(beat)


@pytest.mark.parametrize(
    ("policy", "beat"),
    [
        (sw.skew({("a", "a"): (0, 5)}, latency=20, timeout=99, ordered=True), 65),
        (sw.sensors({"a": 5, "b": 9}, latency=20, timeout=99, ordered=True), 65),
        (sw.sensors(5, latency=20, timeout=99, ordered=True), 65),
        (sw.papers.global_counter((1, 4), latency=20, ordered=True), 70),
    ],
)
def test_every_policy_of_bounds_can_know_the_order(policy: Disorder, beat: int) -> None:
    tracker = policy.tracker(TimeDomain.SEQUENCE)
    tracker.arrive(page(0, {"a": [70]}))
    assert beats(tracker)["a"] == beat


def test_groups_have_no_order() -> None:
    with pytest.raises(sw.QueryError, match="a group of sources has no order; leave out groups= or ordered="):
        sw.sensors(5, timeout=9, groups=2, ordered=True)
    with pytest.raises(sw.QueryError, match="write ordered=True"):
        sw.skew([[(0, 0)]], ordered="yes")  # type: ignore[arg-type]
