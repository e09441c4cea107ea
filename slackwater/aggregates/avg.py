"""avg(expression)."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Self

import polars as pl
import pyarrow as pa

from slackwater.aggregates.aggregate import AggregateFunction, Call
from slackwater.aggregates.count import Count
from slackwater.aggregates.partial import Partial
from slackwater.aggregates.sum import DoubleSum, sum_of
from slackwater.aggregates.types import number_sql


@dataclass(frozen=True)
class Avg(AggregateFunction):
    """avg(expression), from a sum and a count that other aggregates may share."""

    functions = ("avg",)
    aliases = ("mean", "average")

    of: pa.DataType = field(default_factory=pa.null)
    """Arrow type of the expression."""

    @classmethod
    def read(cls, call: Call) -> Self:
        cls.check_single(call)
        kind = cls.type_of_argument(call)
        return cls(call.name, call.text, number_sql(call.first, kind), call.type(), kind)

    def partials(self) -> tuple[Partial, ...]:
        kind = self.of
        wraps = pa.types.is_integer(kind) and kind.bit_width == 64  # sums of shorter ones are BIGINT
        return DoubleSum(self.argument) if wraps else sum_of(self.argument, kind), Count(self.argument)

    def value(self, *columns: str) -> pl.Expr:
        total, count = (pl.col(c) for c in columns[-2:])
        if pa.types.is_decimal(self.type):
            return _decimal_average(total, count, self.type)
        return pl.when(count > 0).then(total.cast(pl.Float64) / count)

    def additive(self, *columns: str) -> tuple[str, ...]:
        return columns[-2:]

    def value_sql(self, *columns: str) -> str:
        total, count = columns[-2:]
        if pa.types.is_decimal(self.type):
            return _decimal_average_sql(total, count, self.type)
        return f"CASE WHEN {count} > 0 THEN CAST({total} AS DOUBLE) / {count} END"


def _decimal_average(total: pl.Expr, count: pl.Expr, kind: pa.DataType) -> pl.Expr:
    # Exact as Spark's: Python's decimals, half up; results are few (groups of a window), not rows.
    context, unit = Context(prec=80, rounding=ROUND_HALF_UP), Decimal(1).scaleb(-kind.scale)

    def average(total: Decimal | None, count: int) -> Decimal | None:
        if total is None or not count:
            return None
        value = context.divide(total, Decimal(count)).quantize(unit, context=context)
        return value if value.adjusted() < kind.precision - kind.scale else None  # null where it does not fit

    result = pl.Decimal(kind.precision, kind.scale)
    return pl.struct(total.alias("s"), count.alias("n")).map_batches(
        lambda s: pl.Series([average(r["s"], r["n"]) for r in s.to_list()], dtype=result), return_dtype=result
    )


#: The digits of one step of a long division.
_DIGITS = 9


def _decimal_average_sql(total: str, count: str, kind: pa.DataType) -> str:
    """The same as Spark SQL: a long division, half up.

    Spark's own division would round to a type of fewer digits first. Digits of the total are taken from the left,
    nine at a time, so that no step leaves its type. Below zero all of them are negative: Spark's `abs` and `-` drop
    digits behind the 34th.
    """
    places = range(-kind.scale, 38, _DIGITS)  # powers of ten at which the pieces end
    pieces = [_digits_sql(total, place) for place in reversed(places)]
    n, zero = f"CAST({count} AS DECIMAL(20, 0))", "CAST(0 AS DECIMAL(38, 0))"
    with_next = f"(s.rest * {_power(_DIGITS)} + digits)"
    step = (
        f"named_struct('quotient', CAST(s.quotient * {_power(_DIGITS)} + {with_next} div {n} AS DECIMAL(38, 0)), "
        f"'rest', CAST({with_next} % {n} AS DECIMAL(20, 0)))"
    )
    up = f"CASE WHEN s.rest * 2 >= {n} THEN 1 WHEN s.rest * -2 >= {n} THEN -1 ELSE 0 END"
    # A text with an exponent is the one way to move the point without a type between that drops digits.
    placed = f"concat(CAST(s.quotient + {up} AS STRING), 'E-{kind.scale}')"
    return (
        f"CASE WHEN {count} > 0 AND {total} IS NOT NULL THEN aggregate(array({', '.join(pieces)}), "
        f"named_struct('quotient', {zero}, 'rest', CAST(0 AS DECIMAL(20, 0))), (s, digits) -> {step}, "
        f"s -> CAST({placed} AS DECIMAL({kind.precision}, {kind.scale}))) END"
    )


def _digits_sql(number: str, place: int) -> str:
    """Nine digits of a decimal, the last of them at a power of ten."""
    above = place + _DIGITS
    within = f"({number} % {_power(above)})" if above < 38 else number
    return f"{within} div {_power(place)}"


def _power(exponent: int) -> str:
    """A power of ten as a decimal literal."""
    return f"{Decimal(1).scaleb(exponent):f}BD"
