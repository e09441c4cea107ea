"""What holds a query back, as the page says it."""

from __future__ import annotations

import json

import pytest

from slackwater.dashboard.board import Board
from slackwater.dashboard.hold import hold
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.environment_policy import sensors
from tests.kit.watched import WatchedScript, rows, sliding

STREAM = {"rows": 3, "lag_seconds": 9.0, "silent_seconds": 2.0, "wait": 5.0, "heartbeat": "a", "held_back_by": {}}


def told(script: WatchedScript) -> str:
    """The sentence of the one query."""
    (query,) = json.loads(Board(script).sections()["queries"])
    return str(query["holds"])


def test_a_stream_that_goes_silent() -> None:
    script = WatchedScript({"q": sliding(disorder=bounded("5 seconds"))})
    try:
        assert told(script) == "No row of stream s has come yet. Look whether its source has new data."
        script.page(rows((1, "AA", 5.0), (9, "UA", 7.0)), at=10)
        script.page(rows((10, "AA", 5.0)), at=11)
        assert told(script) == "Waits for stream s: last heard 0 s ago, rows may be up to 5 s late."
        script.clock.set(14_000_000)
        assert told(script) == "Waits for stream s: last heard 3 s ago, rows may be up to 5 s late."
        script.clock.set(131_000_000)
        assert told(script) == (
            "Waits for stream s: last heard 2 min ago, rows may be up to 5 s late. "
            "Windows at the end stay open until a newer row comes, or until the timeout of the policy."
        )
        script.pause()
        assert told(script) == "The session is paused. Press Resume to go on."
        script.resume()
        script.query("q").stop()
        assert told(script) == ""
    finally:
        script.stop()


def test_the_source_that_is_furthest_behind_is_named_with_its_distance() -> None:
    policy = sensors({"AA": "1 second", "UA": "10 seconds"}, timeout="1 hour")
    script = WatchedScript({"q": sliding("10 seconds", "10 seconds", policy, source="carrier", n="count(*)")})
    try:
        for second in range(1, 60):
            both = [(second, "AA", 1.0), (second, "UA", 1.0)]
            script.page(rows(*(both if second < 40 else both[:1])), at=second)
        behind = script.query("q").metrics()["streams"]["s"]
        assert behind["held_back_by"]["UA"] == behind["heartbeat"] != behind["held_back_by"]["AA"]
        assert told(script) == (
            "Waits for source UA of stream s: its time is 11 s behind the newest row, which came 0 s ago."
        )
    finally:
        script.stop()


@pytest.mark.parametrize(
    ("status", "more", "text"),
    [
        ("waiting", {}, "Nothing reads stream s now. Call session.run_available()."),
        ("failed", {}, ""),
        ("running", {"missing_time": 3}, "No row of stream s has a time that can be read. Look at the type of its"),
        (
            "running",
            {"lag_seconds": None, "wait": 40},
            "Waits for stream s: last heard 2 s ago, rows may be up to 40",
        ),
        ("running", {"wait": None}, "Waits for stream s: last heard 2 s ago."),
        ("running", {"wait": None, "silent_seconds": None}, "Waits for stream s."),
        ("running", {"idle": True}, "late. It is silent for longer than its timeout, so unions and joins do"),
        ("running", {"held_back_by": {"x": "a", "y": "a"}}, "Waits for stream s: last heard"),
        ("running", {"held_back_by": {"x": "a", "y": "a", "z": "b"}}, "Waits for sources x, y of stream s: their"),
    ],
)
def test_each_state_has_a_sentence(status: str, more: dict[str, object], text: str) -> None:
    assert text in hold(status, False, "s", STREAM | more) if text else not hold(status, False, "s", STREAM | more)
