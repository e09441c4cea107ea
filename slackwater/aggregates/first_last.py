"""first(expression) and last(expression), by application time.

All of one SELECT come from one row: rows of one time are ordered by the struct of all these columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import polars as pl

from slackwater.aggregates.aggregate import Aggregate, Call, Single
from slackwater.aggregates.growth import Growth
from slackwater.aggregates.partial import Partial, RunningPartial, Within, given
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
        (t, v), (u, w) = old, new
        takes_old = self._takes_old(t, u, _at_most(v, w, kinds[1]) if by_value else pl.lit(True))
        return tuple(pl.when(takes_old).then(x).otherwise(y) for x, y in zip(old, new, strict=True))

    @abstractmethod
    def _takes_old(self, old: pl.Expr, new: pl.Expr, in_order: pl.Expr) -> pl.Expr:
        """Whether the older one is taken, given both times and whether values of one time are in order."""


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

    def _takes_old(self, old: pl.Expr, new: pl.Expr, in_order: pl.Expr) -> pl.Expr:
        return old.is_not_null() & (new.is_null() | (old < new) | ((old == new) & in_order))


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

    def _takes_old(self, old: pl.Expr, new: pl.Expr, in_order: pl.Expr) -> pl.Expr:
        return ~(new.is_not_null() & (old.is_null() | (new > old) | ((old == new) & in_order)))


def _at_most(x: pl.Expr, y: pl.Expr, kind: pl.DataType | pl.datatypes.DataTypeClass) -> pl.Expr:
    """Whether x <= y, with null below every value and structs field by field; polars cannot compare structs.

    Arrays count as equal: they meet here only in sliding windows, where no two panes share a time.
    """
    if isinstance(kind, pl.Struct):
        at_most = pl.lit(True)
        for field in reversed(kind.fields):
            a, b = x.struct.field(field.name), y.struct.field(field.name)
            at_most = _at_most(a, b, field.dtype) & (~_at_most(b, a, field.dtype) | at_most)
        return at_most
    return pl.lit(True) if kind.is_nested() else x.is_null() | (x <= y).fill_null(False)


@dataclass(frozen=True)
class _Placed(Single):
    """An aggregate that is one of the values."""

    growth = Growth.JUMPS
    takes = VALUES
    row: tuple[str, ...] = ()
    """The arguments of all first and last of the SELECT, if there are several: they come from one row."""

    def partials(self) -> tuple[Partial, ...]:
        if not self.row:
            return super().partials()
        fields = ", ".join(f"'f{n}', {argument}" for n, argument in enumerate(self.row))
        return (self.kind(f"named_struct({fields})"),)

    def value(self, *columns: str) -> pl.Expr:
        value = super().value(*columns)
        return value.struct.field(f"f{self.row.index(self.argument)}") if self.row else value

    def value_sql(self, *columns: str) -> str:
        value = super().value_sql(*columns)
        return f"{value}.f{self.row.index(self.argument)}" if self.row else value

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


def from_one_row(aggregates: Iterable[Aggregate]) -> list[Aggregate]:
    """The aggregates of a SELECT, so that all first and last of it come from one row."""
    made = list(aggregates)
    row = tuple(dict.fromkeys(a.argument for a in made if isinstance(a, _Placed)))
    return [replace(a, row=row) if isinstance(a, _Placed) and len(row) > 1 else a for a in made]
