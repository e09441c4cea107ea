"""The union of rows: the same columns by name, of types that go together, and the same kind of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from slackwater.errors import QueryError
from slackwater.plan.node import PlanNode, check_domains, streams_of
from slackwater.plan.nodes import StampNode, StepNode
from slackwater.plan.relation import Relation, schema_of
from slackwater.plan.select_results import Pairs, results_select
from slackwater.plan.sql_type import sql_type
from slackwater.plan.steps import Select
from slackwater.plan.time_domains import check_latent
from slackwater.plan.union_node import OrderNode, UnionNode
from slackwater.windows.results import RESULT_COLUMNS


@dataclass(frozen=True)
class AnalysedPlan:
    """A plan, and its rows as a relation on which expressions can be tried."""

    node: PlanNode
    relation: Relation

    def projected(self, columns: Pairs, what: str, kind: type[Select] = Select) -> AnalysedPlan:
        """The rows with these columns, by name and Spark SQL, by this kind of step."""
        relation = self.relation.select(columns, what)
        schema = schema_of(relation, [name for name, _ in columns])
        return AnalysedPlan(StepNode((self.node,), kind(columns), schema), relation)


def united(parts: Sequence[AnalysedPlan]) -> AnalysedPlan:
    """The rows of all parts with the columns of the first part, matched by name."""
    if len(parts) < 2:
        raise QueryError("union() needs another stream, as in flights.union(trains)")
    nodes = [part.node for part in parts]
    if len({node.over_results or bool(node.answers()) for node in nodes}) > 1:
        raise QueryError(
            "union() of rows and of results of windows: a result is not there before its window closes; "
            "give all sides a window, or none"
        )
    check_domains(nodes, "union()")
    check_latent(nodes, "union()")
    names = parts[0].relation.names
    own = [_own_names(parts[0], part) for part in parts]
    aligned = [
        part.relation if part.relation.names == names else part.relation.select(_renamed(names, own_names), "union")
        for part, own_names in zip(parts, own, strict=True)
    ]
    relation, casts = aligned[0].united(aligned[1:])
    inputs = [
        _brought(part, names, own_names, types, relation)
        for part, own_names, types in zip(parts, own, casts, strict=True)
    ]
    same = parts[0].node.schema if inputs[0] is parts[0].node else inputs[0].schema
    return AnalysedPlan(UnionNode(_with_same_early_rows(inputs), same), relation)


def _with_same_early_rows(inputs: Sequence[PlanNode]) -> tuple[PlanNode, ...]:
    """Inputs whose early rows have the same columns: what one has of a value, the others have as null."""
    schemas = [node.early_schema for node in inputs]
    wide = {field.name: field for schema in schemas for field in schema or ()}
    if all(schema is None or schema.names == list(wide) for schema in schemas):
        return tuple(inputs)
    return tuple(_with_early_columns(node, pa.schema(wide.values())) for node in inputs)


def _with_early_columns(node: PlanNode, wide: pa.Schema) -> PlanNode:
    there = set() if node.early_schema is None else set(node.early_schema.names)
    early = tuple((f.name, f"`{f.name}`" if f.name in there else f"CAST(NULL AS {sql_type(f.type)})") for f in wide)
    final = tuple((name, f"`{name}`") for name in node.schema.names)
    return StepNode((node,), Select(final, early), node.schema, wide)


def in_order(rows: AnalysedPlan) -> AnalysedPlan:
    """The same rows in the order of time."""
    if rows.node.over_results or rows.node.answers():
        raise QueryError(
            "union(ordered=True) of results of windows: only rows of streams are put in order on the way; write "
            "start(ordered=True) to have the results in the order of time"
        )
    node = StampNode((rows.node,)) if rows.node.latent else rows.node
    return AnalysedPlan(OrderNode((node,)), rows.relation)


def _named(node: PlanNode) -> str:
    """The streams that a side reads."""
    return ", ".join(stream.declared for stream in streams_of(node))


def _own_names(first: AnalysedPlan, part: AnalysedPlan) -> list[str]:
    """The names of a part's columns in the order of the first one's; Spark does not look at their case."""
    own, others = ({n.lower(): n for n in p.relation.names} for p in (part, first))
    for lacks, has, by in ((part, first, others.keys() - own.keys()), (first, part, own.keys() - others.keys())):
        if by:
            missing = min(by)
            raise QueryError(
                f"union(): {_named(has.node)} has a column {missing!r} and {_named(lacks.node)} has none; give all "
                "sides the same columns with select(…)"
            )
    return [own[name] for name in others]


def _renamed(names: Sequence[str], own: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, f"`{own_name}`") for name, own_name in zip(names, own, strict=True)]


def _brought(
    part: AnalysedPlan, names: list[str], own: list[str], types: dict[str, str], relation: Relation
) -> PlanNode:
    """A part with the columns of the union."""
    if part.relation.names == names and not types:
        return part.node
    pairs = tuple(
        (name, f"CAST({sql} AS {types[name]})" if name in types else sql) for name, sql in _renamed(names, own)
    )
    if part.node.answers():
        results = tuple(pair for pair in pairs if pair[0] not in RESULT_COLUMNS)
        return results_select(part.node, part.relation, results, "union")[0]
    return StepNode((part.node,), Select(pairs), schema_of(relation, names))
