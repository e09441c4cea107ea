"""What a query does not need is not read; what it may need is."""

from __future__ import annotations

import polars as pl

from slackwater.plan.columns import needed_columns
from slackwater.testing import arrow_plan

ROW = pl.DataFrame({"t": [1], "k": ["a"], "v": [1.0], "w": [2.0], "unused": [0]})


def test_groups_aggregates_filters_and_time_are_needed() -> None:
    plan = arrow_plan(ROW, range=5, slide=5, group_by=["k"], where="w > 1", n="sum(v)")
    assert needed_columns(plan, late_rows=False)["s"] == {"t", "k", "v", "w"}


def test_count_needs_only_the_time() -> None:
    assert needed_columns(arrow_plan(ROW, range=5, slide=5, n="count(*)"), late_rows=False)["s"] == {"t"}


def test_a_projection_needs_what_it_is_made_of_and_not_the_names_behind_it() -> None:
    plan = arrow_plan(ROW, range=5, slide=5, select={"w": "v + 1", "k": "k"}, n="sum(w)", group_by=["k"])
    assert needed_columns(plan, late_rows=False)["s"] == {"t", "k", "v"}


def test_whole_rows_for_a_late_sink_need_every_column() -> None:
    plan = arrow_plan(ROW, range=5, slide=5, n="count(*)")
    assert needed_columns(plan, late_rows=True)["s"] == set(ROW.columns)


def test_late_rows_behind_a_projection_need_only_its_columns() -> None:
    plan = arrow_plan(ROW, range=5, slide=5, select={"x": "v"}, n="count(*)")
    assert needed_columns(plan, late_rows=True)["s"] == {"t", "v"}


def test_names_differ_by_more_than_case() -> None:
    plan = arrow_plan(ROW, range=5, slide=5, n="count(*)", where='V > 1 and "k" is not null'.replace('"', ""))
    assert needed_columns(plan, late_rows=False)["s"] == {"t", "v", "k"}
