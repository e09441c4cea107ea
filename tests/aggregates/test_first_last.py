"""first and last of several columns come from one row, whichever way the rows came and whatever the window."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyarrow import fs

from slackwater.plan.node import PlanNode
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_plan

#: Three simultaneous rows; by (a, b) the first is (1, 'z'), the last (2, 'y').
ROWS = [(5, 1, "z"), (5, 2, "x"), (5, 2, "y")]
SAMPLE = pl.DataFrame(ROWS, ["t", "a", "b"], orient="row")
ENDS = {"fa": "first(a)", "fb": "first(b)", "la": "last(a)", "lb": "last(b)"}
SLIDING = {"range": 10, "slide": 5}


def plan(window: dict[str, int], **aggregates: str) -> PlanNode:
    return arrow_plan(SAMPLE, **window, **(aggregates or ENDS))


def ends(row: dict[str, Any], suffix: str = "") -> tuple[Any, ...]:
    return tuple(row[name + suffix] for name in ENDS)


@pytest.mark.parametrize("window", [{"range": 5, "slide": 5}, SLIDING, {"range": 7}])
@pytest.mark.parametrize("cut", [1, 3], ids=["a page a row", "one page"])
def test_simultaneous_rows_give_whole_rows(window: dict[str, int], cut: int) -> None:
    for rows in permutations(ROWS):
        script = Script(plan(window))
        for start in range(0, len(rows), cut):
            script.page(pl.DataFrame(rows[start : start + cut], SAMPLE.schema, orient="row"))
        results = script.drain().results
        assert results and {ends(row) for row in results} == {(1, "z", 2, "y")}


def test_in_windows_of_rows_the_latest_row_is_the_last() -> None:
    results = Script(plan({"rows": 2})).page(SAMPLE).drain().results
    assert [ends(row) for row in results] == [(1, "z", 1, "z"), (1, "z", 2, "x"), (2, "x", 2, "y")]


def test_the_order_of_the_select_decides_also_inside_expressions() -> None:
    script = Script(plan(SLIDING, shout="upper(last(b))", la="last(a)")).page(SAMPLE).drain()
    assert {(row["shout"], row["la"]) for row in script.results} == {("Z", 1)}


def test_nulls_of_a_row_stay_with_it() -> None:
    rows = pl.DataFrame([(5, None, "z"), (5, 2, None)], SAMPLE.schema, orient="row")
    for window in (SLIDING, {"range": 7}):
        results = Script(plan(window)).page(rows[:1]).page(rows[1:]).drain().results
        assert {ends(row) for row in results} == {(None, "z", 2, None)}


def test_early_answers_and_a_restart_give_whole_rows(tmp_path: Path) -> None:
    sink = ListSink()

    def begin() -> Script:
        return Script(plan(SLIDING), FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False), sink)

    begin().page(SAMPLE[:2]).prod()
    assert {ends(row, "_seen") for row in sink.rows} == {(1, "z", 2, "x")}
    begin().page(SAMPLE[2:]).drain()
    assert {ends(row) for row in sink.rows if row["kind"] == "final"} == {(1, "z", 2, "y")}
