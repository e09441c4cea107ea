"""The columns of a query's results that identify a result: its window and its group."""

from __future__ import annotations

from slackwater.plan.node import PlanNode, answering
from slackwater.windows.results import WINDOW_END, WINDOW_START


def result_keys(plan: PlanNode) -> tuple[str, ...]:
    """The columns of the window and the group in the results; none if several windows or none answer.

    A group column that a `select` leaves out is missing here too.
    """
    top = answering(plan)
    if top is None:
        return ()
    above, node = list[PlanNode](), plan
    while node is not top:
        above.insert(0, node)
        node = node.inputs[0]
    if plan.compares_rows:  # a group may be among the results of an early answer, and not of the final one
        return (WINDOW_START, WINDOW_END)
    names = list(top.kernel.keys)
    bounds = (WINDOW_START, WINDOW_END) if top.ends else ()
    for node in above:
        names = node.group_names(names)
    return (*bounds, *names)
