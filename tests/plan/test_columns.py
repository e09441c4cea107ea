"""What a query does not need is not read; what it may need is."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from slackwater.plan import logical as L
from slackwater.plan.column_use import columns_of_joins, narrowed, needed_columns
from slackwater.plan.join_node import JoinNode
from slackwater.plan.node import walk
from slackwater.plan.nodes import StepNode
from slackwater.plan.steps import Select
from slackwater.testing import arrow_plan
from tests.kit.joins import join_of, renamed
from tests.kit.streams_of_samples import A, B, C, plan, windows

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


PAIRS = join_of(renamed(A, "", "t", "g", "i"), renamed(B, "2", "t", "g", "i"), (8, 5), "g = g2")


def kept(query: L.Logical) -> list[tuple[list[str], list[list[str]]]]:
    """Of each join of a query: what it gives, and what it keeps of both sides."""
    made = plan(query)
    joins = [node for node in walk(made) if isinstance(node, JoinNode)]
    small = [narrowed(join, columns_of_joins(made)[id(join)]) for join in joins]
    return [(join.schema.names, [schema.names for schema in join.kept]) for join in small]


def test_a_join_keeps_what_its_condition_and_what_stands_behind_it_need() -> None:
    assert kept(PAIRS) == [(["t", "g", "i", "t2", "g2", "i2"], [["t", "g", "i"], ["t2", "g2", "i2"]])]
    assert kept(L.Select((PAIRS,), (("x", "i2 + 1"),))) == [(["i2"], [["g"], ["g2", "i2"]])]
    assert kept(windows(PAIRS, 6, 3, "g", n="count(*)")) == [(["g"], [["g"], ["g2"]])]


def test_a_join_of_a_join_needs_what_is_asked_of_it() -> None:
    three = join_of(PAIRS, renamed(C, "3", "t", "g", "i"), (None, 12), "g = g3 AND i2 <> i3")
    found = kept(L.Select((L.Where((three,), "t3 > 0"),), (("i", "i"),)))
    assert found == [
        (["g", "i", "i2"], [["g", "i"], ["g2", "i2"]]),
        (["i", "t3"], [["g", "i", "i2"], ["t3", "g3", "i3"]]),
    ]


def test_a_star_needs_all() -> None:
    made = plan(L.Select((PAIRS,), (("x", "i2"),)))
    assert isinstance(made, StepNode)
    whole = replace(made, step=Select((("x", "struct(*)"),)))
    (join,) = [node for node in walk(whole) if isinstance(node, JoinNode)]
    assert columns_of_joins(whole)[id(join)] == set(join.schema.names)


def test_columns_that_only_a_join_drops_are_not_read() -> None:
    query = L.Select((join_of(A, renamed(B, "2", "g"), (8, 5), "g = g2"),), (("i", "i"),))
    assert needed_columns(plan(query), late_rows=False)["a"] == {"t", "g", "i"}
