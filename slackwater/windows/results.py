"""Result rows: what a window says to a person, early or final, with the columns that DESIGN's users see."""

from __future__ import annotations

from typing import Literal

import polars as pl
import pyarrow as pa

from slackwater.progress.time import TimeDomain
from slackwater.windows.kernel import WINDOW, Kernel, PaneKernel

WINDOW_START = "window_start"
WINDOW_END = "window_end"
KIND = "kind"
EMITTED_AT = "emitted_at"
COMPLETENESS = "completeness"
RESULT_COLUMNS = (WINDOW_START, WINDOW_END, KIND, EMITTED_AT, COMPLETENESS)

Kind = Literal["early", "final"]
_INSTANT = pa.timestamp("us", tz="UTC")


def result_schema(kernel: Kernel, domain: TimeDomain, group_types: list[pa.DataType]) -> pa.Schema:
    """Arrow schema of the results: groups, aggregates, then the columns of every result."""
    time = _INSTANT if domain is TimeDomain.TIMESTAMP else pa.int64()
    fields = [pa.field(g.name, t) for g, t in zip(kernel.groups, group_types, strict=True)]
    fields += [pa.field(a.name, a.type) for a in kernel.aggregates]
    fields += [pa.field(WINDOW_START, time), pa.field(WINDOW_END, time), pa.field(KIND, pa.string())]
    fields += [pa.field(EMITTED_AT, _INSTANT), pa.field(COMPLETENESS, pa.float64())]
    return pa.schema(fields)


def result_rows(kernel: PaneKernel, merged: pl.DataFrame, schema: pa.Schema, emitted_at: int) -> pa.Table:
    """Final results of merged windows, ordered by window and group."""
    start = pl.col(WINDOW) * kernel.spec.slide + kernel.spec.offset
    rows = kernel.values(merged.sort([WINDOW, *_sortable(merged, kernel.keys)])).select(
        *kernel.keys,
        *(a.name for a in kernel.aggregates),
        start.alias(WINDOW_START),
        (start + kernel.spec.range).alias(WINDOW_END),
        pl.lit("final").alias(KIND),
        pl.lit(emitted_at, pl.Int64).alias(EMITTED_AT),
        pl.lit(1.0).alias(COMPLETENESS),
    )
    return rows.to_arrow().cast(schema)


def result_sql(kernel: PaneKernel, domain: TimeDomain) -> dict[str, str]:
    """The same results as Spark SQL over merged partials and a window number; `emitted_at` comes from a column."""
    start = f"({WINDOW} * {kernel.spec.slide}L + {kernel.spec.offset}L)"
    end = f"({start} + {kernel.spec.range}L)"
    stamp = "timestamp_micros({})" if domain is TimeDomain.TIMESTAMP else "{}"
    return {
        **{g: f"`{g}`" for g in kernel.keys},
        **kernel.value_sql(),
        WINDOW_START: stamp.format(start),
        WINDOW_END: stamp.format(end),
        KIND: "'final'",
        EMITTED_AT: f"timestamp_micros({EMITTED_AT})",
        COMPLETENESS: "1.0D",
    }


def _sortable(merged: pl.DataFrame, keys: list[str]) -> list[str]:
    return [k for k in keys if not merged.schema[k].is_nested()]
