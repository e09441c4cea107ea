"""The machine's wall clock steps while queries run on Spark: no answer changes, and nothing that waits stops."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.progress.clock import SystemClock

pytestmark = pytest.mark.spark

HOUR = 3_600 * 10**9
WIDTH, SLACK = 20, 30
FILES = 6


class SteppingWall:
    """The machine's wall clock, with an offset in nanoseconds that the test sets."""

    def __init__(self) -> None:
        self.offset = 0

    def __call__(self) -> int:
        return time.time_ns() + self.offset


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> SteppingWall:
    """What every session's clock looks at."""
    stepping, real = SteppingWall(), SystemClock.__init__

    def init(self: SystemClock, *given: Any) -> None:
        real(self, *(given or (stepping,)))

    monkeypatch.setattr(SystemClock, "__init__", init)
    return stepping


def some_rows(number: int) -> pl.DataFrame:
    source = random.Random(number)
    times = [number * 40 + source.randrange(-SLACK, 40) for _ in range(60)]
    return pl.DataFrame({"t": times, "k": [source.choice("ab") for _ in times], "v": list(range(60))})


def recomputed(rows: pl.DataFrame) -> list[tuple[Any, ...]]:
    start = (pl.col("t").floordiv(WIDTH) * WIDTH).alias("window_start")
    found = rows.group_by(start, "k").agg(n=pl.len().cast(pl.Int64), total=pl.col("v").sum())
    return sorted(found.select("window_start", "k", "n", "total").rows())


def answers(run: Any) -> list[tuple[Any, ...]]:
    rows = [row for row in run.results().to_pylist() if row["kind"] == "final"]
    return sorted((row["window_start"], row["k"], row["n"], row["total"]) for row in rows)


def soon(true: Callable[[], bool], seconds: float = 90) -> bool:
    """Whether it becomes true in a while: Spark reads when it does."""
    until, waiting = time.monotonic() + seconds, threading.Event()
    while not true() and time.monotonic() < until:
        waiting.wait(0.05)
    return true()


@pytest.mark.parametrize("steps", [(-24, 0, 12, -48, 3), (1, -1, 1000, -1000, 0)])
def test_steps_between_and_during_pages_change_no_answer(
    spark: SparkSession, tmp_path: Path, wall: SteppingWall, steps: Sequence[int]
) -> None:
    """Five steps of some hours, one behind each page, while early answers and a journal go by the clock, too."""
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [some_rows(number) for number in range(FILES)]
    with sw.Session(spark, journal=tmp_path / "journal") as s:
        frame = spark.readStream.schema("t LONG, k STRING, v LONG").parquet(str(folder))
        stream = s.stream("rows", frame, time="t", disorder=sw.bounded(SLACK, timeout="never"))
        query = stream.window(WIDTH).group_by("k").agg(n="count(*)", total="sum(v)")
        run = query.start(name="q")
        for number, page in enumerate(rows):
            page.write_parquet(folder / f".{number}")
            (folder / f".{number}").rename(folder / f"{number}.parquet")
            if number < len(steps):
                wall.offset += steps[number] * HOUR
            count = 60 * (number + 1)
            assert soon(lambda count=count: run.metrics()["rows"] == count), run.metrics()
        assert run.metrics()["late_rows"] == 0
        s.run_available()
        assert answers(run) == recomputed(pl.concat(rows))
        stamps = run.results()["emitted_at"].to_pylist()
        assert stamps == sorted(stamps), "time does not go back"
        ahead = timedelta(hours=max(0, *accumulate(steps)))
        assert stamps[-1] > datetime.now(UTC) + ahead - timedelta(minutes=5), "steps forward are followed"


def test_a_timeout_and_regular_early_answers_come_after_a_step_back(
    spark: SparkSession, tmp_path: Path, wall: SteppingWall
) -> None:
    """The wall clock goes back by a day after the page: nobody waits for a day."""
    folder = tmp_path / "in"
    folder.mkdir()
    text = ["2026-03-01 10:00:00", "2026-03-01 10:00:01", "2026-03-01 10:00:12"]
    rows = pl.DataFrame({"t": text}).with_columns(pl.col("t").str.to_datetime(time_unit="us", time_zone="UTC"))
    with sw.Session(spark) as s:
        frame = spark.readStream.schema("t TIMESTAMP").parquet(str(folder))
        stream = s.stream("rows", frame, time="t", disorder=sw.bounded("10 seconds", timeout="6 seconds"))
        run = stream.window("5 seconds").agg(n="count(*)").start(early=sw.early(every="2 seconds"))
        rows.write_parquet(folder / "0.parquet")
        assert soon(lambda: run.metrics()["rows"] == 3)
        wall.offset -= 24 * HOUR
        assert soon(lambda: run.metrics()["early_results"] > 0)
        assert soon(lambda: "final" in run.results()["kind"].to_pylist())
        finals = [row["n"] for row in run.results().to_pylist() if row["kind"] == "final"]
        assert finals == [2]
