"""count(*) and count(expression)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import polars as pl
import pyarrow as pa

from slackwater.aggregates.aggregate import Call, Single
from slackwater.aggregates.growth import Growth
from slackwater.aggregates.partial import Exprs, Kinds, Merged, RunningPartial, Within, given
from slackwater.aggregates.types import ANYTHING, BOOLEANS


@dataclass(frozen=True)
class Count(RunningPartial):
    """How many rows; of an expression, how many that are not null."""

    fixed_size = True

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"count({given(self.argument, kept)})",)

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        return (pl.col(columns[0]).sum(),)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"sum({columns[0]})",)

    def lift(self, argument: pl.Expr, kind: pl.DataType) -> tuple[pl.Expr, ...]:
        return (pl.lit(1, pl.Int64) if self.argument == "*" else argument.is_not_null().cast(pl.Int64),)

    def running(self, fields: Exprs, kinds: Kinds, within: Within, reverse: bool) -> Merged:
        return (within(fields[0].cum_sum()),)

    def pair(self, old: Exprs, new: Exprs, kinds: Kinds, by_value: bool) -> Merged:
        return (old[0].fill_null(0) + new[0].fill_null(0),)


class CountOf(Single):
    """count(*) or count(expression)."""

    functions = ("count",)
    growth = Growth.COUNTS
    takes = ANYTHING
    takes_star = True
    kind = Count

    @classmethod
    def read(cls, call: Call) -> Self:
        cls.check_single(call)
        return cls(call.name, call.text, call.first, pa.int64())

    def additive(self, *columns: str) -> tuple[str, ...]:
        return columns[-1:]


class CountIf(CountOf):
    """count_if(condition)."""

    functions = ("count_if",)
    takes = BOOLEANS
    takes_star = False

    @classmethod
    def read(cls, call: Call) -> Self:
        cls.check_single(call)
        cls.type_of_argument(call)
        return cls(call.name, call.text, "*", pa.int64()).filtered(call.first)
