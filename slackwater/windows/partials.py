"""Mergeable partial aggregates of a pane (S5 section 2.3): how Spark makes them, how the driver merges them.

Each kind says the same thing three times: as Spark SQL over rows (`make_sql`), as polars over rows
(`make`, for in-process pages) and as a merge of partials in polars (`merge`) and in Spark SQL (`merge_sql`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import datasketches as ds
import polars as pl

from slackwater.columns import TIME

#: The largest decimal, in units of its last digit.
_LARGEST = 10**38 - 1

HLL_LG_K = 12
KLL_K = 200


@dataclass(frozen=True)
class Partial(ABC):
    """One kind of partial over one argument; equal ones are computed once for all aggregates of a query."""

    argument: str

    #: Suffixes of the columns that hold it.
    fields: tuple[str, ...] = ("",)

    @abstractmethod
    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        """Spark SQL aggregate expressions over rows, one a field; over those only that are `kept`, if it is given.

        A row that a filter has dropped still moves time, so it is in the job and must count for nothing here.
        """

    @abstractmethod
    def make(self, argument: pl.Expr) -> tuple[pl.Expr, ...]:
        """The same as polars aggregate expressions."""

    @abstractmethod
    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        """Polars aggregates over the fields of many partials; for sketches, lists that `unite` joins."""

    @abstractmethod
    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        """The same merge as Spark SQL."""

    def unite(self, *columns: str) -> tuple[pl.Expr, ...] | None:
        """A step after `merge`, where polars alone cannot do it (sketches)."""
        return None


@dataclass(frozen=True)
class Count(Partial):
    """How many rows; of an expression, how many that are not null."""

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"count({_given(self.argument, kept)})",)

    def make(self, argument: pl.Expr) -> tuple[pl.Expr, ...]:
        return ((pl.len() if self.argument == "*" else argument.count()).cast(pl.Int64),)

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (pl.col(columns[0]).sum(),)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"sum({columns[0]})",)


@dataclass(frozen=True)
class Sum(Partial):
    """The sum; null when every value is null, as in SQL."""

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"sum({_given(self.argument, kept)})",)

    def make(self, argument: pl.Expr) -> tuple[pl.Expr, ...]:
        return (_sum_or_null(argument),)

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (_sum_or_null(pl.col(columns[0])),)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"sum({columns[0]})",)


@dataclass(frozen=True)
class DoubleSum(Sum):
    """The sum as a floating-point number, which does not wrap: what Spark makes the average of BIGINT from."""

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"sum({_given(f'CAST({self.argument} AS DOUBLE)', kept)})",)

    def make(self, argument: pl.Expr) -> tuple[pl.Expr, ...]:
        return super().make(argument.cast(pl.Float64))


@dataclass(frozen=True)
class CheckedSum(Partial):
    """The sum of decimals that may leave their 38 digits: null from then on, as in Spark.

    The count of values tells that from a sum of none.
    """

    fields: tuple[str, ...] = ("_n", "_sum")

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        x = _given(self.argument, kept)
        return f"count({x})", f"sum({x})"

    def make(self, argument: pl.Expr) -> tuple[pl.Expr, ...]:
        n = argument.is_not_null().cast(pl.Int64)
        return _checked_sum(n, argument)

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        n, x = (pl.col(c) for c in columns)
        return _checked_sum(n, x)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        n, x = columns
        return f"sum({n})", f"CASE WHEN count_if({n} > 0 AND {x} IS NULL) = 0 THEN sum({x}) END"


@dataclass(frozen=True)
class Min(Partial):
    """The smallest value; NaN is above every number, as in Spark."""

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"min({_given(self.argument, kept)})",)

    def make(self, argument: pl.Expr) -> tuple[pl.Expr, ...]:
        return (argument.min(),)

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (pl.col(columns[0]).min(),)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"min({columns[0]})",)


@dataclass(frozen=True)
class Max(Partial):
    """The largest value; NaN is above every number, as in Spark."""

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"max({_given(self.argument, kept)})",)

    def make(self, argument: pl.Expr) -> tuple[pl.Expr, ...]:
        return (argument.nan_max(),)

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (pl.col(columns[0]).nan_max(),)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"max({columns[0]})",)


@dataclass(frozen=True)
class Moments(Partial):
    """Count, mean and sum of squared distances from the mean, merged without cancellation (Chan et al.)."""

    fields: tuple[str, ...] = ("_n", "_mean", "_m2")

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        x = _given(f"CAST({self.argument} AS DOUBLE)", kept)
        return f"count({x})", f"avg({x})", f"var_pop({x}) * count({x})"

    def make(self, argument: pl.Expr) -> tuple[pl.Expr, ...]:
        x = argument.cast(pl.Float64)
        return x.count().cast(pl.Int64), x.mean(), x.var(ddof=0) * x.count()

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


@dataclass(frozen=True)
class First(Partial):
    """The value at the smallest time; of simultaneous rows the smallest value, so that order does not matter."""

    fields: tuple[str, ...] = ("_t", "_v")

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        place = _given(f"struct({TIME}, {self.argument})", kept)
        return f"min({_given(TIME, kept)})", f"min_by({_given(self.argument, kept)}, {place})"

    def make(self, argument: pl.Expr) -> tuple[pl.Expr, ...]:
        return pl.col(TIME).min(), argument.sort_by([pl.col(TIME), argument]).first()

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        t, v = (pl.col(c) for c in columns)
        return t.min(), v.sort_by([t, v]).first()

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        t, v = columns
        return f"min({t})", f"min_by({v}, struct({t}, {v}))"


@dataclass(frozen=True)
class Last(Partial):
    """The value at the largest time; of simultaneous rows the largest value, so that order does not matter."""

    fields: tuple[str, ...] = ("_t", "_v")

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        place = _given(f"struct({TIME}, {self.argument})", kept)
        return f"max({_given(TIME, kept)})", f"max_by({_given(self.argument, kept)}, {place})"

    def make(self, argument: pl.Expr) -> tuple[pl.Expr, ...]:
        return pl.col(TIME).max(), argument.sort_by([pl.col(TIME), argument]).last()

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        t, v = (pl.col(c) for c in columns)
        return t.max(), v.sort_by([t, v]).last()

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        t, v = columns
        return f"max({t})", f"max_by({v}, struct({t}, {v}))"


@dataclass(frozen=True)
class Distinct(Partial):
    """A HyperLogLog sketch: Spark makes it, `datasketches` merges it."""

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"hll_sketch_agg({_given(self.argument, kept)}, {HLL_LG_K})",)

    def make(self, argument: pl.Expr) -> tuple[pl.Expr, ...]:
        return (_over_values(argument, hll_of),)

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (pl.col(columns[0]).implode(),)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"hll_union_agg({columns[0]})",)

    def unite(self, *columns: str) -> tuple[pl.Expr, ...] | None:
        return (_over_lists(pl.col(columns[0]), unite_hll),)


@dataclass(frozen=True)
class Quantiles(Partial):
    """A KLL sketch of doubles: Spark makes it, `datasketches` merges it."""

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"kll_sketch_agg_double({_given(f'CAST({self.argument} AS DOUBLE)', kept)}, {KLL_K})",)

    def make(self, argument: pl.Expr) -> tuple[pl.Expr, ...]:
        return (_over_values(argument.cast(pl.Float64), kll_of),)

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (pl.col(columns[0]).implode(),)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"kll_merge_agg_double({columns[0]})",)

    def unite(self, *columns: str) -> tuple[pl.Expr, ...] | None:
        return (_over_lists(pl.col(columns[0]), unite_kll),)


def hll_of(values: Iterable[object]) -> bytes:
    """A HyperLogLog sketch of some values."""
    sketch = ds.hll_sketch(HLL_LG_K)
    for value in values:
        if value is not None:
            sketch.update(value)
    return bytes(sketch.serialize_updatable())


def kll_of(values: Iterable[object]) -> bytes:
    """A KLL sketch of some values."""
    sketch = ds.kll_doubles_sketch(KLL_K)
    for value in values:
        if value is not None:
            sketch.update(value)
    return bytes(sketch.serialize())


def unite_hll(sketches: Iterable[bytes | None]) -> bytes:
    """One HyperLogLog sketch of many."""
    union = ds.hll_union(HLL_LG_K)
    for data in sketches:
        if data is not None:
            union.update(ds.hll_sketch.deserialize(data))
    return bytes(union.get_result(ds.tgt_hll_type.HLL_8).serialize_updatable())


def unite_kll(sketches: Iterable[bytes | None]) -> bytes:
    """One KLL sketch of many."""
    merged = ds.kll_doubles_sketch(KLL_K)
    for data in sketches:
        if data is not None:
            merged.merge(ds.kll_doubles_sketch.deserialize(data))
    return bytes(merged.serialize())


def _given(sql: str, kept: str | None) -> str:
    if kept is None:
        return sql
    return f"CASE WHEN {kept} THEN {'1' if sql == '*' else sql} END"


def _sum_or_null(x: pl.Expr) -> pl.Expr:
    return pl.when(x.count() > 0).then(x.sum())


def _checked_sum(n: pl.Expr, x: pl.Expr) -> tuple[pl.Expr, ...]:
    count, units = n.sum(), x.to_physical()
    fits = ~left(n, x).any() & fit(units.sum(), units.cast(pl.Float64).sum())
    # What does not fit is not added: polars raises an error or not, as the case may be.
    return count, pl.when(fits & (count > 0)).then(pl.when(fits).then(x).sum())


def left(n: pl.Expr, x: pl.Expr) -> pl.Expr:
    """Whether a checked sum has left its type."""
    return (n > 0) & x.is_null()


def fit(units: pl.Expr, about: pl.Expr) -> pl.Expr:
    """Whether a sum of decimals fits, given in units modulo 2**128 and about, as a floating-point number."""
    largest = pl.lit(_LARGEST, pl.Int128)
    return (about.abs() < 1.3 * _LARGEST) & units.is_between(-largest, largest)


def _over_values(x: pl.Expr, sketch: Callable[[Iterable[object]], bytes]) -> pl.Expr:
    return x.map_batches(lambda s: pl.Series([sketch(s)]), returns_scalar=True, return_dtype=pl.Binary)


def _over_lists(x: pl.Expr, unite: Callable[[Iterable[bytes | None]], bytes]) -> pl.Expr:
    return x.map_batches(
        lambda s: pl.Series([unite(v) for v in s.to_list()], dtype=pl.Binary), return_dtype=pl.Binary
    )
