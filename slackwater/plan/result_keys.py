"""Which columns of a query's results say what a result is about: its window and its group."""

from __future__ import annotations

from slackwater.plan.nodes import PlanNode, SelectNode, WindowNode, answering
from slackwater.windows.results import WINDOW_END, WINDOW_START


def result_keys(plan: PlanNode) -> tuple[str, ...]:
    """The columns of the window and the group, as results have them; none where results have no early answers.

    A group column that a `select` leaves out is missing here too.
    """
    top = answering(plan)
    if not isinstance(top, WindowNode):
        return ()
    selects, node = list[SelectNode](), plan
    while node is not top:
        if isinstance(node, SelectNode):
            selects.insert(0, node)
        node = node.inputs[0]
    names = list(top.kernel.keys)
    for select in selects:
        names = [name for name, sql in select.columns if sql.strip().strip("`") in names]
    return (WINDOW_START, WINDOW_END, *names)
