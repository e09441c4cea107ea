"""Which rows belong to which source: one stream, strangers, and sources that show up in mid-stream."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.progress.bounds import source_tracker
from slackwater.progress.disorder import Disorder
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.source_table import SourceNumbers
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.testing import Script, arrow_plan
from tests.kit.emissions import STEADY
from tests.kit.policy_checks import beats, of, page
from tests.kit.streams import SAMPLE, frame

SEQUENCE, TIMESTAMP = TimeDomain.SEQUENCE, TimeDomain.TIMESTAMP
SECOND = 1_000_000
#: Longer than anything here lasts.
NEVER = 10_000


# --- one stream, strangers


@settings(STEADY, max_examples=30)
@given(st.integers(0, 9), st.lists(st.integers(-20, 20), max_size=10))
def test_one_stream_with_the_pair_of_a_slack_is_bounded_by_it(slack: int, stamps: list[int]) -> None:
    tracker, other = sw.skew([[(0, slack + 1)]], timeout=50).tracker(SEQUENCE), sw.bounded(slack).tracker(SEQUENCE)
    for now, stamp in enumerate(stamps):
        for each in (tracker, other):
            each.arrive(page(now, {"": [stamp]}))
        assert tracker.heartbeat == other.heartbeat


def test_bounds_of_one_stream_hold_for_all_of_its_sources_together() -> None:
    tracker = sw.skew([[(0, 5)]], timeout=50).tracker(SEQUENCE)
    tracker.arrive(page(0, {"a": [70], "b": [60]}))
    assert (tracker.heartbeat, tracker.by_source()) == (Heartbeat(65), None)


def test_a_stream_without_a_source_column_is_one_source() -> None:
    for policy in (sw.sensors(5, timeout=50), sw.sensors({"all": 5}, timeout=50)):
        tracker = policy.tracker(SEQUENCE)
        tracker.arrive(page(0, {"": [70]}))
        assert tracker.heartbeat == Heartbeat(65)


def test_rows_of_a_source_that_the_bounds_do_not_know_move_nothing_and_are_counted() -> None:
    for groups in (None, 1):
        tracker = sw.sensors({"a": 5, "b": 5}, timeout=50, groups=groups).tracker(SEQUENCE)
        tracker.arrive(page(0, {"a": [70], "stranger": [900, 901]}))
        tracker.arrive(page(1, {"stranger": [950]}))
        tracker.arrive(page(2, {"": [999]}))
        assert tracker.heartbeat == Heartbeat(60)
        assert of(tracker, "stranger") == 60
        assert tracker.metrics()["unknown_source_rows"] == 4
        assert tracker.wake_at() == 52  # they arrive, so there is no silence


def test_heartbeats_kept_of_other_sources_are_refused() -> None:
    kept_of = sw.sensors({"a": 3, "b": 3}, timeout=50).tracker(SEQUENCE)
    with pytest.raises(sw.JournalError, match="of other sources"):
        sw.sensors({"a": 3, "c": 3}, timeout=50).tracker(SEQUENCE).restore(kept_of.state())


def test_silence_closes_the_last_windows_of_a_query_when_the_timeout_runs_out() -> None:
    plan = arrow_plan(SAMPLE, 10, 10, disorder=sw.skew([[(0, 6)]], timeout="1 second"), n="count(*)")
    script = Script(plan).page(frame([[0], [19]]), at=SECOND)
    assert [r["window_start"] for r in script.results] == [0]
    assert script.executor.wake_at() == 2 * SECOND
    assert [r["window_start"] for r in script.advance(SECOND).results] == [0, 10]


def test_the_figures_name_the_sources_that_hold_time_back() -> None:
    tracker = sw.skew({(x, x): (0, 0) for x in "abcdefgh"}, timeout=50).tracker(SEQUENCE)
    tracker.arrive(page(0, {name: [ord(name)] for name in "hgfedcb"}))
    figures = tracker.metrics()
    assert figures["sources"] == 8
    assert figures["held_back_by"] == {"a": MIN_TICK, **{name: ord(name) for name in "bcde"}}


# --- discovery


def discovered(policy: Disorder, pages: list[dict[str, list[int]]], known: Disorder) -> None:
    """Sources that show up have at every instant the heartbeats of those that were known from the start."""
    tracker, other = policy.tracker(SEQUENCE), known.tracker(SEQUENCE)
    for now, came in enumerate(pages):
        for each in (tracker, other):
            if came:
                each.arrive(page(now, came))
            each.tick(now)
        assert tracker.heartbeat == other.heartbeat
        assert tracker.wake_at() == other.wake_at()
        for name in NAMES:
            assert of(tracker, name) == of(other, name)


#: More than the first slots; the last one never sends.
NAMES = [f"s{i}" for i in range(40)] + ["silent"]
PAGES = st.lists(
    st.dictionaries(st.sampled_from(NAMES[:-1]), st.lists(st.integers(0, 20), min_size=1, max_size=2), max_size=20),
    max_size=8,
)


@settings(STEADY, max_examples=25)
@given(PAGES, st.integers(0, 4), st.sampled_from([None, 1, 0.5]), st.booleans(), st.sampled_from([1, 3]))
def test_sensors_that_show_up_are_where_they_would_be(
    pages: list[dict[str, list[int]]], deviation: int, rate: float | None, ties: bool, unit: int
) -> None:
    settings = {"rate": rate, "latency": 2, "timeout": 30, "ties": ties, "unit": unit}
    known = sw.sensors(dict.fromkeys(NAMES, deviation), **settings)
    discovered(sw.sensors(deviation, **settings), pages, known)


@settings(STEADY, max_examples=15)
@given(PAGES, st.booleans())
def test_sources_of_a_counter_that_show_up_are_where_they_would_be(
    pages: list[dict[str, list[int]]], counted: bool
) -> None:
    known = sw.papers.global_counter(dict.fromkeys(NAMES, (1, 4)), latency=1, counted=counted)
    discovered(sw.papers.global_counter((1, 4), latency=1, counted=counted), pages, known)


def test_the_heartbeat_of_the_stream_holds_for_sources_that_nobody_has_seen() -> None:
    tracker = sw.sensors(3, timeout=NEVER).tracker(SEQUENCE)
    tracker.arrive(page(0, {"a": [100], "b": [101]}))
    assert beats(tracker) == {"(stream)": 95, "a": 97, "b": 98, "(others)": 95}
    tracker.arrive(page(1, {"late to the party": [96]}))
    assert beats(tracker)["late to the party"] == 95


def test_a_larger_ring_never_brings_a_heartbeat_forward() -> None:
    """The unit grows with the number of sources: what was promised comes no sooner, and less than a unit later."""
    policy = sw.sensors("10 seconds", rate=1, latency="7 seconds")
    tracker = policy.tracker(TIMESTAMP)
    tracker.arrive(page(123, {"a": [100 * SECOND]}))
    tracker.arrive(page(456, {f"s{i}": [0] for i in range(5_000)}))
    due = 123 + 10 * SECOND + 7 * SECOND
    tracker.tick(due - 1)
    assert of(tracker, "a") < 100 * SECOND
    tracker.tick(due + 27 * SECOND // 100)
    assert of(tracker, "a") == 100 * SECOND


def test_beyond_the_most_sources_rows_are_counted_and_have_the_heartbeat_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source_tracker, "MOST", 20)
    tracker = sw.sensors(3, timeout=NEVER).tracker(SEQUENCE)
    tracker.arrive(page(0, {f"s{i}": [100] for i in range(30)}))
    tracker.arrive(page(1, {f"s{i}": [200] for i in range(25, 50)}))
    found = tracker.by_source()
    assert found is not None
    assert found.names == [f"s{i}" for i in range(20)]
    assert (found.ticks.tolist(), found.others) == ([97] * 20, 94)
    assert tracker.metrics()["unknown_source_rows"] == 10 + 25


def test_many_names_get_their_numbers_in_any_order() -> None:
    """Large pages are looked up another way than small ones, and one that repeats itself not at all."""
    numbers = SourceNumbers([f"n{i}" for i in range(1_200)])
    rng = np.random.default_rng(3)
    orders = [rng.permutation(1_500).tolist() for _ in range(3)]
    for order in [*orders, orders[-1], list(range(5)), orders[0]]:
        found = numbers.of([f"n{i}" for i in order])
        assert found.tolist() == [i if i < 1_200 else -1 for i in order]
        found[:] = 7  # a caller may do with it what it likes
    names = [f"n{i}" for i in orders[0]]
    met = numbers.meet(names, most=1_400)
    assert len(numbers) == 1_400
    assert (met < 0).sum() == 100
    for name, number in zip(names, met.tolist(), strict=True):
        assert number < 0 or numbers.names[number] == name
    assert numbers.of(names).tolist() == met.tolist()
