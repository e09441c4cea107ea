"""Partials too many for the driver stay on the file system, and give the same answers."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw

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
    with sw.Session(spark, resident_limit=limit) as s:
        df = spark.readStream.schema("t BIGINT, k BIGINT, v DOUBLE").option("maxFilesPerTrigger", 1)
        rows = s.stream("rows", df.parquet(str(tmp_path / "in")), time="t", disorder=sw.bounded(10))
        run = rows.window(**window).group_by("k").agg(**AGGREGATES).start(hold=True)
        s.run_available()
        frame = pl.DataFrame(run.results())
        return sorted(frame.drop("emitted_at").rows(), key=str), run.metrics()


@pytest.mark.parametrize("window", [{"range": 70, "slide": 30}, {"range": 40, "slide": 40, "offset": 7}])
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


def test_a_page_of_five_million_groups_fits_two_gigabytes_of_heap(spark: SparkSession, tmp_path: Path) -> None:
    assert spark.conf.get("spark.driver.memory") == "2g"
    groups = 5_000_000
    (tmp_path / "in").mkdir()
    for p in range(2):
        # The first page closes nothing; the second closes the first's window.
        rows = pl.DataFrame({"t": np.full(groups, p * 100), "k": np.arange(groups), "v": np.full(groups, 1.5)})
        rows.slice(0, groups if p == 0 else 10).write_parquet(tmp_path / f"in/{p}.parquet", row_group_size=500_000)
        os.utime(tmp_path / f"in/{p}.parquet", (1_000_000 + p, 1_000_000 + p))
    with sw.Session(spark) as s:
        df = spark.readStream.schema("t BIGINT, k BIGINT, v DOUBLE").option("maxFilesPerTrigger", 1)
        rows = s.stream("rows", df.parquet(str(tmp_path / "in")), time="t", disorder=sw.bounded(0))
        query = rows.window(range=100, slide=50).group_by("k").agg(n="count(*)", total="sum(v)")
        run = query.start(sink=tmp_path / "out", hold=True)
        s.run_available(drain=False)
        assert run.metrics()["store"] == "spilled"
        assert run.metrics()["late_rows"] == 0
    out = spark.read.parquet(str(tmp_path / "out"))
    out.createOrReplaceTempView("five_million")
    windows = spark.sql("SELECT window_start, sum(n), sum(total), count(k) FROM five_million GROUP BY 1").collect()
    assert sorted(tuple(w) for w in windows) == [(s, groups, 1.5 * groups, groups) for s in (-50, 0)]
