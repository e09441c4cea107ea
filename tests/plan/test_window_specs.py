"""The windows that a query asks for: a second window over results, windows that grow, windows with gaps."""

from __future__ import annotations

import polars as pl
import pytest

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.operators.prod_request import check_early
from slackwater.plan.nodes import WindowNode
from slackwater.testing import Script, arrow_plan
from slackwater.windows.spec import CumulateSpec, WindowSpec
from tests.kit.sql import plan as sql_plan
from tests.kit.streams import SAMPLE, frame

INNER = "(SELECT dest, count(*) AS n FROM trips {} GROUP BY dest)"
MINUTE = 60_000_000


def outer(inner: str, window: str) -> WindowSpec:
    node = sql_plan(f"SELECT max(n) AS most FROM {INNER.format(inner)} {window}")
    assert isinstance(node, WindowNode)
    return node.kernel.spec


@pytest.mark.parametrize(
    ("inner", "window", "offset"),
    [
        ("[RANGE 1 HOUR, SLIDE 40 MINUTES]", "[RANGE 40 MINUTES, SLIDE 40 MINUTES]", 20),
        ("[RANGE 1 HOUR, SLIDE 40 MINUTES]", "[RANGE 80 MINUTES, SLIDE 80 MINUTES]", 20),
        ("[RANGE 1 HOUR, SLIDE 40 MINUTES]", "[RANGE 40 MINUTES, SLIDE 40 MINUTES, OFFSET 7 MINUTES]", 7),
        ("[RANGE 1 HOUR, SLIDE 40 MINUTES]", "[RANGE 1 HOUR, SLIDE 1 HOUR]", 0),
        ("[RANGE 1 HOUR, SLIDE 1 HOUR, OFFSET 5 MINUTES]", "[RANGE 1 HOUR, SLIDE 1 HOUR]", 5),
        ("[RANGE 1 HOUR, SLIDE 10 MINUTES]", "[RANGE 10 MINUTES, SLIDE 10 MINUTES]", 0),
        ("[RANGE 1 HOUR, STEP 10 MINUTES]", "[RANGE 10 MINUTES, SLIDE 10 MINUTES]", 0),
        ("[SESSION 7 MINUTES]", "[RANGE 10 MINUTES, SLIDE 10 MINUTES]", 0),
    ],
)
def test_a_second_window_ends_where_those_below_it_end(inner: str, window: str, offset: int) -> None:
    assert outer(inner, window).offset == offset * MINUTE


def test_each_window_is_compared_within_itself_wherever_windows_end() -> None:
    below = arrow_plan(SAMPLE, 6, 4, group_by=["g"], n="count(*)")
    script = Script(arrow_plan(SAMPLE, 4, 4, over=below, most="max(n)", groups="count(*)"))
    script.page(frame([[0, "a"], [5, "a"], [5, "b"], [9, "b"]])).drain()
    assert [(r["window_end"], r["most"], r["groups"]) for r in script.results] == [
        (2, 1, 1),
        (6, 2, 2),
        (10, 2, 2),
        (14, 1, 1),
    ]


def growing(**more: object) -> Script:
    return Script(arrow_plan(SAMPLE, 6, step=2, group_by=["g"], n="count(*)", **more))


def test_early_answers_of_growing_windows_are_what_has_arrived() -> None:
    script = growing().page(frame([[0, "a"], [1, "a"]])).prod()
    early = [(r["window_start"], r["window_end"], r["n"], r["n_seen"], r["n_low"]) for r in script.results]
    assert early == [(0, 2, 2, 2, None), (0, 4, 2, 2, None), (0, 6, 2, 2, None)]
    script = growing().page(frame([[3, "a"]])).page(frame([[7, "a"]])).prod(until=8, after=6)
    assert [(r["kind"], r["window_start"], r["window_end"]) for r in script.results][-1] == ("early", 6, 8)


def test_a_window_with_gaps_counts_its_own_rows_only() -> None:
    script = Script(arrow_plan(SAMPLE, 2, 10, n="count(*)")).page(frame([[0], [1], [5]]))
    assert [(r["window_end"], r["n"]) for r in script.results] == [(2, 2)]
    script.page(frame([[10], [16]])).drain()
    assert [(r["window_end"], r["n"]) for r in script.results] == [(2, 2), (12, 1)]


@pytest.mark.parametrize("settings", [{"step": 2}, {"slide": 10}])
def test_no_estimate_is_promised_where_windows_are_not_alike(settings: dict[str, int]) -> None:
    plan = arrow_plan(SAMPLE, 6, n="count(*)", **settings)
    check_early(plan, sw.early(at=0.75))
    with pytest.raises(QueryError, match="nothing is estimated of aggregates over windows that grow or have gaps"):
        check_early(plan, sw.early(accuracy=0.9))


def test_windows_say_what_they_are() -> None:
    assert "window range 6 step 2" in arrow_plan(SAMPLE, 6, step=2, n="count(*)").describe()
    assert "window range 2 slide 10" in arrow_plan(SAMPLE, 2, 10, n="count(*)").describe()
    assert isinstance(outer("[RANGE 1 HOUR, SLIDE 1 HOUR]", "[RANGE 6 HOURS, STEP 2 HOURS]"), CumulateSpec)
    with pytest.raises(QueryError, match="size=7 is no multiple of step=2; write one that is"):
        arrow_plan(SAMPLE, 7, step=2, n="count(*)")


def test_rows_between_windows_move_time_and_are_not_late() -> None:
    script = Script(arrow_plan(SAMPLE, 2, 10, n="count(*)"))
    script.page(pl.concat([frame([[1]]), frame([[7]])])).page(frame([[4]]))
    assert [r["n"] for r in script.results] == [1]
    assert script.metrics()["q/window"]["late_rows"] == 0
