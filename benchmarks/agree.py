"""Whether both sides answer the same question: their results against polars on the same files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from cases import RANGE_SECONDS, Case

#: Keys whose windows are compared.
_SAMPLE = 20
_BY = ["window_start", "key"]


def truth(case: Case, files: Sequence[Path]) -> pl.DataFrame:
    """All windows of the sampled keys, from the rows themselves."""
    rows = pl.concat(pl.read_parquet(f).filter(pl.col("key") < _SAMPLE) for f in files)
    slide = case.slide_seconds * 1_000_000
    ticks = pl.col("ts").dt.epoch("us")
    last = ticks // slide
    first = (ticks - RANGE_SECONDS * 1_000_000) // slide + 1
    starts = rows.with_columns(pl.int_ranges(first, last + 1).alias("window")).explode("window")
    return (
        starts.group_by("window", "key")
        .agg(total=pl.col("v").sum(), n=pl.len(), top=pl.col("v").max())
        .with_columns((pl.col("window") * slide).cast(pl.Datetime("us", "UTC")).alias("window_start"))
    )


def compare(expected: pl.DataFrame, native: pl.DataFrame, ours: pl.DataFrame) -> dict[str, int]:
    """Results of windows that both sides have closed: how many were compared, how many differ on either side.

    Sums are compared up to rounding, because the order of addition is free.
    """
    sides = [_stamped(s).filter(pl.col("key") < _SAMPLE) for s in (native, ours)]
    closed = sides[0].select(_BY).join(sides[1].select(_BY), on=_BY)
    wanted = expected.join(closed, on=_BY)
    counts = {
        "compared": wanted.height,
        "unexpected": closed.height - wanted.height,
        "only_native": sides[0].height - closed.height,
        "only_ours": sides[1].height - closed.height,
    }
    for name, side in zip(("native_differs", "ours_differs"), sides, strict=True):
        both = wanted.join(side, on=_BY, suffix="_got")
        equal = both.filter(
            (pl.col("n") == pl.col("n_got"))
            & (pl.col("top") == pl.col("top_got"))
            & ((pl.col("total") - pl.col("total_got")).abs() <= 1e-9 * pl.col("total").abs())
        )
        counts[name] = wanted.height - equal.height
    return counts


def agreed(counts: dict[str, int]) -> bool:
    """Whether something was compared and nothing differs."""
    return counts["compared"] > 0 and not any(counts[k] for k in ("unexpected", "native_differs", "ours_differs"))


def _stamped(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("window_start").cast(pl.Datetime("us", "UTC")), pl.col("key").cast(pl.Int64))
