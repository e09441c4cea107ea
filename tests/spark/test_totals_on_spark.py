"""Totals on Spark: in the driver and spilled, forgotten by source, over restarts, in Python and SQL."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.errors import QueryError

pytestmark = pytest.mark.spark
EVERY = sw.early(every="20 seconds")


def declared(s: sw.Session, spark: SparkSession, rows: int, source: str | None = None) -> sw.Stream:
    df = spark.range(rows).select(
        F.expr("timestamp_seconds(id * 7 % 150 DIV 4 * 4)").alias("t"),
        F.expr("timestamp_seconds(id)").alias("at"),
        F.expr("IF(id % 50 = 7, NULL, id % 5 + id DIV 100)").alias("k"),
        F.expr("CAST(id AS DECIMAL(9, 2))").alias("price"),
        F.expr("id % 3").alias("kind_of"),
    )
    return s.stream(
        "s", df, time="t", arrival="at", page="16 seconds", disorder=sw.bounded("1 minute"), source=source
    )


def answers(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    assert all((r["kind"], r["window_start"], r["window_end"]) == ("early", None, None) for r in rows)
    return sorted(((r["emitted_at"], r["k"], r["n"], r["total"], r["kinds"]) for r in rows), key=str)


@pytest.mark.parametrize("forget", [None, "40 seconds"])
def test_spilled_totals_are_those_in_the_driver(spark: SparkSession, forget: str | None) -> None:
    found = []
    for limit in (2**28, 0):
        with sw.Session(spark, resident_limit=limit) as s:
            query = (
                declared(s, spark, 120, "k")
                .totals(forget=forget)
                .group_by("k")
                .agg(n="count(*)", total="sum(price)", kinds="count(DISTINCT kind_of)")
            )
            assert s.sql(query.to_sql()).describe() == query.describe()
            said: list[dict[str, Any]] = []
            run = query.start(
                [lambda df, _, said=said: said.extend(r.asDict() for r in df.collect()), None], early=EVERY
            )
            s.run_available(drain=True)
            found.append(answers(said))
            latest = {row["k"]: row["n"] for row in said}
            assert {row["k"]: row["n"] for row in run.results().to_pylist()} == latest
            store = "spilled" if limit == 0 else "resident"
            assert run.metrics()["store"] == store
    assert found[0] == found[1]
    counted: dict[Any, int] = defaultdict(int)
    for _, k, n, _, _ in found[0]:
        counted[k] = max(counted[k], n)
    if forget is None:
        assert sum(counted.values()) == 120
    assert len({at for at, *_ in found[0]}) > 4


def test_totals_go_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    text = (
        "INSERT INTO MEMORY AS q SELECT k, count(*) AS n, sum(price) AS total, count(DISTINCT kind_of) AS kinds "
        "FROM s GROUP BY k EMIT EVERY 10 SECONDS"
    )
    source = tmp_path / "in"
    for limit in (2**28, 0):
        said: dict[Any, int] = {}
        for turn in range(2):
            spark.range(turn * 20, turn * 20 + 20).selectExpr(
                "timestamp_seconds(id) AS t", "id % 3 AS k", "id AS price", "id % 2 AS kind_of"
            ).coalesce(1).write.mode("append").parquet(f"{source}{limit}")
            with sw.Session(spark, journal=tmp_path / f"journal{limit}", resident_limit=limit) as s:
                df = spark.readStream.schema("t TIMESTAMP, k LONG, price LONG, kind_of LONG").parquet(
                    f"{source}{limit}"
                )
                s.stream("s", df, time="t", disorder=sw.bounded("1 second"))
                run = s.sql(text)
                s.run_available(drain=True)
                fresh = {row["k"]: row["n"] for row in run.results().to_pylist()}
                said.update(fresh)
            assert sum(said.values()) == 20 * (turn + 1)


def test_a_query_without_a_window_needs_to_be_asked(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        rows = declared(s, spark, 10)
        query = rows.totals().group_by("k").agg(n="count(*)")
        with pytest.raises(QueryError, match="totals without a window answer only when they are asked"):
            query.start()
        with pytest.raises(AttributeError, match=r"totals\(\)\.group_by\('device'\)"):
            rows.groupBy("k")
