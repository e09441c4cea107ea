"""Window joins: Slackwater beside Spark's stream-stream join with RocksDB, and what a longer window costs.

Two streams of Parquet files, one file a page, a few seconds out of order. At any time 100,000 keys are alive, each
for a tenth of a page, so a row finds about one partner however long the window is: what grows is the state. Both
sides write the pairs to Parquet files, with recovery on, from `start()` to the end of the files, in turns.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
from measure import Figures, Meter, python_peak
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.spark.storage.embedded import embedded

KEYS = 100_000
SECONDS = 1_000
SLACK = "10 seconds"
OURS, NATIVE = "Slackwater", "native"
_START = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_SCHEMAS = {"a": "ts timestamp, key bigint, v double", "b": "us timestamp, id bigint, w double"}
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_RESULTS = Path(__file__).parent / "results" / "joins.json"


@dataclass
class Measured:
    """One run of one side."""

    side: str
    window: int
    """In pages."""
    rows: int
    seconds: float
    cpu_seconds: float
    pairs: int
    state_bytes: int
    driver_bytes: int
    """Largest resident size of Python so far; state of ours that leaked into the driver would show here."""
    old_heap_bytes: int
    """Largest use of Java's old generation: state that leaked into Spark's driver would show here."""
    other_cores: float

    @property
    def rows_per_second(self) -> float:
        """Rows of both streams."""
        return self.rows / self.seconds


def generate(folder: Path, pages: int, rows: int) -> dict[str, list[Path]]:
    """Files of both streams; keys move on with time, ten times their number a page."""
    made: dict[str, list[Path]] = {}
    for seed, (name, schema) in enumerate(_SCHEMAS.items()):
        random, names = np.random.default_rng(seed), [column.split()[0] for column in schema.split(", ")]
        (folder / name).mkdir(parents=True)
        made[name] = []
        for page in range(pages):
            place = page + np.arange(rows) / rows
            late = random.integers(0, 5_000_000, rows)
            times = _START + (place * SECONDS * 1_000_000).astype(np.int64) - late
            keys = (place * 10 * KEYS).astype(np.int64) + random.integers(0, KEYS, rows)
            values = random.normal(100.0, 15.0, rows)
            columns = [pl.Series(times).cast(pl.Datetime("us", "UTC")), pl.Series(keys), pl.Series(values)]
            path = folder / name / f"{page:05d}.parquet"
            pl.DataFrame(dict(zip(names, columns, strict=True))).write_parquet(path)
            made[name].append(path)
    return made


class Bench:
    """The session, the files and the clock."""

    def __init__(self, spark: SparkSession, folder: Path, pages: int, rows: int) -> None:
        self.spark, self.folder, self.pages, self.rows = spark, folder, pages, rows
        self.files = generate(folder / "data", pages, rows)
        self.meter = Meter(spark)

    def run(self, side: str, window: int, pages: int) -> Measured:
        """One side over the first pages of both streams."""
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as made:
            work = Path(made)
            for name in _SCHEMAS:
                (work / name).mkdir()
                for path in self.files[name][:pages]:
                    (work / name / path.name).hardlink_to(path)
            self.meter.start()
            begun = time.monotonic()
            state = (self._ours if side == OURS else self._native)(work, window)
            seconds = time.monotonic() - begun
            of = self.meter.stop(Figures(pages, 2 * pages * self.rows, seconds))
            pairs = self.spark.read.parquet(str(work / "out")).count()
        cpu, others = of.cpu_seconds or 0.0, of.other_cores or 0.0
        return Measured(side, window, of.rows, seconds, cpu, pairs, state, python_peak(), of.old_peak, others)

    def _frames(self, work: Path) -> Iterator[DataFrame]:
        for name, schema in _SCHEMAS.items():
            reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            yield reader.parquet(str(work / name))

    def _ours(self, work: Path, window: int) -> int:
        frames, length = self._frames(work), f"{window * SECONDS} seconds"
        with sw.Session(self.spark, journal=work / "journal") as session:
            a, b = (
                session.stream(name, frame, time=time, disorder=sw.bounded(SLACK)).rolling(range=length)
                for (name, time), frame in zip((("a", "ts"), ("b", "us")), frames, strict=True)
            )
            run = a.join(b, on="key = id").start(sink=str(work / "out"), hold=True)
            session.run_available(drain=False)
            (join,) = run.metrics()["joins"].values()
            return int(join["state_bytes"])

    def _native(self, work: Path, window: int) -> int:
        a, b = self._frames(work)
        length = F.expr(f"INTERVAL {window * SECONDS} SECONDS")
        a, b = a.withWatermark("ts", SLACK), b.withWatermark("us", SLACK)
        together = (F.col("ts") < F.col("us") + length) & (F.col("us") < F.col("ts") + length)
        query = (
            a.join(b, (F.col("key") == F.col("id")) & together)
            .writeStream.format("parquet")
            .option("path", str(work / "out"))
            .option("checkpointLocation", str(work / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

        return sum(f.stat().st_size for f in (work / "checkpoint" / "state").rglob("*") if f.is_file())


def table_of(results: list[Measured]) -> Table:
    """Medians of each side and window, with their ratio to native and to the shortest window."""
    shown = Table(title="Window joins (rows of both streams a second)")
    for head in ("window", "side", "rows/s", "µs of processor a row", "x native", "x cost of 2 pages", "pairs"):
        shown.add_column(head, justify="right" if head != "side" else "left")
    shown.add_column("state MB", justify="right")
    shown.add_column("Python MB", justify="right")
    shown.add_column("old heap MB", justify="right")

    def middle(side: str, window: int, what: str) -> float | None:
        of = [getattr(m, what) for m in results if (m.side, m.window) == (side, window)]
        return median(of) if of else None

    for window in sorted({m.window for m in results}):
        for side in (OURS, NATIVE):
            rate = middle(side, window, "rows_per_second")
            if rate is None:
                continue
            of = [m for m in results if (m.side, m.window) == (side, window)]
            native, first = middle(NATIVE, window, "rows_per_second"), middle(side, 2, "rows_per_second")
            shown.add_row(
                f"{window} pages",
                side,
                f"{rate:,.0f}",
                f"{median(m.cpu_seconds / m.rows * 1e6 for m in of):.2f}",
                "" if native is None or side == NATIVE else f"{rate / native:.2f}",
                "" if first is None else f"{first / rate:.2f}",
                f"{of[0].pairs:,}",
                f"{of[-1].state_bytes / 2**20:,.0f}",
                f"{of[-1].driver_bytes / 2**20:,.0f}",
                f"{of[-1].old_heap_bytes / 2**20:,.0f}",
            )
    return shown


def main() -> None:
    """Read the options, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a page")
    parser.add_argument("--pages", type=int, default=24, help="pages of each stream")
    parser.add_argument("--native-pages", type=int, default=6, help="the same for native, which is slower")
    parser.add_argument("--windows", type=int, nargs="*", default=[2, 10, 20], help="lengths of windows in pages")
    parser.add_argument("--native-windows", type=int, nargs="*", default=[10], help="the same for native")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path, default=_RESULTS, help="where to write the figures as JSON")
    options = parser.parse_args()
    console, begun = Console(width=140), time.monotonic()
    spark = embedded(master="local[2]", driver_memory="4g")
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    results: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="slackwater-joins-", ignore_cleanup_errors=True) as made:
        bench = Bench(spark, Path(made), options.pages, options.rows)
        for side in (OURS, NATIVE):
            bench.run(side, 2, 2)  # compiles
        for repeat in range(options.repeats):
            sides = [(OURS, w, options.pages) for w in options.windows]
            sides += [(NATIVE, w, options.native_pages) for w in options.native_windows]
            for side, window, pages in sides if repeat % 2 == 0 else sides[::-1]:
                measured = bench.run(side, window, pages)
                results.append(measured)
                console.print(
                    f"[dim]{side}, window of {window} pages: {measured.rows_per_second:,.0f} rows/s, "
                    f"{measured.seconds:.1f} s, others kept {measured.other_cores:.2f} cores busy[/dim]"
                )
    console.print(table_of(results))
    options.out.parent.mkdir(exist_ok=True)
    figures = {"options": {k: str(v) for k, v in vars(options).items()}, "runs": [asdict(m) for m in results]}
    options.out.write_text(json.dumps(figures, indent=1))
    console.print(f"[dim]{time.monotonic() - begun:.0f} s; figures in {options.out.name}[/dim]")
    spark.stop()


if __name__ == "__main__":
    main()
