"""Session windows on Spark: the same as on in-process pages, and as Spark's own `session_window` in a batch."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.errors import QueryError
from tests.spark.test_both_page_kinds import Scenario, comparable, on_arrow, on_spark, scattered

pytestmark = pytest.mark.spark

SCENARIOS = {
    "by group": scattered(1, {"gap": 3}),
    "no groups": scattered(4, {"gap": 1}, group_by=()),
    "filtered": scattered(5, {"gap": 4}, where="v > 0 OR k = 'a'"),
    "projected": scattered(6, {"gap": 2}, select={"k": "k", "v": "v * 2", "t": "t + 1"}),
    "by source, filtered": scattered(10, {"gap": 3}, punctuated=True, source="k", where="v > 0 OR k = 'a'"),
    "by source, passed by the stream": scattered(21, {"gap": 2}, slack=2, source="k"),
    "by another column": scattered(12, {"gap": 2}, punctuated=True, source="k", group_by=("p",)),
    "at most a share": scattered(20, {"gap": 3}, policy=sw.drop_ratio("20%")),
    "only rows without a time": Scenario([[(None, "a", 1.0, None)]], {"gap": 10}),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_page_kinds_agree(spark: SparkSession, name: str) -> None:
    rows, late, figures = on_arrow(SCENARIOS[name])
    spark_rows, spark_late, spark_figures = on_spark(spark, SCENARIOS[name])
    assert comparable(spark_rows) == comparable(rows)
    assert comparable(spark_late) == comparable(late)
    for key in ("rows", "missing_time", "late_rows", "lost_share", "results", "pages", "late_by_source"):
        assert spark_figures[key] == figures[key], key


AGGREGATES = {"n": "count(*)", "spent": "sum(price)", "most": "max(price)", "users": "approx_count_distinct(user)"}


def clicks() -> pl.DataFrame:
    """Clicks on whole seconds, so that many are exactly a gap apart; each comes up to half a minute late."""
    source, rows = np.random.default_rng(3), 2_000
    t = np.sort(source.integers(0, 3_000, rows))
    return pl.DataFrame(
        {
            "t": (t * 1_000_000).astype("datetime64[us]"),
            "user": [None if u == 9 else f"u{u}" for u in source.integers(0, 10, rows)],
            "price": pl.Series(source.integers(0, 10_000, rows) / 100).cast(pl.Decimal(8, 2)),
            "at": ((t + source.integers(0, 30, rows)) * 1_000_000).astype("datetime64[us]"),
        }
    ).with_columns(pl.col("t", "at").dt.replace_time_zone("UTC"))


def by_batch(df: Any, gap: str, *keys: str) -> list[tuple[Any, ...]]:
    made = df.groupBy(F.session_window("t", gap), *keys).agg(*(F.expr(e).alias(n) for n, e in AGGREGATES.items()))
    bounds = (F.col("session_window.start").alias("window_start"), F.col("session_window.end").alias("window_end"))
    return answers(made.select(*keys, *AGGREGATES, *bounds).toArrow().to_pylist(), keys)


def answers(rows: list[dict[str, Any]], keys: tuple[str, ...] = ("user",)) -> list[tuple[Any, ...]]:
    columns = (*keys, *AGGREGATES, "window_start", "window_end")
    return sorted((tuple(_utc(row[c]) for c in columns) for row in rows), key=str)


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def test_sessions_are_those_of_sparks_session_window(spark: SparkSession) -> None:
    df = spark.createDataFrame(clicks().to_arrow())
    columns = ", ".join(f"{text} AS {name}" for name, text in AGGREGATES.items())
    with sw.Session(spark, batch_pages=False) as s:
        rows = s.stream("clicks", df, time="t", arrival="at", page="2 minutes", disorder=sw.bounded("30 seconds"))
        runs = [
            rows.sessions(gap="20 seconds").group_by("user").agg(**AGGREGATES).start(),
            s.sql(f"SELECT user, {columns} FROM clicks GROUP BY user, session_window(t, '20 seconds')").start(),
            s.sql(
                f"SELECT user, {columns} FROM SESSION(TABLE clicks PARTITION BY user, DESCRIPTOR(t), "
                "INTERVAL '20' SECONDS) GROUP BY user, window_start, window_end"
            ).start(),
        ]
        everybody = s.sql(f"SELECT {columns} FROM clicks [SESSION 2 SECONDS]").start()
        s.run_available(drain=True)
        wanted = by_batch(df, "20 seconds", "user")
        assert len(wanted) > 200
        for run in runs:
            assert answers(run.results().to_pylist()) == wanted
            assert run.metrics()["late_rows"] == 0
        assert answers(everybody.results().to_pylist(), ()) == by_batch(df, "2 seconds")


def test_open_sessions_outlive_a_restart_and_answer_early(spark: SparkSession, tmp_path: Path) -> None:
    rows = clicks()
    (tmp_path / "in").mkdir()
    parts = [rows.sort("at").slice(n * 400, 400) for n in range(5)]
    for n, part in enumerate(parts):
        part.drop("at").write_parquet(tmp_path / f"{n}.parquet")
    answered: list[dict[str, Any]] = []

    def sink(df: Any, commit_id: int) -> None:
        answered.extend(df.toArrow().to_pylist())

    for n in range(5):
        (tmp_path / f"{n}.parquet").rename(tmp_path / "in" / f"{n}.parquet")
        with sw.Session(spark, journal=str(tmp_path / "journal")) as s:
            df = s.spark.readStream.schema("t TIMESTAMP, user STRING, price DECIMAL(8,2)").parquet(
                str(tmp_path / "in")
            )
            stream = s.stream("clicks", df, time="t", disorder=sw.bounded("30 seconds"))
            run = (
                stream.sessions(gap="20 seconds")
                .group_by("user")
                .agg(**AGGREGATES)
                .start(sink, name="q", hold=True)
            )
            s.run_available(drain=n == 4)
            if n == 2:
                before = len(answered)
                run.prod(where="user = 'u1'")
                s.run_available(drain=False)
                early = [row for row in answered[before:] if row["kind"] == "early"]
                assert {row["user"] for row in early} == {"u1"}
                assert all(row["n_seen"] == row["n"] and row["n_low"] is None for row in early)
    final = [row for row in answered if row["kind"] == "final"]
    assert answers(final) == by_batch(spark.createDataFrame(rows.to_arrow()), "20 seconds", "user")


def test_what_sessions_do_not_have_is_refused(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        df = spark.createDataFrame(clicks().to_arrow())
        rows = s.stream("clicks", df, time="t", arrival="at", page="2 minutes", disorder=sw.bounded("30 seconds"))
        with pytest.raises(QueryError, match=r"gap='-1 second' must be positive"):
            rows.sessions(gap="-1 second")
        with pytest.raises(QueryError, match=r"join\(\) does not pair the rows of sessions"):
            rows.sessions(gap="1 minute").join(rows.sessions(gap="1 minute"), on="user")
        run = rows.sessions(gap="1 minute").agg(n="count(*)").start()
        with pytest.raises(QueryError, match="sessions have no fixed bounds"):
            run.prod(at="2013-01-01 00:00")
        with pytest.raises(QueryError, match="nobody knows when a session will end"):
            rows.sessions(gap="1 minute").agg(n="count(*)").start(early=sw.early(at=0.5))
