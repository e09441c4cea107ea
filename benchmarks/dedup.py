"""drop_duplicates beside dropDuplicatesWithinWatermark: files of 1 M rows, of which one in twenty comes twice.

Both sides write the rows that go on to Parquet files, with recovery on, from `start()` to the end of the files, in
turns. Copies come up to five minutes after the first, both sides remember keys for ten minutes. A page is five.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
from measure import Figures, Meter, python_peak
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.spark.storage.embedded import embedded

PAGE_SECONDS, WITHIN = 300, "10 minutes"
SCHEMA = "ts timestamp, id bigint, v double"
_START = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


def generate(folder: Path, pages: int, rows: int) -> list[Path]:
    """Rows with random ids, a few seconds out of order; copies have the time of their first."""
    random, before, files = np.random.default_rng(1), None, list[Path]()
    for page in range(pages):
        copies = rows // 20 if before is not None else 0
        fresh = rows - copies
        place = (page + np.arange(fresh) / fresh) * PAGE_SECONDS * 1_000_000
        made = pl.DataFrame(
            {
                "ts": _START + place.astype(np.int64) - random.integers(0, 5_000_000, fresh),
                "id": random.integers(0, 2**62, fresh),
                "v": random.normal(100.0, 15.0, fresh),
            }
        )
        again = made.clear() if before is None else before.sample(copies, seed=page)
        before = made.tail(fresh // 2)
        files.append(folder / f"{page:05d}.parquet")
        whole = pl.concat([made, again]).with_columns(pl.col("ts").cast(pl.Datetime("us", "UTC")))
        whole.write_parquet(files[-1], row_group_size=rows)
    return files


def run(spark: SparkSession, native: bool, files: list[Path], folder: Path) -> tuple[float, int]:
    """Seconds, and the rows that went on."""
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made:
        work = Path(made)
        (work / "in").mkdir()
        for path in files:
            (work / "in" / path.name).hardlink_to(path)
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(work / "in"))
        begun = time.monotonic()
        if native:
            rows = frame.withWatermark("ts", WITHIN).dropDuplicatesWithinWatermark(["id"])
            query = rows.writeStream.format("parquet").option("checkpointLocation", str(work / "checkpoint"))
            query.trigger(availableNow=True).start(str(work / "out")).awaitTermination()
        else:
            with sw.Session(spark, journal=work / "journal") as session:
                rows = session.stream("events", frame, time="ts", disorder=sw.bounded("10 seconds"))
                rows.drop_duplicates("id", within=WITHIN).start(str(work / "out"), hold=True)
                session.run_available()
        return time.monotonic() - begun, spark.read.parquet(str(work / "out")).count()


def main() -> None:
    """Read the options, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a page")
    parser.add_argument("--pages", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    spark = embedded(master="local[2]", driver_memory="4g")
    with tempfile.TemporaryDirectory(prefix="slackwater-dedup-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        files = generate(folder, options.pages, options.rows)
        for native in (False, True):
            run(spark, native, files[:2], folder)  # compiles
        meter = Meter(spark)
        seconds: dict[bool, list[float]] = {False: [], True: []}
        processor: dict[bool, list[float]] = {False: [], True: []}
        for repeat in range(options.repeats):
            for native in (False, True) if repeat % 2 == 0 else (True, False):
                meter.start()
                took, went = run(spark, native, files, folder)
                rows = options.rows * options.pages
                cpu = meter.stop(Figures(options.pages, rows, took)).cpu_seconds or 0.0
                seconds[native].append(took)
                processor[native].append(cpu)
                side = "native" if native else "Slackwater"
                print(
                    f"{side:10} {rows / took:10,.0f} rows/s, {cpu / rows * 1e6:.2f} us of processor a row, {went:,}"
                )
        by_clock, by_processor = (median(of[True]) / median(of[False]) for of in (seconds, processor))
        print(f"{by_clock:.2f} x native by the clock, {by_processor:.2f} x by processor time")
        print(f"Python takes {python_peak() / 2**20:,.0f} MB")
    spark.stop()


if __name__ == "__main__":
    main()
