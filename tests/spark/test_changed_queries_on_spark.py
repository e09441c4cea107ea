"""A changed query goes on from a journal on Spark, or begins anew, as its user chooses."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater as sw


def write(spark: SparkSession, folder: Path, number: int) -> None:
    """A file with ten rows, a minute each, of the hour of this number."""
    rows = spark.range(10).selectExpr(f"id + {10 * number} AS t", "id % 2 AS k", "id AS v")
    rows.coalesce(1).write.mode("append").parquet(str(folder))


def rows_of(s: sw.Session, folder: Path) -> sw.Stream:
    live = s.spark.readStream.schema("t LONG, k LONG, v LONG").parquet(str(folder))
    return s.stream("rows", live, time="t", disorder=sw.bounded(0))


def collected(given: list[dict[str, Any]]) -> Any:
    return lambda df, commit_id: given.extend(df.toArrow().to_pylist())


def test_a_changed_query_goes_on_or_begins_anew(spark: SparkSession, tmp_path: Path) -> None:
    data, journal = tmp_path / "data", tmp_path / "journal"
    write(spark, data, 0)
    with sw.Session(spark, journal=journal) as s:
        query = rows_of(s, data).window(20).group_by("k").agg(n="count(*)", total="sum(v)")
        query.start(sink=collected([]), name="q")
        s.run_available(drain=False)
    write(spark, data, 1)
    with sw.Session(spark, journal=journal) as s:
        query = rows_of(s, data).window(20).group_by("k").agg(n="count(*)", top="max(v)").where("n > 1")
        with pytest.raises(sw.JournalError, match=r"on_change='continue'"):
            query.start(sink=collected([]), name="q")
        given: list[dict[str, Any]] = []
        with pytest.warns(sw.QueryWarning, match=r"top counts from now on; total dropped"):
            query.start(sink=collected(given), name="q", on_change="continue")
        s.run_available()
        assert sorted((row["k"], row["n"], row["top"]) for row in given) == [(0, 10, 8), (1, 10, 9)]
    write(spark, data, 2)
    write(spark, data, 3)
    with sw.Session(spark, journal=journal) as s, warnings.catch_warnings():
        warnings.simplefilter("error")
        query = rows_of(s, data).window(40).group_by("k").agg(n="count(*)")
        with pytest.raises(sw.JournalError, match=r"window range 20[\s\S]*start\(on_change='new'\)"):
            query.start(sink=collected([]), name="q", on_change="continue")
        anew: list[dict[str, Any]] = []
        query.start(sink=collected(anew), name="q", on_change="new")
        s.run_available()
        assert anew


def test_another_word_than_the_two_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with sw.Session(spark) as s, pytest.raises(sw.QueryError, match=r"on_change='continue' or 'new'"):
        rows_of(s, tmp_path).window(20).agg(n="count(*)").start(on_change="resume")  # type: ignore[arg-type]
