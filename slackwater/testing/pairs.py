"""Pairs of rows by trying every one of them, for pages in this process."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from slackwater.columns import TIME, UNTIL
from slackwater.plan.steps import JoinTable
from slackwater.testing.expression import expression

#: The place of a row.
ID = "__id"


def of_side(side: int, column: str) -> str:
    """A hidden column of one side."""
    return f"{column}_{side}"


def later() -> list[pl.Expr]:
    """The time of a pair, and until when it is alive."""
    times, ends = ([of_side(side, column) for side in (0, 1)] for column in (TIME, UNTIL))
    return [pl.max_horizontal(times).alias(TIME), pl.min_horizontal(ends).alias(UNTIL)]


def own(side: int) -> list[pl.Expr]:
    """Those of one row."""
    return [pl.col(of_side(side, column)).alias(column) for column in (TIME, UNTIL)]


def with_added(before: pl.DataFrame | None, added: pl.DataFrame) -> pl.DataFrame:
    """All rows of a side; an earlier process may have kept more columns, for a query that is gone."""
    if before is None:
        return added
    return pl.concat([before if before.columns == added.columns else before.select(added.columns), added])


def missing(rows: pl.DataFrame, schema: pa.Schema) -> pl.DataFrame:
    """Rows with nulls for the columns of the side that is missing."""
    kinds = pl.DataFrame(schema.empty_table()).schema
    return rows.with_columns(pl.lit(None, kind).alias(name) for name, kind in kinds.items())


def meeting(pairs: pl.DataFrame, condition: str | None) -> pl.DataFrame:
    """The pairs that meet a condition."""
    return pairs if condition is None else pairs.filter(expression(condition))


def in_schema(rows: pl.DataFrame, schema: pa.Schema) -> pl.DataFrame:
    """Columns in the types that analysis has said; nulls of a missing side may have none."""
    types = pl.DataFrame(schema.empty_table()).schema
    return rows.with_columns(pl.col(name).cast(kind) for name, kind in types.items())


def with_stored(rows: pl.DataFrame, table: pl.DataFrame, node: JoinTable) -> pl.DataFrame:
    """Rows together with those of a stored relation, their hidden columns kept."""
    hidden = [c for c in rows.columns if c.startswith("__")]
    rows = rows.with_row_index(ID)
    stored = table.select(expression(sql).alias(name) for name, sql in node.stored)
    pairs = meeting(rows.join(stored, how="cross"), node.condition)
    found, lone = pl.col(ID).is_in(pairs[ID].implode()), rows.clear()
    if node.how in ("left", "anti"):
        lone = rows.filter(~found)
    matched = rows.filter(found) if node.how == "semi" else pairs
    nulls = [pl.lit(None, kind).alias(name) for name, kind in stored.schema.items()]
    made = [expression(sql).alias(name) for name, sql in node.columns]
    parts = [lone.with_columns(nulls).select(*made, *hidden)]
    if node.how != "anti":
        parts.append((matched.with_columns(nulls) if node.how == "semi" else matched).select(*made, *hidden))
    return pl.concat(parts, how="vertical_relaxed")
