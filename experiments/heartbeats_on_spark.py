"""S1 section 7 on Spark: the levels of heartbeats with real joins and windows, by replay.

    .venv/bin/python experiments/heartbeats_on_spark.py

S1 and S2 send a page each every few seconds; S3 lags behind and catches up in bursts. O1 joins S1 and S2 by their
last rows, O2 has a window for each row of O1's results and of S3. The clock follows the data, so latency shows the
cost of heartbeats and not of work. After each page we count the rows that wait: in queues, and inside operators
until the heartbeat has passed them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.spark.storage.embedded import embedded

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
#: How many values the joined column has: the last eight rows of the other side have four partners, or a quarter.
PLANS = {"O1 gives 4 rows for one": 2, "O1 gives one row for 4": 32}
LEVELS = (sw.papers.query_level(), sw.operator_level(), sw.memory_aware())
#: Rows that find partners, on each side.
LAST = 8


@dataclass
class Waits:
    """What a level cost."""

    latencies: list[float] = field(default_factory=list)
    """Seconds from the time of a row to its result."""
    rows: list[int] = field(default_factory=list)
    """Rows that waited, after each page."""


def sent(spark: SparkSession, name: str, pages: int, rows: int, every: int, burst: int) -> Any:
    """A stream's rows, a second apart in a page; those of S3 arrive with the last page of their burst."""
    found = []
    for page in range(pages):
        arrives = BEGIN + timedelta(seconds=every * (page + 1))
        if name == "s3":
            arrives = BEGIN + timedelta(seconds=every * (burst * (page // burst + 1)))
        for n in range(rows):
            at = BEGIN + timedelta(seconds=every * page, milliseconds=1_000 * every * n // rows)
            found.append((at, arrives, page * rows + n))
    return spark.createDataFrame(found, f"t TIMESTAMP, arrival TIMESTAMP, {name}k BIGINT")


def played(spark: SparkSession, values: int, level: Any, pages: int, rows: int, every: int, burst: int) -> Waits:
    """One plan under one level."""
    out = Waits()
    with sw.Session(spark, heartbeat_scope=level) as session:
        streams = {
            name: session.stream(
                name,
                sent(spark, name, pages, rows, every, burst),
                time="t",
                arrival="arrival",
                page=f"{every} seconds",
                disorder=sw.bounded("0 seconds"),
            )
            for name in ("s1", "s2", "s3")
        }
        left, right = (streams[name].select(f"{name}k").rolling(rows=LAST) for name in ("s1", "s2"))
        pairs = left.join(right, on=f"pmod(hash(s1k), {values}) = pmod(hash(s2k), {values})")
        both = pairs.select(k="s1k").union(streams["s3"].select(k="s3k"))
        query = both.rolling(range="1 second").agg(n="count(*)")
        run = query.start()

        def note(_: object) -> None:
            operators = run.metrics()["operators"].values()
            out.rows.append(sum(f["queued_rows"] + f["waiting_for_time"] for f in operators))

        session.run_available(progress=note)
        results = pl.DataFrame(run.results())
    lags = (results["emitted_at"] - results["window_end"]).dt.total_milliseconds()
    out.latencies = [lag / 1e3 for lag in lags.to_list()]
    return out


def main(pages: int = 32, rows: int = 8, every: int = 4, burst: int = 8, out: Path | None = None) -> None:
    """Print a table: pages of each stream, rows a page, seconds between pages, pages in a burst of S3."""
    found = []
    table = Table(title=f"{pages} pages of {rows} rows a stream, every {every} s; S3 in bursts of {burst} pages")
    for name in ("plan", "heartbeats", "results", "mean latency, s", "longest", "most rows that waited", "mean"):
        table.add_column(name, justify="left" if name in ("plan", "heartbeats") else "right")
    spark = embedded("local[2]")
    for plan, values in PLANS.items():
        for level in LEVELS:
            ran = played(spark, values, level, pages, rows, every, burst)
            figures = {
                "results": len(ran.latencies),
                "mean latency, s": sum(ran.latencies) / len(ran.latencies),
                "longest": max(ran.latencies),
                "most rows that waited": max(ran.rows),
                "mean": sum(ran.rows) / len(ran.rows),
            }
            table.add_row(plan if level is LEVELS[0] else "", level.name, *(f"{f:g}" for f in figures.values()))
            found.append({"plan": plan, "heartbeats": level.name, **figures})
    Console(width=120).print(table)
    spark.stop()
    if out is not None:
        out.write_text(json.dumps({"on Spark": found}, indent=1))


if __name__ == "__main__":
    typer.run(main)
