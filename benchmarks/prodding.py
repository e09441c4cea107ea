"""What prodding costs the final results (S5 section 4.2, Table 4.1): rows a second, processor time, Spark jobs.

`at=0.5` runs by replay, whose clock follows the data; `every='1 second'` over files, on the machine's clock.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
from cases import SLACK
from data import SCHEMA, generate, offer
from measure import Clock
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.estimates.early import Early
from slackwater.spark.storage.embedded import embedded

_RESULTS = Path(__file__).parent / "results" / "prodding.json"
_AGGREGATES = {"total": "sum(v)", "n": "count(v)", "top": "max(v)"}
Ran = dict[str, Any]


@dataclass
class Bench:
    """The session, the files, and folders for journals and sources."""

    spark: SparkSession
    files: list[Path]
    folder: Path
    runs: int = 0

    def replayed(self, early: Early | None) -> Ran:
        """Two files by replay, in pages of 100 seconds (100,000 rows); sorting by arrival is not counted."""
        rows = self.spark.read.schema(SCHEMA).parquet(*map(str, self.files[:2]))
        pages: list[float] = []
        with sw.Session(spark=self.spark) as session:
            stream = session.stream(
                "events", rows, time="ts", arrival="ts", page="100 seconds", disorder=sw.bounded(SLACK)
            )
            run = (
                stream.window("600 seconds", slide="120 seconds")
                .group_by("key")
                .agg(**_AGGREGATES)
                .start(early=early)
            )
            session.run_available(drain=False, progress=lambda _: pages.append(time.perf_counter()))
            return _figures(run, pages[-1] - pages[2], 1 - 3 / len(pages))

    def streamed(self, early: Early | None) -> Ran:
        """All files by Structured Streaming, one a page, with a journal."""
        self.runs += 1
        work = self.folder / f"run{self.runs}"
        source = offer(self.files, work / "source")
        stream = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
        with sw.Session(spark=self.spark, journal=work / "journal") as session:
            events = session.stream("events", stream, time="ts", disorder=sw.bounded(SLACK))
            query = events.window("600 seconds", slide="120 seconds").group_by("key").agg(**_AGGREGATES)
            run = query.start(early=early, hold=True)
            began = time.perf_counter()
            session.run_available(drain=False)
            return _figures(run, time.perf_counter() - began, 1.0)


def _figures(run: sw.Run, seconds: float, share: float) -> Ran:
    metrics = run.metrics()
    finals = pl.DataFrame(run.results()).filter(kind="final")
    latency = (finals["emitted_at"] - finals["window_end"]).dt.total_microseconds()
    return {
        "rows_per_second": metrics["rows"] * share / seconds,
        "spark_jobs": metrics["spark_jobs"],
        "finals": len(finals),
        "early": metrics["early_results"],
        "early_answers": metrics["prods"],
        "latency": float(latency.mean() or 0) / 1e6,  # type: ignore[arg-type]
        "checksum": float(finals["total"].sum()),
    }


def main() -> None:
    """Read the options, make the data, run all sides in turns, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 M rows, each side once")
    parser.add_argument("--repeats", type=int, help="how often each side runs (3; with --quick once)")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="where to write the figures as JSON")
    options = parser.parse_args()
    repeats = options.repeats or (1 if options.quick else 3)
    console = Console() if Console().is_terminal else Console(width=150)
    with tempfile.TemporaryDirectory(prefix="slackwater-prodding-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        files = generate(folder / "files", 2 if options.quick else 16, rows=1_000_000, seconds=1_000, seed=1)
        spark = embedded(master="local[2]", driver_memory="3g")
        try:
            bench = Bench(spark, files, folder)
            ran = _in_turns(bench, repeats, console)
        finally:
            spark.stop()
    console.print(_table(ran))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(ran, indent=1))


def _in_turns(bench: Bench, repeats: int, console: Console) -> dict[str, dict[str, list[Ran]]]:
    cases: dict[str, tuple[Callable[[Early | None], Ran], Early]] = {
        "replay, each window at 0.5": (bench.replayed, sw.early(at=0.5)),
        "files, every second": (bench.streamed, sw.early(every="1 second")),
    }
    jvm: Any = bench.spark.sparkContext._jvm
    clock = Clock(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getPid())
    ran: dict[str, dict[str, list[Ran]]] = {}
    for name, (run, early) in cases.items():
        run(None)  # compiles the code of both sides: their jobs are the same
        sides: dict[str, list[Ran]] = {"without": [], "with": []}
        for repeat in range(repeats):
            for side in ("without", "with") if repeat % 2 == 0 else ("with", "without"):
                before = clock.read().mine
                figures = run(None if side == "without" else early)
                after = clock.read().mine
                figures["cpu_seconds"] = None if before is None or after is None else after - before
                sides[side].append(figures)
                console.print(f"[dim]{name}, {side}: {sides[side][-1]['rows_per_second']:,.0f} rows/s[/dim]")
        ran[name] = sides
    return ran


def _table(ran: dict[str, dict[str, list[Ran]]]) -> Table:
    table = Table(title="What prodding costs the final results (medians, least and largest of the repeats)")
    left = ("case", "prods")
    for name in (*left, "rows/s", "with / without", "cpu, with / without", "jobs", "finals", "early", "latency s"):
        table.add_column(name, justify="left" if name in left else "right")
    for case, sides in ran.items():
        same = len({round(r["checksum"], 3) for s in sides.values() for r in s}) == 1
        for side, runs in sides.items():
            table.add_row(
                case if side == "without" else "" if same else "[red]final results differ[/red]",
                side,
                f"{median(r['rows_per_second'] for r in runs):,.0f}",
                _ratio(sides, "rows_per_second") if side == "with" else "",
                _ratio(sides, "cpu_seconds") if side == "with" else "",
                ", ".join(sorted({str(r["spark_jobs"]) for r in runs})),
                f"{runs[0]['finals']:,}",
                f"{runs[0]['early']:,} in {runs[0]['early_answers']:,}" if runs[0]["early"] else "0",
                f"{runs[0]['latency']:,.1f}" if case.startswith("replay") else "",
            )
    return table


def _ratio(sides: dict[str, list[Ran]], figure: str) -> str:
    pairs = [(w[figure], o[figure]) for w, o in zip(sides["with"], sides["without"], strict=True)]
    ratios = [w / o for w, o in pairs if w is not None and o]
    return f"{median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})" if ratios else "–"


if __name__ == "__main__":
    main()
