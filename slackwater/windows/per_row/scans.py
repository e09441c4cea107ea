"""Running merges of partials: of a single row, from the first row to each row, and of two side by side.

The block method (van Herk, Gil and Werman) needs these. How each kind of partial does it stands with the partial.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from slackwater.aggregates.partial import RunningPartial
from slackwater.columns import TIME
from slackwater.progress.source_numbers import Ints
from slackwater.windows.per_row.rolling import RollingKernel
from slackwater.windows.results import WINDOW_START
from slackwater.windows.runs import gather

_OTHER = "__other"
#: Segments of at most this many elements are merged all at once rather than one by one.
_SHORT = 4


def lift(kernel: RollingKernel, rows: pl.DataFrame) -> list[pl.Expr]:
    """The partials of each row, and its time as the start of a window."""
    made = [pl.col(TIME).alias(WINDOW_START)]
    for partial, names in kernel.running.items():
        column = kernel.arguments.get(partial.row_sql)
        argument, kind = (pl.lit(1), pl.Int64()) if column is None else (pl.col(column), rows.schema[column])
        made += [e.alias(n) for n, e in zip(names, partial.lift(argument, kind), strict=True)]
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
    scans = all(isinstance(partial, RunningPartial) for partial in kernel.columns)
    if scans and np.count_nonzero(short) * _SHORT < frame.height:
        return _scanned(kernel, frame, lengths, reverse)
    if not scans or short.all():
        return _doubled(kernel, frame, lengths, reverse)
    # A scan has a price for each segment, doubling for each element: each for what it is good at.
    in_short = np.repeat(short, lengths)
    scanned = _scanned(kernel, frame.filter(pl.Series(~in_short)), lengths[~short], reverse)
    doubled = _doubled(kernel, frame.filter(pl.Series(in_short)), lengths[short], reverse)
    places = np.where(in_short, np.cumsum(in_short) - 1 + scanned.height, np.cumsum(~in_short) - 1)
    return pl.concat([scanned, doubled])[places]


def _scanned(kernel: RollingKernel, frame: pl.DataFrame, lengths: Ints, reverse: bool) -> pl.DataFrame:
    """Merge by polars' own running functions, segment by segment."""
    key = "__segment"
    if len(lengths) > 1:
        frame = frame.with_columns(pl.Series(key, np.repeat(np.arange(len(lengths)), lengths)))
    frame = frame.reverse() if reverse else frame

    def within(e: pl.Expr) -> pl.Expr:
        return e.over(key) if len(lengths) > 1 else e

    # The oldest is the first of the segment, or in reverse each itself.
    made = [] if reverse else [within(pl.col(WINDOW_START).first()).alias(WINDOW_START)]
    for partial, names in kernel.running.items():
        fields, kinds = [pl.col(n) for n in names], [frame.schema[n] for n in names]
        assert isinstance(partial, RunningPartial)
        scanned = partial.running(fields, kinds, within, reverse)
        made += [e.alias(n) for n, e in zip(names, scanned, strict=True)]
    done = frame.with_columns(made).drop(key, strict=False)
    return done.reverse() if reverse else done


def _doubled(kernel: RollingKernel, frame: pl.DataFrame, lengths: Ints, reverse: bool) -> pl.DataFrame:
    """Merge each element with the one 1, 2, 4 … places away, all segments at once."""
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
    for partial, names in kernel.running.items():
        old, new = [pl.col(n) for n in names], [pl.col(n + _OTHER) for n in names]
        merged = partial.pair(old, new, [older.schema[n] for n in names], by_value)
        made += [e.alias(n) for n, e in zip(names, merged, strict=True)]
    return beside.select(made)


def partial_columns(kernel: RollingKernel) -> list[str]:
    """Names of the columns of an element that are merged."""
    return [WINDOW_START, *(n for names in kernel.columns.values() for n in names)]
