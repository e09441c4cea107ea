"""Result rows: what a window says to a person, early or final, with the columns that DESIGN's users see."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.columns import WINDOW
from slackwater.progress.time import TimeDomain
from slackwater.windows.kernel import Kernel, PaneKernel

WINDOW_START = "window_start"
WINDOW_END = "window_end"
KIND = "kind"
EMITTED_AT = "emitted_at"
COMPLETENESS = "completeness"
RESULT_COLUMNS = (WINDOW_START, WINDOW_END, KIND, EMITTED_AT, COMPLETENESS)
COMMIT = "commit"
REPLACES = "replaces"
#: Columns that results have too where late rows correct them: the commit that a row came with, and the commit of
#: the row that it replaces.
CORRECTION_COLUMNS = (COMMIT, REPLACES)
#: A late row has changed the answer.
CORRECTED: Literal["corrected"] = "corrected"
#: A late row has changed the answer, and it does not meet HAVING any more. The row has the values from before.
WITHDRAWN: Literal["withdrawn"] = "withdrawn"

Kind = Literal["early", "final", "corrected", "withdrawn"]
_INSTANT = pa.timestamp("us", tz="UTC")


def result_schema(kernel: Kernel, domain: TimeDomain, group_types: list[pa.DataType]) -> pa.Schema:
    """Arrow schema of the results: groups, aggregates, then the columns of every result."""
    time = time_type(domain)
    fields = [pa.field(g.name, t) for g, t in zip(kernel.groups, group_types, strict=True)]
    fields += [pa.field(a.name, a.type) for a in kernel.aggregates]
    fields += [pa.field(WINDOW_START, time), pa.field(WINDOW_END, time), pa.field(KIND, pa.string())]
    fields += [pa.field(EMITTED_AT, _INSTANT), pa.field(COMPLETENESS, pa.float64())]
    return pa.schema(fields)


def time_type(domain: TimeDomain) -> pa.DataType:
    """The type of the bounds of windows."""
    if domain.scale is not None:
        return pa.decimal128(19, domain.scale)  # room for every tick: no window's end can be too large
    return _INSTANT if domain is TimeDomain.TIMESTAMP else pa.int64()


def in_schema(rows: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    """Result rows, with times in ticks, as the table that a user sees."""
    table = rows.to_arrow()
    for name in (WINDOW_START, WINDOW_END):
        if pa.types.is_decimal(schema.field(name).type):
            column = _ticks_as_decimals(rows[name], schema.field(name).type)
            table = table.set_column(table.schema.get_field_index(name), name, column)
    return table.cast(schema)


def _ticks_as_decimals(ticks: pl.Series, kind: pa.DataType) -> pa.Array:
    # A decimal is its ticks as a 128-bit whole number, the lower half first.
    halves = np.empty((len(ticks), 2), dtype="<i8")
    halves[:, 0] = ticks.fill_null(0).to_numpy()
    halves[:, 1] = halves[:, 0] >> 63
    made = pa.Array.from_buffers(kind, len(ticks), [None, pa.py_buffer(halves.tobytes())])
    return made if ticks.null_count() == 0 else pc.if_else(ticks.is_not_null().to_arrow(), made, None)


def ordered_values(kernel: PaneKernel, merged: pl.DataFrame) -> pl.DataFrame:
    """Values of merged windows, ordered by window and group."""
    return kernel.values(merged.sort([WINDOW, *_sortable(merged, kernel.keys)]))


def result_rows(
    kernel: PaneKernel,
    values: pl.DataFrame,
    schema: pa.Schema,
    emitted_at: int,
    commit: int | None = None,
    kind: Kind = "final",
) -> pa.Table:
    """Results of windows with these values, of the commit with this number."""
    return bounded_rows(values, *_bounds(kernel, values), schema, emitted_at, kind, commit)


def early_rows(
    kernel: PaneKernel, estimated: pl.DataFrame, schema: pa.Schema, emitted_at: int, commit: int | None = None
) -> pa.Table:
    """Early results of windows with these values, estimates and intervals."""
    wide = early_schema(schema, kernel)
    return bounded_rows(estimated, *_bounds(kernel, estimated), wide, emitted_at, "early", commit)


def _bounds(kernel: PaneKernel, values: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
    spec, window = kernel.spec, values[WINDOW].cast(pl.Int64)
    start = spec.first_pane(window) * spec.pane + spec.offset
    return start, window * spec.slide + (spec.offset + spec.first_end)


def bounded_rows(
    values: pl.DataFrame,
    start: pl.Series,
    end: pl.Series,
    schema: pa.Schema,
    emitted_at: int,
    kind: Kind,
    commit: int | None = None,
) -> pa.Table:
    """Results of windows with these values and bounds; with a commit where late rows correct them."""
    # Columns, not queries of polars: those would take longer than all else that is done to a few rows.
    made = [
        start.alias(WINDOW_START),
        end.alias(WINDOW_END),
        _constant(KIND, kind, pl.String, values.height),
        _constant(EMITTED_AT, emitted_at, pl.Int64, values.height),
    ]
    if kind != "early":
        made.append(_constant(COMPLETENESS, 1.0, pl.Float64, values.height))
    if commit is not None:
        made.append(_constant(COMMIT, commit, pl.Int64, values.height))
        if REPLACES not in values.columns:
            made.append(_constant(REPLACES, None, pl.Int64, values.height))
    columns = {column.name: column for column in (*values.get_columns(), *made)}
    return in_schema(pl.DataFrame([columns[name] for name in schema.names]), schema)


def _constant(name: str, value: object, kind: type[pl.DataType], rows: int) -> pl.Series:
    return pl.Series(name, [value], kind).new_from_index(0, rows)


def with_numbers(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The same with more columns of whole numbers."""
    return pa.schema([*schema, *(pa.field(name, pa.int64()) for name in names)])


def row_columns(kernel: Kernel) -> list[str]:
    """The columns of a result that a query over results can speak of."""
    return [*kernel.keys, *(a.name for a in kernel.aggregates), WINDOW_START, WINDOW_END]


def early_schema(schema: pa.Schema, kernel: Kernel) -> pa.Schema:
    """The columns of final results, and behind them what early ones have beside."""
    for a in kernel.aggregates:
        schema = schema.append(pa.field(seen(a.name), a.type))
        schema = schema.append(pa.field(low(a.name), pa.float64())).append(pa.field(high(a.name), pa.float64()))
    return schema


def seen(name: str) -> str:
    """Column of S5's value: that of what has arrived."""
    return f"{name}_seen"


def low(name: str) -> str:
    """Column of the lower end of an interval."""
    return f"{name}_low"


def high(name: str) -> str:
    """Column of the upper end of an interval."""
    return f"{name}_high"


def bound_sql(domain: TimeDomain) -> str:
    """The bound of a window as results show it, in Spark SQL of a tick `{}`."""
    if domain.scale is not None:
        return f"CAST({{}} AS DECIMAL(19, 0)) * {Decimal(1).scaleb(-domain.scale):f}BD"
    return "timestamp_micros({})" if domain is TimeDomain.TIMESTAMP else "{}"


def result_sql(kernel: PaneKernel, domain: TimeDomain) -> dict[str, str]:
    """The same results as Spark SQL over merged partials and a window number; `emitted_at` comes from a column."""
    start, end = kernel.spec.bounds_sql(WINDOW)
    stamp = bound_sql(domain)
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
