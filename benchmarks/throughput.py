"""Slackwater beside native Structured Streaming: rows a second on large pages, time of a micro-batch on small ones.

Both run in one Spark session, in turns, several times, with recovery on; see benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import agree
import native
import ours
from cases import FULL, QUICK, Case
from data import generate, offer
from measure import Figures, Meter
from pyspark.sql import SparkSession
from report import FAST, NATIVE, OURS, Report
from rich.console import Console

from slackwater.spark.embedded import embedded

_RESULTS = Path(__file__).parent / "results" / "throughput.json"


@dataclass
class Bench:
    """The session, the files, and the figures so far."""

    spark: SparkSession
    console: Console
    folder: Path
    report: Report
    large: list[Path]
    small: list[Path]
    runs: int = 0

    def files(self, case: Case) -> list[Path]:
        """What a case reads."""
        return (self.small if case.small else self.large)[: case.files]

    @contextmanager
    def work(self) -> Iterator[Path]:
        """A new folder for one run: its source, checkpoint and journal."""
        self.runs += 1
        with tempfile.TemporaryDirectory(
            prefix=f"run{self.runs}-", dir=self.folder, ignore_cleanup_errors=True
        ) as made:
            yield Path(made)

    def check(self, case: Case) -> None:
        """Compare both sides' results on the first files, which also compiles their code."""
        files = self.files(case)[: 24 if case.small else max(2, case.files_per_page)]
        with self.work() as work:
            theirs = native.results(self.spark, case, offer(files, work / "source"), work)
        with self.work() as work:
            mine = ours.results(self.spark, case, files, work)
        self.report.agreement[case.name] = agree.compare(agree.truth(case, files), theirs, mine)

    def measure(self, case: Case, side: str) -> Figures:
        """Run one side of a case once."""
        meter = Meter(self.spark)
        with self.work() as work:
            if side == OURS:
                meter.start()
                return meter.stop(ours.measure(self.spark, case, self.files(case), work))
            source = offer(self.files(case), work / "source")
            meter.start()
            return meter.stop(native.measure(self.spark, case, source, work, fast_checkpoints=side == FAST))

    def attempt(self, what: str, work: Callable[[], Any]) -> Any:
        """Do something and go on if it fails: the other figures are still worth having."""
        self.console.print(f"[dim]{what}[/dim]")
        try:
            return work()
        except Exception as error:
            self.report.errors.append(f"{what}: {type(error).__name__}: {str(error).splitlines()[0]}")
            self.console.print(f"[red]{self.report.errors[-1]}[/red]")
            return None


def run(cases: tuple[Case, ...], repeats: int, bench: Bench) -> None:
    """All cases once to check and to warm up, then all sides in turns."""
    for case in cases:
        bench.attempt(f"{case.name}: comparing results", partial(bench.check, case))
    sides = (NATIVE, FAST, OURS)
    for repeat in range(repeats):
        turn = sides[repeat % 3 :] + sides[: repeat % 3]
        for case in cases:
            for side in turn:
                what = f"{case.name}: {side}, {repeat + 1} of {repeats}"
                figures = bench.attempt(what, partial(bench.measure, case, side))
                bench.report.add(case, side, repeat, figures)


def main() -> None:
    """Read the options, make the data, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 M rows, each side once: to see that it works")
    parser.add_argument("--repeats", type=int, help="how often each side of a case runs (3; with --quick once)")
    parser.add_argument("--only", help="run only the cases with this text in their names")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="where to write the figures as JSON")
    options = parser.parse_args()
    cases = tuple(c for c in (QUICK if options.quick else FULL) if options.only is None or options.only in c.name)
    if not cases:
        sys.exit(f"no case has {options.only!r} in its name; there are: {', '.join(c.name for c in FULL)}")
    repeats = max(1, options.repeats or (1 if options.quick else 3))

    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        console.print("[dim]making the data[/dim]")
        most = max((c.files for c in cases if not c.small), default=0)
        few = max((c.files for c in cases if c.small), default=0)
        large = generate(folder / "large", most, rows=1_000_000, seconds=1_000, seed=1)
        # Slower in time than the large ones, so that windows close during the run here too.
        small = generate(folder / "small", few, rows=1_000, seconds=60, seed=2)
        spark = embedded(master="local[2]", driver_memory="4g")
        try:
            spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
            report = Report(cases, spark, quick=options.quick)
            run(cases, repeats, Bench(spark, console, folder, report, large, small))
            report.print(console)
            os.makedirs(options.out.parent, exist_ok=True)
            options.out.write_text(report.json())
            console.print("[dim]All figures are in the JSON file.[/dim]")
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
