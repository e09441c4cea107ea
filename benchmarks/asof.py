"""As-of joins: Slackwater beside what a user would write with a stream-stream join, in turns, over the same files.

Trades of 1,000 symbols, and prices that count for a minute at most. Native pairs each trade with all prices of the
minute before it, and takes the last of these by an aggregate. Both write Parquet files, with recovery on. Native's
state is in memory, Spark's default: RocksDB looks up each partner, which is slower. The answers are compared: of
native's the windows that its watermark has closed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
from measure import Clock
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.spark.storage.embedded import embedded

SYMBOLS, SECONDS, EVERY = 1_000, 300, 10
SLACK = "5 seconds"
_SCHEMAS = {
    "trades": "at timestamp, symbol bigint, id bigint",
    "prices": "since timestamp, code bigint, price double",
}
_START = 1_700_000_000_000_000


@dataclass
class Measured:
    """One run of one side."""

    side: str
    rows: int
    seconds: float
    cpu_seconds: float
    """Of Java and Python."""


def generate(folder: Path, pages: int, trades: int) -> int:
    """One file a page of each stream, up to five seconds out of order; gives the rows."""
    random, rows = np.random.default_rng(1), 0
    for page in range(pages):
        for name, many in (("trades", trades), ("prices", SYMBOLS * SECONDS // EVERY)):
            first = _START + page * SECONDS * 1_000_000
            times = (
                first + np.sort(random.integers(0, SECONDS * 1_000_000, many)) - random.integers(0, 5_000_000, many)
            )
            values = np.arange(many) + page * many if name == "trades" else random.normal(100, 10, many)
            keys = random.integers(0, SYMBOLS, many)
            columns = [pl.Series(times).cast(pl.Datetime("us", "UTC")), pl.Series(keys), pl.Series(values)]
            names = [column.split()[0] for column in _SCHEMAS[name].split(", ")]
            (folder / name).mkdir(parents=True, exist_ok=True)
            pl.DataFrame(dict(zip(names, columns, strict=True))).write_parquet(
                folder / name / f"{page:05d}.parquet"
            )
            rows += many
    return rows


def frames(spark: SparkSession, folder: Path) -> list[DataFrame]:
    """Both streams, a file at a time."""
    return [
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
        for name, schema in _SCHEMAS.items()
    ]


def ours(spark: SparkSession, folder: Path, work: Path) -> float:
    """The seconds of `join_asof`."""
    begun = time.monotonic()
    with sw.Session(spark, journal=work / "journal") as session:
        trades, prices = (
            session.stream(name, frame, time=at, disorder=sw.bounded(SLACK))
            for (name, at), frame in zip(
                (("trades", "at"), ("prices", "since")), frames(spark, folder), strict=True
            )
        )
        joined = trades.join_asof(prices, on="symbol = code", within="1 minute", how="inner")
        joined.select("id", "price").start(sink=str(work / "out"), hold=True)
        session.run_available(drain=False)
    return time.monotonic() - begun


def native(spark: SparkSession, folder: Path, work: Path) -> float:
    """The seconds of a stream-stream join and an aggregate."""
    begun = time.monotonic()
    trades, prices = frames(spark, folder)
    near = F.expr("symbol = code AND since <= at AND since >= at - INTERVAL 1 MINUTE")
    pairs = trades.withWatermark("at", SLACK).join(prices.withWatermark("since", SLACK), near)
    last = pairs.groupBy(F.window("at", "10 seconds"), "id").agg(F.max_by("price", "since").alias("price"))
    query = (
        last.select("id", "price")
        .writeStream.format("parquet")
        .option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.monotonic() - begun


def main() -> None:
    """Generate, run both sides in turns, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=5)
    parser.add_argument("--trades", type=int, default=300_000, help="a page")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "asof.json")
    options = parser.parse_args()
    spark = embedded(master="local[2]", driver_memory="4g")
    jvm: Any = spark.sparkContext._jvm
    found: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="slackwater-asof-", ignore_cleanup_errors=True) as made:
        rows = generate(Path(made) / "data", options.pages, options.trades)
        for repeat in range(options.repeats + 1):
            answers = {}
            for run in (ours, native) if repeat % 2 else (native, ours):
                with tempfile.TemporaryDirectory(dir=made, ignore_cleanup_errors=True) as work:
                    clock = Clock(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getPid())
                    before = clock.read().mine or 0.0
                    seconds = run(spark, Path(made) / "data", Path(work))
                    cpu = (clock.read().mine or 0.0) - before
                    answers[run.__name__] = pl.read_parquet(f"{work}/out/**/*.parquet", columns=["id", "price"])
                if repeat:
                    found.append(Measured(run.__name__, rows, seconds, cpu))
                rate = f"{rows / seconds / 1e3:,.0f} k rows/s"
                print(f"{repeat} {run.__name__} {seconds:.1f} s, {cpu:.1f} s of processor, {rate}", flush=True)
            both = answers["ours"].join(answers["native"], on="id", suffix="_native")
            assert both.height == answers["native"].height > 0, "each answer of native is one of ours"
            assert (both["price"] == both["price_native"]).all(), "and the same"
    for figure in ("seconds", "cpu_seconds"):
        times = [median(getattr(run, figure) for run in found if run.side == side) for side in ("native", "ours")]
        print(f"as-of join over native, {figure}: {times[0] / times[1]:.2f} ×")
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps([asdict(run) for run in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
