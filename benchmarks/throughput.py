"""Slackwater beside native Structured Streaming: rows a second on large pages, time of a micro-batch on small ones.

Both run in one Spark session, in turns, several times, with recovery on; see benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import agree
import native
import ours
from cases import BATCH, FAST, FULL, ONE, OURS, QUICK, Case, make
from data import Layout, offer
from measure import Figures, Meter
from pyspark.sql import SparkSession
from report import Report
from rich.console import Console
from tables import rewrite, show

from slackwater.spark.storage.embedded import embedded

_RESULTS = Path(__file__).parent / "results" / "throughput.json"
_README = Path(__file__).parent / "README.md"


@dataclass
class Bench:
    """The session, the files, and the figures so far."""

    spark: SparkSession
    console: Console
    folder: Path
    report: Report
    made: dict[Layout, list[Path]]
    runs: int = 0

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
        files = self.made[case.layout][: 15 if case.figure == BATCH else max(2, case.files_per_page)]
        with self.work() as work:
            theirs = native.results(self.spark, case, offer(files, work / "source"), work)
        with self.work() as work:
            mine = ours.results(self.spark, case, files, work)
        self.report.agreement[case.name] = agree.compare_all(case.queries, files, theirs, mine)

    def measure(self, case: Case, side: str) -> Figures:
        """Run one side of a case once."""
        meter = Meter(self.spark)
        files = self.made[case.layout][: case.files_of(side)]
        with self.work() as work:
            if side in (OURS, ONE):
                meter.start()
                return meter.stop(ours.measure(self.spark, case, case.queries_of(side), files, work))
            source = offer(files, work / "source")
            meter.start()
            return meter.stop(native.measure(self.spark, case, source, work, fast_checkpoints=side == FAST))

    def attempt(self, what: str, work: Callable[[], Any]) -> Any:
        """Do something and go on if it fails: the other figures are still worth having."""
        self.console.print(f"[dim]{what}[/dim]")
        begun = time.monotonic()
        try:
            return work()
        except Exception as error:
            self.report.errors.append(f"{what}: {type(error).__name__}: {str(error).splitlines()[0]}")
            self.console.print(f"[red]{self.report.errors[-1]}[/red]")
            return None
        finally:
            self.report.seconds[what] = time.monotonic() - begun


def run(cases: tuple[Case, ...], repeats: int, bench: Bench) -> None:
    """All cases once to check and to warm up, then all sides in turns."""
    for case in cases:
        bench.attempt(f"{case.name}: comparing results", partial(bench.check, case))
    for repeat in range(repeats):
        for case in cases:
            for side in case.turn(repeat):
                what = f"{case.name}: {side}, {repeat + 1} of {repeats}"
                figures = bench.attempt(what, partial(bench.measure, case, side))
                bench.report.add(case, side, repeat, figures)


def main() -> None:
    """Read the options, make the data, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few files, each side once: to see that it works")
    parser.add_argument("--repeats", type=int, help="how often Slackwater runs a case (3; with --quick once)")
    parser.add_argument("--only", help="run only the cases with this text in their names")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="where to write the figures as JSON")
    parser.add_argument("--readme", action="store_true", help="put the figures into benchmarks/README.md")
    options = parser.parse_args()
    if options.readme and (options.quick or options.only is not None):
        parser.error("--readme shows the figures of one complete run; leave out --quick and --only")
    cases = tuple(c for c in (QUICK if options.quick else FULL) if options.only is None or options.only in c.name)
    if not cases:
        sys.exit(f"no case has {options.only!r} in its name; there are: {', '.join(c.name for c in FULL)}")
    repeats = max(1, options.repeats or (1 if options.quick else 3))

    console = Console() if Console().is_terminal else Console(width=160)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        spark = embedded(master="local[2]", driver_memory="4g")
        try:
            spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
            report = Report(cases, spark, quick=options.quick, begun=begun)
            console.print("[dim]making the data[/dim]")
            run(cases, repeats, Bench(spark, console, folder, report, make(cases, folder)))
            show(report, console)
            os.makedirs(options.out.parent, exist_ok=True)
            options.out.write_text(report.json())
            console.print("[dim]All figures are in the JSON file.[/dim]")
            if options.readme and report.errors:
                console.print("[red]benchmarks/README.md stays as it is, because something has failed.[/red]")
            elif options.readme:
                rewrite(_README, report)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
