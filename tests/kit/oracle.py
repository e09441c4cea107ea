"""The answer recomputed from scratch: every row beside every window, those outside struck out, the rest grouped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from slackwater.windows.spec import CumulateSpec, WindowSpec

X, T, WHOLE = pl.col("x"), pl.col("t"), pl.col("i")
BOTH = WHOLE.is_not_null() & pl.col("s").is_not_null()
OVER = (WHOLE > 0).fill_null(False)

#: An aggregate by polars' own means, or as Python over the values of `x` that are not null.
Means = pl.Expr | Callable[[list[float]], float | None]


def _largest(values: list[float]) -> float | None:
    """Spark's max: NaN is above every number."""
    return math.nan if any(math.isnan(v) for v in values) else max(values, default=None)


def _smallest(values: list[float]) -> float | None:
    """Spark's min: NaN only where there is nothing else."""
    return min((v for v in values if not math.isnan(v)), default=math.nan if values else None)


def _three_tenths(values: list[float]) -> float | None:
    """The smallest value that at least 0.3 of the values do not exceed."""
    return sorted(values)[max(math.ceil(0.3 * len(values)), 1) - 1] if values else None


def _sum(values: pl.Expr) -> pl.Expr:
    return pl.when(values.count() > 0).then(values.sum())


def _at(value: pl.Expr, place: pl.Expr) -> pl.Expr:
    """Values in the order of their places, those without one left out."""
    there = place.is_not_null()
    return value.filter(there).sort_by(place.filter(there), value.filter(there))


#: Text of each aggregate, and what it is.
AGGREGATES: dict[str, tuple[str, Means]] = {
    "n": ("count(*)", pl.len().cast(pl.Int64)),
    "nx": ("count(x)", X.count().cast(pl.Int64)),
    "total": ("sum(x)", pl.when(X.count() > 0).then(X.sum())),
    "whole": ("sum(i)", pl.when(pl.col("i").count() > 0).then(pl.col("i").sum())),
    "mean": ("avg(x)", X.mean()),
    "mean_i": ("avg(i)", pl.col("i").mean()),
    "low": ("min(x)", X.min()),
    "high": ("max(x)", X.max()),
    "low_s": ("min(s)", pl.col("s").min()),
    "high_s": ("max(s)", pl.col("s").max()),
    "high_i": ("max(i)", pl.col("i").max()),
    "var": ("variance(x)", X.var(ddof=1)),
    "var_all": ("var_pop(x)", X.var(ddof=0)),
    "sd": ("stddev(x)", X.std(ddof=1)),
    "sd_all": ("stddev_pop(x)", X.std(ddof=0)),
    # Columns of one row: simultaneous rows are ordered by x, then s, as these aggregates are written.
    "begins": ("first(x)", X.sort_by(T, X, "s").first()),
    "ends": ("last(x)", X.sort_by(T, X, "s").last()),
    "begins_s": ("first(s)", pl.col("s").sort_by(T, X, "s").first()),
    "ends_s": ("last(s)", pl.col("s").sort_by(T, X, "s").last()),
    "total_over": ("sum(x) FILTER (WHERE i > 0)", pl.when(OVER & X.is_not_null()).then(X).pipe(_sum)),
    "n_over": ("count(*) FILTER (WHERE i > 0)", OVER.sum().cast(pl.Int64)),
    "if_over": ("count_if(i > 0)", OVER.sum().cast(pl.Int64)),
    "every": ("bool_and(i > 0)", (WHOLE > 0).min()),
    "some": ("bool_or(i > 0)", (WHOLE > 0).max()),
    "bits": ("bit_xor(i)", WHOLE.bitwise_xor()),
    "least_at": ("min_by(x, i)", _at(X, WHOLE).first()),
    "most_at": ("max_by(s, x)", _at(pl.col("s"), X).last()),
    "first_over": (
        "first(s) FILTER (WHERE i > 0)",
        pl.col("s").filter(OVER).sort_by(T.filter(OVER), pl.col("s").filter(OVER)).first(),
    ),
    "exact_i": ("count(DISTINCT i)", WHOLE.drop_nulls().n_unique().cast(pl.Int64)),
    "exact_is": ("count(DISTINCT i, s)", pl.struct("i", "s").filter(BOTH).n_unique().cast(pl.Int64)),
    "sum_once": ("sum(DISTINCT x) FILTER (WHERE i > 0)", _sum(X.filter(OVER).unique())),
    "all_s": ("collect_list(s)", _at(pl.col("s"), T).drop_nulls()),
    "set_x": ("collect_set(x)", X.drop_nulls().unique().sort()),
    "middle": ("median(x)", X.median()),
    "often": ("mode(i)", WHOLE.drop_nulls().mode().min()),
    "distinct_s": ("approx_count_distinct(s)", pl.col("s").drop_nulls().n_unique().cast(pl.Int64)),
    "distinct_x": ("approx_count_distinct(x)", X.drop_nulls().n_unique().cast(pl.Int64)),
    "p30": ("approx_percentile(x, 0.3)", _three_tenths),
    "p0": ("approx_percentile(x, 0)", X.min()),
    "p100": ("approx_percentile(x, 1)", X.max()),
}
#: Those that say something of NaN.
NAN_AGGREGATES: dict[str, tuple[str, Means]] = {
    "n": ("count(*)", pl.len().cast(pl.Int64)),
    "low": ("min(x)", _smallest),
    "high": ("max(x)", _largest),
}


def recompute(
    rows: pl.DataFrame, spec: WindowSpec, groups: Sequence[str], aggregates: dict[str, tuple[str, Means]]
) -> list[dict[str, Any]]:
    """All final results of some rows, by trying every window on every row."""
    if rows.height == 0:
        return []
    low, high = rows["t"].min(), rows["t"].max()
    assert isinstance(low, int) and isinstance(high, int)
    first = (low - spec.offset - spec.range) // spec.slide - 1
    last = (high - spec.offset) // spec.slide + 1
    starts = [spec.offset + k * spec.slide for k in range(first, last + 1)]
    bounds = [(start, start + spec.range) for start in starts]
    if isinstance(spec, CumulateSpec):
        begins = sorted({(start - spec.offset) // spec.range * spec.range + spec.offset for start in starts})
        lengths = range(spec.slide, spec.range + 1, spec.slide)
        bounds = [(start, start + length) for start in begins for length in lengths]
    windows = pl.DataFrame(bounds, schema=["window_start", "window_end"], orient="row")
    inside = rows.join(windows, how="cross").filter(T.is_between("window_start", "window_end", closed="left"))
    made = [X.drop_nulls().alias(n) if callable(m) else m.alias(n) for n, (_, m) in aggregates.items()]
    results = inside.group_by("window_start", "window_end", *groups).agg(made).to_dicts()
    for row in results:
        row.update({n: means(row[n]) for n, (_, means) in aggregates.items() if callable(means)})
    return results
