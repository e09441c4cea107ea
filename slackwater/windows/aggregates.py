"""Aggregates as a user writes them, `avg(dep_delay)`: which partials they need and how these become a value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import datasketches as ds
import polars as pl
import pyarrow as pa
import sqlglot
from sqlglot import exp

from slackwater.errors import QueryError
from slackwater.windows.partials import (
    CheckedSum,
    Count,
    Distinct,
    DoubleSum,
    First,
    Last,
    Max,
    Min,
    Moments,
    Partial,
    Quantiles,
    Sum,
)


@dataclass(frozen=True)
class Aggregate(ABC):
    """One output column of a window query: partials, and the value that they add up to."""

    name: str
    text: str
    argument: str
    type: pa.DataType = field(default_factory=pa.null)
    """Arrow type of the value, as Spark gives it for the same aggregate."""

    @abstractmethod
    def partials(self) -> tuple[Partial, ...]:
        """The partials it is made of."""

    @abstractmethod
    def value(self, *columns: str) -> pl.Expr:
        """The value from the merged partials' columns, in order."""

    @abstractmethod
    def value_sql(self, *columns: str) -> str:
        """The same as Spark SQL."""


class _Single(Aggregate):
    """An aggregate that is its own partial."""

    kind: type[Partial]

    def partials(self) -> tuple[Partial, ...]:
        return (self.kind(self.argument),)

    def value(self, *columns: str) -> pl.Expr:
        return pl.col(columns[-1])

    def value_sql(self, *columns: str) -> str:
        return columns[-1]


class CountOf(_Single):
    """count(*) or count(expression)."""

    kind = Count


@dataclass(frozen=True)
class SumOf(_Single):
    """sum(expression); of BIGINT it wraps around, of DECIMAL it is null when it leaves its type, as in Spark."""

    of: pa.DataType = field(default_factory=pa.null)
    """Arrow type of the expression."""

    def partials(self) -> tuple[Partial, ...]:
        return (_total(self.argument, self.of),)


class MinOf(_Single):
    """min(expression)."""

    kind = Min


class MaxOf(_Single):
    """max(expression)."""

    kind = Max


class FirstOf(_Single):
    """first(expression): the value at the smallest time."""

    kind = First


class LastOf(_Single):
    """last(expression): the value at the largest time."""

    kind = Last


@dataclass(frozen=True)
class Avg(Aggregate):
    """avg(expression), from a sum and a count that other aggregates may share."""

    of: pa.DataType = field(default_factory=pa.null)
    """Arrow type of the expression."""

    def partials(self) -> tuple[Partial, ...]:
        wraps = pa.types.is_integer(self.of) and self.of.bit_width == 64  # sums of shorter ones are BIGINT
        return DoubleSum(self.argument) if wraps else _total(self.argument, self.of), Count(self.argument)

    def value(self, *columns: str) -> pl.Expr:
        total, count = (pl.col(c) for c in columns[-2:])
        if pa.types.is_decimal(self.type):
            return _decimal_average(total, count, self.type)
        return pl.when(count > 0).then(total.cast(pl.Float64) / count)

    def value_sql(self, *columns: str) -> str:
        total, count = columns[-2:]
        if pa.types.is_decimal(self.type):
            return f"CASE WHEN {count} > 0 THEN {total} / CAST({count} AS DECIMAL(20, 0)) END"
        return f"CASE WHEN {count} > 0 THEN CAST({total} AS DOUBLE) / {count} END"


@dataclass(frozen=True)
class Spread(Aggregate):
    """Variance and standard deviation, of a sample or of the population; null as in Spark for too few rows."""

    sample: bool = True
    root: bool = False

    def partials(self) -> tuple[Partial, ...]:
        return (Moments(self.argument),)

    def value(self, *columns: str) -> pl.Expr:
        n, _, m2 = (pl.col(c) for c in columns)
        less = 1 if self.sample else 0
        variance = pl.when(n > less).then(m2 / (n - less))
        return variance.sqrt() if self.root else variance

    def value_sql(self, *columns: str) -> str:
        n, _, m2 = columns
        less = 1 if self.sample else 0
        variance = f"CASE WHEN {n} > {less} THEN {m2} / ({n} - {less}) END"
        return f"sqrt({variance})" if self.root else variance


class ApproxDistinct(Aggregate):
    """approx_count_distinct(expression), by a HyperLogLog sketch."""

    def partials(self) -> tuple[Partial, ...]:
        return (Distinct(self.argument),)

    def value(self, *columns: str) -> pl.Expr:
        return _of_sketches(pl.col(columns[0]), hll_estimate, pl.Int64)

    def value_sql(self, *columns: str) -> str:
        return f"hll_sketch_estimate({columns[0]})"


@dataclass(frozen=True)
class ApproxPercentile(Aggregate):
    """approx_percentile(expression, share), by a KLL sketch of doubles."""

    share: float = 0.5

    def partials(self) -> tuple[Partial, ...]:
        return (Quantiles(self.argument),)

    def value(self, *columns: str) -> pl.Expr:
        return _of_sketches(pl.col(columns[0]), lambda data: kll_quantile(data, self.share), pl.Float64)

    def value_sql(self, *columns: str) -> str:
        (sketch,) = columns
        return (
            f"CASE WHEN kll_sketch_get_n_double({sketch}) > 0 "
            f"THEN kll_sketch_get_quantile_double({sketch}, CAST({self.share!r} AS DOUBLE)) END"
        )


def hll_estimate(data: bytes | None) -> int | None:
    """How many distinct values a HyperLogLog sketch has seen."""
    return None if data is None else round(ds.hll_sketch.deserialize(data).get_estimate())


def kll_quantile(data: bytes | None, share: float) -> float | None:
    """A quantile of a KLL sketch; None when it is empty."""
    if data is None:
        return None
    sketch = ds.kll_doubles_sketch.deserialize(data)
    return None if sketch.is_empty() else float(sketch.get_quantile(share, True))


_PLAIN: dict[str, type[Aggregate]] = {
    "count": CountOf,
    "sum": SumOf,
    "avg": Avg,
    "mean": Avg,
    "min": MinOf,
    "max": MaxOf,
    "first": FirstOf,
    "first_value": FirstOf,
    "any_value": FirstOf,
    "last": LastOf,
    "last_value": LastOf,
    "approx_count_distinct": ApproxDistinct,
    "approx_distinct": ApproxDistinct,
}
_SPREAD = {
    "variance": (True, False),
    "var_samp": (True, False),
    "var_pop": (False, False),
    "stddev": (True, True),
    "std": (True, True),
    "stddev_samp": (True, True),
    "stddev_pop": (False, True),
}
_PERCENTILE = ("approx_percentile", "percentile_approx", "approx_quantile")
KNOWN = (
    "count, sum, avg, min, max, variance, var_samp, var_pop, stddev, stddev_samp, stddev_pop, first, last, "
    "approx_count_distinct, approx_percentile"
)

#: Gives the Arrow type of a Spark SQL expression over the query's rows, aggregates included.
TypeOf = Callable[[str], pa.DataType]


def parse_aggregate(name: str, text: str, type_of: TypeOf) -> Aggregate:
    """Read one aggregate.

    >>> parse_aggregate("n", "count(*)", lambda sql: pa.int64()).partials()
    (Count(argument='*', fields=('',)),)
    >>> parse_aggregate("n", "median(x)", lambda sql: pa.int64())
    Traceback (most recent call last):
    ...
    slackwater.errors.QueryError: n='median(x)': unknown aggregate 'median'; known are count, sum, avg, ...
    """
    function, arguments = _call(name, text)
    if any(isinstance(a, exp.Distinct) for a in arguments):
        raise QueryError(f"{name}={text!r}: exact DISTINCT has no small partial; write approx_count_distinct(…)")
    first = _argument(text, arguments)
    if arguments and first == "*" and function != "count":
        column = "column, 0.5" if function in _PERCENTILE else "column"
        raise QueryError(f"{name}={text!r}: only count takes a star; write {function}({column})")
    if function in _PERCENTILE:
        if len(arguments) > 2:
            raise QueryError(f"{name}={text!r}: {function} takes an expression and a share; its accuracy is fixed")
        return ApproxPercentile(name, text, first, pa.float64(), _share(name, text, arguments))
    if function not in _PLAIN and function not in _SPREAD:
        raise QueryError(f"{name}={text!r}: unknown aggregate {function!r}; known are {KNOWN}")
    if len(arguments) > 1 or (not arguments and function != "count"):
        raise QueryError(f"{name}={text!r}: {function} takes one expression, as in {function}(x)")
    if function in _SPREAD:
        return Spread(name, text, first, pa.float64(), *_SPREAD[function])
    kind = _PLAIN[function]
    if kind is ApproxDistinct:
        return ApproxDistinct(name, text, _hashable(first, type_of(first)), pa.int64())
    if kind in (FirstOf, LastOf):
        return kind(name, text, first, type_of(first))
    whole = type_of(f"{function}({first})")
    if kind in (SumOf, Avg):
        return kind(name, text, first, whole, type_of(first))
    return kind(name, text, first, whole)


def _call(name: str, text: str) -> tuple[str, list[exp.Expression]]:
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        found = getattr(error, "errors", None)
        raise QueryError(
            f"{name}={text!r} is not an expression: {found[0]['description'] if found else error}"
        ) from None
    if not isinstance(tree, exp.Func):
        raise QueryError(f"{name}={text!r} is not an aggregate call; write one of {KNOWN}, as in {name}='sum(x)'")
    function = text.strip().split("(", 1)[0].strip().lower()
    if not text.strip().endswith(")") or (isinstance(tree, exp.Anonymous) and not tree.name):
        raise QueryError(f"{name}={text!r} is not a single aggregate call, as in {name}='sum(x)'")
    if not _aggregates(tree) and any(_aggregates(inner) for inner in tree.find_all(exp.Func)):
        raise QueryError(f"{name}={text!r}: the outermost call must be the aggregate, as in {name}='sum(x)'")
    arguments = [a for a in tree.args.values() if isinstance(a, exp.Expression)]
    arguments += [a for v in tree.args.values() if isinstance(v, list) for a in v if isinstance(a, exp.Expression)]
    if any(_aggregates(inner) for a in arguments for inner in a.find_all(exp.Func)):
        raise QueryError(f"{name}={text!r}: an aggregate inside an aggregate; aggregate a plain expression")
    return function, arguments


def _aggregates(call: exp.Func) -> bool:
    """Whether a call is an aggregate; some of Spark's names are not among those that sqlglot knows."""
    if isinstance(call, exp.Anonymous):
        return call.name.lower() in (*_PLAIN, *_SPREAD, *_PERCENTILE)
    return isinstance(call, exp.AggFunc)


def _argument(text: str, arguments: list[exp.Expression]) -> str:
    """The first argument; in the user's own words if it is the only one, so that nothing is lost in translation."""
    if len(arguments) == 1:
        return text.strip()[text.strip().index("(") + 1 : -1].strip()
    return arguments[0].sql(dialect="spark") if arguments else "*"


def _share(name: str, text: str, arguments: list[exp.Expression]) -> float:
    try:
        share = float(arguments[1].sql())
    except (IndexError, ValueError):
        raise QueryError(f"{name}={text!r}: give the share as a number, as in approx_percentile(x, 0.95)") from None
    if not 0 <= share <= 1:
        raise QueryError(f"{name}={text!r}: the share {share} is not between 0 and 1")
    return share


def _hashable(argument: str, kind: pa.DataType) -> str:
    """The argument in a type that Spark's hll_sketch_agg takes."""
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return f"CAST({argument} AS BIGINT)"
    if pa.types.is_floating(kind):
        return f"CAST(CASE WHEN {argument} = 0 THEN 0 ELSE {argument} END AS STRING)"  # -0.0 is 0.0
    return f"CAST({argument} AS STRING) || '.'"  # sketches pass over what is empty; an empty text is a value


def _of_sketches(x: pl.Expr, read: Callable[[bytes | None], Any], kind: Any) -> pl.Expr:
    return x.map_batches(lambda s: pl.Series([read(v) for v in s], dtype=kind), return_dtype=kind)


def _total(argument: str, kind: pa.DataType) -> Partial:
    """The sum of values of a type; Spark gives decimals ten more digits, for ten billion rows, if there is room."""
    full = pa.types.is_decimal(kind) and kind.precision > 28
    return CheckedSum(argument) if full else Sum(argument)


def _decimal_average(total: pl.Expr, count: pl.Expr, kind: pa.DataType) -> pl.Expr:
    # Exact as Spark's: Python's decimals, half up; results are few (groups of a window), not rows.
    context, unit = Context(prec=60, rounding=ROUND_HALF_UP), Decimal(1).scaleb(-kind.scale)

    def average(total: Decimal | None, count: int) -> Decimal | None:
        if total is None or not count:
            return None
        value = context.divide(total, Decimal(count)).quantize(unit, context=context)
        return value if value.adjusted() < kind.precision - kind.scale else None  # null where it does not fit

    result = pl.Decimal(kind.precision, kind.scale)
    return pl.struct(total.alias("s"), count.alias("n")).map_batches(
        lambda s: pl.Series([average(r["s"], r["n"]) for r in s.to_list()], dtype=result), return_dtype=result
    )
