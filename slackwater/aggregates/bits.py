"""bit_and, bit_or and bit_xor of whole numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import polars as pl

from slackwater.aggregates.aggregate import AggregateFunction, Call
from slackwater.aggregates.growth import Growth
from slackwater.aggregates.partial import Exprs, Kinds, Merged, PairedPartial, Partial, given
from slackwater.aggregates.types import WHOLE_NUMBERS

#: What each function does to two values.
_PAIRS: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "bit_xor": operator.xor,
}


@dataclass(frozen=True)
class Bits(PairedPartial):
    """The bits of all values, put together by a function."""

    fixed_size = True

    function: str = "bit_and"

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        return (f"{self.function}({given(self.argument, kept)})",)

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        x = pl.col(columns[0])
        return ({"bit_and": x.bitwise_and, "bit_or": x.bitwise_or, "bit_xor": x.bitwise_xor}[self.function](),)

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        return (f"{self.function}({columns[0]})",)

    def lift(self, argument: pl.Expr, kind: pl.DataType) -> tuple[pl.Expr, ...]:
        return (argument,)

    def pair(self, old: Exprs, new: Exprs, kinds: Kinds, by_value: bool) -> Merged:
        (a,), (b,) = old, new
        return (pl.coalesce(_PAIRS[self.function](a, b), a, b),)


@dataclass(frozen=True)
class BitsOf(AggregateFunction):
    """bit_and(expression), bit_or(expression), bit_xor(expression)."""

    functions = tuple(_PAIRS)
    growth = Growth.JUMPS
    takes = WHOLE_NUMBERS

    function: str = "bit_and"

    @classmethod
    def read(cls, call: Call) -> Self:
        cls.check_single(call)
        return cls(call.name, call.text, call.first, cls.type_of_argument(call), call.function)

    def partials(self) -> tuple[Partial, ...]:
        return (Bits(self.argument, function=self.function),)

    def value(self, *columns: str) -> pl.Expr:
        return pl.col(columns[0])

    def value_sql(self, *columns: str) -> str:
        return columns[0]
