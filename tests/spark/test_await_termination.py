"""Who waits for a query that nobody runs is told so."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw

pytestmark = pytest.mark.spark


def replayed(s: sw.Session) -> sw.Query:
    times = [datetime.fromtimestamp(second, tz=UTC) for second in (1, 4, 12)]
    frame = s.spark.createDataFrame(pl.DataFrame({"t": times}).to_arrow())
    rows = s.stream("past", frame, time="t", arrival="t", disorder=sw.bounded("0 seconds"))
    return rows.window("10 seconds").agg(n="count(*)")


def live(s: sw.Session, folder: Path) -> sw.Query:
    folder.mkdir(exist_ok=True)
    frame = s.spark.readStream.schema("t TIMESTAMP").parquet(str(folder))
    rows = s.stream("live", frame, time="t", disorder=sw.bounded("0 seconds"))
    return rows.window("10 seconds").agg(n="count(*)")


def test_a_replay_that_nobody_runs_does_not_end(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        run = replayed(s).start(name="q")
        with pytest.raises(sw.RunError, match=r"'q' reads a replay, and nothing runs it: call session"):
            run.await_termination()
        assert run.await_termination(timeout=0.01) is False
        s.run_available()
        assert run.await_termination() is True


def test_a_held_query_that_nobody_runs_does_not_end(spark: SparkSession, tmp_path: Path) -> None:
    with sw.Session(spark) as s:
        run = live(s, tmp_path / "in").start(name="q", hold=True)
        with pytest.raises(sw.RunError, match=r"'q' was started with hold=True, and nothing runs it: call session"):
            run.await_termination()
        assert run.await_termination(timeout=0.01) is False
        s.run_available()
        assert run.await_termination() is True


def test_a_query_that_waits_for_others_of_the_journal_says_which(spark: SparkSession, tmp_path: Path) -> None:
    with sw.Session(spark, journal=tmp_path / "journal") as s:
        live(s, tmp_path / "in").start(name="first", hold=True)
    with sw.Session(spark, journal=tmp_path / "journal") as s:
        run = live(s, tmp_path / "in").start(name="second")
        with pytest.raises(sw.RunError, match="the journal holds the queries first; start them too"):
            run.await_termination()


def test_a_replay_that_another_thread_runs_is_waited_for(spark: SparkSession) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def on_page(_: dict[str, Any]) -> None:
        begun.set()
        go_on.wait()

    with sw.Session(spark) as s:
        run = replayed(s).start()
        other = threading.Thread(target=lambda: s.run_available(progress=on_page))
        other.start()
        begun.wait()
        assert run.await_termination(timeout=0.01) is False
        go_on.set()
        assert run.await_termination() is True
        other.join()
