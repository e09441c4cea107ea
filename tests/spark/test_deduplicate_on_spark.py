"""`drop_duplicates` on Spark: the same as on in-process pages; with files, restarts, and keys of other types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.testing import ListSink, Script
from tests.operators.test_deduplicate import plan
from tests.spark.test_both_page_kinds import PAGE, SCHEMA, Scenario, comparable, scattered

pytestmark = pytest.mark.spark

SCENARIOS = {
    "resident": scattered(1, {"within": 3}),
    "in files": scattered(2, {"within": 2}, resident_limit=0),
    "by source": scattered(10, {"within": 3}, punctuated=True, source="k"),
    "by source, in files": scattered(11, {"within": 2}, punctuated=True, source="k", resident_limit=0),
    "far behind": scattered(3, {"within": 4}, slack=0),
}


def on_arrow(s: Scenario, keys: tuple[str, ...]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Any]:
    sample, late = pl.DataFrame({"t": [1], "k": ["a"], "v": [1.0], "p": [1]}, schema=SCHEMA), ListSink()
    script = Script(plan(s.window["within"], keys, s.disorder, s.source, sample=sample), late=late)
    for n in range(len(s.pages)):
        if s.pages[n]:
            script.until((n + 1) * PAGE).page(s.frame(n), number=n)
    return script.results, late.rows, script.metrics()["q/distinct0"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_page_kinds_agree(spark: SparkSession, name: str) -> None:
    s, keys = SCENARIOS[name], ("k", "v")
    rows, late, figures = on_arrow(s, keys)
    stamped = [
        s.frame(n).with_columns(at=pl.lit(n * PAGE).cast(pl.Datetime("us", "UTC"))) for n in range(len(s.pages))
    ]
    df = spark.createDataFrame(pl.concat(stamped).to_arrow())
    lost: list[dict[str, Any]] = []

    def keep(rows: Any, commit_id: int) -> None:
        lost.extend(rows.drop("at").toArrow().to_pylist())

    with sw.Session(spark, resident_limit=s.resident_limit) as session:
        stream = session.stream(
            "s", df, time="t", source=s.source, arrival="at", page="10 seconds", disorder=s.disorder
        )
        run = stream.drop_duplicates(keys, within=s.window["within"]).start(late=keep)
        session.run_available()
        found = [{k: v for k, v in row.items() if k != "at"} for row in run.results().to_pylist()]
        metrics = run.metrics()
    assert comparable(found) == comparable(rows)
    assert comparable(lost) == comparable(late)
    assert (metrics["late_rows"], metrics["duplicates"]) == (figures["late_rows"], figures["duplicates"])


def test_it_goes_on_from_the_journal(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(f"e{n % 40}", n // 8, n % 3) for n in range(400)]
    went: dict[str, int] = {}
    for key, t, _ in rows:
        if key not in went or t - went[key] > 7:
            went[key] = t
    folder = tmp_path / "in"
    schema = "id STRING, t BIGINT, v INT"
    out = str(tmp_path / "out")
    for n in range(4):
        part = spark.createDataFrame(rows[n * 100 : (n + 1) * 100], schema).coalesce(1)
        part.write.mode("append").parquet(str(folder))
        with sw.Session(spark, journal=str(tmp_path / "journal"), resident_limit=0 if n == 2 else 2**28) as s:
            df = spark.readStream.schema(schema).parquet(str(folder))
            events = s.stream("events", df, time="t", disorder=sw.bounded(3))
            events.dropDuplicates("id", within=7).where("v >= 0").start(out, name="once")
            s.run_available()
    found = [tuple(row) for row in spark.read.parquet(out).select("id", "t").orderBy("t", "id").collect()]
    wanted, last = [], dict[str, int]()
    for key, t, _ in rows:
        if key not in last or t - last[key] > 7:
            last[key] = t
            wanted.append((key, t))
    assert found == sorted(wanted, key=lambda row: (row[1], row[0]))


def test_keys_are_equal_as_spark_says(spark: SparkSession) -> None:
    df = spark.range(400).select(
        F.expr("timestamp_seconds(id DIV 10)").alias("t"),
        F.expr("CAST(id % 5 AS DECIMAL(9, 2))").alias("price"),
        F.expr("date_add(DATE '2024-01-01', CAST(id % 3 AS INT))").alias("day"),
        F.expr("IF(id % 7 = 0, NULL, IF(id % 7 < 3, CAST('NaN' AS DOUBLE), IF(id % 2 = 0, -0.0D, 0.0D)))").alias(
            "x"
        ),
        F.expr("encode(CAST(id % 2 AS STRING), 'UTF-8')").alias("b"),
        F.expr("map('k', id)").alias("m"),
    )
    keys = ["price", "day", "x", "b"]
    with sw.Session(spark) as s:
        rows = s.stream("s", df, time="t", arrival="t", page="3 seconds", disorder=sw.bounded("0 seconds"))
        run = rows.drop_duplicates(keys, within="1 hour").start()
        s.run_available()
        found = run.results()
        with pytest.raises(QueryError, match="drop_duplicates\\('m'\\): rows cannot be compared by what is a map"):
            rows.drop_duplicates("m", within="1 hour")
    assert found.num_rows == df.dropDuplicates(keys).count()
    assert spark.createDataFrame(found.select(keys)).exceptAll(df.dropDuplicates(keys).select(keys)).count() == 0


def test_text_and_python_say_the_same(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        df = spark.range(10).selectExpr("id", "id % 3 AS `the key`", "timestamp_seconds(id) AS t")
        rows = s.stream("s", df, time="t", arrival="t", disorder=sw.bounded("0 seconds"))
        query = (
            rows.where("id > 2")
            .drop_duplicates("the key", within="2 seconds")
            .window("5 seconds")
            .agg(n="count(*)")
        )
        assert s.sql(query.to_sql()).describe() == query.describe()
        assert "drop duplicates of the key within 2 seconds" in query.explain()
        everything = rows.drop_duplicates(within="2 seconds")
        assert s.sql(everything.to_sql()).describe() == everything.describe()
        with pytest.raises(QueryError, match=r"write drop_duplicates\('id', within='10 minutes'\)"):
            _ = rows.dropDuplicatesWithinWatermark
        with pytest.raises(QueryError, match=r"drop_duplicates\(\) on results"):
            rows.window("5 seconds").agg(n="count(*)").drop_duplicates("n", within="1 hour")
