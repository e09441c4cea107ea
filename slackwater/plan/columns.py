"""Which columns of a stream its queries need: the others are not read."""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from slackwater.plan.nodes import MapNode, QueryNode, RowNode, SelectNode, StreamNode, WhereNode, inner_query


def needed_columns(plan: QueryNode, late_rows: bool) -> set[str]:
    """Names of the stream's columns that a plan reads; all of them if whole rows may go to a late sink.

    Too many is safe, too few is not: every identifier of an expression counts, whatever it stands for.
    """
    inner = inner_query(plan)
    if inner is not None:
        return needed_columns(inner, late_rows)
    wanted = [g.sql for g in plan.kernel.groups] + [a.argument for a in plan.kernel.aggregates]
    node: RowNode = plan.input
    whole_rows = late_rows
    while not isinstance(node, StreamNode):
        if isinstance(node, WhereNode):
            wanted.append(node.condition)
        elif isinstance(node, MapNode):
            wanted, whole_rows = [], True  # what a function reads, nobody knows
        else:
            assert isinstance(node, SelectNode)
            wanted = [sql for _, sql in node.columns]
            whole_rows = False
        node = node.input
    names = [name for name, _ in node.columns]
    if whole_rows:
        return set(names)
    hidden = [sql for sql in (node.time, node.source, node.punctuation) if sql is not None]
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
