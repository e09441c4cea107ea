"""Corrections of a query's final answers by late rows: which queries can have them, and their plan (D16).

Every answer then has two more columns, `commit` and `replaces`; see `slackwater/operators/correcting_aggregate.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from slackwater.errors import QueryError, shown
from slackwater.plan.node import PlanNode, answering, walk
from slackwater.plan.nodes import WindowNode
from slackwater.plan.query_windows import answering_window
from slackwater.progress.time import LONGEST_SPAN, Span
from slackwater.windows.correction import Correction
from slackwater.windows.results import CORRECTION_COLUMNS, with_numbers


def with_corrections(plan: PlanNode, length: Span | None) -> PlanNode:
    """The plan with final answers that late rows correct; the same plan if no length is given."""
    if length is None:
        return plan
    top = _check(plan)
    ticks = top.domain.span(length, "corrections")
    if not 0 < ticks <= LONGEST_SPAN:
        raise QueryError(
            f"corrections={shown(length)} must be positive, and no longer than "
            f"{top.domain.show_span(LONGEST_SPAN)}; write for how long late rows correct an answer, as in "
            "corrections='1 day'"
        )
    steps = _steps(plan, top)
    filters = tuple(node.describe() for node in steps if node.drops_rows)
    if filters and top.fill is not None:
        raise QueryError(
            "corrections=: with fill= and HAVING, a filled answer may or may not have been written; leave fill= or "
            "HAVING out"
        )
    correction = Correction(-(-ticks // top.kernel.spec.slide), top.domain.show_span(ticks), filters)
    wide = with_numbers(top.schema, CORRECTION_COLUMNS)
    node: PlanNode = replace(top, schema=wide, corrections=correction)
    for step in steps:
        node = step.carrying(CORRECTION_COLUMNS, node)
    return node


def _steps(plan: PlanNode, top: WindowNode) -> list[PlanNode]:
    """The steps over the results, the first one first."""
    steps = list[PlanNode]()
    while plan is not top:
        steps.insert(0, plan)
        plan = plan.inputs[0]
    return steps


def _check(plan: PlanNode) -> WindowNode:
    """The window whose answers are corrected; refuse plans whose corrected answers would not be exact."""
    top, refused = answering_window(plan), None
    if len(plan.answers()) > 1:
        refused = "this query gives the results of several windows; start each as a query of its own"
    elif answering(plan) is None:
        refused = "a query without windows has no answers to correct; leave corrections= out, or write a window"
    elif top is None:
        refused = "answers of a window for each row cannot be corrected; give the window a slide, or leave it out"
    elif not top.ends:
        refused = "totals without a window are never final; leave it out, or give the query a window"
    elif not top.ends_known:
        refused = (
            "a late row may merge two sessions that have their final answers; write window('10 minutes') instead "
            "of sessions(…), or leave it out"
        )
    if refused is not None or top is None:
        raise QueryError(f"corrections=: {refused}")
    nodes = list(walk(plan))
    if top.over_results:
        refused = (
            "a window over results would count a corrected result twice; start the inner query as a query of its "
            "own with corrections="
        )
    elif any(node.pairs_rows for node in nodes):
        refused = "rows that are late for a join never reach the window; aggregate each stream, or leave it out"
    elif any(node.drops_duplicates for node in nodes):
        refused = "drop_duplicates lets no late row through to the window; leave one of them out"
    elif any(node.orders_rows for node in nodes):
        refused = "an ordered union lets no late row through to the window; write union() without an order"
    elif plan.compares_rows:
        refused = (
            "a late row may change the rank of all groups of a window (ORDER BY, LIMIT, OVER); rank them where you "
            "read the results"
        )
    elif top.fill is not None and top.fill.filling == "last":
        refused = "fill='last' repeats an answer that a late row may change; write fill=0 or fill=None"
    elif any(pa.types.is_nested(top.schema.field(key).type) for key in top.kernel.keys):
        refused = "a group column is a list or a struct; group by its fields"
    elif missing := sorted(set(top.kernel.keys) - set(_kept_groups(plan, top))):
        refused = f"the results lack the group column {missing[0]!r}, which says which answer is replaced; add it"
    if refused is not None:
        raise QueryError(f"corrections=: {refused}")
    for name in {*top.schema.names, *plan.schema.names}:
        if name.lower() in CORRECTION_COLUMNS:
            raise QueryError(f"corrections=: {name!r} is a column of corrected results; choose another name")
    return top


def _kept_groups(plan: PlanNode, top: WindowNode) -> list[str]:
    """The group columns, by their names in the window, that are still among the results."""
    kept = list(top.kernel.keys)
    names = {key: key for key in kept}
    for step in _steps(plan, top):
        names = {key: new[0] for key, name in names.items() if (new := step.group_names([name]))}
    return list(names)
