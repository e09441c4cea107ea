"""first(expression) and last(expression), by application time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import polars as pl

from slackwater.aggregates.aggregate import Call, Single
from slackwater.aggregates.growth import Growth
from slackwater.aggregates.partial import RunningPartial, Within, given
from slackwater.aggregates.types import VALUES
from slackwater.columns import TIME


@dataclass(frozen=True)
class _AtTime(RunningPartial):
    """A value and its time."""

    fields: tuple[str, ...] = ("_t", "_v")
    extreme: ClassVar[str]
    """Spark's function that finds the time; with `_by` behind it, the one that finds the value."""

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        place = given(f"struct({TIME}, {self.argument})", kept)
        return f"{self.extreme}({given(TIME, kept)})", f"{self.extreme}_by({given(self.argument, kept)}, {place})"

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        t, v = columns
        return f"{self.extreme}({t})", f"{self.extreme}_by({v}, struct({t}, {v}))"

    def lift(self, argument: pl.Expr, kind: pl.DataType) -> tuple[pl.Expr, ...]:
        return pl.col(TIME), argument

    def pair(
        self, old: Sequence[pl.Expr], new: Sequence[pl.Expr], kinds: Sequence[pl.DataType], by_value: bool
    ) -> tuple[pl.Expr, ...]:
        takes_old = self._takes_old(old, new, by_value and not kinds[1].is_nested())
        return tuple(pl.when(takes_old).then(x).otherwise(y) for x, y in zip(old, new, strict=True))

    @abstractmethod
    def _takes_old(self, old: Sequence[pl.Expr], new: Sequence[pl.Expr], by_value: bool) -> pl.Expr:
        """Whether the older one is taken; null is below every value."""


@dataclass(frozen=True)
class First(_AtTime):
    """The value at the smallest time; of simultaneous rows the smallest value, so that order does not matter."""

    extreme = "min"

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        t, v = (pl.col(c) for c in columns)
        return t.min(), v.sort_by([t, v]).first()

    def running(
        self, fields: Sequence[pl.Expr], kinds: Sequence[pl.DataType], within: Within, reverse: bool
    ) -> tuple[pl.Expr, ...]:
        t, v = fields
        return (t, v) if reverse else (within(t.first()), within(v.first()))

    def _takes_old(self, old: Sequence[pl.Expr], new: Sequence[pl.Expr], by_value: bool) -> pl.Expr:
        (t, v), (u, w) = old, new
        tie = (v.is_null() | (v <= w).fill_null(False)) if by_value else pl.lit(True)
        return t.is_not_null() & (u.is_null() | (t < u) | ((t == u) & tie))


@dataclass(frozen=True)
class Last(_AtTime):
    """The value at the largest time; of simultaneous rows the largest value, so that order does not matter."""

    extreme = "max"

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        t, v = (pl.col(c) for c in columns)
        return t.max(), v.sort_by([t, v]).last()

    def running(
        self, fields: Sequence[pl.Expr], kinds: Sequence[pl.DataType], within: Within, reverse: bool
    ) -> tuple[pl.Expr, ...]:
        t, v = fields
        return (within(t.first()), within(v.first())) if reverse else (t, v)

    def _takes_old(self, old: Sequence[pl.Expr], new: Sequence[pl.Expr], by_value: bool) -> pl.Expr:
        (t, v), (u, w) = old, new
        tie = (v.is_null() | (w >= v).fill_null(False)) if by_value else pl.lit(True)
        return ~(u.is_not_null() & (t.is_null() | (u > t) | ((t == u) & tie)))


class _Placed(Single):
    """An aggregate that is one of the values."""

    growth = Growth.JUMPS
    takes = VALUES

    @classmethod
    def read(cls, call: Call) -> Self:
        cls.check_single(call)
        return cls(call.name, call.text, call.first, cls.type_of_argument(call))


class FirstOf(_Placed):
    """first(expression): the value at the smallest time."""

    functions = ("first",)
    aliases = ("first_value", "any_value")
    kind = First


class LastOf(_Placed):
    """last(expression): the value at the largest time."""

    functions = ("last",)
    aliases = ("last_value",)
    kind = Last
