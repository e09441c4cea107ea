"""A quiet stream does not stall a union on Spark: in a replay by its clock, live by the machine's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from tests.spark.test_a_users_day import eventually, instant, past

pytestmark = pytest.mark.spark


def united(s: sw.Session, a: DataFrame, b: DataFrame, idle: str | None) -> sw.Query:
    """A busy stream and a quiet one, both sorted."""
    quiet = sw.bounded("0 seconds", idle=idle)
    busy = s.stream("a", a, time="t", arrival="at", page="5 seconds", disorder=sw.bounded("0 seconds"))
    other = s.stream("b", b, time="t", arrival="at", page="5 seconds", disorder=quiet)
    return busy.select("t").union(other.select("t")).window("10 seconds").agg(n="count(*)")


@pytest.mark.parametrize("idle", [None, "8 seconds"])
def test_a_replay_goes_on_by_the_bounds_of_its_quiet_stream(spark: SparkSession, idle: str | None) -> None:
    a = past(spark, *((second, second) for second in range(0, 60, 5)))
    b = past(spark, (1, 2), (49, 56))
    with sw.Session(spark) as s:
        run = united(s, a, b, idle).start()
        s.run_available()
        rows = sorted(run.results().to_pylist(), key=lambda r: r["window_start"])
        figures = run.metrics()
    assert [(r["window_start"], r["n"]) for r in rows] == [
        (instant(start), 3 if start in (0, 40) else 2) for start in range(0, 60, 10)
    ]
    assert figures["late_rows"] == 0, "the row at 49 came 7 seconds after its time"
    waited = [(r["emitted_at"] - r["window_end"]).total_seconds() for r in rows]
    if idle is None:
        assert waited[:3] == [50, 40, 30], "all wait for the second page of b, which comes at 60"
        return
    assert waited[:3] == [12, 12, 12], "b was at 1 when its page came at 5, so its bound is 12 s behind the clock"


@pytest.mark.parametrize("in_sql", [False, True])
def test_s1_2_a_quiet_stream_of_a_replay_goes_by_the_rows_of_another(spark: SparkSession, in_sql: bool) -> None:
    a = past(spark, *((second, second) for second in range(0, 60, 5)))
    b = past(spark, (1, 2), (44, 47))
    with sw.Session(spark) as s:
        busy = s.stream("a", a, time="t", arrival="at", page="5 seconds", disorder=sw.bounded("0 seconds"))
        quiet = s.stream("b", b, time="t", arrival="at", page="5 seconds", disorder=sw.bounded("0 seconds"))
        with pytest.raises(sw.QueryError, match=r"there is no stream 'aa' \(did you mean 'a'\?\)"):
            s.bounds({("aa", "b"): (0, "8 seconds")})
        if in_sql:
            s.sql("CREATE BOUNDS SKEW (a TO b = (0, 8 SECONDS), b TO a = (0, 1 HOUR))")
        else:
            s.bounds({("a", "b"): (0, "8 seconds"), ("b", "a"): (0, "1 hour")})
        assert "bounds(skew(" in s.sql("SHOW STREAMS")["disorder"][1].as_py()
        both = busy.select("t").union(quiet.select("t")).window("10 seconds")
        for _ in range(2):  # the second replay has sources and a clock of its own
            run = both.agg(n="count(*)").start()
            s.run_available()
            rows = sorted(run.results().to_pylist(), key=lambda r: r["window_start"])
            assert [r["n"] for r in rows] == [3, 2, 2, 2, 3, 2]
            assert run.metrics()["late_rows"] == 0
            # The row of a at 20 comes at 25: then b is past 12. Without a, b would not be before 50.
            waited = [(r["emitted_at"] - r["window_end"]).total_seconds() for r in rows]
            assert all(15 <= seconds < 15.001 for seconds in waited[:3]), waited


def test_live_streams_go_on_by_the_clock_though_one_is_quiet(spark: SparkSession, tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)

    def stream(s: sw.Session, name: str, idle: str | None, *seconds: int) -> Any:
        folder = tmp_path / name
        folder.mkdir()
        pl.DataFrame({"t": [now + timedelta(seconds=n) for n in seconds]}).write_parquet(folder / "0.parquet")
        reader = spark.readStream.schema("t TIMESTAMP").parquet(str(folder))
        return s.stream(name, reader, time="t", disorder=sw.bounded("0 seconds", idle=idle))

    with sw.Session(spark) as s:
        busy, quiet = stream(s, "a", None, 0, 600), stream(s, "b", "2 seconds", 0)
        run = busy.union(quiet).window("1 second").agg(n="count(*)").start()
        eventually(lambda: run.results().num_rows == 1)
        (row,) = run.results().to_pylist()
        assert (row["window_start"], row["n"], row["kind"]) == (now, 2, "final")
        # Figures are published with the end of the commit.
        eventually(lambda: [run.metrics()["streams"][name]["rows"] for name in "ab"] == [2, 1])


@pytest.mark.parametrize("joined", [False, True])
def test_s1_progress_live_streams_go_on_without_one_that_never_sends(
    spark: SparkSession, tmp_path: Path, joined: bool
) -> None:
    """S1 sections 1 and 3.4: a union and an outer join, whose other stream is there and silent."""
    now = datetime.now(UTC).replace(microsecond=0)

    def stream(s: sw.Session, name: str, disorder: sw.Disorder, *seconds: int) -> Any:
        folder = tmp_path / name
        folder.mkdir()
        if seconds:
            pl.DataFrame({"t": [now + timedelta(seconds=n) for n in seconds]}).write_parquet(folder / "0.parquet")
        reader = spark.readStream.schema("t TIMESTAMP").parquet(str(folder))
        return s.stream(name, reader, time="t", disorder=disorder)

    with sw.Session(spark) as s:
        busy = stream(s, "a", sw.bounded("0 seconds"), 0, 600)
        silent = stream(s, "b", sw.bounded("0 seconds", timeout="2 seconds"))
        query = busy.union(silent).window("1 second").agg(n="count(*)")
        if joined:
            query = busy.select(x="t").join(silent.select(y="t"), on="x = y", within="1 second", how="left")
        assert "bounded('0 seconds', timeout='10 minutes')" in query.explain()
        run = query.start()
        eventually(lambda: run.results().num_rows == 1)
        (row,) = run.results().to_pylist()
        assert (row["x"], row["y"]) == (now, None) if joined else (row["window_start"], row["n"]) == (now, 1)
        eventually(lambda: [run.metrics()["streams"][name].get("idle") for name in "ab"] == [False, True])


@pytest.mark.parametrize("restarts", [False, True])
def test_s3_4_1_simultaneous_rows_go_to_an_ordered_sink_without_waiting(
    spark: SparkSession, tmp_path: Path, restarts: bool
) -> None:
    """No time passes after the last rows, and nothing is drained: of equal times none waits for another."""
    a, b = past(spark, (0, 1), (0, 7), (5, 8), (5, 12)), past(spark, (0, 2), (5, 9), (5, 13))
    journal = str(tmp_path / "journal") if restarts else None
    for _ in range(2 if restarts else 1):
        with sw.Session(spark, journal=journal) as s:
            one, two = (
                s.stream(n, rows, time="t", arrival="at", page="1 second", disorder=sw.bounded("0 seconds"))
                for n, rows in (("a", a), ("b", b))
            )
            run = (
                one.select("t", "at")
                .union(two.select("t", "at"))
                .start(str(tmp_path / "out"), name="q", ordered=True)
            )
            s.run_available(drain=False)
            assert run.metrics()["late_rows"] == 0
    rows = spark.read.parquet(str(tmp_path / "out")).select("t", "at").collect()
    assert sorted((t.second, at.second) for t, at in rows) == [
        (0, 1), (0, 2), (0, 7), (5, 8), (5, 9), (5, 12), (5, 13),
    ]  # fmt: skip
