"""A quiet input never stalls a union: the source that it waits for is asked, and answers by its bounds (S3)."""

from __future__ import annotations

from typing import Any
from unittest import mock

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.engine.demand import Demand
from slackwater.errors import QueryError
from slackwater.operators.source import Source
from slackwater.progress.arrival import Arrival
from slackwater.progress.bounds.bounded import BoundedTracker
from slackwater.progress.clock import ManualClock
from slackwater.progress.time import TimeDomain
from slackwater.sql.parse import parse
from slackwater.sql.policies import policy_sql
from slackwater.sql.scope import Scope
from slackwater.testing import Script, arrow_page
from slackwater.windows.spec import WindowSpec
from tests.kit.arcs import watched_arcs
from tests.kit.oracle import AGGREGATES, recompute
from tests.kit.quiet_streams import BOUNDS, STEPS, Quiet, go_on
from tests.kit.running_clock import Running
from tests.kit.streams import SAMPLE, assert_same_rows, finals, frame
from tests.kit.streams_of_samples import A, B, C, plan, union, where, windows

STAMPS = TimeDomain.TIMESTAMP
COUNT = {"n": AGGREGATES["n"], "whole": AGGREGATES["whole"]}
SECOND = 1_000_000


# --- who is asked


class Asked(BoundedTracker):
    """Notes when it is asked."""

    def __init__(self) -> None:
        super().__init__(0, None)
        self.at: list[int] = []

    def tick(self, now: int) -> None:
        self.at.append(now)


def test_a_starved_union_asks_only_the_sources_that_it_waits_for() -> None:
    script = Script(plan(windows(union(union(A, where(B, "t > 0")), C), 10, 10)))
    trackers = {name: Asked() for name in "abc"}
    for name, tracker in trackers.items():
        script.executor.graph.nodes[f"source:{name}"].operator._ports["main"].tracker = tracker
    for stream, time in (("a", 30), ("b", 35), ("c", 25)):
        script.page(frame([[time]]), stream=stream)
    for tracker in trackers.values():
        tracker.at.clear()
    script.advance(7)
    assert {name: t.at for name, t in trackers.items()} == {"a": [], "b": [], "c": [7]}, (
        "c is at 24, the others above"
    )
    script.page(frame([[50]]), stream="c")
    for tracker in trackers.values():
        tracker.at.clear()
    script.advance(7)
    assert {name: len(t.at) for name, t in trackers.items()} == {"a": 1, "b": 0, "c": 0}
    assert [n.label for n in Demand(script.executor.graph).sources()] == ["source:a"]


def test_a_window_that_holds_nothing_asks_nobody() -> None:
    script = Script(plan(windows(union(A, B), 10, 10)))
    tracker = Asked()
    script.executor.graph.nodes["source:a"].operator._ports["main"].tracker = tracker
    script.advance(5)
    assert tracker.at == []


# --- how long it takes, and that nothing is lost by it


@settings(max_examples=150)
@given(bounds=st.fixed_dictionaries({"a": BOUNDS, "b": BOUNDS}), steps=STEPS, by_wakes=st.booleans())
def test_a_quiet_input_delays_no_answer_longer_than_its_bounds_and_loses_no_row(
    bounds: dict[str, Quiet], steps: list[tuple[int, str | None, list[int]]], by_wakes: bool
) -> None:
    query = windows(union(A, B), "10 microseconds", "5 microseconds")
    script = Script(plan(query, {n: q.policy for n, q in bounds.items()}, domain=STAMPS))
    rows, spec = SAMPLE.clear(), WindowSpec(10, 5)
    with watched_arcs():
        begun = steps[0][0] if steps else 0
        for pause, stream, above in steps:
            now = script.clock.now() + pause
            if by_wakes:
                script.until(now)
            script.advance(now - script.clock.now())
            go_on(bounds.values(), now, begun)
            if stream is not None:
                least = bounds[stream].least(now)
                start = 100 if least is None else least
                page = frame([[start + up, "x", 0, 0.0, up] for up in above])
                script.page(page, stream=stream)
                bounds[stream].come(now, start + max(above))
                rows = pl.concat([rows, page])
                go_on(bounds.values(), now, begun)
            reached = [q.least(now) for q in bounds.values()]
            promised = min(reached, key=lambda least: (least is not None, least))
            known = {micros(r["window_start"]) for r in script.results}
            due = [
                r["window_start"]
                for r in recompute(rows, spec, [], COUNT)
                if promised is not None and r["window_end"] <= promised
            ]
            assert set(due) <= known, "the bounds imply that it has ended"
        script.drain()
    got = [{**r, **{end: micros(r[end]) for end in ("window_start", "window_end")}} for r in finals(script.results)]
    assert_same_rows(got, recompute(rows, spec, [], COUNT), ["window_start"])
    assert script.metrics()["q/window"]["late_rows"] == 0


def micros(instant: Any) -> int:
    return round(instant.timestamp() * SECOND)


GOING_ON = {
    "bounded": sw.bounded("2 seconds", idle="8 seconds"),
    "drop_ratio": sw.drop_ratio(0.01, idle="8 seconds"),
    "learned": sw.learned(timeout=None, idle="8 seconds"),
    "max_delay": sw.papers.max_delay(idle="8 seconds"),
    "disorder_control": sw.papers.disorder_control(idle="8 seconds"),
    "skew": sw.skew([[("0 seconds", "2 seconds")]], idle="8 seconds"),
    "sensors": sw.sensors("2 seconds", idle="8 seconds", groups=1),
}


@pytest.mark.parametrize("policy", GOING_ON.values(), ids=GOING_ON)
def test_section_5_of_s3_the_clock_alone_brings_the_answer_when_the_bound_allows_it(policy: Any) -> None:
    """Nobody looks in between: the instants at which the session wakes up are enough."""
    policies = {"a": sw.bounded("0 seconds"), "b": policy}
    script = Script(plan(windows(union(A, B), "10 seconds", "10 seconds"), policies, domain=STAMPS))
    script.page(frame([[1 * SECOND]]), stream="b", at=1 * SECOND)
    script.page(frame([[2 * SECOND], [25 * SECOND]]), stream="a", at=25 * SECOND)
    assert [r["n"] for r in script.results] == [2], "b is idle for 24 s: nothing below 17 s comes any more"
    script.page(frame([[45 * SECOND]]), stream="a", at=26 * SECOND)
    script.until(100 * SECOND)
    (second,) = script.results[1:]
    assert micros(second["emitted_at"]) == 38 * SECOND, "a row of b at 29.999999 s may come until 37.999999 s"


def test_a_row_of_an_idle_stream_that_keeps_to_its_bound_is_not_late() -> None:
    policies = {"a": sw.bounded("0 seconds"), "b": sw.bounded("2 seconds", idle="8 seconds")}
    script = Script(plan(windows(union(A, B), "1 second", "1 second"), policies, domain=STAMPS))
    script.page(frame([[1 * SECOND]]), stream="b", at=1 * SECOND)
    script.page(frame([[20 * SECOND], [90 * SECOND]]), stream="a").until(30 * SECOND).advance(0)
    script.page(frame([[22 * SECOND], [21 * SECOND - 1]]), stream="b").drain()
    assert script.metrics()["q/window"]["late_rows"] == 1, (
        "22 s is in time, and what is more than 8 s behind is late"
    )


# --- a clock that goes on by itself


def quiet_and_busy(query: Any, clock: ManualClock) -> Script:
    policies = {"a": sw.bounded("0 seconds"), "b": sw.bounded("0 seconds", idle="8 seconds")}
    script = Script(plan(query, policies, domain=STAMPS), clock=clock)
    script.page(frame([[1 * SECOND], [90 * SECOND]]), stream="a", at=SECOND)
    return script.page(frame([[1 * SECOND]]), stream="b", at=SECOND)


def test_an_idle_stream_lets_the_session_rest_until_a_window_ends() -> None:
    script = quiet_and_busy(windows(union(A, B), "1 second", "1 second"), Running())
    for second in (5, 8, 9):
        script.advance(second * SECOND - script.clock._now)
        left = script.executor.seconds_to_sleep()
        assert left is not None and 0 < left < 10.001 - second
    script.advance(10 * SECOND + 1_000 - script.clock._now)
    assert [r["n"] for r in finals(script.results)] == [2]


def test_a_session_does_not_wake_up_again_and_again_for_what_nobody_waits_for() -> None:
    script = quiet_and_busy(windows(where(union(A, B), "t < 0"), "1 second", "1 second"), Running())
    script.advance(30 * SECOND)
    assert script.metrics()["source:b"]["heartbeat"] < 2 * SECOND, "it has not been asked"
    assert script.executor.seconds_to_sleep() is None


def test_a_silence_that_nobody_asked_about_is_not_forgotten() -> None:
    """The promises of a stream follow from what came and when, not from who asked meanwhile."""
    for asked in (True, False):
        tracker = sw.bounded("2 seconds", idle="8 seconds", timeout="3 seconds").tracker(STAMPS)
        tracker.arrive(Arrival(1, 0, SECOND, SECOND, at=0))
        if asked:
            tracker.tick(30 * SECOND)
        tracker.arrive(Arrival(1, 0, 23 * SECOND, 23 * SECOND, at=30 * SECOND))
        assert tracker.heartbeat.tick == 23 * SECOND - 1, "after thirty seconds, nothing below 1 + 30 - 8 comes"


def test_a_page_arrives_when_it_is_admitted() -> None:
    """One that is being handed over while a demand is answered has not been seen: its bound counts from then."""
    policies = {"a": sw.bounded("0 seconds"), "b": sw.bounded("0 seconds", idle="8 seconds")}
    script = Script(plan(windows(union(A, B), "1 second", "1 second"), policies, domain=STAMPS))
    script.page(frame([[1 * SECOND]]), stream="b", at=SECOND).page(frame([[90 * SECOND]]), stream="a")
    handed_over = arrow_page(frame([[5 * SECOND]]), 1, 5 * SECOND, "t")
    script.until(11 * SECOND).advance(0)
    seen: list[int] = []
    with mock.patch.object(Source, "_count", lambda self, page, arrival: seen.append(arrival.at)):
        script.executor.admit("source:b", handed_over)
        script.executor.run_until_idle()
    assert seen == [11 * SECOND]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(QueryError, match="only timestamps go on with the clock"):
        sw.bounded(5, idle="1 minute").tracker(TimeDomain.SEQUENCE)
    with pytest.raises(QueryError, match="write a positive length, as in idle='1 minute'"):
        sw.bounded("1 second", idle="0 seconds")


def test_sql_says_it_too() -> None:
    (found,) = parse(
        "CREATE STREAM x FROM 'rate' TIME t DISORDER BOUNDED 20 SECONDS IDLE 1 MINUTE", Scope()
    ).statements
    assert found.disorder == sw.bounded("20 seconds", idle="1 minute")  # type: ignore[union-attr]
    assert policy_sql(sw.bounded("20 seconds", idle="1 minute")) == "BOUNDED 20 seconds IDLE 1 minute"
