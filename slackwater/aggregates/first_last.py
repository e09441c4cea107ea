"""first(expression) and last(expression), by application time; min_by and max_by, by another expression.

All first and last of one SELECT come from one row: rows of one time are ordered by the struct of all these columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import polars as pl

from slackwater.aggregates.aggregate import AggregateFunction, Call, Single
from slackwater.aggregates.growth import Growth
from slackwater.aggregates.partial import (
    Exprs,
    Kinds,
    Merged,
    PairedPartial,
    Partial,
    RunningPartial,
    Within,
    given,
)
from slackwater.aggregates.types import PLAIN, VALUES
from slackwater.columns import TIME


@dataclass(frozen=True)
class _AtPlace(PairedPartial):
    """A value and its place in an order: its time, or the value of another expression. Null is no place."""

    fields: tuple[str, ...] = ("_t", "_v")
    by: str = TIME
    """Spark SQL of the place."""
    extreme: ClassVar[str]
    """Spark's function that finds the place; with `_by` behind it, the one that finds the value."""

    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        # Every row that is folded has a time.
        place = f"struct({TIME}, {self.argument})" if self.by == TIME else _compared(self.by, self.argument)
        return (
            f"{self.extreme}({given(self.by, kept)})",
            f"{self.extreme}_by({given(self.argument, kept)}, {given(place, kept)})",
        )

    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        t, v = columns
        return f"{self.extreme}({t})", f"{self.extreme}_by({v}, {_compared(t, v)})"

    @property
    def row_sql(self) -> str:
        """The value, and its place if that is not the time of the row."""
        return self.argument if self.by == TIME else f"named_struct('t', {self.by}, 'v', {self.argument})"

    def lift(self, argument: pl.Expr, kind: pl.DataType) -> tuple[pl.Expr, ...]:
        if self.by == TIME:
            return pl.col(TIME), argument
        place = argument.struct.field("t")
        return place, pl.when(place.is_not_null()).then(argument.struct.field("v"))

    def pair(self, old: Exprs, new: Exprs, kinds: Kinds, by_value: bool) -> Merged:
        (t, v), (u, w) = old, new
        # Only times say which of two rows came first in a window of rows.
        in_order = _at_most(v, w, kinds[1]) if by_value or self.by != TIME else pl.lit(True)
        takes_old = self._takes_old(t, u, in_order)
        return tuple(pl.when(takes_old).then(x).otherwise(y) for x, y in zip(old, new, strict=True))

    @abstractmethod
    def _takes_old(self, old: pl.Expr, new: pl.Expr, in_order: pl.Expr) -> pl.Expr:
        """Whether the older one is taken, given both places and whether values of one place are in order."""


def _compared(place: str, value: str) -> str:
    """Spark SQL of what rows are compared by; null without a place."""
    return f"CASE WHEN {place} IS NOT NULL THEN struct({place}, {value}) END"


@dataclass(frozen=True)
class Least(_AtPlace):
    """The value at the smallest place; of several there the smallest value, so that order does not matter."""

    extreme = "min"

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        t, v = (pl.col(c) for c in columns)
        return t.min(), v.sort_by([t, v], nulls_last=[True, False]).first()

    def _takes_old(self, old: pl.Expr, new: pl.Expr, in_order: pl.Expr) -> pl.Expr:
        return old.is_not_null() & (new.is_null() | (old < new) | ((old == new) & in_order))


@dataclass(frozen=True)
class Greatest(_AtPlace):
    """The value at the largest place; of several there the largest value, so that order does not matter."""

    extreme = "max"

    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        t, v = (pl.col(c) for c in columns)
        return t.nan_max(), v.sort_by([t, v]).last()

    def _takes_old(self, old: pl.Expr, new: pl.Expr, in_order: pl.Expr) -> pl.Expr:
        return ~(new.is_not_null() & (old.is_null() | (new > old) | ((old == new) & in_order)))


@dataclass(frozen=True)
class First(Least, RunningPartial):
    """The value at the smallest time."""

    def running(self, fields: Exprs, kinds: Kinds, within: Within, reverse: bool) -> Merged:
        t, v = fields
        return (t, v) if reverse else (within(t.first()), within(v.first()))


@dataclass(frozen=True)
class Last(Greatest, RunningPartial):
    """The value at the largest time."""

    def running(self, fields: Exprs, kinds: Kinds, within: Within, reverse: bool) -> Merged:
        t, v = fields
        return (within(t.first()), within(v.first())) if reverse else (t, v)


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
class _ValueByPlace(Single):
    """An aggregate that is one of the values."""

    growth = Growth.JUMPS
    takes = VALUES
    by: str = TIME
    """Spark SQL of the place of a row in the order that the aggregate goes by."""
    row: tuple[str, ...] = ()
    """The arguments of all first and last of the SELECT, if there are several: they come from one row."""
    in_order: ClassVar[tuple[type[_AtPlace], type[_AtPlace]]]
    """The partial by time, and that by another place."""

    def partials(self) -> tuple[Partial, ...]:
        fields = ", ".join(f"'f{n}', {argument}" for n, argument in enumerate(self.row))
        kind = self.in_order[self.by != TIME]
        return (kind(f"named_struct({fields})" if self.row else self.argument, by=self.by),)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.argument, self.by

    def filtered(self, condition: str) -> Self:
        return replace(self, by=given(self.by, condition))

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


class FirstOf(_ValueByPlace):
    """first(expression): the value at the smallest time."""

    functions = ("first",)
    aliases = ("first_value", "any_value")
    in_order = (First, Least)


class LastOf(_ValueByPlace):
    """last(expression): the value at the largest time."""

    functions = ("last",)
    aliases = ("last_value",)
    in_order = (Last, Greatest)


class MinBy(_ValueByPlace):
    """min_by(expression, place): the value where the place is smallest."""

    functions = ("min_by",)
    written = "column, place"
    in_order: ClassVar[tuple[type[_AtPlace], type[_AtPlace]]] = (Least, Least)

    @classmethod
    def read(cls, call: Call) -> Self:
        if len(call.texts) != 2:
            raise call.error(f"{call.function} takes two expressions, as in {call.function}(x, y)")
        cls.type_of_argument(call, 1, PLAIN)
        return cls(call.name, call.text, call.first, cls.type_of_argument(call), by=call.texts[1])


class MaxBy(MinBy):
    """max_by(expression, place): the value where the place is largest."""

    functions = ("max_by",)
    in_order = (Greatest, Greatest)


def from_one_row(aggregates: Iterable[AggregateFunction]) -> list[AggregateFunction]:
    """The aggregates of a SELECT, so that all first and last over the same rows come from one row."""
    made = list(aggregates)
    rows: dict[str, dict[str, None]] = {}
    for a in made:
        if isinstance(a, (FirstOf, LastOf)):
            rows.setdefault(a.by, {})[a.argument] = None
    return [
        replace(a, row=tuple(rows[a.by])) if isinstance(a, (FirstOf, LastOf)) and len(rows[a.by]) > 1 else a
        for a in made
    ]
