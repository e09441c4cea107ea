"""One row to many on Spark: in Python, as text and as a Column, in SQL, under windows, and over a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.testing import Script

pytestmark = pytest.mark.spark

ROWS = [(1, 1, ["a", "b", "a"]), (4, 2, []), (5, 3, None), (12, 4, ["c", "a"]), (3, 5, ["a"]), (40, 6, ["b"])]
TYPES = "t BIGINT, id BIGINT, items ARRAY<STRING>"
COUNTED = """SELECT item, COUNT(*) AS n, SUM(id) AS s FROM (SELECT id, explode(items) AS item FROM orders)
             [RANGE 10, SLIDE 10] GROUP BY item"""


def orders(session: sw.Session, spark: SparkSession) -> Any:
    df = spark.createDataFrame(ROWS, TYPES).selectExpr("*", "timestamp_seconds(10 * id) AS at")
    return session.stream("orders", df, time="t", arrival="at", page="10 seconds", disorder=sw.bounded(2))


def test_python_columns_and_sql_give_the_elements(spark: SparkSession) -> None:
    with sw.Session(spark) as session:
        stream = orders(session, spark).select("t", "id", "items")
        queries = {
            "method": stream.explode("items").select("id", item="items"),
            "named": stream.explode("filter(items, x -> true)", "item").select("id", "item"),
            "text": stream.select("id", "explode(items) AS item"),
            "column": stream.select("id", F.explode("items").alias("item")),
            "withColumn": stream.withColumn("item", F.explode(F.col("items"))).select("id", "item"),
            "view": session.sql("SELECT o.id, t.item FROM orders o LATERAL VIEW explode(o.items) t AS item"),
            "outer": stream.explode("items", outer=True).select("id", item="items"),
            "places": stream.select("id", "posexplode(items) AS (place, item)"),
            "map": stream.select("id", "explode(map('x', id, 'y', t)) AS (key, value)"),
        }
        assert session.sql(queries["view"].to_sql())._plan.same_work() == queries["view"]._plan.same_work()
        runs = {name: query.start(name=name) for name, query in queries.items()}
        session.run_available()
        found = {
            name: sorted((tuple(row.values()) for row in run.results().to_pylist()), key=repr)
            for name, run in runs.items()
        }
    plain = sorted(((n, item) for _, n, items in ROWS for item in items or ()), key=repr)
    for name in ("method", "named", "text", "column", "withColumn", "view"):
        assert found[name] == plain, name
    assert found["outer"] == sorted([*plain, (2, None), (3, None)], key=repr)
    assert found["places"] == sorted(
        ((n, p, i) for _, n, items in ROWS for p, i in enumerate(items or ())), key=repr
    )
    assert found["map"] == sorted(((n, k, v) for t, n, _ in ROWS for k, v in (("x", n), ("y", t))), key=repr)


def test_windows_over_elements_are_those_of_pages_in_process(spark: SparkSession) -> None:
    late: list[dict[str, Any]] = []

    def keep(df: DataFrame, commit_id: int) -> None:
        late.extend(df.toArrow().to_pylist())

    with sw.Session(spark) as session:
        orders(session, spark)
        run = session.sql(COUNTED).start(late=keep)
        session.run_available()
        got = sorted((r["window_start"], r["item"], r["n"], r["s"]) for r in run.results().to_pylist())
        figures = run.metrics()
    schema = pa.schema([("t", pa.int64()), ("id", pa.int64()), ("items", pa.list_(pa.string()))])
    script = Script.from_sql(COUNTED, {"orders": (schema, sw.bounded(2))})
    for t, n, items in ROWS:
        script.page([{"t": t, "id": n, "items": items}])
    script.drain()
    assert got == sorted((r["window_start"], r["item"], r["n"], r["s"]) for r in script.results)
    assert [(row["id"], row["item"]) for row in late] == [(5, "a")]
    assert figures["late_rows"] == 1


@pytest.mark.parametrize("rows", ["SELECT id, explode(items) AS item FROM orders", "names"])
def test_a_row_that_goes_moves_time_and_what_stays_is_there_once_after_a_restart(
    spark: SparkSession, tmp_path: Path, rows: str
) -> None:
    """The newest row has no element, or no partner in a table."""
    spark.createDataFrame([(1, "a"), (1, "b"), (3, "a")], "id BIGINT, item STRING").createOrReplaceTempView("names")
    joined = "SELECT id, item FROM orders JOIN names USING (id)"
    text = COUNTED.replace("SELECT id, explode(items) AS item FROM orders", joined if rows == "names" else rows)
    results: list[Any] = []

    def keep(df: DataFrame, commit_id: int) -> None:
        results.extend((row["item"], row["n"], row["s"]) for row in df.toArrow().to_pylist())

    def session_of(*rows: tuple[int, int, list[str] | None]) -> None:
        part = spark.createDataFrame(list(rows), TYPES)
        part.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
        with sw.Session(spark, journal=tmp_path / "journal") as session:
            df = spark.readStream.schema(TYPES).parquet(str(tmp_path / "in"))
            session.stream("orders", df, time="t", disorder=sw.bounded(2))
            session.sql(text).start(sink=keep, name="counted", hold=True)
            session.run_available(drain=False)

    session_of((1, 1, ["a", "b"]), (2, 2, []))
    session_of((3, 3, ["a"]), (15, 4, None))
    assert sorted(results) == [("a", 2, 4), ("b", 1, 1)]
