"""approx_percentile(expression, share), by a KLL sketch that Spark and `datasketches` both read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import datasketches as ds
import polars as pl
import pyarrow as pa

from slackwater.aggregates.aggregate import AggregateFunction, Call
from slackwater.aggregates.partial import Partial, given
from slackwater.aggregates.sketches import of_sketches, over_lists

KLL_K = 200


@dataclass(frozen=True)
class Quantiles(Partial):
    """A KLL sketch of doubles: Spark makes it, `datasketches` merges it."""

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"kll_sketch_agg_double({given(f'CAST({self.argument} AS DOUBLE)', kept)}, {KLL_K})",)

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (pl.col(columns[0]).implode(),)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"kll_merge_agg_double({columns[0]})",)

    def unite(self, *columns: str) -> tuple[pl.Expr, ...] | None:
        return (over_lists(pl.col(columns[0]), unite_kll),)


@dataclass(frozen=True)
class ApproxPercentile(AggregateFunction):
    """approx_percentile(expression, share), by a KLL sketch of doubles."""

    functions = ("approx_percentile",)
    aliases = ("percentile_approx", "approx_quantile")
    written = "column, 0.5"

    share: float = 0.5

    @classmethod
    def read(cls, call: Call) -> Self:
        if len(call.arguments) > 2:
            raise call.error(f"{call.function} takes an expression and a share; its accuracy is fixed")
        cls.type_of_argument(call)
        return cls(call.name, call.text, call.first, pa.float64(), _share(call))

    def partials(self) -> tuple[Partial, ...]:
        return (Quantiles(self.argument),)

    def value(self, *columns: str) -> pl.Expr:
        return of_sketches(pl.col(columns[0]), lambda data: kll_quantile(data, self.share), pl.Float64)

    def value_sql(self, *columns: str) -> str:
        (sketch,) = columns
        return (
            f"CASE WHEN kll_sketch_get_n_double({sketch}) > 0 "
            f"THEN kll_sketch_get_quantile_double({sketch}, CAST({self.share!r} AS DOUBLE)) END"
        )


def unite_kll(sketches: Iterable[bytes | None]) -> bytes:
    """One KLL sketch of many."""
    merged = ds.kll_doubles_sketch(KLL_K)
    for data in sketches:
        if data is not None:
            merged.merge(ds.kll_doubles_sketch.deserialize(data))
    return bytes(merged.serialize())


def kll_quantile(data: bytes | None, share: float) -> float | None:
    """A quantile of a KLL sketch; None when it is empty."""
    if data is None:
        return None
    sketch = ds.kll_doubles_sketch.deserialize(data)
    return None if sketch.is_empty() else float(sketch.get_quantile(share, True))


def _share(call: Call) -> float:
    try:
        share = float(call.arguments[1].sql())
    except (IndexError, ValueError):
        raise call.error("give the share as a number, as in approx_percentile(x, 0.95)") from None
    if not 0 <= share <= 1:
        raise call.error(f"the share {share} is not between 0 and 1")
    return share
