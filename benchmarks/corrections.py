"""What `corrections=` costs while nothing is late: the same query with and without it, in turn, with a journal.

python benchmarks/corrections.py --rows 300000 --pages 10 --repeats 3
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
from pyspark.sql import SparkSession

import slackwater as sw
from benchmarks.measure import Figures, Meter
from slackwater.spark.storage.embedded import embedded

SCHEMA = "ts TIMESTAMP, k BIGINT, v DOUBLE"
#: Microseconds of stream time in a page: six windows of a minute close with each page.
PAGE = 6 * 60_000_000


def generate(folder: Path, pages: int, rows: int, groups: int) -> list[Path]:
    """Files with rows in the order of time."""
    source, paths = np.random.default_rng(1), []
    for n in range(pages):
        t = np.sort(source.integers(n * PAGE, (n + 1) * PAGE, rows))
        page = pl.DataFrame({"ts": t, "k": source.integers(0, groups, rows), "v": source.random(rows)})
        paths.append(folder / f"{n:03d}.parquet")
        page.with_columns(pl.col("ts").cast(pl.Datetime("us", "UTC"))).write_parquet(paths[-1])
        os.utime(paths[-1], (1_000_000 + n, 1_000_000 + n))
    return paths


def run(spark: SparkSession, length: str | None, files: list[Path], folder: Path) -> float:
    """Seconds for all files."""
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made:
        work = Path(made)
        (work / "in").mkdir()
        for path in files:
            (work / "in" / path.name).hardlink_to(path)
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(work / "in"))
        begun = time.monotonic()
        with sw.Session(spark, journal=work / "journal", batch_pages=False) as session:
            rows = session.stream("events", frame, time="ts", disorder=sw.bounded("0 seconds"))
            query = rows.window("5 minutes", slide="1 minute").group_by("k").agg(n="count(*)", mean="avg(v)")
            run = query.start(str(work / "out"), hold=True, corrections=length)
            session.run_available()
            assert run.metrics()["late_rows"] == 0
        return time.monotonic() - begun


def main() -> None:
    """Read the options, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="rows of a page")
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    spark = embedded(master="local[2]", driver_memory="2g")
    with tempfile.TemporaryDirectory(prefix="slackwater-corrections-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        files = generate(folder, options.pages, options.rows, options.groups)
        sides: tuple[str | None, ...] = (None, "1 day")
        for length in sides:
            run(spark, length, files[:2], folder)  # compiles
        meter, processor = Meter(spark), dict[str | None, list[float]]({side: [] for side in sides})
        for repeat in range(options.repeats):
            for length in sides if repeat % 2 == 0 else sides[::-1]:
                meter.start()
                took, rows = run(spark, length, files, folder), options.rows * options.pages
                cpu = meter.stop(Figures(options.pages, rows, took)).cpu_seconds or 0.0
                processor[length].append(cpu)
                print(
                    f"corrections={length!s:5} {took:6.1f} s, {cpu / rows * 1e9:,.0f} ns of processor a row",
                    flush=True,
                )
        ratio = median(processor["1 day"]) / median(processor[None])
        print(f"{ratio:.3f} x the processor time without corrections")
    spark.stop()


if __name__ == "__main__":
    main()
