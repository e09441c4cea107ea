"""Offsets of Kafka as values: merged, cut and noted without losing one. What needs a broker is in tests/kafka."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.spark.backend.locations.kafka import Offsets, Range


def each(offsets: Offsets) -> list[tuple[str, int, int]]:
    return [(topic, partition, at) for topic, partition, start, end in offsets.ranges for at in range(start, end)]


@st.composite
def pages(draw: st.DrawFn) -> list[Offsets]:
    """Pages as Spark plans them: each goes on where the last one was, or behind a gap; none is empty."""
    reached: dict[int, int] = {}
    made = []
    for _ in range(draw(st.integers(1, 6))):
        ranges = []
        for partition in draw(st.sets(st.integers(0, 2), min_size=1)):
            start = reached.get(partition, 0) + draw(st.sampled_from([0, 0, 0, 3]))
            reached[partition] = start + draw(st.integers(1, 9))
            middle = draw(st.integers(start, reached[partition]))  # with minPartitions it comes in two
            cuts = [(start, middle), (middle, reached[partition])]
            ranges += [Range("calls", partition, a, b) for a, b in cuts if a < b]
        made.append(Offsets.over(ranges))
    return made


@given(pages(), st.integers(1, 9))
def test_no_offset_is_lost_or_comes_twice(some: list[Offsets], parts: int) -> None:
    whole = some[0].together(some[1:])
    wanted = sorted(at for page in some for at in each(page))
    assert each(whole) == wanted
    assert all(a[:2] != b[:2] or a.end < b.start for a, b in zip(whole.ranges, whole.ranges[1:], strict=False))
    cut = whole.cut(parts)
    assert len(cut) <= parts and [at for part in cut for at in each(part)] == wanted
    assert max(len(each(part)) for part in cut) <= -(-len(wanted) // parts)
    assert Offsets.load(json.loads(json.dumps(whole.saved()))) == whole


@given(pages())
def test_in_one_go_each_partition_is_read_once(some: list[Offsets]) -> None:
    whole = some[0].together(some[1:])
    rounds = list(whole._rounds())
    assert sorted(part for go in rounds for part in go) == list(whole.ranges)
    for go in rounds:
        assert len({part[:2] for part in go}) == len(go)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("[KAFKA_DATA_LOSS.X] Some data of calls-1 may have been lost", "partition 1, offsets 4 to 8."),
        (
            "UnknownTopicOrPartitionException: This server does not host",
            "partition 0, offsets 0 to 2; topic 'calls'",
        ),
    ],
)
def test_the_offsets_that_an_error_is_about_are_named(said: str, shown: str) -> None:
    fault = Offsets.over([Range("calls", 0, 0, 3), Range("calls", 1, 4, 9)]).fault(RuntimeError(said))
    assert fault is not None and f"topic 'calls', {shown}" in fault


def test_other_errors_are_not_taken_for_lost_offsets() -> None:
    assert Offsets.over([Range("calls", 0, 0, 3)]).fault(RuntimeError("[DIVIDE_BY_ZERO]")) is None
