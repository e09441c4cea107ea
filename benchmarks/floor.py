"""How few nanoseconds a row can take: the same aggregates by Spark alone, with no stream, journal, window or sink.

    .venv/bin/python benchmarks/floor.py

Each job reads files of a million rows in one task, as Slackwater has it, and brings down partials by group and
pane; nobody takes them. What Slackwater takes beside that, for one query, is measured in the same turns. From both
follows how good its ratios to itself could be if several queries, or more windows, took nothing more beside these
jobs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import ours
from cases import MANY, Case, Query
from data import GROUPED
from measure import Figures, Meter
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from slackwater.spark.backend.fold import SPREAD
from slackwater.spark.backend.locations.files import MOST_FILES
from slackwater.spark.backend.one_task import in_one_task, reader_of
from slackwater.spark.storage.embedded import embedded, private_copy

_RESULTS = Path(__file__).parent / "results" / "floor.json"
_SETS = ("key", *GROUPED.groups)


@dataclass(frozen=True)
class Work:
    """A way to have rows aggregated by Spark."""

    name: str
    jobs: tuple[Callable[[DataFrame], DataFrame], ...]


def _made() -> list[Column]:
    return [F.sum("v"), F.count("v"), F.max("v")]


def _by(key: str, pane: int) -> Callable[[DataFrame], DataFrame]:
    """One set of groups; the panes are spread over Spark's fast hash map."""
    return lambda rows: rows.groupBy(key, F.floor(F.unix_micros("ts") / (pane * 1_000_000)) * SPREAD).agg(*_made())


def _sets(rows: DataFrame) -> DataFrame:
    """All sets at once: Spark makes a copy of each row for each."""
    timed = rows.withColumn("pane", F.floor(F.unix_micros("ts") / 60_000_000) * SPREAD)
    sets = [[F.col(key), F.col("pane")] for key in _SETS]
    return timed.groupingSets(sets, *_SETS, "pane").agg(*_made())


ONE = Work("one query: 1,000 keys, panes of 120 s", (_by("key", 120),))
SIXTY = Work("RANGE/SLIDE 60: 1,000 keys, panes of 10 s", (_by("key", 10),))
# Five queries of the ten have the same groups, and share panes of 60 s.
APART = Work(
    "ten queries: six sets of groups, a job each", (_by("key", 60), *(_by(g, 120) for g in GROUPED.groups))
)
AT_ONCE = Work("ten queries: six sets of groups in one job", (_sets,))
WORKS = (ONE, SIXTY, APART, AT_ONCE)


def by_spark(spark: SparkSession, work: Work, files: Sequence[Path]) -> Figures:
    """The jobs of some work over all files, four in a task, one after the other."""
    with in_one_task(spark, scanned=True) as narrow:
        for first in range(0, len(files), 4):
            paths = [str(file) for file in files[first : first + 4]]
            for job in work.jobs:
                rows = spark.read.schema(GROUPED.schema).parquet(*paths)
                narrow(job(rows)).write.format("noop").mode("overwrite").save()
    return Figures(1, len(files) * GROUPED.rows, 1.0)


def main() -> None:
    """Read the options, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--out", type=Path, default=_RESULTS)
    options = parser.parse_args()
    console = Console() if Console().is_terminal else Console(width=160)
    spark = embedded(master="local[2]", driver_memory="4g")
    apart = reader_of(private_copy(spark), MOST_FILES)
    sides = {work.name: list[float]() for work in WORKS}
    ours_too = {
        "Slackwater, one query, all of it": (Query(120),),
        "Slackwater, RANGE/SLIDE 60, all of it": (Query(10),),
        "Slackwater, ten queries, all of it": MANY,
    }
    sides |= {name: [] for name in ours_too}
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-", ignore_cleanup_errors=True) as made:
        files = GROUPED.make(Path(made), options.files)

        def measure(run: Callable[[], Figures]) -> float:
            meter = Meter(spark)
            meter.start()
            figures = meter.stop(run())
            return 1e9 * (figures.cpu_seconds or 0.0) / figures.rows

        def slackwater(queries: tuple[Query, ...]) -> Figures:
            case = Case("floor", queries, options.files, GROUPED)
            with tempfile.TemporaryDirectory(dir=made, ignore_cleanup_errors=True) as work:
                return ours.measure(spark, case, case.queries, files, Path(work))

        # First all of it twice, so that code is compiled.
        for turn in range(options.repeats + 2):
            for work in WORKS:
                taken = measure(lambda work=work: by_spark(apart, work, files))  # type: ignore[misc]
                sides[work.name] += [taken] if turn > 1 else []
            for name, queries in ours_too.items():
                taken = measure(lambda queries=queries: slackwater(queries))  # type: ignore[misc]
                sides[name] += [taken] if turn > 1 else []
            console.print(f"[dim]turn {turn + 1} of {options.repeats + 2}[/dim]")
    table = Table(title="ns of processor a row, Java's compilers and collector included")
    for column in ("work", "median", "from", "to"):
        table.add_column(column, justify="left" if column == "work" else "right")
    for name, taken_by in sides.items():
        table.add_row(name, *(f"{value:.0f}" for value in (median(taken_by), min(taken_by), max(taken_by))))
    console.print(table)
    one, sixty, *tens = (median(sides[work.name]) for work in WORKS)
    ten = min(tens)
    whole, whole_sixty, whole_ten = (median(sides[name]) for name in ours_too)
    console.print(f"Slackwater takes {whole - one:.0f} ns a row beside the job of one query.")
    console.print(
        f"Ten queries: {whole / whole_ten:.2f} of the rows of one; with the cheapest of Spark's own jobs, and "
        f"nothing more beside it than one query has, {whole / (whole - one + ten):.2f} (wanted: 0.5)"
    )
    console.print(
        f"RANGE/SLIDE 60: {whole_sixty / whole:.2f} of the cost of 5; with nothing more than the dearer job, "
        f"{(whole - one + sixty) / whole:.2f} (wanted: 1.25)"
    )
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(sides))
    spark.stop()


if __name__ == "__main__":
    main()
