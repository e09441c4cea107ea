"""Streams of prods on Spark (S5 section 3.2): each row asks for early answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from tests.kit.kept_rows import KeptRows
from tests.kit.traffic_on_spark import q3_4, readings, said, traffic

pytestmark = pytest.mark.spark


def test_a_stream_of_prods_is_replayed_beside_the_data(spark: SparkSession, tmp_path: Path) -> None:
    asks = spark.createDataFrame(
        [
            (119, 120, None, None),
            (129, 130, "sensor = 2", "sums"),
            (139, 200, None, "nobody"),
            (139, 200, "speed > 3", None),
        ],
        "at BIGINT, until BIGINT, where STRING, query STRING",
    ).selectExpr("timestamp_seconds(at) AS at", "timestamp_seconds(until) AS until", "`where`", "query")
    for again in (False, True):
        with sw.Session(spark, journal=tmp_path) as s:
            stream = traffic(s, readings(spark))
            s.stream("ask", asks, time="at", arrival="at", role="prods")
            sums = stream.window("30 seconds", slide="10 seconds").group_by("sensor").agg(v="sum(volume)")
            kept, kept_nested = KeptRows(), KeptRows()
            run = sums.start(kept, name="sums")
            q3_4(stream).start(kept_nested, name="nested")
            s.run_available(drain=again)
            early = [r for r in said(kept.results(), "sensor", "v_seen") if r[0] == "early"]
            early_nested = [r for r in said(kept_nested.results(), "most_seen") if r[0] == "early"]
            if again:
                assert (early, early_nested) == ([], [])
            else:
                # At 120 all up to 112 - 5 seconds is final, at 130 all up to 122 - 5 seconds.
                first = [("early", 110, 1, 40), ("early", 110, 2, 30), ("early", 120, 1, 40), ("early", 120, 2, 55)]
                assert early == [*first, ("early", 120, 2, 55), ("early", 130, 2, 56)]
                assert early_nested == [("early", 110, 40), ("early", 120, 55)]
            asked = run.metrics()["prod_streams"]["ask"]
            assert (asked["prods"], asked["refused"]) == (4, 2)


def test_a_row_of_a_stream_of_prods_may_ask_for_the_windows_that_contain_an_instant(spark: SparkSession) -> None:
    """S5 section 3.1's "timestamp = t", for each query by its own windows."""
    asks = spark.createDataFrame(
        [(129, 112, None, "short"), (129, 112, None, "long"), (129, None, 120, "long"), (129, 112, 120, None)],
        "asked BIGINT, at BIGINT, until BIGINT, query STRING",
    ).selectExpr(*(f"timestamp_seconds({name}) AS {name}" for name in ("asked", "at", "until")), "query")
    with sw.Session(spark) as s:
        rows = readings(spark)
        stream = s.stream("s", rows, time="time", arrival="seen", page="10 seconds", disorder=sw.bounded("1 hour"))
        s.stream("ask", asks, time="asked", arrival="asked", role="prods")
        kept = {"short": KeptRows(), "long": KeptRows()}
        for name, range in (("short", "10 seconds"), ("long", "30 seconds")):
            run = stream.window(range, slide="10 seconds").agg(v="sum(volume)").start(kept[name], name=name)
        s.run_available()
        ends = {name: [r[1] for r in said(k.results(), "v_seen") if r[0] == "early"] for name, k in kept.items()}
        assert run.metrics()["prod_streams"]["ask"] == {"prods": 3, "refused": 1}
    assert ends["short"] == [120]
    assert ends["long"][:3] == [120, 130, 140] and max(ends["long"][3:]) == 120


@pytest.mark.parametrize("time", ["AT", "timestamp_micros(unix_micros(at))"])
def test_a_column_that_says_when_a_prod_came_is_no_instant_of_windows(spark: SparkSession, time: str) -> None:
    asks = spark.createDataFrame([(119,)], "at BIGINT").selectExpr("timestamp_seconds(at) AS at")
    with sw.Session(spark) as s:
        windows = traffic(s, readings(spark)).window("30 seconds", slide="10 seconds")
        s.stream("ask", asks, time=time, arrival="at", role="prods")
        kept = KeptRows()
        windows.agg(v="sum(volume)").start(kept)
        s.run_available()
        assert {r[1] for r in said(kept.results(), "v_seen") if r[0] == "early"} == {110}


def test_an_instant_out_of_reach_is_in_no_window(spark: SparkSession) -> None:
    rows = spark.range(10).selectExpr("id AS n", "id AS x", "timestamp_seconds(id) AS came")
    asks = spark.range(1).selectExpr("5L AS asked", f"{2**63 - 1}L AS at", "CAST(NULL AS BIGINT) AS until")
    asks = asks.selectExpr("*", "timestamp_seconds(asked) AS came")
    with sw.Session(spark) as s:
        stream = s.stream("s", rows, time="n", arrival="came", page="2 seconds", disorder=sw.bounded(100))
        s.stream("ask", asks, time="asked", arrival="came", page="2 seconds", role="prods")
        kept = KeptRows()
        stream.window(4, slide=2).agg(v="sum(x)").start(kept)
        s.run_available()
        assert [r for r in kept.results().to_pylist() if r["kind"] == "early"] == []


def test_an_instant_of_another_type_is_refused_with_what_to_do(spark: SparkSession) -> None:
    asks = spark.createDataFrame([(5, "soon")], "asked BIGINT, at STRING")
    with sw.Session(spark) as s, pytest.raises(sw.QueryError, match="convert it in the DataFrame, or rename it"):
        s.stream("ask", asks, time="asked", role="prods")


def test_capitals_of_the_columns_of_a_prod_do_not_matter(spark: SparkSession) -> None:
    asks = spark.createDataFrame([(119, 110, "sensor = 2")], "at BIGINT, Until BIGINT, WHERE STRING").selectExpr(
        "timestamp_seconds(at) AS at", "timestamp_seconds(Until) AS Until", "`WHERE`"
    )
    with sw.Session(spark) as s:
        windows = traffic(s, readings(spark)).window("30 seconds", slide="10 seconds").group_by("sensor")
        s.stream("ask", asks, time="at", arrival="at", role="prods")
        kept = KeptRows()
        windows.agg(v="sum(volume)").start(kept)
        s.run_available()
        early = [r for r in said(kept.results(), "sensor", "v_seen") if r[0] == "early"]
    assert early == [("early", 110, 2, 30)]


@pytest.mark.parametrize(
    "where",
    ["nope(sensor) = 1", "max(sensor) = sensor", "CASE WHEN sensor = '2' THEN raise_error('bad') ELSE true END"],
)
def test_a_wrong_row_of_a_stream_of_prods_is_counted_and_ends_nothing(
    spark: SparkSession, tmp_path: Path, where: str
) -> None:
    asks = spark.createDataFrame([(119, where)], "at BIGINT, where STRING").selectExpr(
        "timestamp_seconds(at) AS at", "`where`"
    )
    for again in (False, True):
        with sw.Session(spark, journal=tmp_path) as s:
            rows = traffic(s, readings(spark)).select("volume", sensor="CAST(sensor AS STRING)")
            s.stream("ask", asks, time="at", arrival="at", role="prods")
            windows = rows.window("30 seconds", slide="10 seconds").group_by("sensor")
            run = windows.agg(v="sum(volume)").start(name="sums")
            s.run_available(drain=again)
            if not again:
                figures = run.metrics()
                assert figures.get("prods_refused", 0) + figures["prod_streams"]["ask"]["refused"] == 1
            assert run.metrics()["early_results"] == 0
