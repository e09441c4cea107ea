"""Whether both sides answer the same question: their results against polars on the same files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from cases import Query

#: Values of the grouping column whose windows are compared.
_SAMPLE = 20


def compare_all(
    queries: Sequence[Query], files: Sequence[Path], native: Sequence[pl.DataFrame], ours: Sequence[pl.DataFrame]
) -> dict[str, int]:
    """What `compare` counts, over all queries."""
    counts: Counter[str] = Counter()
    for query, theirs, mine in zip(queries, native, ours, strict=True):
        counts.update(compare(query.key, truth(query, files), theirs, mine))
    return dict(counts)


def truth(query: Query, files: Sequence[Path]) -> pl.DataFrame:
    """All windows of the sampled values, from the rows themselves."""
    rows = pl.concat(pl.read_parquet(f).filter(pl.col(query.key) < _SAMPLE) for f in files)
    slide = query.slide_seconds * 1_000_000
    ticks = pl.col("ts").dt.epoch("us")
    last = ticks // slide
    first = (ticks - query.range_seconds * 1_000_000) // slide + 1
    starts = rows.with_columns(pl.int_ranges(first, last + 1).alias("window")).explode("window")
    return (
        starts.group_by("window", query.key)
        .agg(total=pl.col("v").sum(), n=pl.len(), top=pl.col("v").max())
        .with_columns((pl.col("window") * slide).cast(pl.Datetime("us", "UTC")).alias("window_start"))
    )


def compare(key: str, expected: pl.DataFrame, native: pl.DataFrame, ours: pl.DataFrame) -> dict[str, int]:
    """Results of windows that both sides have closed: how many were compared, how many differ on either side.

    Sums are compared up to rounding, because the order of addition is free.
    """
    by = ["window_start", key]
    sides = [_stamped(s, key).filter(pl.col(key) < _SAMPLE) for s in (native, ours)]
    closed = sides[0].select(by).join(sides[1].select(by), on=by)
    wanted = expected.join(closed, on=by)
    counts = {
        "compared": wanted.height,
        "unexpected": closed.height - wanted.height,
        "only_native": sides[0].height - closed.height,
        "only_ours": sides[1].height - closed.height,
        # A query of which nothing was compared must not hide behind the others.
        "empty": int(wanted.height == 0),
    }
    for name, side in zip(("native_differs", "ours_differs"), sides, strict=True):
        both = wanted.join(side, on=by, suffix="_got")
        equal = both.filter(
            (pl.col("n") == pl.col("n_got"))
            & (pl.col("top") == pl.col("top_got"))
            & ((pl.col("total") - pl.col("total_got")).abs() <= 1e-9 * pl.col("total").abs())
        )
        counts[name] = wanted.height - equal.height
    return counts


def agreed(counts: dict[str, int]) -> bool:
    """Whether something was compared of every query and nothing differs."""
    return not any(counts[k] for k in ("empty", "unexpected", "native_differs", "ours_differs"))


def _stamped(frame: pl.DataFrame, key: str) -> pl.DataFrame:
    return frame.with_columns(pl.col("window_start").cast(pl.Datetime("us", "UTC")), pl.col(key).cast(pl.Int64))
