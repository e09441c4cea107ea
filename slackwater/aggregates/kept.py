"""Aggregates without small partials: a pane keeps the rows of their columns, and Spark computes at the close.

Of equal rows it keeps one and their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import polars as pl
import pyarrow as pa
import sqlglot
from sqlglot import exp

from slackwater.aggregates.aggregate import AggregateFunction, Call
from slackwater.aggregates.growth import Growth
from slackwater.aggregates.partial import PairedPartial, Partial, given
from slackwater.aggregates.types import ANYTHING, is_value, spoken
from slackwater.aggregates.user_text import arguments
from slackwater.columns import TIME

#: What may stand behind an expression of ORDER BY.
_ORDER = re.compile(r"\s+((ASC|DESC)(\s+NULLS\s+(FIRST|LAST))?|NULLS\s+(FIRST|LAST))\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Kept(AggregateFunction):
    """An aggregate that Spark computes at the close, from what was kept of the rows."""

    growth: ClassVar[Growth | None] = None
    takes = ANYTHING

    function: str = ""
    columns: tuple[str, ...] = ()
    """Spark SQL of what is kept of a row."""
    template: str = ""
    """Spark SQL of the call; `{0}` stands for the first of the columns."""
    repeats: bool = True
    """Whether a row that comes again counts again."""

    @classmethod
    def read(cls, call: Call) -> Self:
        columns, template = cls.parts(call)
        for sql in columns:
            if sql != TIME and not is_value(kind := call.type_of(sql)):
                raise call.error(f"rows cannot be kept by what is {spoken(kind)}: {sql}; cast it")
        first = columns[0] if columns else "*"
        kind = nullable(call.aggregate_type(call.text))
        if not is_value(kind):
            raise call.error(f"{call.function} gives {spoken(kind)}, which cannot be a result; take a part of it")
        return cls(call.name, call.text, first, kind, call.function, columns, template, repeats=not call.distinct)

    @classmethod
    def parts(cls, call: Call) -> tuple[tuple[str, ...], str]:
        """The kept columns of a row, and the call over them."""
        return call_over(call.function, call.texts, call.distinct, call.order)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns

    def filtered(self, condition: str) -> Self:
        columns = (*self.columns, f"coalesce({condition}, false)")
        return replace(self, columns=columns, template=f"{self.template} FILTER (WHERE {{{len(self.columns)}}})")

    def close_sql(self, columns: Iterable[str]) -> str:
        """Spark SQL of the value over rows that have these columns."""
        return self.template.format(*columns)

    def partials(self) -> tuple[Partial, ...]:
        return ()

    def value(self, *columns: str) -> pl.Expr:
        return pl.col(columns[0])

    def value_sql(self, *columns: str) -> str:
        return columns[0]


def call_over(
    function: str, texts: Iterable[str], distinct: bool, order: str | None
) -> tuple[tuple[str, ...], str]:
    """The columns that a call needs, and the call over them.

    >>> call_over("listagg", ["upper(a)", "', '"], True, "ORDER BY upper(a) DESC")
    (('upper(a)',), "listagg(DISTINCT {0}, ', ') WITHIN GROUP (ORDER BY {0} DESC)")
    """
    columns: dict[str, str] = {}

    def over(text: str) -> str:
        if sqlglot.parse_one(text, dialect="spark").find(exp.Column) is None:
            return text.replace("{", "{{").replace("}", "}}")
        return columns.setdefault(text, f"{{{len(columns)}}}")

    called = f"{function}({'DISTINCT ' if distinct else ''}{', '.join(map(over, texts))})"
    if order is not None:
        items = arguments(f"o({re.sub(r'(?i)^ORDER BY ', '', order)})")
        split = ((item, _ORDER.search(item)) for item in items)
        written = ", ".join(over(i[: m.start()]) + i[m.start() :] if m else over(i) for i, m in split)
        called += f" WITHIN GROUP (ORDER BY {written})"
    return tuple(columns), called


class OfValues(Kept):
    """A function that passes over rows where its first column is null."""

    def filtered(self, condition: str) -> Self:
        return replace(self, columns=(given(self.columns[0], condition), *self.columns[1:]))


class Settling(OfValues):
    """Exact quantiles, moments and regressions."""

    functions = (
        *("median", "percentile", "percentile_cont", "percentile_disc", "kurtosis", "skewness"),
        *("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_sxx", "regr_syy"),
        *("regr_sxy", "regr_avgx", "regr_avgy", "regr_count"),
    )
    growth = Growth.SETTLES


class Mode(OfValues):
    """mode(expression): the value that most rows have; of several such values the smallest."""

    functions = ("mode",)

    @classmethod
    def parts(cls, call: Call) -> tuple[tuple[str, ...], str]:
        columns, template = super().parts(call)
        return columns, "mode({0}, true)" if len(call.texts) == 1 and not call.distinct else template


class CollectList(OfValues):
    """collect_list(expression): all values, in the order of time, and of one time by value."""

    functions = ("collect_list", "array_agg")

    @classmethod
    def parts(cls, call: Call) -> tuple[tuple[str, ...], str]:
        cls.check_single(call)
        if call.distinct:
            return (call.first,), "array_sort(collect_set({0}))"
        row = "CASE WHEN {0} IS NOT NULL THEN named_struct('t', {1}, 'v', {0}) END"
        return (call.first, TIME), f"transform(array_sort(collect_list({row})), s -> s.v)"


class CollectSet(OfValues):
    """collect_set(expression): the distinct values, by value."""

    functions = ("collect_set",)

    @classmethod
    def parts(cls, call: Call) -> tuple[tuple[str, ...], str]:
        cls.check_single(call)
        return (call.first,), "array_sort(collect_set({0}))"


class ListAgg(OfValues):
    """listagg(expression, delimiter): in the order of time, and of one time by value, if no other is asked for."""

    functions = ("listagg", "string_agg")

    @classmethod
    def parts(cls, call: Call) -> tuple[tuple[str, ...], str]:
        columns, template = super().parts(call)
        if call.order is not None or not columns:
            return columns, template
        by = "{0}" if call.distinct else f"{{{len(columns)}}}, {{0}}"
        return (*columns, *(() if call.distinct else (TIME,))), f"{template} WITHIN GROUP (ORDER BY {by})"


class OfSpark(Kept):
    """Any other aggregate function of Spark, or of the user's Spark."""

    functions = ("try_sum", "try_avg", "histogram_numeric", "count_min_sketch", "hll_sketch_agg")


@dataclass(frozen=True)
class DistinctOf(Kept):
    """An aggregate over distinct values, as in count(DISTINCT a, b) or sum(DISTINCT x)."""

    growth = Growth.SPREADS

    of: AggregateFunction | None = None
    """The same over all values."""

    @classmethod
    def over(cls, call: Call, kind: type[AggregateFunction]) -> Kept:
        """Read a call with DISTINCT of a function that has partials."""
        others = call.texts[1:] if call.function == "count" else ()
        if call.function in ("first", "last", "min_by", "max_by"):
            raise call.error(f"{call.function} takes no DISTINCT; leave it out")
        bare = replace(call, distinct=False, texts=tuple(t for t in call.texts if t not in others))
        inner = kind.read(replace(bare, arguments=call.arguments[:1]))
        plain = all(isinstance(p, PairedPartial) and p.row_sql == inner.argument for p in inner.partials())
        if not plain:
            raise call.error(f"{call.function} takes no DISTINCT; leave it out")
        columns = tuple(dict.fromkeys((inner.argument, *others)))
        for sql in columns:
            if not is_value(given_type := call.type_of(sql)):
                raise call.error(f"rows cannot be kept by what is {spoken(given_type)}: {sql}; cast it")
        places = ", ".join(f"{{{n}}}" for n in range(len(columns)))
        template = f"{call.function}(DISTINCT {places})"
        return cls(
            call.name, call.text, inner.argument, inner.type, call.function, columns, template, False, of=inner
        )

    def filtered(self, condition: str) -> Self:
        return replace(self, columns=(given(self.columns[0], condition), *self.columns[1:]))

    def values(self, groups: list[str], rows: pl.DataFrame, columns: list[str]) -> pl.Series:
        """The value of each group, in the order of their first rows, from rows that are distinct."""
        assert self.of is not None
        first, *others = columns
        argument = pl.col(first)
        if others:
            argument = pl.when(pl.all_horizontal(pl.col(c).is_not_null() for c in others)).then(argument)
        lifted, merged, names = list[pl.Expr](), list[pl.Expr](), list[str]()
        for n, partial in enumerate(self.of.partials()):
            assert isinstance(partial, PairedPartial)
            fields = [f"__d{n}{field}" for field in partial.fields]
            made = partial.lift(argument, rows.schema[first])
            lifted += [e.alias(name) for name, e in zip(fields, made, strict=True)]
            merged += [e.alias(name) for name, e in zip(fields, partial.merge(*fields), strict=True)]
            names += fields
        grouped = rows.with_columns(lifted).group_by(groups, maintain_order=True).agg(merged)
        return grouped.select(self.of.value(*names).alias("value")).to_series()


def nullable(kind: pa.DataType) -> pa.DataType:
    """The same type with nulls allowed inside, for the call over kept rows may allow them."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, nullable(f.type), True) for f in kind])
    return list_of(nullable(kind.value_type)) if pa.types.is_list(kind) else kind


def list_of(kind: pa.DataType) -> pa.DataType:
    """The type of a list of such values."""
    return pa.list_(pa.field("element", kind, True))
