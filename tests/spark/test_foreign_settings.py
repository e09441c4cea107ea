"""A user's own Spark may have any setting: what Slackwater writes, reads and answers is the same under all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.spark.storage.types import spark_schema

pytestmark = pytest.mark.spark

HOSTILE = {
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.compression.codec": "gzip",
    "spark.sql.session.timeZone": "America/St_Johns",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
}


@pytest.fixture(scope="module")
def hostile(spark: SparkSession) -> Iterator[SparkSession]:
    session = spark.newSession()
    for key, value in HOSTILE.items():
        session.conf.set(key, value)
    yield session
    changed = {key: session.conf.get(key) for key, value in HOSTILE.items() if session.conf.get(key) != value}
    assert not changed, "the user's session was touched"


INSTANT = pa.timestamp("us", tz="UTC")
#: Far before Spark's calendars agree, around the epoch, beyond what INT96 and nanoseconds can say.
MOMENTS = [datetime(year, 3, 1, 12, 0, 0, 1, tzinfo=UTC) for year in (1100, 1814, 1969, 2024, 9998)]


def rows() -> pa.Table:
    plain = [m.replace(tzinfo=None) for m in MOMENTS]
    return pa.table(
        {
            "t": pa.array(MOMENTS, INSTANT),
            "at": pa.array([datetime(2024, 1, 1, 0, i, tzinfo=UTC) for i in range(5)], INSTANT),
            "k": ["a", "b", "a", "b", "a"],
            "ntz": pa.array(plain, pa.timestamp("us")),
            "day": [date(m.year, m.month, m.day) for m in MOMENTS],
            "raw": [b"\xff\x00", b"\x01", b"\xfe", b"", b"\x80"],
            "big": [2**63 - 1, 1, 2**63 - 1, 2, 5],
            "money": pa.array([Decimal("1.10")] * 5, pa.decimal128(38, 10)),
        }
    )


AGGREGATES = {
    "moment": "max(t)",
    "ntz": "first(ntz)",
    "day": "min(day)",
    "raw": "last(raw)",
    "total": "sum(big)",
    "share": "avg(money)",
    "seen": "approx_count_distinct(big)",
}


def play(spark: SparkSession, df: DataFrame, sink: Path, limit: int, **settings: Any) -> list[dict[str, Any]]:
    with sw.Session(spark, resident_limit=limit) as s:
        stream = s.stream("rows", df, time="t", disorder=sw.bounded("0 seconds"), ahead="never", **settings)
        query = stream.where("big > 0").window("1 day").group_by("k").agg(**AGGREGATES)
        query.start(sink=sink, hold=True)
        s.run_available()
    found = pq.read_table(sink).drop_columns(["emitted_at"]).to_pylist()
    return sorted(found, key=lambda row: row["window_start"])


def checked(found: list[dict[str, Any]]) -> None:
    given = rows().to_pylist()
    for theirs, ours in (("t", "moment"), ("ntz", "ntz"), ("day", "day"), ("raw", "raw"), ("big", "total")):
        assert [row[ours] for row in found] == [row[theirs] for row in given]
    assert [row["window_start"].date() for row in found] == [m.date() for m in MOMENTS]
    assert {(row["share"], row["seen"]) for row in found} == {(Decimal("1.1"), 1)}


@pytest.mark.parametrize("limit", [2**30, 0], ids=["resident", "spilled"])
def test_a_replay_is_the_same_under_any_setting(hostile: SparkSession, tmp_path: Path, limit: int) -> None:
    df = hostile.createDataFrame(rows(), spark_schema(rows().schema))
    checked(play(hostile, df, tmp_path / "out", limit, arrival="at", page="1 minute"))
    for path in (tmp_path / "out").glob("*.parquet"):
        assert pq.read_schema(path).field("moment").type == INSTANT


@pytest.mark.parametrize("limit", [2**30, 0], ids=["resident", "spilled"])
def test_a_stream_of_files_is_the_same_under_any_setting(
    spark: SparkSession, hostile: SparkSession, tmp_path: Path, limit: int
) -> None:
    df = spark.createDataFrame(rows(), spark_schema(rows().schema))
    df.coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = hostile.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    checked(play(hostile, stream, tmp_path / "out", limit))


def test_a_sum_that_leaves_its_type_and_a_bad_cast_end_nothing(hostile: SparkSession) -> None:
    """As docs/rooms/aggregates.md says, a sum of BIGINT wraps around; what cannot be cast is null."""
    with sw.Session(hostile) as s:
        df = hostile.createDataFrame(rows()).selectExpr("at AS t", "at", "big", "'x' || k AS word")
        stream = s.stream("rows", df, time="t", arrival="at", disorder=sw.bounded("1 hour"))
        made = stream.window("1 day").agg(total="sum(BIG)", n="sum(CAST(Word AS INT))")
        run = made.start()
        s.run_available()
        (row,) = run.results().to_pylist()
    assert (row["total"], row["n"]) == ((2 * (2**63 - 1) + 8 + 2**63) % 2**64 - 2**63, None)


def test_the_users_own_texts_keep_the_users_time_zone(hostile: SparkSession) -> None:
    df = hostile.sql("SELECT TIMESTAMP_LTZ'2024-01-01 00:00:00' AS t, TIMESTAMP_LTZ'2024-01-01 00:00:00' AS at")
    with sw.Session(hostile) as s:
        stream = s.stream("rows", df, time="t", arrival="at", disorder=sw.bounded("0 seconds"))
        run = stream.window("30 minutes").agg(n="count(*)").start()
        s.run_available()
        (start,) = run.results()["window_start"].to_pylist()
    assert start == datetime(2024, 1, 1, 3, 30, tzinfo=UTC)  # St John's is three and a half hours behind


def test_spooled_and_staged_pages_are_the_same_under_any_setting(
    spark: SparkSession, hostile: SparkSession, tmp_path: Path
) -> None:
    given = rows().select(["t", "k", "ntz"])
    plain = spark.createDataFrame(given, spark_schema(given.schema))
    plain.coalesce(1).write.parquet(str(tmp_path / "in"))

    def same(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    with sw.Session(hostile) as s:
        df = hostile.readStream.schema(plain.schema).parquet(str(tmp_path / "in"))
        stream = s.stream("rows", df, time="t", disorder=sw.bounded("0 seconds"))
        mapped = stream.map(same, schema="t TIMESTAMP_LTZ, k STRING, ntz TIMESTAMP_NTZ")
        mapped.start(sink=tmp_path / "out", hold=True)
        s.run_available()
    assert pq.read_table(tmp_path / "out").to_pylist() == given.to_pylist()


def test_files_are_read_as_the_user_said_also_when_batches_are_large(spark: SparkSession, tmp_path: Path) -> None:
    """Large batches are scanned directly; the user's settings for the user's files still hold."""
    writer, reader = spark.newSession(), spark.newSession()
    writer.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    reader.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    (tmp_path / "in").mkdir()
    for i in range(3):
        df = writer.range(120_000).selectExpr("id AS t", "DATE'1100-03-01' AS day")
        df.coalesce(1).write.parquet(str(tmp_path / f"one{i}"))
        (part,) = (tmp_path / f"one{i}").glob("*.parquet")
        # Spark's own mark would say how to read them.
        table = pq.read_table(part)
        pq.write_table(table.replace_schema_metadata(None), tmp_path / f"in/{i}.parquet")
        os.utime(tmp_path / f"in/{i}.parquet", (1_000_000 + i, 1_000_000 + i))
    with sw.Session(reader) as s:
        df = reader.readStream.schema("t BIGINT, day DATE").option("maxFilesPerTrigger", 1)
        stream = s.stream("rows", df.parquet(str(tmp_path / "in")), time="t", disorder=sw.bounded(200_000))
        run = stream.window(200_000).agg(low="min(day)", top="max(day)").start(hold=True)
        s.run_available()
        (row,) = run.results().to_pylist()
    assert (row["low"], row["top"]) == (date(1100, 3, 1), date(1100, 3, 1))


def test_rows_without_an_arrival_are_counted_and_routed(spark: SparkSession, tmp_path: Path) -> None:
    at = datetime(2024, 1, 1, tzinfo=UTC)
    arrivals = [at + timedelta(seconds=20), None, at, None]
    table = pl.DataFrame({"t": [at, at, at, at + timedelta(days=9)], "at": arrivals, "i": [0, 1, 2, 3]}).to_arrow()
    with sw.Session(spark) as s:
        df = spark.createDataFrame(table)
        stream = s.stream("rows", df, time="t", arrival="at", disorder=sw.bounded("0 seconds"))
        query = stream.window("1 hour").agg(n="count(*)")
        run = query.start(late=tmp_path / "late")
        s.run_available()
        assert run.results()["n"].to_pylist() == [2]
        figures = run.metrics()
    assert (figures["rows"], figures["missing_time"], figures["pages"]) == (4, 2, 2)
    assert sorted(pq.read_table(tmp_path / "late")["i"].to_pylist()) == [1, 3]


def test_rows_that_all_lack_an_arrival_are_counted_too(spark: SparkSession) -> None:
    df = spark.sql("SELECT TIMESTAMP'2024-01-01' AS t, CAST(NULL AS TIMESTAMP) AS at FROM range(3)")
    with sw.Session(spark) as s:
        stream = s.stream("rows", df, time="t", arrival="at", disorder=sw.bounded("0 seconds"))
        run = stream.window("1 hour").agg(n="count(*)").start()
        s.run_available()
        assert (run.metrics()["missing_time"], run.results().num_rows) == (3, 0)


def test_an_arrival_may_have_no_zone(spark: SparkSession) -> None:
    df = spark.sql("SELECT TIMESTAMP'2024-01-01' AS t, TIMESTAMP_NTZ'2024-01-01 00:00:05' AS at")
    with sw.Session(spark) as s:
        stream = s.stream("rows", df, time="t", arrival="at", page="10 seconds", disorder=sw.bounded("0 seconds"))
        run = stream.window("1 hour").agg(n="count(*)").start()
        s.run_available()
        (row,) = run.results().to_pylist()
    assert (row["n"], row["emitted_at"]) == (1, datetime(2024, 1, 1, 0, 0, 10, tzinfo=UTC))
