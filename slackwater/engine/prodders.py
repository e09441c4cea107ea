"""The prodders of a query, one for each aggregate that early answers are about, and the mark of early pairs."""

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
    """They are there also without early=: a restart may add or leave that out. The aims are by aggregate.

    An aggregate learns how accurate early answers were, its prodder prods by it. The first one prods by the clock,
    for all.
    """
    found, timings, tops = list[Prodder](), dict[str, ProdTiming](), plan.prodded()
    for n, top in enumerate(tops):
        window, wanted = top.as_window(), early or Early()
        spec = None if window is None else window.kernel.spec
        # Of several ways to the topmost window, the one that holds a row longest.
        specs = max(window_paths(top), key=lambda way: sum(spec.range for spec in way))[::-1]
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
    """The plan, whose early rows say that they are early also if they are pairs."""
    wide = early_schema_of(plan)
    if wide is None or not plan.gives_pairs:
        return plan
    columns = tuple((name, f"`{name}`") for name in plan.schema.names)
    mark = "nullif('early', '')"  # by its type it may be null, as it is in final rows
    return StepNode((plan,), Select(columns, (*columns, (KIND, mark))), plan.schema, wide)
