"""approx_count_distinct(expression), by a HyperLogLog sketch that Spark and `datasketches` both read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import datasketches as ds
import polars as pl
import pyarrow as pa

from slackwater.aggregates.aggregate import AggregateFunction, Call
from slackwater.aggregates.growth import Growth
from slackwater.aggregates.partial import Partial, given
from slackwater.aggregates.sketches import of_sketches, over_lists
from slackwater.aggregates.types import HASHED

HLL_LG_K = 12


@dataclass(frozen=True)
class Distinct(Partial):
    """A HyperLogLog sketch: Spark makes it, `datasketches` merges it."""

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"hll_sketch_agg({given(self.argument, kept)}, {HLL_LG_K})",)

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (pl.col(columns[0]).implode(),)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"hll_union_agg({columns[0]})",)

    def unite(self, *columns: str) -> tuple[pl.Expr, ...] | None:
        return (over_lists(pl.col(columns[0]), unite_hll),)


class ApproxDistinct(AggregateFunction):
    """approx_count_distinct(expression), by a HyperLogLog sketch."""

    functions = ("approx_count_distinct",)
    aliases = ("approx_distinct",)
    growth = Growth.SPREADS
    takes = HASHED

    @classmethod
    def read(cls, call: Call) -> Self:
        cls.check_single(call)
        return cls(call.name, call.text, _hashable(call.first, cls.type_of_argument(call)), pa.int64())

    def partials(self) -> tuple[Partial, ...]:
        return (Distinct(self.argument),)

    def value(self, *columns: str) -> pl.Expr:
        return of_sketches(pl.col(columns[0]), hll_estimate, pl.Int64)

    def value_sql(self, *columns: str) -> str:
        return f"hll_sketch_estimate({columns[0]})"


def unite_hll(sketches: Iterable[bytes | None]) -> bytes:
    """One HyperLogLog sketch of many."""
    union = ds.hll_union(HLL_LG_K)
    for data in sketches:
        if data is not None:
            union.update(ds.hll_sketch.deserialize(data))
    return bytes(union.get_result(ds.tgt_hll_type.HLL_8).serialize_updatable())


def hll_estimate(data: bytes | None) -> int | None:
    """How many distinct values a HyperLogLog sketch has seen."""
    return None if data is None else round(ds.hll_sketch.deserialize(data).get_estimate())


def _hashable(argument: str, kind: pa.DataType) -> str:
    """The argument in a type that Spark's hll_sketch_agg takes."""
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return f"CAST({argument} AS BIGINT)"
    if pa.types.is_floating(kind):
        return f"CAST(CASE WHEN {argument} = 0 THEN 0 ELSE {argument} END AS STRING)"  # -0.0 is 0.0
    if pa.types.is_binary(kind):
        return f"hex({argument}) || '.'"  # as texts, bytes that are none would all be the same
    return f"CAST({argument} AS STRING) || '.'"  # sketches pass over what is empty; an empty text is a value
