"""Variances and standard deviations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import polars as pl
import pyarrow as pa

from slackwater.aggregates.aggregate import AggregateFunction, Call
from slackwater.aggregates.partial import Exprs, Kinds, Merged, Partial, RunningPartial, Within, given
from slackwater.aggregates.types import number_sql

#: By name: whether it is of a sample, and whether it is the root.
_KINDS = {
    "variance": (True, False),
    "var_samp": (True, False),
    "var_pop": (False, False),
    "stddev": (True, True),
    "std": (True, True),
    "stddev_samp": (True, True),
    "stddev_pop": (False, True),
}


@dataclass(frozen=True)
class Moments(RunningPartial):
    """Count, mean and sum of squared distances from the mean, merged without cancellation (Chan et al.)."""

    fixed_size = True

    fields: tuple[str, ...] = ("_n", "_mean", "_m2")

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        x = given(f"CAST({self.argument} AS DOUBLE)", kept)
        return f"count({x})", f"avg({x})", f"var_pop({x}) * count({x})"

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        n, mean, m2 = (pl.col(c) for c in columns)
        total = n.sum()
        centre = pl.when(total > 0).then((n * mean).sum() / total)
        spread = pl.when(total > 0).then(m2.sum() + (n * (mean - centre) ** 2).sum())
        return total, centre, spread

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        n, mean, m2 = columns
        merged = (
            f"aggregate(filter(collect_list(struct({n} AS n, {mean} AS a, {m2} AS q)), x -> x.n > 0), "
            "named_struct('n', 0L, 'a', 0D, 'q', 0D), (s, x) -> named_struct('n', s.n + x.n, "
            "'a', s.a + (x.a - s.a) * x.n / (s.n + x.n), "
            "'q', s.q + x.q + (x.a - s.a) * (x.a - s.a) * s.n * x.n / (s.n + x.n)))"
        )
        return (
            f"{merged}.n",
            f"CASE WHEN sum({n}) > 0 THEN {merged}.a END",
            f"CASE WHEN sum({n}) > 0 THEN {merged}.q END",
        )

    def lift(self, argument: pl.Expr, kind: pl.DataType) -> tuple[pl.Expr, ...]:
        double = argument.cast(pl.Float64)
        there = double.is_not_null()
        return there.cast(pl.Int64), double, pl.when(there).then(double * 0.0)  # NaN stays NaN

    def running(self, fields: Exprs, kinds: Kinds, within: Within, reverse: bool) -> Merged:
        n, mean, m2 = fields
        # Distances from the first mean of the segment: that one is among the merged, so the square of the mean's
        # own distance is at most n times the variance, and what cancels costs n units in the last place at worst.
        first = mean.drop_nulls().first()
        far = (mean - first).fill_null(0.0)
        count, total = n.cum_sum(), (n * far).cum_sum()
        squares = (m2.fill_null(0.0) + n * far * far).cum_sum()
        spread = squares - total * total / count
        spread = pl.when(spread < 0).then(0.0).otherwise(spread)
        return (
            within(count),
            within(pl.when(count > 0).then(first + total / count)),
            within(pl.when(count > 0).then(spread)),
        )

    def pair(self, old: Exprs, new: Exprs, kinds: Kinds, by_value: bool) -> Merged:
        (m, a, p), (n, b, q) = old, new
        m, n = m.fill_null(0), n.fill_null(0)
        both = m + n
        far = b - a
        mean = pl.when(n == 0).then(a).when(m == 0).then(b).otherwise(a + far * n / both)
        spread = pl.when(n == 0).then(p).when(m == 0).then(q).otherwise(p + q + far * far * m * n / both)
        return both, mean, spread


@dataclass(frozen=True)
class Spread(AggregateFunction):
    """Variance and standard deviation, of a sample or of the population; null as in Spark for too few rows."""

    functions = ("variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop")
    aliases = ("std",)

    sample: bool = True
    root: bool = False

    @classmethod
    def read(cls, call: Call) -> Self:
        cls.check_single(call)
        argument = number_sql(call.first, cls.type_of_argument(call))
        return cls(call.name, call.text, argument, pa.float64(), *_KINDS[call.function])

    def partials(self) -> tuple[Partial, ...]:
        return (Moments(self.argument),)

    def value(self, *columns: str) -> pl.Expr:
        n, _, m2 = (pl.col(c) for c in columns)
        less = 1 if self.sample else 0
        variance = pl.when(n > less).then(m2 / (n - less))
        return variance.sqrt() if self.root else variance

    def value_sql(self, *columns: str) -> str:
        n, _, m2 = columns
        less = 1 if self.sample else 0
        variance = f"CASE WHEN {n} > {less} THEN {m2} / ({n} - {less}) END"
        return f"sqrt({variance})" if self.root else variance
