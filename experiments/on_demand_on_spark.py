"""S3's lines on Spark by the machine's clock, and what native Structured Streaming does when a source is quiet.

Two live streams are filtered and united: 50 rows a second, and one row every 20 seconds. Our union passes rows at
once and holds back only time, so what waits is a window: the latency of an answer is the time from the end of its
window of one second to the sink. Rows come a quarter of a second before and after each full second. So no line
is slower only because a page happened to be worked on when a window ended.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.engine.enabling import Enabling
from slackwater.spark.storage.embedded import embedded

#: Rows a second.
FAST = 50
#: Seconds between two rows of the sparse stream.
SPARSE = 20.0
#: Before this nothing is measured: Spark compiles.
WARM_UP = 15.0
LINES: dict[str, tuple[Enabling | None, Any]] = {
    "A none": (sw.papers.no_enabling(), sw.internal()),
    "B periodic, 5 s": (sw.papers.periodic("5 seconds"), sw.internal()),
    "B periodic, 1 s": (sw.papers.periodic("1 second"), sw.internal()),
    "C on demand": (None, sw.internal()),
    "D latent": (None, sw.latent()),
}
SCHEMA = "timestamp TIMESTAMP, value BIGINT"


@dataclass
class Sender:
    """A folder that gets a file now and then."""

    folder: Path
    rows: int = 1
    written: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def write(self) -> None:
        """A file, now."""
        values = range(self.written * self.rows, (self.written + 1) * self.rows)
        rows = pl.DataFrame({"timestamp": [datetime.now(UTC)] * self.rows, "value": values})
        rows.write_parquet(self.folder / f".{self.written}")
        (self.folder / f".{self.written}").rename(self.folder / f"{self.written}.parquet")
        self.written += 1

    def keep_writing(self, every: float, phase: float) -> None:
        """In a thread, until it is stopped: when the clock is at a multiple of some seconds, and `phase` more."""

        def work() -> None:
            while not self.stop.wait(every - (time.time() - phase) % every):
                self.write()

        threading.Thread(target=work, daemon=True).start()


@contextmanager
def _senders(regularly: bool) -> Iterator[tuple[Sender, Sender]]:
    """50 rows a second, and a row every 20 seconds if that is wanted."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        fast, sparse = Sender(Path(one), FAST // 2), Sender(Path(other))
        fast.keep_writing(0.5, 0.25)
        if regularly:
            sparse.write()
            sparse.keep_writing(SPARSE, 0.5)
        try:
            yield fast, sparse
        finally:
            fast.stop.set()
            sparse.stop.set()


def _read(spark: SparkSession, sender: Sender) -> DataFrame:
    return spark.readStream.schema(SCHEMA).parquet(str(sender.folder))


def on_spark(console: Console, seconds: float) -> dict[str, Any]:
    """All lines, then native Structured Streaming; prints a table and gives the figures."""
    spark = embedded("local[2]")
    lines = {}
    for line, (enabling, kind) in LINES.items():
        lines[line] = _line(spark, enabling, kind, seconds)
        console.print(f"[dim]{line}: {lines[line]}[/dim]")
    table = Table(title=f"On Spark, {seconds:g} s a case: seconds from the end of a window to its answer")
    for name in ("line", "answers", "median", "mean", "longest"):
        table.add_column(name, justify="left" if name == "line" else "right")
    for line, f in lines.items():
        table.add_row(line, str(f["answers"]), *(f"{f[k]:.3f}" for k in ("median", "mean", "longest")))
    console.print(table)
    a, c, d = (lines[line]["median"] for line in ("A none", "C on demand", "D latent"))
    console.print(f"C / D: {c / d:.2f} (wanted: at most 1.2); A / C: {a / c:.0f} (wanted: at least 50)")
    quiet = {
        "ours, union": _ours_quiet(spark, seconds),
        "native, union": _native_quiet(spark, seconds, _native_union),
        "native, stream-stream left outer join": _native_quiet(spark, seconds, _native_join),
    }
    table = Table(title="One source goes quiet: seconds until the first complete answer of what came after that")
    table.add_column("system")
    table.add_column("seconds", justify="right")
    for system, waited in quiet.items():
        table.add_row(system, f"none in {seconds:g}" if waited is None else f"{waited:.2f}")
    console.print(table)
    return {"seconds": seconds, "lines": lines, "quiet": quiet}


class Answers:
    """A sink that notes how long after its window's end each answer came."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.waits: list[float] = []

    def __call__(self, rows: DataFrame, commit_id: int) -> None:
        """Answers have come."""
        now = time.time()
        for row in rows.select(F.unix_micros("window_end").alias("end")).collect():
            if row["end"] / 1e6 >= self.since:
                self.waits.append(now - row["end"] / 1e6)


def _line(spark: SparkSession, enabling: Enabling | None, kind: Any, seconds: float) -> dict[str, Any]:
    with _senders(regularly=True) as senders, sw.Session(spark, quiet_streams=enabling) as session:
        rows = [_read(spark, sender) for sender in senders]
        fast = session.stream("fast", rows[0], time=kind).where("value % 20 <> 0").select("value")
        slow = session.stream("slow", rows[1], time=kind).where("value >= 0").select("value")
        answers = Answers(time.time() + WARM_UP)
        fast.union(slow).window("1 second").agg(n="count(*)").start(sink=answers)
        time.sleep(WARM_UP + seconds)
    waits = answers.waits or [float("nan")]
    return {
        "answers": len(answers.waits),
        "median": statistics.median(waits),
        "mean": statistics.fmean(waits),
        "longest": max(waits),
    }


def _ours_quiet(spark: SparkSession, seconds: float) -> float | None:
    """A row of the quiet stream comes at the start, and none after it."""
    with _senders(regularly=False) as senders, sw.Session(spark) as session:
        bounds = (sw.bounded("0 seconds"), sw.bounded("0 seconds", idle="1 second"))
        streams = [_read(spark, sender) for sender in senders]
        fast, slow = (
            session.stream(name, df, time="timestamp", disorder=disorder).select("value")
            for name, df, disorder in zip(("fast", "slow"), streams, bounds, strict=True)
        )
        answers = Answers(float("inf"))
        fast.union(slow).window("1 second").agg(n="count(*)").start(sink=answers)
        time.sleep(WARM_UP)
        senders[1].write()
        quiet = time.time()
        answers.since = quiet + 1
        return _first(lambda: bool(answers.waits), quiet, seconds)


def _native_union(fast: DataFrame, slow: DataFrame) -> DataFrame:
    both = fast.select("timestamp").union(slow.select("timestamp"))
    counted = both.groupBy(F.window("timestamp", "1 second")).count()
    return counted.select(F.unix_micros("window.end").alias("end"))


def _native_join(fast: DataFrame, slow: DataFrame) -> DataFrame:
    """A row of the fast stream that has no partner within a second is complete when the watermark says so."""
    one, other = fast.alias("one"), slow.alias("other")
    within = F.expr(
        "one.value = other.value AND other.timestamp BETWEEN one.timestamp AND one.timestamp + INTERVAL 1 SECOND"
    )
    joined = one.join(other, within, "leftOuter")
    return joined.select(F.unix_micros("one.timestamp").alias("end"))


def _native_quiet(
    spark: SparkSession, seconds: float, query: Callable[[DataFrame, DataFrame], DataFrame]
) -> float | None:
    with _senders(regularly=False) as senders, tempfile.TemporaryDirectory() as checkpoint:
        since, seen = [float("inf")], list[float]()
        fast, slow = (_read(spark, sender).withWatermark("timestamp", "0 seconds") for sender in senders)

        def note(rows: DataFrame, batch: int) -> None:
            seen.extend(row["end"] for row in rows.collect() if row["end"] / 1e6 >= since[0])

        started = query(fast, slow).writeStream.outputMode("append").foreachBatch(note)
        running = started.option("checkpointLocation", checkpoint).start()
        try:
            time.sleep(WARM_UP)
            senders[1].write()
            quiet = time.time()
            since[0] = quiet + 1
            return _first(lambda: bool(seen), quiet, seconds)
        finally:
            running.stop()


def _first(came: Callable[[], bool], since: float, seconds: float) -> float | None:
    """When something came, in seconds; None if it did not."""
    while time.time() - since < seconds:
        if came():
            return time.time() - since
        time.sleep(0.02)
    return None
