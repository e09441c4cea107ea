"""`fill=` on Spark: what the same query without it lacks; typed zeros, text that says the same, and the limit."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.errors import RunError
from tests.windows.test_fill import with_gaps

pytestmark = pytest.mark.spark


def test_gaps_are_filled_by_source_and_typed(spark: SparkSession) -> None:
    df = spark.range(200).select(
        F.expr("timestamp_seconds(id * 7 % 400 DIV 4 * 4)").alias("t"),
        F.expr("id % 3").alias("k"),
        F.expr("CAST(id AS DECIMAL(9, 2))").alias("price"),
    )
    found: dict[Any, list[dict[str, Any]]] = {}
    for fill in ("none", 0, "last"):
        with sw.Session(spark) as s:
            rows = s.stream(
                "s", df, time="t", arrival="t", page="20 seconds", disorder=sw.bounded("1 second"), source="k"
            )
            query = (
                rows.where("k < 2")
                .window("5 seconds", fill=fill, forget="1 hour" if fill != "none" else None)
                .group_by("k")
                .agg(n="count(*)", total="sum(price)", last="max(t)", mean="round(sum(price) / count(*), 3)")
            )
            assert s.sql(query.to_sql()).describe() == query.describe()
            run = query.start()
            s.run_available(drain=True)
            found[fill] = pl.DataFrame(run.results()).to_dicts()
            if fill != "none":
                assert run.metrics()["filled_results"] == len(found[fill]) - len(found["none"]) > 0

    plain = [
        dict(row, window_start=int(row["window_start"].timestamp()), window_end=0, tail=None)
        for row in found["none"]
    ]
    for fill in (0, "last"):
        wanted = with_gaps(plain, ("k",), 5, fill, None)
        columns = ("k", "window_start", "n", "total")
        got = [dict(row, window_start=int(row["window_start"].timestamp())) for row in found[fill]]
        assert [(row["k"], row["window_start"], row["n"], row["total"]) for row in sorted(got, key=_place)] == [
            tuple(row[c] for c in columns) for row in sorted(wanted, key=_place)
        ]


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["k"], row["window_start"]


def test_more_groups_than_the_driver_may_hold_end_the_query(spark: SparkSession) -> None:
    df = spark.range(100).selectExpr("timestamp_seconds(id) AS t", "id AS k")
    with sw.Session(spark, resident_limit=0) as s:
        rows = s.stream("s", df, time="t", arrival="t", disorder=sw.bounded("1 second"))
        rows.window("5 seconds", fill=0).group_by("k").agg(n="count(*)").start()
        with pytest.raises(RunError, match="fill= knows the groups in the driver"):
            s.run_available()
