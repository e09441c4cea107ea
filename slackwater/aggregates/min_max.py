"""min(expression) and max(expression). NaN is above every number, as in Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import polars as pl

from slackwater.aggregates.aggregate import Call, Single
from slackwater.aggregates.growth import Growth
from slackwater.aggregates.partial import Exprs, Kinds, Merged, RunningPartial, Within, given
from slackwater.aggregates.types import BOOLEANS, PLAIN

_NAN = pl.lit(float("nan"))


@dataclass(frozen=True)
class _Extreme(RunningPartial):
    """One of the values: of a row its own, and of many by a function of Spark's."""

    fixed_size = True
    function: ClassVar[str]

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"{self.function}({given(self.argument, kept)})",)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"{self.function}({columns[0]})",)

    def lift(self, argument: pl.Expr, kind: pl.DataType) -> tuple[pl.Expr, ...]:
        return (argument,)


@dataclass(frozen=True)
class Min(_Extreme):
    """The smallest value; NaN is above every number, as in Spark."""

    function = "min"

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (pl.col(columns[0]).min(),)

    def running(self, fields: Exprs, kinds: Kinds, within: Within, reverse: bool) -> Merged:
        (x,) = fields
        if not kinds[0].is_float():
            return (within(x.cum_min().forward_fill()),)
        low = x.fill_nan(None).cum_min().forward_fill()
        only_nan = pl.when(x.cum_count() > 0).then(_NAN)
        return (within(pl.coalesce(low, only_nan)),)

    def pair(self, old: Exprs, new: Exprs, kinds: Kinds, by_value: bool) -> Merged:
        (a,), (b,) = old, new  # in polars too NaN is above every number
        return (pl.when(b.is_null() | (a <= b)).then(a).otherwise(b),)


@dataclass(frozen=True)
class Max(_Extreme):
    """The largest value; NaN is above every number, as in Spark."""

    function = "max"

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (pl.col(columns[0]).nan_max(),)

    def running(self, fields: Exprs, kinds: Kinds, within: Within, reverse: bool) -> Merged:
        (x,) = fields
        if not kinds[0].is_float():
            return (within(x.cum_max().forward_fill()),)
        seen = x.is_nan().fill_null(False).cum_max()
        return (within(pl.when(seen).then(_NAN).otherwise(x.fill_nan(None).cum_max().forward_fill())),)

    def pair(self, old: Exprs, new: Exprs, kinds: Kinds, by_value: bool) -> Merged:
        (a,), (b,) = old, new
        return (pl.when(b.is_null() | (a >= b)).then(a).otherwise(b),)


class MinOf(Single):
    """min(expression)."""

    functions = ("min",)
    takes = PLAIN
    growth = Growth.FALLS
    kind = Min


class MaxOf(Single):
    """max(expression)."""

    functions = ("max",)
    takes = PLAIN
    growth = Growth.RISES
    kind = Max


class _OfConditions(Single):
    """An aggregate of conditions: its type needs no question."""

    takes = BOOLEANS

    @classmethod
    def read(cls, call: Call) -> Self:
        cls.check_single(call)
        return cls(call.name, call.text, call.first, cls.type_of_argument(call))


class BoolAnd(_OfConditions):
    """bool_and(condition): whether it is true in all rows where it is not null, the smallest of its values."""

    functions = ("bool_and",)
    aliases = ("every",)
    growth = Growth.FALLS
    kind = Min


class BoolOr(_OfConditions):
    """bool_or(condition): whether it is true in some row, the largest of its values."""

    functions = ("bool_or",)
    aliases = ("some", "any")
    growth = Growth.RISES
    kind = Max
