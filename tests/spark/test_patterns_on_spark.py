"""S5 section 2.1 on Spark: punctuations over several attributes, `[<= 10, 2, *]`, and of a range of time."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater as sw

pytestmark = pytest.mark.spark

COLUMNS = "t LONG, sensor INT, lane STRING, v INT, upto LONG, since LONG, at LONG"
ROWS = [
    (1, 1, "x", 1, None, None, 0),
    (2, 2, "x", 2, None, None, 0),
    (12, 1, "x", 3, None, None, 0),
    (25, 2, "x", 4, None, None, 0),
    (None, 2, None, None, 19, None, 1),
    (3, 2, "y", 50, None, None, 2),
    (None, 2, "y", None, 99, None, 2),
    (None, None, None, None, 30, 19, 2),
]
TIMES = {name: f"timestamp_seconds({name})" for name in ("t", "upto", "since", "at")}


def test_s5_section_2_1_patterns_close_their_groups(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(ROWS, COLUMNS).withColumns({n: F.expr(sql) for n, sql in TIMES.items()})
    with sw.Session(spark) as s:
        policy = sw.punctuated("upto", on=["sensor", "lane"], since="since")
        stream = s.stream("s", frame, time="t", arrival="at", page="1 second", disorder=policy)
        windows = stream.select("t", device="sensor", v="v").window("10 seconds")
        by = windows.group_by("device").agg(v="sum(v)").start(late=str(tmp_path / "late"))
        whole = stream.window("10 seconds").agg(v="sum(v)").start()
        s.run_available(drain=False)
        said = [(r["device"], r["window_end"].second, r["v"]) for r in by.results().to_pylist()]
        assert sorted(said) == [(2, 10, 2), (2, 30, 4)]
        assert [(r["window_end"].second, r["v"]) for r in whole.results().to_pylist()] == [(30, 4)]
        assert by.metrics()["late_rows"] == 1
    late = spark.read.parquet(str(tmp_path / "late")).collect()
    assert [row["v"] for row in late if row["t"] is not None] == [50]
