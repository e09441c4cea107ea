"""Labels (S1 section 7.4): Figure 5, and random trees against the rules as the paper states them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.scheduling.heartbeats import Plan, PlanStep, StreamLabel, Streams, streams_below


def streams(*names: str) -> Streams:
    return frozenset((name, "main") for name in names)


ALL = streams("S1", "S2", "S3")


def figure_5(o1: float | None, o2: float = 0.5, ordered: bool = True) -> Plan:
    """With these selectivities."""
    return {
        "O1": PlanStep((), streams("S1", "S2"), selectivity=o1),
        "O2": PlanStep(("O1",), streams("S3"), ordered, o2),
    }


def test_figure_5_with_a_proliferative_operator_comes_down_to_the_query_level() -> None:
    labels = sw.memory_aware().labels(figure_5(3.0))
    assert labels == {"O1": StreamLabel(ALL, waits=True), "O2": StreamLabel(ALL)}


def test_figure_5_with_a_selective_operator_lets_it_go_by_its_own_streams() -> None:
    for selectivity in (0.3, 1.0, None):
        labels = sw.memory_aware().labels(figure_5(selectivity))
        assert labels == {"O1": StreamLabel(streams("S1", "S2")), "O2": StreamLabel(ALL)}


def test_figure_5_at_the_query_level_and_at_the_operator_level() -> None:
    plan = figure_5(3.0)
    assert sw.papers.query_level().labels(plan) == {"O1": StreamLabel(ALL, True), "O2": StreamLabel(ALL, True)}
    assert sw.operator_level().labels(plan) == {"O1": StreamLabel(streams("S1", "S2")), "O2": StreamLabel(ALL)}


def test_nothing_waits_for_an_operator_that_takes_rows_in_any_order() -> None:
    assert not sw.memory_aware().labels(figure_5(3.0, ordered=False))["O1"].waits


def test_a_link_ends_at_the_last_operator_that_lets_rows_wait() -> None:
    """Behind O2 nothing waits, so there is no need to wait for S4 and S5."""
    plan: dict[str, PlanStep] = {
        **figure_5(3.0, 2.0),
        "union": PlanStep(("O2",), streams("S4"), ordered=False),
        "window": PlanStep(("union",), streams("S5"), ordered=False, selectivity=0.01),
    }
    labels = sw.memory_aware().labels(plan)
    assert (labels["O1"], labels["O2"].waits) == (StreamLabel(ALL, waits=True), False)
    plan["window"] = replace(plan["window"], ordered=True)
    labels = sw.memory_aware().labels(plan)
    assert labels["O1"].streams == labels["union"].streams == streams("S1", "S2", "S3", "S4", "S5")


def test_what_two_queries_have_in_common_waits_for_what_both_have() -> None:
    """A shared filter over S1 does not wait for S2, which one of the queries unites with it; the union does."""
    plan = {
        "where": PlanStep((), streams("S1"), ordered=False),
        "alone": PlanStep(("where",), ordered=False),
        "union": PlanStep(("where",), streams("S2"), ordered=False),
        "window": PlanStep(("union",), ordered=False),
    }
    labels = sw.papers.query_level().labels(plan)
    assert labels["where"] == StreamLabel(streams("S1"), waits=True)
    assert labels["alone"] == StreamLabel(streams("S1"), waits=False)
    assert labels["union"] == StreamLabel(streams("S1", "S2"), waits=True)
    assert labels["window"] == StreamLabel(streams("S1", "S2"), waits=False)


# --- random trees


@st.composite
def trees(draw: st.DrawFn, all_ordered: bool) -> dict[str, PlanStep]:
    """Operators 0 to n, each but the last feeding a later one; the root is the output node, of selectivity 0."""
    count = draw(st.integers(1, 9))
    parents = [draw(st.integers(n + 1, count - 1)) for n in range(count - 1)]
    plan = {}
    for n in range(count):
        below = tuple(str(child) for child, parent in enumerate(parents) if parent == n)
        own = 0 if below and draw(st.booleans()) else draw(st.integers(1, 2))
        root = n == count - 1
        plan[str(n)] = PlanStep(
            below,
            streams(*(f"S{n}.{k}" for k in range(own))),
            all_ordered or draw(st.booleans()),
            0.0 if root else draw(st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0, None])),
        )
    return plan


def path(plan: Plan, label: str) -> list[str]:
    """An operator and its ancestors."""
    parent = next((p for p, step in plan.items() if label in step.inputs), None)
    return [label] if parent is None else [label, *path(plan, parent)]


def memory_links(plan: Plan) -> dict[str, str]:
    """By the definition: from each operator to the lowest ancestor such that the chain of both is selective."""
    links = {}
    for label in plan:
        way = path(plan, label)
        chains = [[1.0 if (s := plan[o].selectivity) is None else s for o in way[: n + 1]] for n in range(len(way))]
        top = next((n for n, chain in enumerate(chains) if prod(chain) <= 1), len(way) - 1)
        waiting = [o for o in way[1 : top + 1] if plan[o].ordered]
        if waiting:
            links[label] = waiting[-1]
    return links


def assign_labels(plan: Plan, links: dict[str, str]) -> dict[str, Streams]:
    """Figure 6, line by line."""
    labels: dict[str, Streams] = {}

    def subtree(o: str, parent: str | None) -> None:
        inside, ancestors = below(plan, o), path(plan, o)[1:]
        if any(a in inside and b in ancestors for a, b in links.items()):
            assert parent is not None
            labels[o] = labels[parent]
        else:
            labels[o] = streams_below(plan)[o]
        for child in plan[o].inputs:
            subtree(child, o)

    subtree(list(plan)[-1], None)
    return labels


def below(plan: Plan, label: str) -> set[str]:
    return {label}.union(*(below(plan, child) for child in plan[label].inputs))


@given(trees(all_ordered=True))
def test_labels_of_random_trees_keep_the_papers_rules(plan: Plan) -> None:
    labels, root = sw.memory_aware().labels(plan), list(plan)[-1]
    for label, top in memory_links(plan).items():
        way = path(plan, label)
        same = {labels[o].streams for o in way[: way.index(top) + 1]}
        assert len(same) == 1, "the heartbeats of all operators along a link are equal"
    for label, subtree in streams_below(plan).items():
        assert labels[label].streams >= subtree
        assert labels[label].waits == (labels[label].streams > subtree)
    assert labels[root].streams == frozenset().union(*(step.streams for step in plan.values()))


@given(st.booleans().flatmap(trees))
def test_labels_of_random_trees_are_those_of_figure_6(plan: Plan) -> None:
    labels = sw.memory_aware().labels(plan)
    assert {label: of.streams for label, of in labels.items()} == assign_labels(plan, memory_links(plan))


@given(st.booleans().flatmap(trees))
def test_at_the_query_level_all_of_a_tree_goes_by_all_streams_and_waits_where_they_come_in(plan: Plan) -> None:
    every = frozenset().union(*(step.streams for step in plan.values()))
    for label, of in sw.papers.query_level().labels(plan).items():
        assert of == StreamLabel(every, waits=bool(plan[label].streams))
