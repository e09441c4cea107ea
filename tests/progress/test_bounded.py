"""The constant bound (S1's diagonal pair) and its timeout (S1 section 3.4), on a clock that the test moves."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival
from slackwater.progress.bounds.bounded import Bounded, BoundedTracker, bounded
from slackwater.progress.heartbeat import Heartbeat
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.testing import Script, arrow_plan
from tests.kit.streams import SAMPLE, frame

SEQUENCE, TIMESTAMP = TimeDomain.SEQUENCE, TimeDomain.TIMESTAMP
SECOND = 1_000_000


def arrival(highest: int | None, at: int = 0) -> Arrival:
    missing = int(highest is None)
    return Arrival(rows=1, missing=missing, lowest=highest, highest=highest, at=at)


@st.composite
def events(draw: st.DrawFn) -> list[tuple[str, int | None, int]]:
    """Arrivals and ticks, at instants that do not go back."""
    now, happened = draw(st.integers(0, 5)), []
    for _ in range(draw(st.integers(0, 15))):
        now += draw(st.integers(0, 30))
        kind = draw(st.sampled_from(["arrive", "arrive", "tick"]))
        happened.append((kind, draw(st.one_of(st.none(), st.integers(-100, 100))), now))
    return happened


def happen(tracker: BoundedTracker, event: tuple[str, int | None, int]) -> tuple[Heartbeat, int | None]:
    kind, highest, now = event
    if kind == "arrive":
        tracker.arrive(arrival(highest, now))
    else:
        tracker.tick(now)
    return tracker.heartbeat, tracker.wake_at()


TRACKERS = st.builds(BoundedTracker, st.integers(0, 20), st.one_of(st.none(), st.integers(1, 40)))


@given(TRACKERS, events())
def test_the_heartbeat_never_goes_back(
    tracker: BoundedTracker, happened: list[tuple[str, int | None, int]]
) -> None:
    last = tracker.heartbeat
    for event in happened:
        beat, _ = happen(tracker, event)
        assert beat >= last
        last = beat


@given(st.integers(0, 20), events())
def test_without_a_timeout_the_heartbeat_is_slack_and_one_behind_the_highest(
    slack: int, happened: list[tuple[str, int | None, int]]
) -> None:
    tracker, highest = BoundedTracker(slack, None), None
    for event in happened:
        if event[0] == "arrive" and event[1] is not None:
            highest = event[1] if highest is None else max(highest, event[1])
        beat, wake = happen(tracker, event)
        assert beat == (Heartbeat.NONE if highest is None else Heartbeat(highest - slack - 1))
        assert wake is None


@given(st.integers(0, 20), st.integers(1, 40), events())
def test_with_a_timeout_only_a_silence_promises_all_that_was_seen(
    slack: int, timeout: int, happened: list[tuple[str, int | None, int]]
) -> None:
    tracker, highest, promised, last = BoundedTracker(slack, timeout), None, MIN_TICK, 0
    for event in happened:
        kind, value, now = event
        if highest is not None and now - last >= timeout:
            promised = max(promised, highest)  # also where nobody asked before the next page came
        if kind == "arrive":
            last = now
            if value is not None:
                highest = value if highest is None else max(highest, value)
                promised = max(promised, highest - slack - 1)
        beat, wake = happen(tracker, event)
        assert beat == Heartbeat(promised)
        waits = highest is not None and promised < highest
        assert wake == (last + timeout if waits else None)


@given(TRACKERS, events(), events())
def test_a_restored_tracker_has_the_same_future(
    tracker: BoundedTracker,
    before: list[tuple[str, int | None, int]],
    after: list[tuple[str, int | None, int]],
) -> None:
    for event in before:
        happen(tracker, event)
    other = BoundedTracker(tracker._slack, tracker._timeout)
    other.restore(json.loads(json.dumps(tracker.state())))
    assert (other.heartbeat, other.wake_at()) == (tracker.heartbeat, tracker.wake_at())
    for event in after:
        assert happen(other, event) == happen(tracker, event)


def test_the_slack_is_read_in_the_domain_of_the_stream() -> None:
    tracker = bounded("20 seconds").tracker(TIMESTAMP)
    tracker.arrive(arrival(100 * SECOND))
    assert tracker.heartbeat == Heartbeat(80 * SECOND - 1)
    tracker = bounded(timedelta(minutes=1)).tracker(TIMESTAMP)
    tracker.arrive(arrival(100 * SECOND))
    assert tracker.heartbeat == Heartbeat(40 * SECOND - 1)
    tracker = bounded(20).tracker(SEQUENCE)
    tracker.arrive(arrival(100))
    assert tracker.heartbeat == Heartbeat(79)


def test_a_slack_below_all_time_promises_nothing() -> None:
    tracker = bounded(2**62).tracker(SEQUENCE)
    tracker.arrive(arrival(-(2**62) - 5))
    assert tracker.heartbeat == Heartbeat.NONE


@pytest.mark.parametrize(
    ("policy", "domain", "says"),
    [
        (bounded("5 seconds"), SEQUENCE, "bounded='5 seconds': the time column is an integer"),
        (bounded(5), TIMESTAMP, "bounded=5: the time column is a timestamp"),
    ],
)
def test_a_slack_that_does_not_fit_the_stream_is_refused(policy: Bounded, domain: TimeDomain, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        policy.tracker(domain)


@pytest.mark.parametrize("slack", [-1, "-1 second", "soon", "", None, True])
def test_a_slack_that_is_none_is_refused_where_it_is_written(slack: Any) -> None:
    with pytest.raises(QueryError, match=rf"bounded\({slack!r}\): .*bounded\('0 seconds'\)"):
        bounded(slack)


@pytest.mark.parametrize("timeout", ["0 seconds", "-5 minutes", timedelta(0)])
def test_a_timeout_of_nothing_is_refused(timeout: str | timedelta) -> None:
    with pytest.raises(QueryError, match=r"timeout=.*must be positive.*timeout='1 minute'"):
        bounded(5, timeout=timeout)


def test_a_timeout_that_is_a_number_is_refused() -> None:
    with pytest.raises(QueryError, match="5 is not a length of time"):
        bounded(5, timeout=5)  # type: ignore[arg-type]


def test_policies_are_equal_by_what_they_say() -> None:
    assert bounded(5, timeout="1 second") == bounded(5, timeout=timedelta(seconds=1))
    assert bounded(5) != bounded(6)
    assert len({bounded("1 second"), bounded("1 second")}) == 1


def test_a_policy_describes_itself_as_it_can_be_written_again() -> None:
    for policy in (bounded(5), bounded("20 seconds"), bounded("1 minute", timeout="2 seconds")):
        assert eval(policy.describe(), {"bounded": bounded}) == policy


# --- in a running query


def test_silence_closes_the_last_windows_when_the_timeout_runs_out() -> None:
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(5, timeout="1 second"), n="count(*)")
    script = Script(plan).page(frame([[0], [19]]), at=SECOND)
    assert [r["window_start"] for r in script.results] == [0]
    assert script.executor.wake_at() == 2 * SECOND
    script.advance(SECOND - 1)
    assert [r["window_start"] for r in script.results] == [0]
    script.advance(1)
    assert [r["window_start"] for r in script.results] == [0, 10]
    assert script.executor.wake_at() is None


def test_a_page_puts_the_timeout_off() -> None:
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(5, timeout="1 second"), n="count(*)")
    script = Script(plan).page(frame([[9]]), at=SECOND).page(frame([[3]]), at=SECOND + 500_000)
    script.advance(700_000)
    assert script.results == []
    script.advance(300_000)
    assert [(r["window_start"], r["n"]) for r in script.results] == [(0, 2)]


def test_after_a_timeout_what_comes_behind_it_is_late() -> None:
    plan = arrow_plan(SAMPLE, 10, 10, disorder=bounded(5, timeout="1 second"), n="count(*)")
    script = Script(plan).page(frame([[9]])).advance(SECOND).page(frame([[8], [12]]))
    assert script.metrics()["q/window"]["late_rows"] == 1


def test_without_a_timeout_the_clock_alone_moves_nothing() -> None:
    script = Script(arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)")).page(frame([[9]]))
    assert script.executor.wake_at() is None
    assert script.advance(10**12).results == []


def test_a_timeout_counts_from_an_arrival_before_1970_too() -> None:
    """A replay of old data runs on a clock that stands before 1970."""
    tracker = bounded(5, timeout="1 second").tracker(SEQUENCE)
    tracker.arrive(arrival(100, at=-50 * SECOND))
    assert tracker.wake_at() == -49 * SECOND
