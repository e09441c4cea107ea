"""Times far ahead on Spark: a row of a distant year is counted and routed, whatever job meets it first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.errors import QueryError

pytestmark = pytest.mark.spark

T0 = datetime(2026, 3, 1, 8, tzinfo=UTC)
FAR = datetime(2062, 1, 1, tzinfo=UTC)


def past(spark: SparkSession, corrupt: int | None) -> DataFrame:
    """Forty seconds of two rows each, which arrive as they are sent; one more is of the year 2062."""
    rows = [
        {"t": T0 + timedelta(seconds=n), "at": T0 + timedelta(seconds=n), "g": g, "v": n}
        for n in range(40)
        for g in "ab"
    ]
    if corrupt is not None:
        rows.append({"t": FAR, "at": T0 + timedelta(seconds=corrupt), "g": "a", "v": -1})
    return spark.createDataFrame(pl.DataFrame(rows).to_arrow())


def stream(s: sw.Session, df: DataFrame, disorder: Any = None, name: str = "s", **more: Any) -> sw.Stream:
    policy = disorder or sw.bounded("5 seconds")
    return s.stream(name, df, time="t", arrival="at", page="2 seconds", disorder=policy, **more)


@pytest.mark.parametrize("corrupt", [0, 21])
@pytest.mark.parametrize("source", [None, "g"])
def test_a_row_of_a_distant_year_changes_no_answer_and_goes_to_the_late_sink(
    spark: SparkSession, tmp_path: Path, corrupt: int, source: str | None
) -> None:
    late = tmp_path / "late"
    with sw.Session(spark) as s:
        rows = stream(s, past(spark, corrupt), source=source)
        query = rows.where("v < 30").window("10 seconds").agg(n="count(*)", top="max(v)")
        run = query.start(late=str(late))
        s.run_available(drain=True)
        assert [(r["n"], r["top"]) for r in run.results().to_pylist()] == [(20, 9), (20, 19), (20, 29)]
        figures = run.metrics()
    assert (figures["far_ahead"], figures["missing_time"], figures["rows"]) == (1, 0, 81)
    assert pq.read_table(late).column("t").to_pylist() == [FAR]


@pytest.mark.parametrize("policy", [sw.drop_ratio(0.1), sw.learned(), sw.papers.max_delay()], ids=str)
def test_every_policy_is_guarded(spark: SparkSession, policy: Any) -> None:
    with sw.Session(spark) as s:
        run = stream(s, past(spark, 11), policy).window("10 seconds").agg(n="count(*)").start()
        s.run_available(drain=True)
        assert [r["n"] for r in run.results().to_pylist()] == [20] * 4


def test_what_keeps_rows_leaves_it_out(spark: SparkSession) -> None:
    """A join, rows in order, and windows for each row: a job of theirs may be the first to look at the page."""
    found = []
    for corrupt in (None, 11):
        with sw.Session(spark) as s:
            rows = stream(s, past(spark, corrupt))
            other = stream(s, past(spark, None), name="other").select("g AS h", "v AS w")
            join = rows.rolling(range="3 seconds").join(other.rolling(range="3 seconds"), on="g = h").start()
            each = rows.rolling(range="5 seconds").group_by("g").agg(n="count(*)").start()
            s.run_available(drain=True)
            found.append((sorted(map(str, join.results().to_pylist())), len(each.results())))
            assert join.metrics()["streams"]["s"]["far_ahead"] == (corrupt is not None)
    # `emitted_at` is that of the same page in both.
    assert found[0] == found[1]


def test_rows_are_believed_as_far_ahead_as_the_user_says(spark: SparkSession) -> None:
    def counted(**ahead: Any) -> int:
        with sw.Session(spark) as s:
            run = stream(s, past(spark, 11), **ahead).window("10 seconds").agg(n="count(*)").start()
            s.run_available(drain=True)
            return int(run.metrics()["far_ahead"])

    assert (counted(ahead="never"), counted(ahead="5 minutes")) == (0, 1)


def test_a_stream_of_files_is_guarded_and_says_so_in_sql(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    past(spark, 21).repartition(3).write.parquet(str(folder))
    with sw.Session(spark) as s:
        s.sql(
            f"""CREATE STREAM f (t TIMESTAMP, at TIMESTAMP, g STRING, v BIGINT) FROM 'parquet'
                OPTIONS (path = '{folder}') TIME t SOURCE g DISORDER BOUNDED 5 SECONDS AHEAD 5 MINUTES"""
        )
        run = s.sql("SELECT g, COUNT(*) AS n FROM f [RANGE 10 SECONDS, SLIDE 10 SECONDS] GROUP BY g").start()
        s.run_available(drain=True)
        assert sorted(r["n"] for r in run.results().to_pylist()) == [10] * 8
        assert run.metrics()["far_ahead"] == 1
        assert "ahead 5 minutes" in run.explain()


def test_a_length_that_makes_no_sense_is_refused(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        with pytest.raises(QueryError, match="must be positive"):
            stream(s, past(spark, None), ahead="-1 minute")
        with pytest.raises(QueryError, match="leave out ahead="):
            s.stream("n", past(spark, None), time="v", arrival="at", disorder=sw.bounded(5), ahead="1 minute")
        with pytest.raises(QueryError, match="leave out ahead="):
            s.stream("i", past(spark, None), time=sw.internal(), arrival="at", ahead="1 minute")
