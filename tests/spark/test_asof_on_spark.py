"""As-of joins on Spark: restarts, old versions that go, late rows and their sink; OVER beside Spark's own OVER."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.spark.state import asof_cells
from tests.kit.streams import frame
from tests.spark.test_union_on_spark import live, write

pytestmark = pytest.mark.spark


def test_versions_are_there_after_a_restart_and_old_ones_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asof_cells, "SMALL", 4)
    found: list[tuple[Any, ...]] = []
    late: list[dict[str, Any]] = []

    def keep(df: DataFrame, commit_id: int) -> None:
        found.extend((row["t"], row["g"], row["v"]) for row in df.toArrow().to_pylist())

    def keep_late(df: DataFrame, commit_id: int) -> None:
        late.extend(df.toArrow().to_pylist())

    def session_of(*steps: tuple[str, int, pl.DataFrame]) -> dict[str, Any]:
        with sw.Session(spark, journal=tmp_path / "journal") as session:
            streams = live(session, tmp_path)
            versions = streams["b"].select("g", v="t")
            joined = streams["a"].select("t", "g").join_asof(versions, on="g")
            run = joined.start(sink=keep, late=keep_late, name="asof", hold=True)
            for name, number, rows in steps:
                write(tmp_path / name, number, rows)
                session.run_available(drain=False)
            (join,) = run.metrics()["joins"].values()
            return dict(join)

    session_of(("b", 0, frame([[1, "x"], [2, "y"], [3, None], [5, "x"]])), ("a", 0, frame([[4, "x"], [9, "x"]])))
    assert found == [(4, "x", 1)], "9 waits for the versions"
    many = frame([[n, "x" if n % 2 else "y"] for n in range(6, 30)])
    session_of(("b", 1, many))
    assert found[1:] == [(9, "x", 9)]
    figures = session_of(("a", 1, frame([[28, "y"], [27, "x"], [25, None]])), ("b", 2, frame([[40, "z"]])))
    assert sorted(found[2:], key=repr) == sorted([(28, "y", 28), (27, "x", 27), (25, None, None)], key=repr)
    figures = session_of(("a", 2, frame([[39, "y"], [3, "x"]])), ("b", 3, frame([[41, "y"], [30, "y"]])))
    assert found[-1] == (39, "y", 28) and len(found) == 6, "30 came too late for 39"
    assert {(row["t"], row["g"]) for row in late} == {(3, "x"), (None, "y")}
    assert figures["late_by_input"] == [1, 1] and figures["right_rows"] == 27, "of 31: four have gone"


def test_over_gives_what_sparks_batch_over_gives(spark: SparkSession) -> None:
    random = np.random.default_rng(7)
    rows = [
        (int(second), None if k == 3 else f"k{k}", int(v))
        for second, k, v in zip(
            random.integers(0, 120, 400), random.integers(0, 4, 400), random.integers(0, 50, 400), strict=True
        )
    ]
    rows.sort(key=lambda row: row[0] + random.integers(0, 20))
    df = spark.createDataFrame(
        [(n, *row) for n, row in enumerate(rows)], "id INT, second INT, k STRING, v INT"
    ).selectExpr("id", "timestamp_seconds(second) AS ts", "k", "v", "timestamp_seconds(second + 40) AS at")
    over = "OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 10 SECONDS PRECEDING AND CURRENT ROW)"
    columns = f"id, k, v, count(*) {over} AS n, sum(v) {over} - v AS others, max(v) OVER w AS best"
    named = "WINDOW w AS (ORDER BY ts RANGE BETWEEN INTERVAL 3 SECONDS PRECEDING AND CURRENT ROW)"
    df.createOrReplaceTempView("readings")
    expected = sorted(
        spark.sql(f"SELECT {columns} FROM readings {named}").toArrow().to_pylist(), key=lambda r: r["id"]
    )
    with sw.Session(spark) as session:
        session.stream("s", df, time="ts", arrival="at", page="15 seconds", disorder=sw.bounded("30 seconds"))
        run = session.sql(f"SELECT {columns} FROM s {named}").start()
        session.run_available()
        assert run.metrics()["late_rows"] == 0
        assert sorted(run.results().to_pylist(), key=lambda r: r["id"]) == expected
