"""Labels of the aggregates of a query."""

from __future__ import annotations

from slackwater.operators.label import Label
from slackwater.plan.node import PlanNode, aggregates_of


def aggregate_labels(name: str, plan: PlanNode) -> list[Label]:
    """Labels of a query's aggregates, in the order of `aggregates_of`."""
    return list(labels_of(name, plan).values())


def labels_of(name: str, plan: PlanNode) -> dict[int, Label]:
    """The same by the aggregates' identity: a query may have equal ones in two places."""
    tops, labels = {id(node) for node in plan.answers()}, dict[int, Label]()
    for n, node in enumerate(aggregates_of(plan)):
        top = id(node) in tops
        labels[id(node)] = Label(name, "window", n + 1 if n else None) if top else Label(name, "inner", n)
    return labels
