"""sum(expression), and the sums that averages are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import polars as pl
import pyarrow as pa

from slackwater.aggregates.aggregate import Call, Single
from slackwater.aggregates.growth import Growth
from slackwater.aggregates.partial import Exprs, Kinds, Merged, Partial, RunningPartial, Within, given
from slackwater.aggregates.types import number_sql

#: The largest decimal, in units of its last digit.
_LARGEST = 10**38 - 1


@dataclass(frozen=True)
class Sum(RunningPartial):
    """The sum; null when every value is null, as in SQL."""

    fixed_size = True

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"sum({given(self.argument, kept)})",)

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (_sum_or_null(pl.col(columns[0])),)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"sum({columns[0]})",)

    def lift(self, argument: pl.Expr, kind: pl.DataType) -> tuple[pl.Expr, ...]:
        return (argument.cast(_sum_type(kind)),)

    def running(self, fields: Exprs, kinds: Kinds, within: Within, reverse: bool) -> Merged:
        (x,) = fields
        return (within(pl.when(x.cum_count() > 0).then(x.fill_null(0).cum_sum())),)

    def pair(self, old: Exprs, new: Exprs, kinds: Kinds, by_value: bool) -> Merged:
        (a,), (b,) = old, new
        return (pl.coalesce(a + b, a, b),)


@dataclass(frozen=True)
class DoubleSum(Sum):
    """The sum as a floating-point number, which does not wrap: what Spark makes the average of BIGINT from."""

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"sum({given(f'CAST({self.argument} AS DOUBLE)', kept)})",)

    def lift(self, argument: pl.Expr, kind: pl.DataType) -> tuple[pl.Expr, ...]:
        return (argument.cast(pl.Float64),)


@dataclass(frozen=True)
class CheckedSum(RunningPartial):
    """The sum of decimals that may leave their 38 digits: null from then on, as in Spark.

    The count of values tells that from a sum of none.
    """

    fixed_size = True

    fields: tuple[str, ...] = ("_n", "_sum")

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        x = given(self.argument, kept)
        return f"count({x})", f"sum({x})"

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        n, x = (pl.col(c) for c in columns)
        return _checked_sum(n, x)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        n, x = columns
        return f"sum({n})", f"CASE WHEN count_if({n} > 0 AND {x} IS NULL) = 0 THEN sum({x}) END"

    def lift(self, argument: pl.Expr, kind: pl.DataType) -> tuple[pl.Expr, ...]:
        return argument.is_not_null().cast(pl.Int64), argument.cast(_sum_type(kind))

    def running(self, fields: Exprs, kinds: Kinds, within: Within, reverse: bool) -> Merged:
        n, x = fields
        units = x.to_physical().fill_null(0)
        fits = _fit(units.cum_sum(), units.cast(pl.Float64).cum_sum())
        gone = (_left(n, x) | ~fits).cum_max()
        # What does not fit is not added, it would be an error.
        total = pl.when(~gone).then(x).fill_null(0).cum_sum()
        return within(n.cum_sum()), within(pl.when(~gone & (n.cum_sum() > 0)).then(total))

    def pair(self, old: Exprs, new: Exprs, kinds: Kinds, by_value: bool) -> Merged:
        (m, a), (n, b) = ((n.fill_null(0), x) for n, x in (old, new))
        units = a.to_physical().fill_null(0), b.to_physical().fill_null(0)
        about = [u.cast(pl.Float64) for u in units]
        fits = ~_left(m, a) & ~_left(n, b) & _fit(units[0] + units[1], about[0] + about[1])
        # What does not fit is not added, it would be an error.
        total = pl.when(fits).then(a).fill_null(0) + pl.when(fits).then(b).fill_null(0)
        return m + n, pl.when(fits & (m + n > 0)).then(total)


@dataclass(frozen=True)
class SumOf(Single):
    """sum(expression); of BIGINT it wraps around, of DECIMAL it is null when it leaves its type, as in Spark."""

    functions = ("sum",)
    growth = Growth.ADDS

    of: pa.DataType = field(default_factory=pa.null)
    """Arrow type of the expression."""

    @classmethod
    def read(cls, call: Call) -> Self:
        cls.check_single(call)
        kind = cls.type_of_argument(call)
        return cls(call.name, call.text, number_sql(call.first, kind), call.type(), kind)

    def partials(self) -> tuple[Partial, ...]:
        return (sum_of(self.argument, self.of),)

    def additive(self, *columns: str) -> tuple[str, ...]:
        return columns[-1:]


def sum_of(argument: str, kind: pa.DataType) -> RunningPartial:
    """The sum of values of a type; Spark gives decimals ten more digits, for ten billion rows, if there is room."""
    full = pa.types.is_decimal(kind) and kind.precision > 28
    return CheckedSum(argument) if full else Sum(argument)


def _sum_type(kind: pl.DataType) -> pl.DataType | type[pl.DataType]:
    if isinstance(kind, pl.Decimal):
        return pl.Decimal(38, kind.scale)
    return pl.Int64 if kind.is_integer() else pl.Float64


def _sum_or_null(x: pl.Expr) -> pl.Expr:
    return pl.when(x.count() > 0).then(x.sum())


def _checked_sum(n: pl.Expr, x: pl.Expr) -> tuple[pl.Expr, ...]:
    count, units = n.sum(), x.to_physical()
    fits = ~_left(n, x).any() & _fit(units.sum(), units.cast(pl.Float64).sum())
    # What does not fit is not added: polars raises an error or not, as the case may be.
    return count, pl.when(fits & (count > 0)).then(pl.when(fits).then(x).sum())


def _left(n: pl.Expr, x: pl.Expr) -> pl.Expr:
    """Whether a checked sum has left its type."""
    return (n > 0) & x.is_null()


def _fit(units: pl.Expr, about: pl.Expr) -> pl.Expr:
    """Whether a sum of decimals fits, given in units modulo 2**128 and about, as a floating-point number."""
    largest = pl.lit(_LARGEST, pl.Int128)
    return (about.abs() < 1.3 * _LARGEST) & units.is_between(-largest, largest)
