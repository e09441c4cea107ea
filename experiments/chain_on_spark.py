"""Chain and its rivals on Spark with real pages, under a burst that comes faster than it can be worked on.

    .venv/bin/python experiments/chain_on_spark.py --seconds 60

Pages come by the clock. A cheap filter keeps a fifth of the rows; a slow Python function works on what is left, a
window counts it. What is measured: the bytes that all queues hold, over time. Native Structured Streaming runs the
same work over files that come at the same pace; its queue is what has come and has not been worked on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.scheduling.strategy import Strategy
from slackwater.spark.embedded import embedded

matplotlib.use("Agg")
from matplotlib import pyplot

_RESULTS = Path(__file__).parent / "results"
SCHEMA = "t TIMESTAMP, k BIGINT, payload STRING"
START = datetime(2024, 1, 1, tzinfo=UTC)
ROWS = 10_000
#: Seconds between two pages of the burst.
EVERY = 0.4
#: Seconds of the slow function for each row that is left.
SLOW = 500e-6
STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "fifo": sw.fifo,
    "chain": sw.chain,
    "chain, 60 s": lambda: sw.chain(max_wait="60 seconds"),
    "greedy": sw.greedy,
    "round-robin": sw.round_robin,
}


def slow(rows: pa.RecordBatch) -> pa.RecordBatch:
    """What takes its time and no processor, such as asking another machine."""
    time.sleep(SLOW * rows.num_rows)
    return rows


def two(s: sw.Session, rows: sw.Stream) -> list[sw.Query]:
    """A filter that keeps a fifth, then the slow function."""
    kept = rows.where("k % 5 = 0").map(slow, schema=SCHEMA)
    return [kept.window("1 second", "1 second").agg(n="count(*)")]


def joined(s: sw.Session, rows: sw.Stream) -> list[sw.Query]:
    """With a stored relation that has two rows for each key, a filter behind it, and the slow function."""
    codes = s.spark.range(2_000).selectExpr("id % 1000 AS code", "id AS v")
    both = rows.join(codes, on="k = code").where("v % 10 = 0").select("t", "k", "payload")
    return [both.map(slow, schema=SCHEMA).window("1 second", "1 second").agg(n="count(*)")]


def three(s: sw.Session, rows: sw.Stream) -> list[sw.Query]:
    """The first, a window over all rows, and a filter that keeps half before another window."""
    plain = rows.window("10 seconds", "2 seconds").group_by("k").agg(n="count(*)")
    half = rows.where("k % 2 = 0").window("1 second", "1 second").agg(n="count(*)")
    return [*two(s, rows), plain, half]


CASES = {"two operators": two, "stored relation": joined, "three queries": three}


@dataclass
class Outcome:
    """One strategy in one setting."""

    times: list[float] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    seconds: float = 0.0
    results: int = 0
    memory: int = 0
    """The most that was in Spark's memory."""

    @property
    def peak(self) -> int:
        """The most bytes that queues held."""
        return max(self.held, default=0)

    @property
    def mean(self) -> float:
        """Over time."""
        if len(self.times) < 2:
            return 0.0
        return float(np.dot(self.held[:-1], np.diff(self.times)) / (self.times[-1] - self.times[0]))


def pages(seconds: float) -> Iterator[pl.DataFrame]:
    """The rows of a burst, a page each."""
    random = np.random.default_rng(1)
    for n in range(round(seconds / EVERY)):
        begun = START + timedelta(seconds=n * EVERY)
        texts = random.integers(0, 2**63, (ROWS, 6)).astype("U20")
        yield pl.DataFrame(
            {
                "t": [begun] * ROWS,
                "k": random.integers(0, 1_000, ROWS),
                "payload": ["".join(row) for row in texts],
            }
        ).with_columns(
            pl.col("t").cast(pl.Datetime("us", "UTC")), arrival=pl.lit(begun).cast(pl.Datetime("us", "UTC"))
        )


def run(spark: SparkSession, rows: DataFrame, queries: Any, strategy: Strategy) -> Outcome:
    """Play the burst by the clock, and note what is held after each run of an operator."""
    out = Outcome()
    with sw.Session(spark, strategy=strategy) as s:
        stream = s.stream("rows", rows, time="t", arrival="arrival", page=f"{round(1e3 * EVERY)} milliseconds",
                          disorder=sw.bounded("0 seconds"))  # fmt: skip
        runs = [query.start() for query in queries(s, stream)]
        executor = s._running.loop.executor
        begun = time.monotonic()

        def note(_: object) -> None:
            out.times.append(time.monotonic() - begun)
            out.held.append(sum(node.waiting()[1] for node in executor.graph))
            out.memory = max(out.memory, s._running.pages.room.held)

        executor._cycle.on_ran = note
        s.run_available(speed=1.0)
        out.seconds = time.monotonic() - begun
        out.results = sum(sum(run.results()["n"].to_pylist()) for run in runs)
    return out


def native(spark: SparkSession, burst: list[pl.DataFrame], work: Path) -> Outcome:
    """The first setting by Structured Streaming, over files that come at the same pace."""
    source, out, came = work / "in", Outcome(), [0]
    source.mkdir()
    each = burst[0].to_arrow().nbytes

    def bring() -> None:
        begun = time.monotonic()
        for n, page in enumerate(burst):
            page.drop("arrival").write_parquet(work / f"{n}.half")
            time.sleep(max(0.0, begun + n * EVERY - time.monotonic()))
            (work / f"{n}.half").rename(source / f"{n}.parquet")
            came[0] += 1

    rows = spark.readStream.schema(SCHEMA).parquet(str(source)).where("k % 5 = 0")

    @F.arrow_udf("BIGINT")  # type: ignore[untyped-decorator]
    def slowly(k: pa.Array) -> pa.Array:
        time.sleep(SLOW * len(k))
        return k

    mapped = rows.withColumn("k", slowly("k"))
    counted = mapped.withWatermark("t", "0 seconds").groupBy("t").count()
    sender = threading.Thread(target=bring)
    query = counted.writeStream.format("noop").option("checkpointLocation", str(work / "c")).start()
    begun = time.monotonic()
    sender.start()
    done = 0
    while done < len(burst):
        done = sum(1 for _ in burst[: _taken(query) // ROWS])
        out.times.append(time.monotonic() - begun)
        out.held.append((came[0] - done) * each)
        time.sleep(0.2)
    query.stop()
    sender.join()
    out.seconds = time.monotonic() - begun
    return out


def _taken(query: Any) -> int:
    return sum(report["numInputRows"] for report in query.recentProgress)


def draw(case: str, outs: dict[str, Outcome], folder: Path) -> None:
    """Bytes held over time."""
    figure, axis = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
    for name, out in outs.items():
        axis.step(out.times, np.asarray(out.held) / 2**20, where="post", linewidth=1, label=name)
    axis.set(title=f"{case}, on Spark", xlabel="time, s", ylabel="MiB in all queues")
    axis.legend(fontsize=8)
    figure.savefig(folder / f"chain_on_spark_{case.replace(' ', '_')}.svg", metadata={"Date": None})
    pyplot.close(figure)


def show(console: Console, case: str, outs: dict[str, Outcome]) -> None:
    """A table of one setting."""
    table = Table(title=case)
    for column in (
        "strategy",
        "peak, MiB",
        "× fifo",
        "mean, MiB",
        "in memory, MiB",
        "seconds",
        "× fifo",
        "counted",
    ):
        table.add_column(column, justify="left" if column == "strategy" else "right")
    fifo = outs.get("fifo")
    for name, out in outs.items():
        times = [f"{a / b:.2f}" if b else "" for a, b in (
            (out.peak, fifo.peak if fifo else 0), (out.seconds, fifo.seconds if fifo else 0))]  # fmt: skip
        table.add_row(name, f"{out.peak / 2**20:.1f}", times[0], f"{out.mean / 2**20:.1f}",
                      f"{out.memory / 2**20:.1f}", f"{out.seconds:.1f}", times[1], f"{out.results:,}")  # fmt: skip
    console.print(table)


def main() -> None:
    """Read the options, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the burst")
    parser.add_argument("--case", action="append", choices=list(CASES), help="settings; may be repeated")
    parser.add_argument("--strategy", action="append", choices=list(STRATEGIES), help="may be repeated")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="the folder for figures and pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console() if Console().is_terminal else Console(width=160)
    spark, found = embedded(master="local[2]"), []
    with tempfile.TemporaryDirectory(prefix="slackwater-chain-", ignore_cleanup_errors=True) as made:
        burst = list(pages(options.seconds))
        pl.concat(burst).write_parquet(Path(made) / "burst.parquet")
        rows = spark.read.parquet(str(Path(made) / "burst.parquet"))
        warm = rows.where(f"arrival < '{START + timedelta(seconds=4 * EVERY)}'")
        for case in options.case or CASES:
            run(spark, warm, CASES[case], sw.chain())
            outs: dict[str, Outcome] = {}
            for name in options.strategy or STRATEGIES:
                console.print(f"[dim]{case}: {name}[/dim]")
                outs[name] = run(spark, rows, CASES[case], STRATEGIES[name]())
            if case == "two operators":
                console.print(f"[dim]{case}: native[/dim]")
                outs["native"] = native(spark, burst, Path(made))
            show(console, case, outs)
            draw(case, outs, options.out)
            found += [{"case": case, "strategy": name, "peak": out.peak, "mean": out.mean, "seconds": out.seconds,
                       "memory": out.memory, "counted": out.results} for name, out in outs.items()]  # fmt: skip
    (options.out / "chain_on_spark.json").write_text(json.dumps({"seconds": options.seconds, "figures": found}))
    console.print("[dim]Written: chain_on_spark.json and pictures[/dim]")
    spark.stop()


if __name__ == "__main__":
    main()
