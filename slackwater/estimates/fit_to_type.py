"""Fits estimates to the type of their column, and into their own interval."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.estimates.small_arrays import finite, within
from slackwater.progress.source_numbers import Floats

#: Whole numbers above this are not certain as floating-point numbers.
_LARGE = 2.0**62


def limits(kind: pa.DataType) -> tuple[float, float]:
    """The least and the largest value that a type can hold.

    >>> limits(pa.int8()), limits(pa.decimal128(4, 1))
    ((-128.0, 127.0), (-999.9, 999.9))
    """
    if pa.types.is_integer(kind):
        whole = np.iinfo(kind.to_pandas_dtype())
        return float(whole.min), float(whole.max)
    if pa.types.is_floating(kind):
        most = float(np.finfo(kind.to_pandas_dtype()).max)
        return -most, most
    most = (10**kind.precision - 1) / 10**kind.scale
    if kind.precision > 15:  # it may have been rounded up
        most *= 1 - 2.0**-50
    return -most, most


def fit_to_type(kind: pa.DataType, seen: Floats, center: Floats, low: Floats, high: Floats) -> tuple[Floats, ...]:
    """An estimate and the ends of its interval, if it has one; what is seen where no estimate fits.

    The interval is made of what happened, so an estimate outside of it moves to the nearer end.
    """
    least, most = limits(kind)
    estimate = within(np.fmin(np.fmax(center, low), high), least, most)
    if pa.types.is_decimal(kind):
        estimate = within(np.round(estimate, kind.scale), least, most)
    elif pa.types.is_integer(kind):  # the whole numbers within, but for what rounding errors leave out
        near = 1e-9 * (1 + np.abs(estimate))
        low, high, estimate = np.ceil(low - near), np.floor(high + near), np.round(estimate)
    low, high = within(low, least, most), within(high, least, most)
    known = np.isfinite(center) & (np.abs(seen) <= most)
    if pa.types.is_integer(kind):
        known &= np.abs(estimate) < _LARGE
    estimate = np.where(known, estimate, seen)
    return estimate, np.minimum(low, estimate), np.maximum(high, estimate)


def cast_to_type(values: pl.Series, seen: Floats, estimate: Floats) -> pl.Series:
    """The estimate in the type of the value: where it is what is seen, exactly that."""
    more = finite(estimate - seen)
    if values.dtype.is_integer():
        return (values.cast(pl.Int64) + pl.Series(more.astype(np.int64))).rename(values.name)
    guessed = pl.Series(values.name, np.where(more == 0, 0.0, estimate)).cast(values.dtype)
    return guessed.zip_with(pl.Series(more != 0), values)
