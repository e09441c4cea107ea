"""What rows of a stream tell the engine beside their time: patterns in punctuations, and prods (S5 2.1, 3.2 b)."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.errors import QueryError, shown
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import StepNode, StreamNode
from slackwater.plan.relation import Relation
from slackwater.plan.step import Columns
from slackwater.plan.steps import Where

#: Columns of `StreamNode.signals`: the begin of a punctuation's stretch of time, and the values of its attributes.
SINCE, VALUE = "__since", "__value"
#: Columns of `StreamNode.signals`: whether a row is a prod, and the time by which the windows that it asks for end.
PROD, PROD_UNTIL = "__prod", "__prod_until"


def pattern_columns(since: str | None, attributes: Sequence[str]) -> Columns:
    """The columns of `StreamNode.signals` for patterns. Values are text, because groups are compared as text."""
    begins = () if since is None else ((SINCE, since),)
    return (*begins, *((f"{VALUE}{n}", f"CAST({sql} AS STRING)") for n, sql in enumerate(attributes)))


def read_condition(written: str | None, rows: Relation, stream: str) -> str | None:
    """The condition for a prod, as Spark SQL that is never null; refused if it is no condition on these rows."""
    if written is None:
        return None
    if not isinstance(written, str) or not written.strip():
        raise QueryError(
            f"stream {stream!r}: prods={shown(written)}: write a condition, as in prods=\"kind = 'prod'\""
        )
    rows.where(written, f"stream {stream!r}: prods")
    return f"coalesce(({written}), false)"


def prod_columns(condition: str | None, ticks: str) -> Columns:
    """The columns of `StreamNode.signals` for prods."""
    return () if condition is None else ((PROD, condition), (PROD_UNTIL, ticks))


def time_of_rows(condition: str | None, ticks: str) -> str:
    """Spark SQL of a row's time: null for prods, because they do not move the heartbeat."""
    return ticks if condition is None else f"CASE WHEN {condition} THEN NULL ELSE {ticks} END"


def prod_condition(stream: StreamNode) -> str | None:
    """The condition under which a row is a prod; None if no row can be one."""
    return next((sql for name, sql in stream.signals if name == PROD), None)


def data_rows(node: PlanNode) -> PlanNode:
    """The rows of a stream that are no prods."""
    stream = node.as_stream()
    prods = None if stream is None else prod_condition(stream)
    return node if prods is None else StepNode((node,), Where(f"NOT {prods}"), node.schema)
