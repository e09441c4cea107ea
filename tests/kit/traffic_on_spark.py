"""S5's traffic stream on Spark: readings of two sensors, its query Q3-4, and what was answered."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

import slackwater as sw

READINGS = [(100, 1, 40), (105, 2, 30), (112, 2, 25), (121, 1, 10), (122, 2, 1), (140, 1, 0)]


def readings(spark: SparkSession, rows: list[tuple[int, int, int]] | None = None) -> DataFrame:
    """S5's traffic stream: each reading arrives at its own time."""
    frame = spark.createDataFrame(READINGS if rows is None else rows, "t BIGINT, sensor INT, volume INT")
    return frame.selectExpr("timestamp_seconds(t) AS time", "sensor", "volume", "timestamp_seconds(t) AS seen")


def traffic(s: sw.Session, frame: DataFrame) -> sw.Stream:
    return s.stream("s", frame, time="time", arrival="seen", page="10 seconds", disorder=sw.bounded("5 seconds"))


def q3_4(stream: sw.Stream) -> sw.Query:
    sums = stream.window("30 seconds", slide="10 seconds").group_by("sensor").agg(volume="sum(volume)")
    return sums.window("10 seconds").agg(most="max(volume)", sensors="count(*)")


def said(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    rows = table.to_pylist()
    return [(r["kind"], int(r["window_end"].timestamp()), *(r.get(c) for c in columns)) for r in rows]
