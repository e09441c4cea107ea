"""Internal and latent time on Spark: the answers of in-process pages, live streams, the spool, refusals."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.operators.page import Page
from slackwater.plan.steps import Where
from slackwater.spark.api.declare import stream_node
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.compile import stamp_sql
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.backend.scan import arrived
from slackwater.spark.ingest.spool import Spool
from slackwater.spark.storage.storage_dir import StorageDir
from tests.spark.test_a_users_day import eventually, instant, past

pytestmark = pytest.mark.spark

KINDS = {"internal": sw.internal(), "latent": sw.latent()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_replay_stamps_by_its_own_clock(spark: SparkSession, kind: str) -> None:
    """Pages of 5 seconds: rows that arrive in [0, 5) come at 5. A row without an arrival has no time."""
    a = past(spark, *((0, second) for second in (1, 2, 7, 11, 48)))
    b = past(spark, (0, 3)).unionByName(past(spark, (0, 4)).selectExpr("t", "CAST(NULL AS TIMESTAMP) AS at"))
    with sw.Session(spark) as s:
        one, other = (
            s.stream(name, df, time=KINDS[kind], arrival="at", page="5 seconds")
            for name, df in (("a", a), ("b", b))
        )
        run = one.union(other).window("10 seconds").agg(n="count(*)").start()
        plain = one.where("t IS NOT NULL").start()
        s.run_available()
        rows = sorted(run.results().to_pylist(), key=lambda r: r["window_start"])
        figures = run.metrics()
        assert plain.results().num_rows == 5
    assert [(r["window_start"], r["n"]) for r in rows] == [(instant(0), 3), (instant(10), 2), (instant(50), 1)]
    # What has ended is answered at its end by the replay's clock, though both streams are quiet.
    assert [r["emitted_at"] for r in rows][:2] == [instant(10), instant(20)]
    assert figures["late_rows"] == 0
    assert figures["streams"]["b"]["missing_time"] == 1


def stream_of_files(s: sw.Session, folder: Path, name: str, kind: str) -> sw.Stream:
    (folder / name).mkdir(exist_ok=True)
    reader = s.spark.readStream.schema("v BIGINT").option("maxFilesPerTrigger", 1).parquet(str(folder / name))
    return s.stream(name, reader, time=KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_live_rows_are_stamped_and_answered_by_the_clock_though_a_stream_is_quiet(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    with sw.Session(spark) as s:
        one, other = (stream_of_files(s, tmp_path, name, kind) for name in "ab")
        run = one.union(other).window("1 second").agg(n="count(*)", total="sum(v)").start()
        before = datetime.now(UTC)
        pl.DataFrame({"v": [1, 2, 3]}).write_parquet(tmp_path / "a" / "0.parquet")
        eventually(lambda: run.results().num_rows == 1)
        (row,) = run.results().to_pylist()
        assert (row["n"], row["total"], row["kind"]) == (3, 6, "final")
        assert row["window_start"] > before - timedelta(seconds=1)
        assert timedelta() <= row["emitted_at"] - row["window_end"] < timedelta(seconds=20)
        assert run.metrics()["late_rows"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_ordered_sink_gets_live_rows_without_a_drain(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    with sw.Session(spark) as s:
        run = stream_of_files(s, tmp_path, "a", kind).where("v > 1").start(ordered=True)
        pl.DataFrame({"v": [1, 2, 3]}).write_parquet(tmp_path / "a" / "0.parquet")
        eventually(lambda: run.results().num_rows == 2)
        assert run.results()["v"].to_pylist() == [2, 3]


def test_a_page_from_the_spool_is_stamped_at_its_admission_and_keeps_that_in_the_journal(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It was saved before it was admitted, without a stamp; the journal finds the same files with it."""
    backend = SparkBackend(spark, StorageDir.of(tmp_path))
    rows = spark.createDataFrame([("x", 1), ("y", 2), ("x", 3)], "g STRING, v BIGINT")
    node = stream_node("a", rows, sw.internal(), "g", None)
    put = Spool("a", backend).put(arrived(rows, node, 0, 5))
    admitted = put.stamped(1_000)
    again = Page.from_json(json.loads(json.dumps(admitted.to_json())))
    for page in (admitted, again, admitted.with_step(Where("v > 1")), again.stamped(1_000)):
        arrival = SparkPages(backend).measure(page)
        assert (arrival.rows, arrival.missing, arrival.lowest, arrival.highest) == (3, 0, 1_000, 1_000)
        assert arrival.sources is not None
        assert (arrival.sources.rows.tolist(), arrival.sources.highest.tolist()) == ([2, 1], [1_000, 1_000])
    assert [r["__time"] for r in backend.work(again).frame.collect()] == [1_000] * 3
    pages, fresh = SparkPages(backend), arrived(rows, node, 0, 5)
    assert pages.payload(again).column_names == ["g", "v"]  # type: ignore[union-attr]
    assert pages.payload(fresh.with_step(Where("v > 1")).stamped(2_000)).num_rows == 2  # type: ignore[union-attr]
    assert pages.arrival(fresh) is not None, "who waits for the arrival of the page as it came learns of it"


def test_a_stamp_is_no_part_of_the_code_that_spark_compiles(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    metric = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    rows = spark.range(100).selectExpr("id", "CAST(0 AS BIGINT) AS __time").localCheckpoint()

    def compiled(time: str) -> int:
        before = metric.getCount()
        made = rows.selectExpr("id", f"{time} AS __time").groupBy("__time").count().toArrow()
        assert made["count"].to_pylist() == [100]
        return int(metric.getCount() - before)

    compiled(stamp_sql(1_700_000_000_000_001))
    assert compiled(stamp_sql(1_700_000_000_000_002)) == 0
    assert compiled("1700000000000003L + id * 0") > 0, "a number is"


def test_mistakes_say_what_to_write(spark: SparkSession) -> None:
    rows = past(spark, (1, 2))
    with sw.Session(spark) as s:
        with pytest.raises(QueryError, match=r"time=sw.internal\(\) stamps rows as they come.*leave out disorder="):
            s.stream("a", rows, time=sw.internal(), disorder=sw.bounded("1 second"), arrival="at")
        with pytest.raises(QueryError, match=r"disorder=sw.latent\(\) is a kind of time.*write time=sw.latent\(\)"):
            s.stream("a", rows, time="t", disorder=sw.latent(), arrival="at")
        with pytest.raises(QueryError, match=r"time=7 is no time; write the column"):
            s.stream("a", rows, time=7, disorder=sw.bounded("1 second"), arrival="at")  # type: ignore[arg-type]
        with pytest.raises(QueryError, match=r"so the time of a stream of prods is a column"):
            s.stream("a", rows, time=sw.internal(), arrival="at", role="prods")


def test_sql_declares_such_streams(spark: SparkSession, tmp_path: Path) -> None:
    pl.DataFrame({"v": [1, 2], "at": [instant(1), instant(12)]}).write_parquet(tmp_path / "0.parquet")
    with sw.Session(spark) as s:
        s.sql(f"""CREATE STREAM x FROM 'parquet' OPTIONS (path = '{tmp_path}') TIME INTERNAL
                  REPLAY BY at PAGE 1 SECOND""")
        run = s.sql("SELECT COUNT(*) AS n FROM x [RANGE 10 SECONDS, SLIDE 10 SECONDS]").start()
        s.run_available()
        assert run.results().select(["n"]) == pa.table({"n": pa.array([1, 1], pa.int64())})


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_a_time_may_be_a_double_and_an_arrival_a_number(spark: SparkSession, kind: str) -> None:
    texts = ["0.25", "9.75", "10", "19.5", "-0.5", "21", "NaN", "Infinity", "1e300", None]
    rows = [(text, 1.5 * n) for n, text in enumerate(texts)]
    df = spark.createDataFrame(rows, "x STRING, came DOUBLE").selectExpr(f"CAST(x AS {kind}) AS t", "came")
    with sw.Session(spark) as s:
        stream = s.stream("s", df, time="t", arrival="came", page="3 seconds", disorder=sw.bounded(30))
        run = stream.window(10).agg(n="count(*)", first="min(t)").start()
        s.run_available(drain=True)
        found = sorted((float(r["window_start"]), r["n"], r["first"]) for r in run.results().to_pylist())
        pages = run.metrics()["pages"]
        missing = run.metrics()["missing_time"]
    assert found == [(-10.0, 1, -0.5), (0.0, 2, 0.25), (10.0, 2, 10.0), (20.0, 1, 21.0)]
    assert (pages, missing) == (5, 4)


def test_a_time_of_microseconds_is_exact_as_a_double(spark: SparkSession) -> None:
    now = 1_750_000_000_123_457
    df = spark.sql(f"SELECT {now} / 1e6D AS t, 0 AS came")
    with sw.Session(spark) as s:
        stream = s.stream("s", df, time="t", arrival="came", disorder=sw.bounded(0))
        run = stream.window("0.000001").agg(n="count(*)").start()
        s.run_available(drain=True)
        (row,) = run.results().to_pylist()
    assert row["window_start"] * 1_000_000 == now
