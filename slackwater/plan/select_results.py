"""Projections of results. Columns of every result stay; early results keep intervals and values seen so far."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.aggregates.user_text import replace_columns
from slackwater.errors import QueryError
from slackwater.plan.node import PlanNode
from slackwater.plan.nodes import StepNode
from slackwater.plan.relation import Relation
from slackwater.plan.steps import Select
from slackwater.windows.results import RESULT_COLUMNS, high, low, seen

Pairs = tuple[tuple[str, str], ...]


def results_select(
    node: PlanNode, relation: Relation, columns: Pairs, what: str = "select", kind: type[Select] = Select
) -> tuple[StepNode, Relation]:
    """A projection of results by this kind of step, and the rows that it gives."""
    pairs = tuple((name, sql) for name, sql in columns if not _is_column(name, sql))
    for name, _ in pairs:
        if name.lower() in RESULT_COLUMNS:
            raise QueryError(f"{what}: {name!r} is a column of every result; choose another name")
    carried = tuple((name, f"`{name}`") for name in RESULT_COLUMNS)
    selected = relation.select([*pairs, *carried], what)
    fields = [pa.field(name, selected.type_of(f"`{name}`", name)) for name, _ in pairs]
    fields += [node.schema.field(name) for name in RESULT_COLUMNS]
    early, early_schema = None, None
    if node.early_schema is not None:
        extra = [entry for pair in pairs for entry in _early_columns(*pair, node.early_schema, selected)]
        names = {name.lower() for name, _ in pairs}
        for name, _, _ in extra:
            if name.lower() in names:
                raise QueryError(f"{what}: {name!r} is a column of early results; choose another name")
        early = (*pairs, *carried, *((name, sql) for name, sql, _ in extra))
        early_schema = pa.schema([*fields, *(pa.field(name, kind) for name, _, kind in extra)])
    step = kind((*pairs, *carried), early)
    return StepNode((node,), step, pa.schema(fields), early_schema), selected


def _is_column(name: str, sql: str) -> bool:
    """Whether it names a column that every result has anyway."""
    return name.lower() in RESULT_COLUMNS and sql.strip().strip("`").lower() == name.lower()


def _early_columns(
    name: str, sql: str, early: pa.Schema, selected: Relation
) -> Sequence[tuple[str, str, pa.DataType]]:
    """The columns that early results have in addition to one: the value seen so far (S5's), and an interval."""
    plain = _estimated(early).get(sql.strip().strip("`").lower())
    if plain is not None:
        of_value = [(seen(name), seen(plain), early.field(seen(plain)).type)]
        of_ends = [(end(name), end(plain), pa.float64()) for end in (low, high)]
        return [(c, f"`{column}`", kind) for c, column, kind in of_value + of_ends]
    by_seen = _of_seen(sql, early)
    if by_seen is None:
        return ()
    value = (seen(name), by_seen, selected.type_of(f"`{name}`", name))
    return [value, *((end(name), "CAST(NULL AS DOUBLE)", pa.float64()) for end in (low, high))]


def _of_seen(sql: str, early: pa.Schema) -> str | None:
    """The expression over the values seen so far instead of estimates; None if it names no aggregate."""
    by_seen = replace_columns(sql, {name: f"`{seen(plain)}`" for name, plain in _estimated(early).items()})
    return by_seen if by_seen != sql else None


def _estimated(early: pa.Schema) -> dict[str, str]:
    """The columns for which early results have an interval, by their names in small letters."""
    return {name.lower(): name for name in early.names if {seen(name), low(name)} <= set(early.names)}
