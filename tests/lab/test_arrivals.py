"""Generated streams are what their settings say: gaps, unequal sources, wrong clocks, delays that change."""

from __future__ import annotations

import numpy as np
import polars as pl

from experiments.lab import arrivals as make

SECOND = make.SECOND


def delays(rows: pl.DataFrame) -> np.ndarray:
    return (rows["arrival"] - rows["time"]).to_numpy() / SECOND


def test_nothing_is_made_in_a_gap() -> None:
    rows = make.arrivals(make.exponential(1), seconds=300, seed=1, gaps=(100, 30))
    assert (rows["time"].to_numpy() % (100 * SECOND)).max() < 70 * SECOND
    assert len(rows) > 0.6 * 300 * 100


def test_zipf_sources_send_less_and_less_and_have_delays_of_their_own() -> None:
    rows = make.arrivals(make.exponential(1), seconds=300, seed=1, sources=5, zipf=1.5)
    sizes = dict(rows.group_by("source").len().iter_rows())
    assert sizes["s0"] > 2 * sizes["s1"] > 2 * sizes["s3"]
    means = rows.group_by("source").agg((pl.col("arrival") - pl.col("time")).mean().alias("d"))["d"]
    assert means.max() > 2 * means.min()


def test_a_wrong_clock_is_wrong_by_the_same_amount_all_the_time() -> None:
    rows = make.arrivals(make.uniform(1), seconds=200, seed=1, sources=4, offset=30)
    lag = rows.group_by("source").agg(
        ((pl.col("arrival") - pl.col("time")) / SECOND).min().alias("least"),
        ((pl.col("arrival") - pl.col("time")) / SECOND).max().alias("most"),
    )
    assert (lag["most"] - lag["least"]).max() <= 1
    assert lag["least"].min() >= -30
    assert lag["most"].max() <= 31
    assert lag["least"].max() - lag["least"].min() > 5


def test_delays_rise_and_fall_with_the_season_and_walk_by_chance() -> None:
    rows = make.arrivals(make.seasons(2, 400), seconds=400, seed=1)
    made = rows["time"].to_numpy() / SECOND
    assert delays(rows)[(made > 50) & (made < 150)].mean() > 3 * delays(rows)[(made > 250) & (made < 350)].mean()
    walk = make.arrivals(make.walking(2, 0.1), seconds=400, seed=1)
    seconds = walk["time"].to_numpy() // (20 * SECOND)
    means = [delays(walk)[seconds == k].mean() for k in range(18)]
    assert max(means) > 1.5 * min(means)
