"""A plan as text is the signature that a journal remembers: the same for equal plans, another for any other."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from slackwater.plan.node import describe
from slackwater.progress.bounds.bounded import bounded
from slackwater.testing import arrow_plan
from tests.kit.streams import SAMPLE

PLAIN: dict[str, Any] = {"range": 10, "slide": 5, "group_by": ["g"], "disorder": bounded(3), "n": "count(*)"}
CHANGES: dict[str, dict[str, Any]] = {
    "range": {"range": 15},
    "slide": {"slide": 2},
    "offset": {"offset": 1},
    "groups": {"group_by": ["g", "h"]},
    "no groups": {"group_by": []},
    "filter": {"where": "x > 0"},
    "other filter": {"where": "x > 1"},
    "projection": {"select": {"g": "g", "x": "x + 1"}},
    "slack": {"disorder": bounded(4)},
    "timeout": {"disorder": bounded(3, timeout="1 second")},
    "time": {"time": "h"},
    "aggregate": {"n": "count(x)"},
    "another aggregate": {"m": "max(x)"},
}


def text(**changes: Any) -> str:
    return describe(arrow_plan(SAMPLE, **{**PLAIN, **changes}))


def test_equal_plans_have_equal_text() -> None:
    assert text() == text(disorder=bounded(3))


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_a_plan_changes_its_text(change: str) -> None:
    others = [text(), *(text(**c) for name, c in CHANGES.items() if name != change)]
    assert text(**CHANGES[change]) not in others


def test_another_type_of_a_column_changes_the_text() -> None:
    narrow = SAMPLE.with_columns(pl.col("x").cast(pl.Float32))
    assert describe(arrow_plan(narrow, **PLAIN)) != text()


def test_a_plan_reads_from_the_stream_to_the_answer() -> None:
    lines = text(where="x > 0", select={"g": "g", "y": "x"}).splitlines()
    assert [line.split()[0] for line in lines] == ["stream", "where", "select", "window", "agg"]
    assert lines[0].startswith("stream s (t Int64, g String")
    assert lines[0].endswith("time t [sequence] disorder bounded(3)")
    assert lines[3:] == ["window range 10 slide 5 group by g", "agg n = count(*)"]
