"""What is kept of a query's answers to look at: bounded, and equal to what the sink was given."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from slackwater.operators.recent_answers import GROUPS, WINDOWS, RecentAnswers
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.time import TimeDomain
from slackwater.testing import Script, arrow_plan
from tests.kit.streams import SAMPLE, frame


def recent(script: Script) -> dict[str, Any]:
    return script.metrics()["q/sink"]["recent"]


def test_early_and_final_answers_stand_side_by_side_as_the_sink_got_them() -> None:
    script = Script(arrow_plan(SAMPLE, range=10, slide=10, group_by=["g"], n="count(*)"))
    script.page(frame([[1, "a"], [2, "a"], [3, "b"]])).prod()
    found = recent(script)
    assert found["groups"] == ["a", "b"] and found["values"] == ["n"]
    given = {row["g"]: row for row in script.results}
    for window in found["windows"]:
        row = given[window["group"]]
        told = window["early"]["values"]["n"]
        wanted = {"estimate": row["n"], "low": row["n_low"], "high": row["n_high"], "seen": row["n_seen"]}
        assert told == wanted and "final" not in window
    script.page(frame([[4, "a"]])).drain()
    finals = {row["g"]: row["n"] for row in script.results if row["kind"] == "final"}
    windows = recent(script)["windows"]
    assert {w["group"]: w["final"]["values"]["n"] for w in windows} == finals == {"a": 3, "b": 1}
    assert {w["group"]: w["early"]["values"]["n"]["seen"] for w in windows} == {"a": 2, "b": 1}


def test_a_query_without_groups_is_one_group() -> None:
    script = Script(arrow_plan(SAMPLE, range=10, slide=10, n="count(*)")).page(frame([[1, "a"]])).drain()
    assert [(w["group"], w["window_end"]) for w in recent(script)["windows"]] == [("all", "10")]


def test_it_stays_small_whatever_the_number_of_groups_and_windows() -> None:
    script = Script(arrow_plan(SAMPLE, range=10, slide=10, group_by=["g"], n="count(*)"))
    script.page(frame([[t, f"g{n}"] for t in range(0, 2_000, 5) for n in range(40)])).drain()
    found = recent(script)
    assert len(found["groups"]) == GROUPS
    ends = {int(w["window_end"]) for w in found["windows"]}
    assert ends == set(range(2_000 - 10 * (WINDOWS - 1), 2_001, 10))
    assert len(found["windows"]) == GROUPS * WINDOWS


def test_the_same_object_is_shown_until_others_have_come() -> None:
    script = Script(arrow_plan(SAMPLE, range=10, slide=10, n="count(*)")).page(frame([[1, "a"], [25, "a"]]))
    before = recent(script)
    script.page(frame([[26, "a"]]))
    assert recent(script) is before
    script.drain()
    assert recent(script) is not before


def test_a_projection_that_drops_the_window_is_passed_over() -> None:
    plan = arrow_plan(SAMPLE, where="g = 'a'", select={"t": "t", "g": "g"})
    script = Script(plan).page(frame([[1, "a"]])).drain()
    assert "recent" not in script.metrics()["q/sink"]


@pytest.mark.parametrize("day", [date(1, 1, 1), date(9999, 12, 31)])
def test_a_window_beyond_the_years_of_python_does_not_end_the_query(day: date) -> None:
    """These days stand for "unknown" in many tables."""
    tick = (day - date(1970, 1, 1)) // timedelta(microseconds=1)
    rows = pl.DataFrame({"t": [tick]})
    plan = arrow_plan(
        rows, range="14 days", slide="7 days", domain=TimeDomain.TIMESTAMP, disorder=bounded("1 day"), n="count(*)"
    )
    shown = [w["window_end"] for w in recent(Script(plan).page(rows).drain())["windows"]]
    assert len(shown) == 2 and all(text.endswith(("00:00:00", " us")) for text in shown)
    assert any(text.endswith(" us") for text in shown) == (day.year == 9999)


def test_answers_from_a_journal_and_fresh_ones_wait_together_though_their_types_of_text_differ() -> None:
    answers = RecentAnswers(["g"])
    for end, text in ((10, pa.string()), (20, pa.large_string())):
        answers.take(
            pa.table(
                {"g": pa.array(["a"], text), "n": [end], "window_end": [end], "kind": pa.array(["final"], text)}
            )
        )
    assert [(w["window_end"], w["group"], w["final"]["values"]) for w in answers.figures()["windows"]] == [
        ("10", "a", {"n": 10}),
        ("20", "a", {"n": 20}),
    ]


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (pa.array([b"\xff", None]), ["b'\\xff'", "null"]),
        (pa.array([[1, 2], None]), ["[1, 2]", "null"]),
        (pa.array([{"a": 1}, None]), ["{'a': 1}", "null"]),
    ],
    ids=["bytes", "lists", "structs"],
)
def test_groups_that_are_no_text_are_shown(keys: pa.Array, shown: list[str]) -> None:
    answers = RecentAnswers(["g"])
    answers.take(pa.table({"g": keys, "n": [1, 2], "window_end": [10, 10], "kind": ["final", "final"]}))
    assert answers.figures()["groups"] == shown


def test_answers_that_cannot_be_shown_end_nothing(caplog: pytest.LogCaptureFixture) -> None:
    answers = RecentAnswers([])
    for number in (pa.array([1]), pa.array(["one"])):  # as no query gives them
        answers.take(pa.table({"n": number, "window_end": [10], "kind": ["final"]}))
    assert answers.figures()["windows"] == [] and "cannot be shown" in caplog.text
    answers.take(pa.table({"n": [3], "window_end": [20], "kind": ["final"]}))
    assert [w["final"]["values"] for w in answers.figures()["windows"]] == [{"n": 3}]
