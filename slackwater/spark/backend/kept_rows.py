"""Spark computes, at the close of a window, what needs the kept rows of each group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.aggregates.kept import Kept
from slackwater.columns import ROW_ORDER, ROWS, WINDOW
from slackwater.windows.kernel import PaneKernel


def values(rows: DataFrame, kernel: PaneKernel, by: Sequence[str], aggregates: Sequence[Kept]) -> DataFrame:
    """Some aggregates over kept rows, by group."""
    apart: dict[object, list[Kept]] = {}
    for a in aggregates:
        # Spark fails where distinct values in an order stand beside other distinct ones.
        alone = not a.repeats and "WITHIN GROUP" in a.template
        apart.setdefault(a if alone else a.repeats, []).append(a)
    return _beside([_values(rows, kernel, by, some) for some in apart.values()], by)


def closed(merged: DataFrame, kernel: PaneKernel) -> DataFrame:
    """Partials by window and group from those by kept row, with the aggregates that are computed at the close."""
    if not kernel.closed:
        return merged
    by = [WINDOW, *kernel.keys]
    partials = merged.groupBy(*map(_quoted, by)).agg(*(F.expr(e).alias(n) for n, e in kernel.merge_sql().items()))
    return _beside([partials, values(merged, kernel, by, list(kernel.closed))], by)


def _values(rows: DataFrame, kernel: PaneKernel, by: Sequence[str], aggregates: Sequence[Kept]) -> DataFrame:
    if aggregates[0].repeats:
        rows = rows.withColumn(ROW_ORDER, F.explode(F.expr(f"sequence(1L, {ROWS})")))
    made = (F.expr(a.close_sql(kernel.kept_of(a))).alias(kernel.closed[a]) for a in aggregates)
    return rows.groupBy(*map(_quoted, by)).agg(*made)


def _beside(frames: Sequence[DataFrame], by: Sequence[str]) -> DataFrame:
    """Columns of the same groups."""
    first, *others = frames
    for other in others:
        same = reduce(and_, (first[f"`{k}`"].eqNullSafe(other[f"`{k}`"]) for k in by))
        first = first.join(other, same).drop(*(other[f"`{k}`"] for k in by))
    return first


def _quoted(name: str) -> Column:
    return F.col(f"`{name}`")
