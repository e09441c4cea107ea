"""The queries of S4 and S5 on Spark, each as printed: all over timestamps in one session, and Q3-2 over numbers."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from tests.kit.papers import NOON, QUERIES

pytestmark = pytest.mark.spark

TIMED = [q for q in QUERIES if q.text.count("RANGE=50,") == 0]
#: Two minutes of rows; what no query asks for is the same in all.
ROWS = pl.DataFrame(
    {
        "ts": [NOON + timedelta(seconds=10 * n) for n in range(13)],
        "sensor_id": [n % 2 for n in range(13)],
        "speed": [50.0 - n for n in range(13)],
        "volume": list(range(13)),
        "counter": [7] * 13,
        "value": [float(n) for n in range(13)],
        "orderID": list(range(13)),
        "serviceTime": [2.0] * 13,
        "Temperature": [81.0] * 13,
        "symbol": ["IBM"] * 13,
        "price": [100.0 + n for n in range(13)],
        "word": ["ant"] * 13,
        "SomeText": ["an anthill"] * 13,
    }
)


def declare(session: sw.Session, name: str, time: str) -> None:
    frame = session.spark.createDataFrame(ROWS.to_arrow())
    slack = sw.papers.disorder_control()
    session.stream(name, frame, time=time, arrival="ts", page="1 minute", disorder=slack)


def test_printed_queries_run_on_spark(spark: SparkSession) -> None:
    with sw.Session(spark) as session:
        for name in {q.stream for q in TIMED}:
            declare(session, name, "ts")
        runs = {q.where + q.text: session.sql(q.text).start() for q in TIMED}
        session.run_available()
        results = {where: run.results() for where, run in runs.items()}
        assert [where for where, table in results.items() if not table.num_rows] == []
        service = next(t for where, t in results.items() if where.startswith("S4 section 4, Q2"))
        assert set(service["avg(serviceTime)"].to_pylist()) == {2.0}
        spread = next(t for where, t in results.items() if "Q4-4" in where)
        assert spread["max(price) - min(price)"].to_pylist() == [12.0]


def test_the_query_without_units_runs_over_numbers(spark: SparkSession) -> None:
    (query,) = [q for q in QUERIES if q not in TIMED]
    with sw.Session(spark) as session:
        declare(session, query.stream, "orderID")
        run = session.sql(query.text).start()
        session.run_available()
        assert sorted(run.results()["sum(volume)"].to_pylist()) == [36, 42]
