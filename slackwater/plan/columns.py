"""Which columns of a stream its queries need: the others are not read."""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from slackwater.plan.nodes import (
    JoinNode,
    MapNode,
    PlanNode,
    RollingNode,
    SelectNode,
    StoredNode,
    StreamNode,
    WhereNode,
    WindowNode,
    over_results,
)


def needed_columns(plan: PlanNode, late_rows: bool) -> dict[str, set[str]]:
    """Names of the columns that a plan reads, by stream; all of a row that may go to a late sink.

    Too many is safe, too few is not: every identifier of an expression counts, whatever it stands for.
    """
    found: dict[str, set[str]] = {}
    _look(plan, None, late_rows, found)
    return found


def _look(node: PlanNode, wanted: list[str] | None, late_rows: bool, found: dict[str, set[str]]) -> None:
    """Of a node's rows these expressions are wanted, or all columns."""
    if isinstance(node, StreamNode):
        found.setdefault(node.name, set()).update(_columns(node, wanted))
        return
    if isinstance(node, (WindowNode, RollingNode)):
        wanted = [g.sql for g in node.kernel.groups] + [a.argument for a in node.kernel.aggregates]
        if late_rows and not over_results(node):
            wanted = None
    elif isinstance(node, WhereNode):
        wanted = None if wanted is None else [*wanted, node.condition]
    elif isinstance(node, (JoinNode, StoredNode)):
        wanted = [*(sql for _, sql in node.columns), *([node.condition] if node.condition else [])]
    elif isinstance(node, SelectNode):
        wanted = [sql for _, sql in node.columns]
    elif isinstance(node, MapNode):
        wanted = None  # what a function reads, nobody knows
    for below in node.inputs:
        _look(below, wanted, late_rows, found)


def _columns(stream: StreamNode, wanted: list[str] | None) -> set[str]:
    names = [name for name, _ in stream.columns]
    if wanted is None:
        return set(names)
    hidden = [sql for sql in (stream.time, stream.source, stream.punctuation) if sql is not None]
    used = {word.lower() for sql in [*wanted, *hidden] for word in _identifiers(sql)}
    if "*" in used:
        return set(names)
    return {name for name in names if name.lower() in used} or {names[0]}


def _identifiers(sql: str) -> Iterator[str]:
    """Every name in an expression that could be a column; a star where the text cannot be read."""
    if sql == "*":
        return
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except sqlglot.errors.SqlglotError:
        yield "*"
        return
    for identifier in tree.find_all(exp.Identifier):
        yield identifier.name
    if tree.find(exp.Subquery) is not None:
        yield "*"
