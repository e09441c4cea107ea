"""Prods and nested aggregates on Spark: Q3-4, the sources of prods, resident and spilled state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw

pytestmark = pytest.mark.spark

READINGS = [(100, 1, 40), (105, 2, 30), (112, 2, 25), (121, 1, 10), (122, 2, 1), (140, 1, 0)]


def readings(spark: SparkSession, rows: list[tuple[int, int, int]] | None = None) -> DataFrame:
    """S5's traffic stream: each reading arrives at its own time."""
    frame = spark.createDataFrame(READINGS if rows is None else rows, "t BIGINT, sensor INT, volume INT")
    return frame.selectExpr("timestamp_seconds(t) AS time", "sensor", "volume", "timestamp_seconds(t) AS seen")


def traffic(s: sw.Session, frame: DataFrame, page: str = "10 seconds") -> sw.Stream:
    return s.stream("s", frame, time="time", arrival="seen", page=page, disorder=sw.bounded("5 seconds"))


def q3_4(stream: sw.Stream) -> sw.Query:
    sums = stream.window(range="30 seconds", slide="10 seconds").group_by("sensor").agg(volume="sum(volume)")
    return sums.window(range="10 seconds", slide="10 seconds").agg(most="max(volume)", sensors="count(*)")


def said(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    rows = table.to_pylist()
    return [(r["kind"], int(r["window_end"].timestamp()), *(r[c] for c in columns)) for r in rows]


FINALS = [
    ("final", 110, 40, 2),
    ("final", 120, 55, 2),
    ("final", 130, 56, 2),
    ("final", 140, 26, 2),
    ("final", 150, 10, 2),
    ("final", 160, 0, 1),
    ("final", 170, 0, 1),
]
#: A page is there ten seconds after its first reading, and windows are prodded 7.5 seconds into their last slide.
EARLY = [
    ("early", 110, 40, 2),
    ("early", 120, 40, 2),
    ("early", 130, 55, 2),
    ("early", 140, 26, 2),
    ("early", 150, 10, 2),
]


@pytest.mark.parametrize("limit", [2**28, 0])
def test_q3_4_is_right_early_and_in_the_end_from_resident_and_spilled_state(
    spark: SparkSession, tmp_path: Path, limit: int
) -> None:
    with sw.Session(spark, journal=tmp_path, resident_limit=limit) as s:
        run = q3_4(traffic(s, readings(spark))).start(early=sw.early(at=0.75))
        s.run_available()
        rows = said(run.results(), "most", "sensors")
        assert sorted(r for r in rows if r[0] == "final") == FINALS
        assert [r for r in rows if r[0] == "early"] == EARLY
        figures = run.metrics()
        assert [figures["store"], figures["inner"][0]["store"]] == ["resident" if limit else "spilled"] * 2
        assert (figures["late_rows"], figures["results"]) == (0, 7)
    assert list((tmp_path / "staged").glob("*")) == []
