"""The prodders of a query, one for each aggregate that gives early answers, and the mark of early pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slackwater.estimates.early import Early
from slackwater.estimates.prod_timing import ProdTiming
from slackwater.operators.label import Label
from slackwater.operators.prodder import Prodder
from slackwater.plan.node import PlanNode, early_schema_of
from slackwater.plan.nodes import AggregateNode, StepNode
from slackwater.plan.query_windows import window_paths
from slackwater.plan.steps import Select
from slackwater.windows.results import KIND
from slackwater.windows.spec import WindowSpec


def prodders(
    name: str, plan: PlanNode, early: Early | None, label_of: Callable[[AggregateNode], str]
) -> tuple[list[Prodder], dict[str, ProdTiming]]:
    """The prodders of a query, and the timing of each, by the label of its aggregate.

    A query without `early=` has prodders, too, because a restart may add `early=`. An aggregate learns how accurate
    its early answers were, and its prodder chooses the instant by that. Only the first one prods at `every=`, for
    all aggregates.
    """
    found, timings, tops = list[Prodder](), dict[str, ProdTiming](), plan.prodded()
    for n, top in enumerate(tops):
        window, wanted = top.as_window(), early or Early()
        spec = None if window is None else window.kernel.spec
        # Several paths may lead to the topmost window. Take the one that holds a row longest.
        specs = max(window_paths(top), key=lambda path: sum(spec.range for spec in path))[::-1]
        offset = None if spec is None else wanted.offset(spec, top.domain)
        timing = ProdTiming(offset, 1 if spec is None else spec.last_part, wanted.accuracy)
        timings[label_of(top)] = timing
        to = label_of(top) if len(tops) > 1 else None
        asks = replace(wanted, every=None) if n else wanted
        label = Label(name, "prodder", n or None)
        at_end = not (n or top.ends)
        found.append(Prodder(label, name, specs or [WindowSpec(1, 1)], top.domain, timing, asks, at_end, to))
    return found, timings


def mark_early_pairs(plan: PlanNode) -> PlanNode:
    """The plan with a column `kind` in its early rows, if it ends with a join of results."""
    wide = early_schema_of(plan)
    if wide is None or not plan.gives_pairs:
        return plan
    columns = tuple((name, f"`{name}`") for name in plan.schema.names)
    mark = "nullif('early', '')"  # a nullable type, because final rows have null
    return StepNode((plan,), Select(columns, (*columns, (KIND, mark))), plan.schema, wide)
