"""A Python function on Spark's pages, prods and a sideline behind it: the same finals as without."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from tests.kit.kept_rows import KeptRows

pytestmark = pytest.mark.spark


def instant(second: int) -> datetime:
    return datetime.fromtimestamp(second, tz=UTC)


def past(spark: SparkSession) -> DataFrame:
    """A row a second, some a little late; every third has a value that a filter drops."""
    times = [t if t % 4 else max(t - 3, 0) for t in range(24)]
    columns = {"t": [instant(t) for t in times], "at": [instant(t) for t in range(24)], "k": [t % 2 for t in times]}
    frame = pl.DataFrame({**columns, "v": [t % 3 for t in range(24)], "unused": "x"})
    return spark.createDataFrame(frame.to_arrow())


def score(rows: pa.RecordBatch) -> pa.RecordBatch:
    assert pc.min(rows["v"]).as_py() > 0, "rows that a filter drops are not given to the function"
    return pa.record_batch({"k": rows["k"], "score": pc.multiply(rows["v"].cast(pa.float64()), 1.5)})


def query(s: sw.Session, df: DataFrame, function: Any = score) -> sw.Query:
    rows = s.stream("past", df, time="t", arrival="at", page="2 seconds", disorder=sw.bounded("5 seconds"))
    mapped = rows.where("v > 0").map(function, schema="k BIGINT, score DOUBLE")
    return mapped.window("10 seconds").group_by("k").agg(n="count(*)", total="sum(score)")


def finals(table: pa.Table) -> list[tuple[Any, ...]]:
    rows = [r for r in table.to_pylist() if r["kind"] == "final"]
    return sorted((r["window_start"], r["k"], r["n"], r["total"]) for r in rows)


def wanted(df: DataFrame) -> list[tuple[Any, ...]]:
    from pyspark.sql import functions as F

    window = F.window("t", "10 seconds", "10 seconds")
    kept = df.where("v > 0").groupBy(window.alias("w"), "k").agg(F.count("*").alias("n"), F.sum(F.expr("v * 1.5D")))
    return sorted((r["w"]["start"].astimezone(UTC), r[1], r[2], r[3]) for r in kept.collect())


def test_map_prods_and_a_sideline_leave_the_finals_exact(spark: SparkSession, tmp_path: Path) -> None:
    df = past(spark)
    with sw.Session(spark, journal=tmp_path / "journal") as s:
        kept = KeptRows()
        run = query(s, df).start(kept, early=sw.early(at=0.5), sideline=sw.sideline(ratio=2))
        s.run_available()
        figures = run.metrics()
        early = [r for r in kept.results().to_pylist() if r["kind"] == "early"]
        assert finals(kept.results()) == wanted(df)
    assert (figures["rows"], figures["mapped_pages"], figures["late_rows"]) == (24, 12, 0)
    assert figures["sidelined_pages"] > 0
    assert figures["sideline"] == 0
    assert early
    assert not list((tmp_path / "journal" / "pages").glob("*")), "saved pages are gone when they are worked off"


def test_a_replay_at_some_speed_lets_pages_come_while_others_are_worked_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = past(spark)
    for again in (False, True):
        with sw.Session(spark, journal=tmp_path / "journal") as s:
            run = query(s, df).start(sink=str(tmp_path / "out"), early=sw.early(at=0.5), sideline=sw.sideline())
            clock: list[int] = []
            s.run_available(speed=100, progress=lambda page, clock=clock: clock.append(page["clock"]))
            assert run.metrics()["rows"] == 24
            assert clock == sorted(clock)
            if not again:
                assert clock[-1] >= 24_000_000, "the last page is due at 24 s, the first one began at 0"
        assert finals(spark.read.parquet(str(tmp_path / "out")).toArrow()) == wanted(df)


def test_an_error_ends_a_replay_at_some_speed(spark: SparkSession) -> None:
    def fails(rows: pa.RecordBatch) -> pa.RecordBatch:
        raise KeyError("no such model")

    with sw.Session(spark) as s:
        query(s, past(spark), fails).start()
        with pytest.raises(sw.RunError, match="no such model"):
            s.run_available(speed=2.5)


def test_an_error_of_the_function_names_the_page(spark: SparkSession) -> None:
    def fails(rows: pa.RecordBatch) -> pa.RecordBatch:
        raise KeyError("no such model")

    with sw.Session(spark) as s:
        query(s, past(spark), fails).start()
        with pytest.raises(sw.RunError, match=r"map\(.*fails\) failed on page 0: (.|\n)*no such model"):
            s.run_available()


def test_what_cannot_be_mapped_or_sidelined_is_said(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        rows = s.stream("past", past(spark), time="t", arrival="at", disorder=sw.bounded("5 seconds"))
        with pytest.raises(sw.QueryError, match="map schema='k BIGNUMBER'"):
            rows.map(score, schema="k BIGNUMBER")
        with pytest.raises(sw.QueryError, match="as in schema='a INT, b DOUBLE'"):
            rows.map(score, schema="INT")
        with pytest.raises(sw.QueryError, match=r"this query has no map\(\)"):
            rows.window("1 minute").agg(n="count(*)").start(sideline=sw.sideline())


class Model:
    """Comparable, and so without a hash."""

    def __eq__(self, other: object) -> bool:
        return True

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return score(rows)


def test_a_function_may_be_an_object_without_a_hash(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        run = query(s, past(spark), Model()).start()
        s.run_available()
        assert run.metrics()["mapped_pages"] == run.metrics()["pages"] > 0


def test_the_pages_of_all_maps_count(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        rows = s.stream("past", past(spark), time="t", arrival="at", disorder=sw.bounded("5 seconds"))
        twice = rows.where("v > 0").map(score, "k BIGINT, score DOUBLE").map(lambda batch: batch, "k BIGINT")
        run = twice.window("1 minute").agg(n="count(*)").start()
        s.run_available()
        assert run.metrics()["mapped_pages"] == 2 * run.metrics()["pages"] > 0


def test_section_3_of_s2_a_long_run_takes_its_page_in_parts_and_loses_no_row(spark: SparkSession) -> None:
    answers = []
    for quantum in ("1 microsecond", "1 hour"):
        with sw.Session(spark, quantum=quantum) as s:
            rows = spark.range(4000).selectExpr(
                "timestamp_seconds(id) AS t", "id % 7 AS k", "timestamp_seconds(id div 500) AS arrived"
            )
            stream = s.stream(
                "s", rows, time="t", arrival="arrived", page="1 second", disorder=sw.bounded("1 second")
            )
            names = spark.range(5).selectExpr("id AS k", "id * 2 AS twice")
            made = stream.map(lambda batch: batch, "t TIMESTAMP, k BIGINT").join(names, on="k")
            run = made.window("10 minutes").group_by("k").agg(n="count(*)", twice="sum(twice)").start()
            s.run_available(drain=True)
            answers.append(sorted(map(str, run.results().drop(["emitted_at"]).to_pylist())))
            pages = run.metrics()["mapped_pages"]
            assert (pages > 8) == (quantum == "1 microsecond"), pages
    assert answers[0] == answers[1] and len(answers[0]) > 10
