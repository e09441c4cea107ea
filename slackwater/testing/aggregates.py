"""Partials of in-process pages, in polars; on Spark, Spark SQL makes them.

A partial of one row is known (`lift`), and so is the merge of many. Only sketches need more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import datasketches as ds
import polars as pl

from slackwater.aggregates.distinct import HLL_LG_K, Distinct
from slackwater.aggregates.partial import PairedPartial, Partial
from slackwater.aggregates.percentile import KLL_K, Quantiles
from slackwater.aggregates.user import UserState
from slackwater.columns import ROWS, TIME
from slackwater.testing.expression import expression
from slackwater.testing.kept_aggregates import of_list


def partials_of(
    rows: pl.DataFrame, keys: Sequence[pl.Expr], columns: Mapping[Partial, Sequence[str]]
) -> pl.DataFrame:
    """The partials of each group of rows, in the given columns, and its number of rows."""
    arguments = {f"__argument_{n}": partial for n, partial in enumerate(columns)}
    frame = rows.select(*keys, TIME, *(_argument(partial).alias(name) for name, partial in arguments.items()))
    lifted, made = list[pl.Expr](), [pl.len().cast(pl.Int64).alias(ROWS)]
    for name, partial in arguments.items():
        fields, argument = columns[partial], pl.col(name)
        if isinstance(partial, PairedPartial):
            lifted += _named(fields, partial.lift(argument, frame.schema[name]))
            made += _named(fields, partial.merge(*fields))
        elif isinstance(partial, UserState):
            made += _named(fields, (_state(partial, argument),))
        else:
            made += _named(fields, (_over_values(argument, _SKETCHES[type(partial)]),))
    return frame.with_columns(lifted).group_by([key.meta.output_name() for key in keys]).agg(made)


def _argument(partial: Partial) -> pl.Expr:
    return pl.lit(1) if partial.argument == "*" else expression(partial.row_sql)


def _named(names: Sequence[str], expressions: Sequence[pl.Expr]) -> list[pl.Expr]:
    return [expression.alias(name) for name, expression in zip(names, expressions, strict=True)]


def _state(partial: UserState, rows: pl.Expr) -> pl.Expr:
    """The state of the rows that the filter lets pass."""
    assert partial.kind is not None
    fold, _ = partial.kind.calls["fold"]

    def state(s: pl.Series) -> pl.Series:
        return of_list(fold, s.struct.unnest().filter("where").drop("where").to_struct())

    return rows.map_batches(state, returns_scalar=True, return_dtype=pl.String)


def _over_values(x: pl.Expr, sketch: Callable[[Iterable[object]], bytes]) -> pl.Expr:
    """One sketch of all values of a group."""
    return x.map_batches(lambda s: pl.Series([sketch(s)]), returns_scalar=True, return_dtype=pl.Binary)


def hll_of(values: Iterable[object]) -> bytes:
    """A HyperLogLog sketch of some values."""
    sketch = ds.hll_sketch(HLL_LG_K)
    for value in values:
        if value is not None:
            sketch.update(value)
    return bytes(sketch.serialize_updatable())


def kll_of(values: Iterable[object]) -> bytes:
    """A KLL sketch of some numbers."""
    sketch = ds.kll_doubles_sketch(KLL_K)
    for value in values:
        if value is not None:
            sketch.update(float(value))  # type: ignore[arg-type]
    return bytes(sketch.serialize())


_SKETCHES: dict[type[Partial], Callable[[Iterable[object]], bytes]] = {Distinct: hll_of, Quantiles: kll_of}
