"""Running merges of partials: of a single row, from the first row to each row, and of two side by side.

What the block method (van Herk, Gil and Werman) needs of each kind of partial. Nothing is ever subtracted, so
floats are as good as in a merge from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from slackwater.columns import TIME
from slackwater.progress.sources import Ints
from slackwater.windows.partials import (
    CheckedSum,
    Count,
    DoubleSum,
    First,
    Last,
    Max,
    Min,
    Moments,
    Partial,
    Sum,
    fit,
    left,
)
from slackwater.windows.per_row.arena import gather
from slackwater.windows.per_row.rolling import RollingKernel
from slackwater.windows.results import WINDOW_START

_OTHER = "__other"
#: Segments of at most this many elements are merged all at once rather than one by one.
_SHORT = 4
_NAN = pl.lit(float("nan"))

#: Applies an expression within segments of equal groups and blocks.
Within = Callable[[pl.Expr], pl.Expr]


def lift(kernel: RollingKernel, rows: pl.DataFrame) -> list[pl.Expr]:
    """The partials of each row, and its time as the start of a window."""
    made = [pl.col(TIME).alias(WINDOW_START)]
    for partial, names in kernel.columns.items():
        column = kernel.arguments.get(partial.argument)
        made += [e.alias(n) for n, e in zip(names, _lift(partial, column, rows.schema), strict=True)]
    return made


def fold(kernel: RollingKernel, elements: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Elements of equal keys merged into one, in the order of their first."""
    merged = [pl.col(WINDOW_START).min()]
    for partial, names in kernel.columns.items():
        merged += [e.alias(n) for n, e in zip(names, partial.merge(*names), strict=True)]
    return elements.group_by(by, maintain_order=True).agg(merged)


def running(kernel: RollingKernel, elements: pl.DataFrame, at: Ints, reverse: bool = False) -> pl.DataFrame:
    """Each element merged with all before it in its segment; in reverse, with all behind it.

    Elements lie in the order of time within segments, which begin `at` these places.
    """
    frame = elements.select(partial_columns(kernel))
    lengths = np.diff(at, append=frame.height)
    short = lengths <= _SHORT
    if np.count_nonzero(short) * _SHORT < frame.height:
        return _scanned(kernel, frame, lengths, reverse)
    if short.all():
        return _doubled(kernel, frame, lengths, reverse)
    # A scan has a price for each segment, doubling for each element: each for what it is good at.
    in_short = np.repeat(short, lengths)
    scanned = _scanned(kernel, frame.filter(pl.Series(~in_short)), lengths[~short], reverse)
    doubled = _doubled(kernel, frame.filter(pl.Series(in_short)), lengths[short], reverse)
    places = np.where(in_short, np.cumsum(in_short) - 1 + scanned.height, np.cumsum(~in_short) - 1)
    return pl.concat([scanned, doubled])[places]


def _scanned(kernel: RollingKernel, frame: pl.DataFrame, lengths: Ints, reverse: bool) -> pl.DataFrame:
    """By polars' own running functions, segment by segment."""
    key = "__segment"
    if len(lengths) > 1:
        frame = frame.with_columns(pl.Series(key, np.repeat(np.arange(len(lengths)), lengths)))
    frame = frame.reverse() if reverse else frame

    def within(e: pl.Expr) -> pl.Expr:
        return e.over(key) if len(lengths) > 1 else e

    # The oldest is the first of the segment, or in reverse each itself.
    made = [] if reverse else [within(pl.col(WINDOW_START).first()).alias(WINDOW_START)]
    for partial, names in kernel.columns.items():
        scanned = _running(partial, names, frame.schema, within, reverse)
        made += [e.alias(n) for n, e in zip(names, scanned, strict=True)]
    done = frame.with_columns(made).drop(key, strict=False)
    return done.reverse() if reverse else done


def _doubled(kernel: RollingKernel, frame: pl.DataFrame, lengths: Ints, reverse: bool) -> pl.DataFrame:
    """By merging each element with the one 1, 2, 4 … places away, all segments at once."""
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    last = first + np.repeat(lengths, lengths) - 1
    here, far, longest = np.arange(frame.height), 1, int(lengths.max(initial=0))
    while far < longest:
        if reverse:
            frame = pair(kernel, frame, gather(frame, np.where(here + far <= last, here + far, -1)))
        else:
            frame = pair(kernel, gather(frame, np.where(here - far >= first, here - far, -1)), frame)
        far *= 2
    return frame


def pair(kernel: RollingKernel, older: pl.DataFrame, newer: pl.DataFrame) -> pl.DataFrame:
    """Two columns of partials merged row by row; a row of nulls has nothing to give.

    Where both have a first (or last) value at the same time, a range window takes the smaller (larger) value, as
    sliding windows do; in a count window rows have an order of their own and the older one is the first.
    """
    by_value = kernel.spec.range is not None
    beside = pl.concat([older, newer.rename(lambda c: c + _OTHER)], how="horizontal")
    made = [pl.min_horizontal(WINDOW_START, WINDOW_START + _OTHER).alias(WINDOW_START)]
    for partial, names in kernel.columns.items():
        merged = _pair(partial, names, older.schema, by_value)
        made += [e.alias(n) for n, e in zip(names, merged, strict=True)]
    return beside.select(made)


def partial_columns(kernel: RollingKernel) -> list[str]:
    """Names of the columns of an element that are merged."""
    return [WINDOW_START, *(n for names in kernel.columns.values() for n in names)]


def _lift(partial: Partial, column: str | None, schema: pl.Schema) -> tuple[pl.Expr, ...]:
    if column is None:
        return (pl.lit(1, pl.Int64),)
    x = pl.col(column)
    match partial:
        case Count():
            return (x.is_not_null().cast(pl.Int64),)
        case DoubleSum():
            return (x.cast(pl.Float64),)
        case Sum():
            return (x.cast(_sum_type(schema[column])),)
        case CheckedSum():
            return x.is_not_null().cast(pl.Int64), x.cast(_sum_type(schema[column]))
        case Min() | Max():
            return (x,)
        case First() | Last():
            return pl.col(TIME), x
        case Moments():
            double = x.cast(pl.Float64)
            there = double.is_not_null()
            return there.cast(pl.Int64), double, pl.when(there).then(double * 0.0)  # NaN stays NaN
    raise TypeError(f"{partial} has no running merge")


def _sum_type(kind: pl.DataType) -> pl.DataType | type[pl.DataType]:
    if isinstance(kind, pl.Decimal):
        return pl.Decimal(38, kind.scale)
    return pl.Int64 if kind.is_integer() else pl.Float64


def _running(
    partial: Partial, names: Sequence[str], schema: pl.Schema, within: Within, reverse: bool
) -> tuple[pl.Expr, ...]:
    x = pl.col(names[0])
    match partial:
        case Count():
            return (within(x.cum_sum()),)
        case Sum():
            return (within(pl.when(x.cum_count() > 0).then(x.fill_null(0).cum_sum())),)
        case CheckedSum():
            return tuple(within(e) for e in _running_checked(x, pl.col(names[1])))
        case Min() if schema[names[0]].is_float():
            low = x.fill_nan(None).cum_min().forward_fill()
            only_nan = pl.when(x.cum_count() > 0).then(_NAN)
            return (within(pl.coalesce(low, only_nan)),)
        case Max() if schema[names[0]].is_float():
            seen = x.is_nan().fill_null(False).cum_max()
            return (within(pl.when(seen).then(_NAN).otherwise(x.fill_nan(None).cum_max().forward_fill())),)
        case Min():
            return (within(x.cum_min().forward_fill()),)
        case Max():
            return (within(x.cum_max().forward_fill()),)
        case First() | Last():
            if isinstance(partial, First) is reverse:
                return x, pl.col(names[1])
            return within(x.first()), within(pl.col(names[1]).first())
        case Moments():
            return _running_moments(names, within)
    raise TypeError(f"{partial} has no running merge")


def _running_checked(n: pl.Expr, x: pl.Expr) -> tuple[pl.Expr, ...]:
    units = x.to_physical().fill_null(0)
    fits = fit(units.cum_sum(), units.cast(pl.Float64).cum_sum())
    gone = (left(n, x) | ~fits).cum_max()
    # What does not fit is not added, it would be an error.
    total = pl.when(~gone).then(x).fill_null(0).cum_sum()
    return n.cum_sum(), pl.when(~gone & (n.cum_sum() > 0)).then(total)


def _running_moments(names: Sequence[str], within: Within) -> tuple[pl.Expr, ...]:
    n, mean, m2 = (pl.col(name) for name in names)
    # Distances from the first mean of the segment: that one is among the merged, so the square of the mean's own
    # distance is at most n times the variance, and what cancels costs n units in the last place at worst.
    first = mean.drop_nulls().first()
    far = (mean - first).fill_null(0.0)
    count, total = n.cum_sum(), (n * far).cum_sum()
    squares = (m2.fill_null(0.0) + n * far * far).cum_sum()
    spread = squares - total * total / count
    spread = pl.when(spread < 0).then(0.0).otherwise(spread)
    return (
        within(count),
        within(pl.when(count > 0).then(first + total / count)),
        within(pl.when(count > 0).then(spread)),
    )


def _pair(partial: Partial, names: Sequence[str], schema: pl.Schema, by_value: bool) -> tuple[pl.Expr, ...]:
    old, new = [pl.col(n) for n in names], [pl.col(n + _OTHER) for n in names]
    a, b = old[0], new[0]
    match partial:
        case Count():
            return (a.fill_null(0) + b.fill_null(0),)
        case Sum():
            return (pl.coalesce(a + b, a, b),)
        case CheckedSum():
            return _pair_checked(old, new)
        case Min():  # in polars too NaN is above every number
            return (pl.when(b.is_null() | (a <= b)).then(a).otherwise(b),)
        case Max():
            return (pl.when(b.is_null() | (a >= b)).then(a).otherwise(b),)
        case First() | Last():
            by_value &= not schema[names[1]].is_nested()
            takes_old = _first(old, new, by_value) if isinstance(partial, First) else ~_last(old, new, by_value)
            return tuple(pl.when(takes_old).then(x).otherwise(y) for x, y in zip(old, new, strict=True))
        case Moments():
            return _pair_moments(old, new)
    raise TypeError(f"{partial} has no running merge")


def _first(old: Sequence[pl.Expr], new: Sequence[pl.Expr], by_value: bool) -> pl.Expr:
    """Whether the older one has the first value; null is below every value."""
    (t, v), (u, w) = old, new
    tie = (v.is_null() | (v <= w).fill_null(False)) if by_value else pl.lit(True)
    return t.is_not_null() & (u.is_null() | (t < u) | ((t == u) & tie))


def _last(old: Sequence[pl.Expr], new: Sequence[pl.Expr], by_value: bool) -> pl.Expr:
    """Whether the newer one has the last value; null is below every value."""
    (t, v), (u, w) = old, new
    tie = (v.is_null() | (w >= v).fill_null(False)) if by_value else pl.lit(True)
    return u.is_not_null() & (t.is_null() | (u > t) | ((t == u) & tie))


def _pair_checked(old: Sequence[pl.Expr], new: Sequence[pl.Expr]) -> tuple[pl.Expr, ...]:
    (m, a), (n, b) = ((n.fill_null(0), x) for n, x in (old, new))
    units = a.to_physical().fill_null(0), b.to_physical().fill_null(0)
    about = [u.cast(pl.Float64) for u in units]
    fits = ~left(m, a) & ~left(n, b) & fit(units[0] + units[1], about[0] + about[1])
    # What does not fit is not added, it would be an error.
    total = pl.when(fits).then(a).fill_null(0) + pl.when(fits).then(b).fill_null(0)
    return m + n, pl.when(fits & (m + n > 0)).then(total)


def _pair_moments(old: Sequence[pl.Expr], new: Sequence[pl.Expr]) -> tuple[pl.Expr, ...]:
    (m, a, p), (n, b, q) = old, new
    m, n = m.fill_null(0), n.fill_null(0)
    both = m + n
    far = b - a
    mean = pl.when(n == 0).then(a).when(m == 0).then(b).otherwise(a + far * n / both)
    spread = pl.when(n == 0).then(p).when(m == 0).then(q).otherwise(p + q + far * far * m * n / both)
    return both, mean, spread
