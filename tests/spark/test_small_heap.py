"""A page may have more groups than the driver could hold: a heap in proportion to them is enough.

The heap, what Spark may bring to the driver and what a query may keep there are a quarter of the defaults, and so
are the groups: what holds here holds for five million groups in two gigabytes, of which Spark itself needs less.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytestmark = pytest.mark.spark

GROUPS = 1_250_000

CHILD = """
import sys
from pyspark.sql import SparkSession
import slackwater as sw

root = sys.argv[1]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.memory", "512m").config("spark.driver.maxResultSize", "64m")
spark = builder.getOrCreate()
heap = spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory()
with sw.Session(spark, resident_limit=64 * 2**20) as s:
    df = spark.readStream.schema("t BIGINT, k BIGINT, v DOUBLE").option("maxFilesPerTrigger", 1)
    rows = s.stream("rows", df.parquet(f"{root}/in"), time="t", disorder=sw.bounded(0))
    query = rows.window(100, slide=50).group_by("k").agg(n="count(*)", total="sum(v)")
    run = query.start(sink=f"{root}/out", hold=True)
    s.run_available(drain=False)
    print(heap // 2**20, run.metrics()["store"], run.metrics()["late_rows"])
"""


@pytest.mark.long
def test_a_page_of_a_million_groups_fits_half_a_gigabyte_of_heap(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for p in range(2):
        # The first page closes nothing; the second closes the first's window.
        rows = pl.DataFrame({"t": np.full(GROUPS, p * 100), "k": np.arange(GROUPS), "v": np.full(GROUPS, 1.5)})
        rows.slice(0, GROUPS if p == 0 else 10).write_parquet(tmp_path / f"in/{p}.parquet", row_group_size=125_000)
        os.utime(tmp_path / f"in/{p}.parquet", (1_000_000 + p, 1_000_000 + p))
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    # With the garbage collector and the settings of memory that users have, which are not those of the other tests.
    env = {**os.environ, "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["512", "spilled", "0"]
    results = pl.scan_parquet(tmp_path / "out/*.parquet").group_by("window_start")
    found = results.agg(pl.sum("n"), pl.sum("total"), pl.n_unique("k")).sort("window_start").collect()
    assert found.rows() == [(start, GROUPS, 1.5 * GROUPS, GROUPS) for start in (-50, 0)]
