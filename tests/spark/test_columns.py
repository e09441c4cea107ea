"""Columns of PySpark in the place of Spark SQL text, and PySpark's own words."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.spark.api.column_sql import sql_of
from tests.spark.test_queries_on_spark import stream, table

pytestmark = pytest.mark.spark

ROW = """SELECT 7 AS x, 2 AS y, true AS b,
    "it's \\\\ a" AS k, TIMESTAMP '2024-01-01 05:00:00' AS t, DATE '2024-01-02' AS d,
    named_struct('a', 1) AS s, map('k', 1) AS m, array(1, 2) AS list, 3 AS `to.tal`, 4 AS `v w`, 5 AS `from`"""
COLUMNS: dict[str, Any] = {
    "comparison": lambda: F.col("x") > 1,
    "unlike": lambda: F.col("x") != 7,
    "text": lambda: F.col("k") == "it's \\ a",
    "cast": lambda: F.col("x").cast("double"),
    "a cast that may fail": lambda: F.col("k").try_cast("int"),
    "names": lambda: F.col("`to.tal`") + F.col("`v w`") - F.col("from"),
    "one of": lambda: F.col("x").isin(1, 7),
    "between": lambda: F.col("x").between(1, 7),
    "order": lambda: (F.col("x") - (F.col("y") - 1)) * 2 / F.lit(3),
    "logic": lambda: ~(F.col("b") & (F.col("x") > 9)) | F.col("b"),
    "cases": lambda: F.when(F.col("x") > 9, "a").when(F.col("b"), "b").otherwise("c"),
    "no other case": lambda: F.when(F.col("x") > 9, "a"),
    "date": lambda: F.col("d") >= F.lit(dt.date(2024, 1, 2)),
    "instant": lambda: F.col("t") == F.lit(dt.datetime(2024, 1, 1, 5)),  # noqa: DTZ001
    "decimal": lambda: F.col("x") * F.lit(Decimal("1.50")),
    "double": lambda: F.col("x") * 1.5e10,
    "not a number": lambda: F.lit(float("nan")),
    "long": lambda: F.lit(2**40),
    "null": lambda: F.lit(None),
    "is null": lambda: F.col("x").isNull(),
    "same, or both null": lambda: F.col("x").eqNullSafe(None),
    "length of time": lambda: F.col("t") + F.lit(dt.timedelta(seconds=90)),
    "bytes": lambda: F.lit(b"ab"),
    "field": lambda: F.col("s.a") + F.col("s").getField("a"),
    "item": lambda: F.col("m")["k"] + F.col("list")[0],
    "pattern": lambda: F.col("k").rlike("it's [\\\\] a") & F.col("k").like("it%"),
    "function": lambda: F.concat(F.upper("k"), F.lit("a")),
    "lambda": lambda: F.transform("list", lambda e: e + 1),
    "two arguments": lambda: F.transform("list", lambda e, i: e * i),
    "text inside": lambda: F.expr("x + 1") * 2,
    "negative": lambda: -F.col("x"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_text_of_a_column_gives_the_same_value(spark: SparkSession, name: str) -> None:
    frame, column = spark.sql(ROW), COLUMNS[name]()
    alias, text = sql_of(column.alias("it"), "select")
    direct, read = frame.select(column.alias("it")), frame.selectExpr(f"{text} AS it")
    assert alias == "it"
    assert direct.schema["it"].dataType == read.schema["it"].dataType
    assert str(direct.collect()) == str(read.collect())


def test_a_column_of_a_dataframe_goes_by_its_name(spark: SparkSession) -> None:
    frame = spark.sql(ROW)
    assert sql_of(frame["x"] + frame.y, "select") == (None, "(x + y)")
    assert sql_of(frame["`to.tal`"], "select") == (None, "`to.tal`")


def test_an_instant_does_not_depend_on_the_time_zone(spark: SparkSession) -> None:
    _, text = sql_of(F.lit(dt.datetime(2024, 1, 2, tzinfo=dt.UTC)), "where")
    assert text == "timestamp_micros(1704153600000000L)"


def test_a_query_of_columns_is_the_query_of_their_texts(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        rows = stream(s)
        one = (
            rows.filter((F.col("v") > 1) & (F.col("k") != "c"))
            .withColumn("twice", F.col("v") * 2)
            .select("t", F.col("k"), F.col("twice"), (F.col("w") + 1).alias("more"), w="w")
            .window(10)
            .groupBy(F.upper("k").alias("g"))
            .agg(F.count("*").alias("n"), total=F.sum("twice"), rate=F.sum("more") / F.count(F.lit(1)))
        )
        other = (
            rows.where("((v > 1) AND (NOT (k = 'c')))")
            .select("*", twice="(v * 2)")
            .select("t", "k", "twice", more="(w + 1)", w="w")
            .window(10)
            .group_by(g="upper(k)")
            .agg(n="count(*)", total="sum(twice)", rate="(sum(more) / count(1))")
        )
        assert one._logical == other._logical
        run = one.start()
        assert run.isActive
        s.run_available()
        assert run.lastProgress["rows"] == 8
        run.stop()
        assert run.awaitTermination(1) and not run.isActive
        found = table(run, "window_start", "g").select("g", "n", "total", "rate").rows()
    assert found[0] == ("A", 1, 10.0, 3.0)
    assert sum(row[1] for row in found) == 6


def test_with_column_replaces_a_column_in_its_place(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        rows = stream(s).select("t", "k", "v")
        run = rows.withColumn("K", "concat(k, k)").start()
        counted = rows.window(50).agg(n="count(*)").withColumn("n", F.col("n") + 1).withColumn("m", "n * 2").start()
        s.run_available()
        assert run.results().schema.names == ["t", "k", "v"]
        assert pl.DataFrame(run.results())["k"].unique().sort().to_list() == ["aa", "bb"]
        (result,) = counted.results().to_pylist()
        assert (result["n"], result["m"]) == (9, 18)


def test_joins_and_windows_go_by_columns(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        rows = stream(s)
        left, right = rows.select("k", "v"), rows.select(k2="k", v2="v")
        keys = [F.col("k") == F.col("k2"), F.col("v") < F.col("v2")]
        assert (
            left.join(right, on=keys, within=5)._logical
            == left.join(right, on="(k = k2) AND (v < v2)", within=5)._logical
        )
        assert left.join(right, on=keys[0], within=5)._logical == left.join(right, on="(k = k2)", within=5)._logical
        by = rows.window(10, on=F.col("w"), disorder=sw.bounded(3))
        assert by._logical == rows.window(10, on="w", disorder=sw.bounded(3))._logical


def test_a_stream_and_a_prod_take_columns(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        pl.DataFrame(
            {"t": [1, 12], "k": ["a", "b"], "came": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * 2}
        ).to_arrow()
    )
    with sw.Session(spark) as s:
        by_text = s.stream("text", frame, time="(t + 1)", source="upper(k)", arrival="came", disorder=sw.bounded(0))
        by_column = s.stream(
            "column",
            frame,
            time=F.col("t") + 1,
            source=F.upper(F.col("k")),
            arrival=F.col("came"),
            disorder=sw.bounded(0),
        )
        assert by_column.describe() == by_text.describe().replace("text", "column")
        run = by_column.window(100).group_by("k").agg(n="count(*)").start()
        s.run_available(drain=False)
        run.prod(where=F.col("k") == "a")
        assert [row["k"] for row in run.results().to_pylist()] == ["a"]
