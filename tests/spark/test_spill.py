"""Partials too many for the driver stay on the file system, and give the same answers."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from tests.kit.windows import window_of

pytestmark = pytest.mark.spark

AGGREGATES = {
    "n": "count(*)",
    "total": "sum(v)",
    "mean": "avg(v)",
    "low": "min(v)",
    "top": "max(v)",
    "sd": "stddev(v)",
    "var": "var_pop(v)",
    "distinct": "approx_count_distinct(v)",
    "median": "approx_percentile(v, 0.5)",
    "head": "first(v)",
    "tail": "last(k)",
    "money": "sum(CAST(v AS DECIMAL(12, 3)))",
    "share": "avg(CAST(v AS DECIMAL(12, 3)))",
}


def write_pages(folder: Path, pages: int, seed: int) -> None:
    source = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    for p in range(pages):
        t = p * 50 - 100 + source.integers(-30, 50, 400)
        value = source.integers(0, 40, 400).astype(float)
        rows = pl.DataFrame({"t": t, "k": t % 5, "v": value}).with_columns(
            pl.when(pl.col("v") > 5).then("v"), pl.when(pl.col("k") > 0).then("k")
        )
        rows.write_parquet(folder / f"{p}.parquet")
        os.utime(folder / f"{p}.parquet", (1_000_000 + p, 1_000_000 + p))


def answers(
    spark: SparkSession, tmp_path: Path, limit: int, **window: int
) -> tuple[list[tuple[object, ...]], dict]:
    with sw.Session(spark, resident_limit=limit, batch_pages=False) as s:
        df = spark.readStream.schema("t BIGINT, k BIGINT, v DOUBLE").option("maxFilesPerTrigger", 1)
        rows = s.stream("rows", df.parquet(str(tmp_path / "in")), time="t", disorder=sw.bounded(10))
        run = window_of(rows, **window).group_by("k").agg(**AGGREGATES).start(hold=True)
        s.run_available()
        frame = pl.DataFrame(run.results())
        return sorted(frame.drop("emitted_at").rows(), key=str), run.metrics()


@pytest.mark.parametrize(
    "window",
    [{"range": 70, "slide": 30}, pytest.param({"range": 40, "slide": 40, "offset": 7}, marks=pytest.mark.long)],
)
def test_spilled_panes_answer_as_resident_ones(spark: SparkSession, tmp_path: Path, window: dict[str, int]) -> None:
    write_pages(tmp_path / "in", pages=3, seed=3)
    resident, figures = answers(spark, tmp_path, 2**30, **window)
    spilled, spilled_figures = answers(spark, tmp_path, 0, **window)
    assert (figures["store"], spilled_figures["store"]) == ("resident", "spilled")
    for name in ("late_rows", "lost_pairs", "windows", "results", "rows"):
        assert figures[name] == spilled_figures[name]
    assert figures["late_rows"] > 0
    assert len(resident) == len(spilled)
    for a, b in zip(resident, spilled, strict=True):
        assert a == pytest.approx(b)
