"""Which columns of a stream, and of a join's rows, queries need: the others are not read, and not kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa
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
    for node, wanted in _look(plan, None, late_rows):
        if isinstance(node, StreamNode):
            found.setdefault(node.name, set()).update(_columns(node, wanted))
    return found


def columns_of_joins(plan: PlanNode) -> dict[int, set[str]]:
    """Names of the columns that are wanted of each join of a plan, by the join's identity."""
    found: dict[int, set[str]] = {}
    for node, wanted in _look(plan, None, False):
        if isinstance(node, JoinNode):
            found.setdefault(id(node), set()).update(_used(node.schema.names, wanted))
    return found


def narrowed(join: JoinNode, names: Iterable[str]) -> JoinNode:
    """A join that gives only these of its columns, and keeps only what it takes to make them."""
    columns = tuple((name, sql) for name, sql in join.columns if name in set(names))
    asked = [*(sql for _, sql in columns), *([join.condition] if join.condition else [])]
    left, right = (_only(kept, _used(kept.names, asked)) for kept in join.kept)
    schema = _only(join.schema, [name for name, _ in columns])
    return replace(join, columns=columns, schema=schema, kept=(left, right))


def _only(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in schema.names if name in set(names)])


def _look(node: PlanNode, wanted: list[str] | None, late_rows: bool) -> Iterator[tuple[PlanNode, list[str] | None]]:
    """Each node of a plan with the expressions that are wanted of its rows; None for all columns."""
    yield node, wanted
    if isinstance(node, (WindowNode, RollingNode)):
        wanted = [g.sql for g in node.kernel.groups] + [a.argument for a in node.kernel.aggregates]
        if late_rows and not over_results(node):
            wanted = None
    elif isinstance(node, WhereNode):
        wanted = None if wanted is None else [*wanted, node.condition]
    elif isinstance(node, (JoinNode, StoredNode)):
        given = _used(node.schema.names, wanted if isinstance(node, JoinNode) else None)
        wanted = [sql for name, sql in node.columns if name in given]
        wanted += [node.condition] if node.condition else []
    elif isinstance(node, SelectNode):
        wanted = [sql for _, sql in node.columns]
    elif isinstance(node, MapNode):
        wanted = None  # what a function reads, nobody knows
    for below in node.inputs:
        yield from _look(below, wanted, late_rows)


def _columns(stream: StreamNode, wanted: list[str] | None) -> set[str]:
    hidden = [sql for sql in (stream.time, stream.source, stream.punctuation) if sql is not None]
    return _used([name for name, _ in stream.columns], None if wanted is None else [*wanted, *hidden])


def _used(names: list[str], wanted: list[str] | None) -> set[str]:
    """The columns that some expressions speak of, at least one."""
    used = {"*"} if wanted is None else {word.lower() for sql in wanted for word in _identifiers(sql)}
    if "*" in used:
        return set(names)
    return {name for name in names if name.lower() in used} or {names[0]}


@lru_cache(maxsize=1_024)
def _identifiers(sql: str) -> frozenset[str]:
    """Every name in an expression that could be a column; a star where the text cannot be read."""
    if sql == "*":
        return frozenset()
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return frozenset("*")
    names = {identifier.name for identifier in tree.find_all(exp.Identifier)}
    return frozenset(names | {"*"} if tree.find(exp.Subquery, exp.Star) is not None else names)
