"""Windows of a row of its own (S4 section 1): over (t - range, t], or over the last n rows, one result a row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl
import pyarrow as pa

from slackwater.aggregates.aggregate import AggregateFunction
from slackwater.aggregates.kept import Kept
from slackwater.aggregates.partial import PairedPartial
from slackwater.columns import TIME
from slackwater.errors import QueryError
from slackwater.progress.time import LONGEST_SPAN, Span, TimeDomain
from slackwater.windows.kernel import Group, Kernel
from slackwater.windows.results import (
    COMPLETENESS,
    EMITTED_AT,
    KIND,
    WINDOW_END,
    WINDOW_START,
    early_schema,
    in_schema,
    seen,
)
from slackwater.windows.spec import WindowSpec


@dataclass(frozen=True)
class RollingSpec:
    """`[RANGE 30 seconds]` or `[RANGE 100 tuples]` of S4: exactly one of the two is given."""

    range: int | None = None
    """Length of the window that ends with a row, in ticks."""
    rows: int | None = None
    """How many rows the window has, the row itself included."""
    slide: int = 1
    """A window of rows ends with every row whose place in its group is a multiple of this (S5 section 1.2)."""

    @staticmethod
    def of(domain: TimeDomain, range: Span | None, rows: int | None, slide: Span | None = None) -> RollingSpec:
        """Read and check what a user wrote.

        >>> RollingSpec.of(TimeDomain.TIMESTAMP, "30 seconds", None)
        RollingSpec(range=30000000, rows=None, slide=1)
        >>> RollingSpec.of(TimeDomain.SEQUENCE, None, 100, 10)
        RollingSpec(range=None, rows=100, slide=10)
        """
        if rows is not None:
            if range is not None:
                raise QueryError(
                    f"range={range!r} and rows={rows!r}: a window has one length; leave one of them out"
                )
            if isinstance(rows, bool) or not isinstance(rows, int) or not 0 < rows <= LONGEST_SPAN:
                raise QueryError(f"rows={rows!r}: write how many rows a window has, as in rows=100")
            if slide is None:
                return RollingSpec(rows=rows)
            if isinstance(slide, bool) or not isinstance(slide, int) or slide < 1:
                raise QueryError(
                    f"rows={rows!r} and slide={slide!r}: windows of rows slide by rows, as in "
                    "window(rows=100, slide_rows=10) or [RANGE 100 TUPLES, SLIDE 10 TUPLES]"
                )
            if rows == 1:
                raise QueryError("rows=1: a window of rows with a slide has two rows or more, as in rows=10")
            return RollingSpec(rows=rows, slide=slide)
        if range is None:
            raise QueryError("a window needs a length: write range='30 seconds' or rows=100")
        length = domain.span(range, "range")
        if length > LONGEST_SPAN:
            raise QueryError(f"range={range!r} is too long; the longest is {domain.show_span(LONGEST_SPAN)}")
        if length <= 0:
            raise QueryError(f"range={range!r} must be positive, as in range='30 minutes'")
        return RollingSpec(range=length)


def window_spec(
    domain: TimeDomain, range: Span | None, slide: Span | None, offset: Span | None, rows: int | None
) -> WindowSpec | RollingSpec:
    """The windows that a user wrote: with a slide those that all rows share, without it one for each row."""
    if slide is None or rows is not None:
        if offset is not None:
            raise QueryError(
                f"offset={offset!r}: windows without a slide end with a row, wherever that is; add a slide "
                f"of {range!r}, or leave offset out"
            )
        return RollingSpec.of(domain, range, rows, slide)
    if range is None:
        raise QueryError(
            f"slide={slide!r}: a window needs a size too, as in window('30 seconds', slide='10 seconds')"
        )
    return WindowSpec.of(domain, range, slide, offset)


@dataclass(frozen=True)
class RollingKernel(Kernel):
    """The columns of a row that windows need, and the names that carry them."""

    spec: RollingSpec
    groups: tuple[Group, ...]
    aggregates: tuple[AggregateFunction, ...]
    source: str | None = None
    """The group column that holds the stream's source, if one does: its groups go by their own heartbeats."""

    def __post_init__(self) -> None:
        for a in self.aggregates:
            if isinstance(a, Kept):
                raise QueryError(
                    f"{a.name}={a.text!r}: it needs all rows of a window, and each row has a window of its own; "
                    "give the window a slide, as in window('1 minute', slide='1 second')"
                )
            if not all(isinstance(p, PairedPartial) for p in a.partials()):
                raise QueryError(
                    f"{a.name}={a.text!r}: one sketch for each row would be too much; give the window a slide, "
                    "as in window('1 minute', slide='1 second')"
                )
            if pa.types.is_nested(a.type):
                raise QueryError(
                    f"{a.name}={a.text!r}: a window for each row has plain values only, this is {a.type}; "
                    "take a field of it, or give the window a slide"
                )

    @cached_property
    def running(self) -> dict[PairedPartial, tuple[str, ...]]:
        """Every distinct partial with the names of its columns: all can be merged with another one."""
        return {p: names for p, names in self.columns.items() if isinstance(p, PairedPartial)}

    @cached_property
    def arguments(self) -> dict[str, str]:
        """The Spark SQL that partials need of a row, and the column that carries each."""
        wanted = dict.fromkeys(p.row_sql for p in self.columns if p.argument != "*")
        return {argument: f"__a{i}" for i, argument in enumerate(wanted)}

    def row_sql(self) -> dict[str, str]:
        """Spark SQL of what a row brings along, by column."""
        return {
            TIME: TIME,
            **{g.name: g.sql for g in self.groups},
            **{name: argument for argument, name in self.arguments.items()},
        }


def rolling_rows(
    kernel: RollingKernel, rows: pl.DataFrame, merged: pl.DataFrame, schema: pa.Schema, emitted_at: int
) -> pa.Table:
    """Final results: the groups and times of the rows beside the merged partials of their windows."""
    time = pl.col(TIME)
    start = time - kernel.spec.range if kernel.spec.range is not None else pl.col(WINDOW_START)
    both = pl.concat([rows.select(*kernel.keys, TIME), kernel.values(merged)], how="horizontal")
    results = both.select(
        *kernel.keys,
        *(a.name for a in kernel.aggregates),
        start.alias(WINDOW_START),
        time.alias(WINDOW_END),
        pl.lit("final").alias(KIND),
        pl.lit(emitted_at, pl.Int64).alias(EMITTED_AT),
        pl.lit(1.0).alias(COMPLETENESS),
    )
    return in_schema(results, schema)


def early_rolling_rows(kernel: RollingKernel, results: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same results as early ones: what has arrived, without an estimate."""
    rows, values = results.num_rows, {seen(a.name): results[a.name] for a in kernel.aggregates}
    values[KIND] = pa.repeat("early", rows)
    values[COMPLETENESS] = pa.nulls(rows, pa.float64())
    wide, there = early_schema(schema, kernel), set(results.schema.names)
    columns = [values.get(f.name, results[f.name] if f.name in there else pa.nulls(rows, f.type)) for f in wide]
    return pa.Table.from_arrays(columns, schema=wide)
