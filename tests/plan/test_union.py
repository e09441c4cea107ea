"""What is a legal union, what it needs of its streams, and how it reads as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.plan.column_use import needed_columns
from slackwater.plan.node import aggregates_of, describe, streams_of, with_streams
from slackwater.plan.nodes import StepNode, WindowNode
from slackwater.plan.union_node import UnionNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.time import TimeDomain
from slackwater.testing.types import SampleTypes
from tests.kit.streams_of_samples import A, B, C, plan, select, streams, union, where, windows


def test_a_union_of_equal_columns_needs_no_projection() -> None:
    node = plan(union(A, where(B, "h > 0"), C))
    assert isinstance(node, UnionNode)
    assert [s.name for s in streams_of(node)] == ["a", "b", "c"]
    assert not any(n.describe().startswith("select") for n in node.inputs)
    assert describe(node).splitlines()[-1] == "union of 3"


def test_other_order_case_and_type_are_brought_to_those_of_the_first() -> None:
    node = plan(union(select(A, g="g", v="i"), select(B, V="x", g="g")))
    assert isinstance(node, UnionNode)
    first, second = node.inputs
    assert isinstance(first, StepNode) and isinstance(second, StepNode)
    assert first.step.columns == (("g", "`g`"), ("v", "CAST(`v` AS DOUBLE)"))
    assert second.step.columns == (("g", "`g`"), ("v", "`V`"))
    assert node.schema.names == ["g", "v"] and str(node.schema.field("v").type) == "double"


MISTAKES: dict[str, tuple[L.Logical, str]] = {
    "one side": (union(A), "needs another stream"),
    "a column is missing": (union(A, select(B, t="t", g="g")), "a has a column 'h' and b has none"),
    "a column too many": (
        union(select(A, t="t"), select(B, t="t", more="g")),
        "b has a column 'more' and a has none",
    ),
    "text and number": (union(select(A, v="g"), select(B, v="i")), "the column 'v' is Int64 and String"),
    "rows and results": (union(A, windows(B, 10, 10)), "give all sides a window, or none"),
    "a window over rolling results": (windows(union(windows(A, 10, None), windows(B, 10, None)), 5, 5), "slide"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name: str) -> None:
    query, text = MISTAKES[name]
    with pytest.raises(QueryError, match=text.replace("(", r"\(")):
        plan(query)


def test_times_of_two_kinds_are_refused() -> None:
    types = streams()
    node, relation = types.streams["b"]
    mixed = SampleTypes({**types.streams, "b": (replace(node, domain=TimeDomain.TIMESTAMP), relation)})  # type: ignore[type-var]
    with pytest.raises(QueryError, match="a has sequences and b has timestamps"):
        analyse(union(A, B), mixed)


def test_each_stream_is_read_with_the_columns_that_are_needed_of_it() -> None:
    both = union(select(A, g="g", v="i"), select(where(B, "h > 0"), v="x", g="g"))
    needed = needed_columns(plan(windows(both, 10, 10, "g", n="sum(v)")), late_rows=False)
    assert needed == {"a": {"t", "g", "i"}, "b": {"t", "g", "x", "h"}}
    plain = needed_columns(plan(windows(union(A, B), 10, 10, "g", n="sum(i)")), late_rows=False)
    assert plain == {"a": {"t", "g", "i"}, "b": {"t", "g", "i"}}


@pytest.mark.parametrize(("source", "wanted"), [("g", "g"), (None, None)])
def test_a_group_is_the_source_if_it_is_so_in_every_stream(source: str | None, wanted: str | None) -> None:
    def kernel_source(query: L.Logical, **more: Any) -> str | None:
        node = plan(query, **more)
        assert isinstance(node, WindowNode)
        return node.kernel.source

    assert kernel_source(windows(union(A, B), 10, 10, "g"), source=source) == wanted
    half = union(select(A, g="g"), select(B, g="s"))
    assert kernel_source(windows(half, 10, 10, "g", n="count(*)"), source=source) is None


def test_a_policy_of_the_window_is_for_all_streams() -> None:
    policies = {"a": bounded(1), "b": bounded(2)}
    node = plan(windows(union(A, B), 10, 10, disorder=bounded(1)), policies)
    assert isinstance(node, WindowNode) and node.disorder == bounded(1)
    same = plan(windows(union(A, B), 10, 10, disorder=bounded(1)), dict.fromkeys("ab", bounded(1)))
    assert isinstance(same, WindowNode) and same.disorder is None


def test_another_attribute_is_taken_on_every_stream() -> None:
    window = L.Window(10, 10, wattr="o")
    query = L.Aggregate((union(select(A, o="i"), select(B, o="h")),), window, (), (("n", "count(*)"),))
    assert [(s.declared, s.time) for s in streams_of(plan(query))] == [("a", "i"), ("b", "h")]


def test_equal_windows_of_a_union_stay_one_part_in_a_replay() -> None:
    node = plan(union(windows(A, 10, 10), windows(A, 10, 10)))
    assert len(aggregates_of(node)) == 1
    assert len(aggregates_of(with_streams(node, {"a": "a#2"}))) == 1


def test_the_policies_of_the_package_go_by_stream() -> None:
    node = plan(windows(union(A, B), 10, 10), {"a": sw.drop_ratio(0.1), "b": sw.learned()})
    assert [s.disorder.describe() for s in streams_of(node)] == [
        sw.drop_ratio(0.1).describe(),
        sw.learned().describe(),
    ]
