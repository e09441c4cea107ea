"""Arrays with runs of equal values: where a run begins, a value for each place of a run, and rows by number."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slackwater.progress.source_numbers import Ints

Bools = NDArray[np.bool_]


def grown(values: Ints, size: int, fill: int) -> Ints:
    """An array of at least this size; grows by halves, so that growing is cheap."""
    if len(values) >= size:
        return values
    larger = np.full(max(size, len(values) * 3 // 2), fill, np.int64)
    larger[: len(values)] = values
    return larger


def by_code(codes: Ints) -> Ints | None:
    """The order that brings equal codes together and leaves all else as it is; None if they are together."""
    if len(codes) == 0 or (codes[1:] >= codes[:-1]).all():
        return None
    small = codes.max() < 2**16  # numpy sorts these by radix
    return np.argsort(codes.astype(np.uint16) if small else codes, kind="stable")


def starts(*columns: Ints) -> Ints:
    """Where a stretch of equal values begins."""
    if len(columns[0]) == 0:
        return np.empty(0, np.int64)
    changed = np.zeros(len(columns[0]), bool)
    changed[0] = True
    for c in columns:
        changed[1:] |= c[1:] != c[:-1]
    return np.flatnonzero(changed)


def spread(values: Ints, at: Ints, size: int) -> Ints:
    """For each place the value of the stretch that it lies in; `at` are the stretches' starts."""
    return np.repeat(values, np.diff(at, append=size))


def gather(rows: pl.DataFrame, numbers: Ints) -> pl.DataFrame:
    """Rows by number, a row of nulls for -1."""
    wanted = pl.Series(numbers)
    if len(numbers) and numbers.min() < 0:
        wanted = pl.select(pl.when(wanted >= 0).then(wanted)).to_series()
    return rows.select(pl.all().gather(wanted))
