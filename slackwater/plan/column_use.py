"""The columns of streams and of joins that a query needs. Others are neither read nor kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from slackwater.plan.identifiers import Wanted, only_used, used_columns
from slackwater.plan.join_node import JoinNode
from slackwater.plan.node import PlanNode


def needed_columns(plan: PlanNode, late_rows: bool) -> dict[str, set[str]]:
    """Names of the columns that a plan reads, by stream: all of them if rows may go to a late sink."""
    names: dict[str, set[str]] = {}
    for node, wanted in _look(plan, None, late_rows):
        stream = node.as_stream()
        if stream is not None:
            names.setdefault(stream.name, set()).update(stream.used_columns(wanted))
    return names


def columns_of_joins(plan: PlanNode) -> dict[int, set[str]]:
    """Names of the columns that a plan needs of each join, by the join's identity."""
    names: dict[int, set[str]] = {}
    for node, wanted in _look(plan, None, False):
        if node.pairs_rows:
            names.setdefault(id(node), set()).update(used_columns(node.schema.names, wanted))
    return names


def narrowed(join: JoinNode, names: Iterable[str]) -> JoinNode:
    """A join that gives only these of its columns, and keeps only what it needs to make them."""
    columns = tuple((name, sql) for name, sql in join.columns if name in set(names))
    expressions = only_used(columns, join.condition, {name for name, _ in columns})
    left, right = (_only(kept, used_columns(kept.names, expressions)) for kept in join.kept)
    schema = _only(join.schema, [name for name, _ in columns])
    return replace(join, columns=columns, schema=schema, kept=(left, right))


def _only(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in schema.names if name in set(names)])


def _look(node: PlanNode, wanted: Wanted, late_rows: bool) -> Iterator[tuple[PlanNode, Wanted]]:
    """Each node of a plan with the expressions that the nodes after it read; None for all columns."""
    yield node, wanted
    below = node.wants(wanted, late_rows)
    for input in node.inputs:
        yield from _look(input, below, late_rows)
