"""Arrival statistics of a page as Spark aggregates, the same for every page (D2), and how they are read."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from datasketches import kll_doubles_sketch
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.columns import PUNCTUATION, SOURCE, TIME
from slackwater.progress.arrival import SKETCH_K, Arrival, SourceArrivals
from slackwater.progress.time import MIN_TICK

ALL, MISSING = "__all", "__missing"
_LOW, _HIGH, _ABOVE, _BELOW, _SAID, _ONLY = "__low", "__high", "__above", "__below", "__said", "__only"
#: The most rows of a glance. It samples one of these shares: each share has a plan that Spark compiles.
_GLANCE, _SHARES, _SEED = 100_000, (1.0, 1 / 4, 1 / 16, 1 / 64, 1 / 256), 1
COLUMNS = (ALL, MISSING, _LOW, _HIGH, _ABOVE, _BELOW, _SAID, _ONLY)


def time_statistics_sql(total: bool, punctuated: bool) -> dict[str, str]:
    """Spark SQL of aggregates that may stand beside a page's partials, by column; rows are counted there."""
    made = {_LOW: f"min({TIME})", _HIGH: f"max({TIME})"}
    if total:
        # Two sums, because one would overflow 64 bits within a million rows of microseconds.
        made |= {_ABOVE: f"sum(shiftright({TIME}, 20))", _BELOW: f"sum({TIME} & 1048575L)"}
    if punctuated:
        only = f"count_if({TIME} IS NULL AND {PUNCTUATION} IS NOT NULL)"
        made |= {_SAID: f"max({PUNCTUATION})", _ONLY: only}
    return made


@lru_cache(maxsize=64)
def time_statistics(total: bool, punctuated: bool) -> tuple[Column, ...]:
    """The statistics as columns."""
    return tuple(F.expr(sql).alias(name) for name, sql in time_statistics_sql(total, punctuated).items())


@lru_cache(maxsize=64)
def page_statistics(total: bool, punctuated: bool) -> tuple[Column, ...]:
    """All statistics of a page, for a job of their own or to be observed."""
    rows = F.count(F.lit(1)).alias(ALL)
    missing = F.count_if(F.col(TIME).isNull()).alias(MISSING)
    return (rows, missing, *time_statistics(total, punctuated))


@lru_cache(maxsize=1)
def sketch_column() -> Column:
    """The sketch of a page's times."""
    return F.expr(f"kll_sketch_agg_double(CAST({TIME} AS DOUBLE), {SKETCH_K})").alias("sketch")


@lru_cache(maxsize=1)
def observed_sketch() -> Column:
    """The same to be observed: as text, for py4j takes 0.1 s to hand over these bytes."""
    return F.base64(sketch_column()).alias("sketch")


def read_sketch(seen: str | None) -> bytes | None:
    """The sketch that was observed; None if there was no row."""
    return None if seen is None else base64.b64decode(seen)


def glance(rows: DataFrame, about: int) -> bytes | None:
    """One job: the sketch of the times of a sample of about this many rows; None if no row of it has a time."""
    share = next((s for s in _SHARES if about * s <= _GLANCE), _SHARES[-1])
    some = rows if share == 1 else rows.sample(share, _SEED)
    found: bytes | None = some.agg(sketch_column()).toArrow()["sketch"][0].as_py()
    # Of no times Spark gives a sketch that is empty.
    return None if found is None or kll_doubles_sketch.deserialize(found).is_empty() else found


def read_arrival(statistics: pl.DataFrame, at: int, sketch: bytes | None) -> Arrival:
    """Arrival statistics from rows of them: one, or one for each source or group."""
    has_total, has_said = _ABOVE in statistics.columns, _SAID in statistics.columns
    seen: dict[str, Any] = statistics.select(
        pl.col(ALL).sum(),
        pl.col(MISSING).sum(),
        pl.col(_LOW).min(),
        pl.col(_HIGH).max(),
        *([pl.col(_ABOVE).sum(), pl.col(_BELOW).sum()] if has_total else []),
        *([pl.col(_SAID).max(), pl.col(_ONLY).sum()] if has_said else []),
    ).row(0, named=True)
    only = seen.get(_ONLY, 0)
    return Arrival(
        seen[ALL] - only,
        seen[MISSING] - only,
        seen[_LOW],
        seen[_HIGH],
        at,
        (seen[_ABOVE] << 20) + seen[_BELOW] if has_total else None,
        sketch,
        seen.get(_SAID),
        _by_source(statistics) if SOURCE in statistics.columns else None,
    )


def _by_source(statistics: pl.DataFrame) -> SourceArrivals:
    has_said = _SAID in statistics.columns
    by = statistics.group_by(SOURCE).agg(
        (pl.col(ALL) - pl.col(MISSING)).sum().alias("rows"),
        pl.col(_LOW).min(),
        pl.col(_HIGH).max(),
        (pl.col(_SAID).max() if has_said else pl.lit(None, pl.Int64)).alias(_SAID),
    )
    by = by.filter((pl.col("rows") > 0) | pl.col(_SAID).is_not_null()).sort(SOURCE)
    rows, low, high, said = (by[c].fill_null(MIN_TICK).to_numpy().astype(np.int64) for c in by.columns[1:])
    return SourceArrivals(by[SOURCE].to_list(), rows, low, high, said if has_said else None)
