"""What a row costs in the slack buffer and in a window of its own: whatever waits, and however long the range is.

In-process pages, no Spark: what is measured is the record store and the block method. With --spark, Spark's own
`OVER (… RANGE BETWEEN …)` over rows that are all there stands beside it, for orientation.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from slackwater.progress.bounds.bounded import bounded
from slackwater.testing import ListSink, Script, arrow_plan

_RESULTS = Path(__file__).parent / "results" / "slack_buffer.json"
_PAGE = 20_000
_SAMPLE = pl.DataFrame({"t": [0], "k": [0], "x": [0.0]})


@dataclass(frozen=True)
class Case:
    """A row comes every tick, up to `backlog` ticks late; its window has `length` ticks, or rows of its group."""

    group: str
    name: str
    backlog: int
    length: int
    keys: int = 0
    rows: bool = False


CASES = (
    *(Case("backlog", f"{b // _PAGE} pages wait", b, 10 * _PAGE) for b in (10 * _PAGE, 100 * _PAGE)),
    *(Case("range", f"range {r // _PAGE} pages", _PAGE, r) for r in (_PAGE, 10 * _PAGE, 100 * _PAGE)),
    *(
        Case("range, 1,000 keys", f"range {r // _PAGE} pages", _PAGE, r, 1_000)
        for r in (_PAGE, 10 * _PAGE, 100 * _PAGE)
    ),
    *(Case("rows", f"last {n:,} rows", _PAGE, n, rows=True) for n in (1_000, 10_000, 100_000)),
    *(Case("rows, 1,000 keys", f"last {n:,} rows", _PAGE, n, 1_000, rows=True) for n in (10, 100, 1_000)),
)


class _Nowhere(ListSink):
    def write(self, payload: object, commit_id: int) -> None:
        """Keep nothing."""


def measure(case: Case, pages: int, seed: int) -> float:
    """Nanoseconds of all cores for a row, once rows go out as fast as they come."""
    source = np.random.default_rng(seed)
    window = {"rows": case.length} if case.rows else {"range": case.length}
    group_by = ["k"] if case.keys else []
    texts = {"total": "sum(x)", "top": "max(x)", "n": "count(*)"}
    plan = arrow_plan(_SAMPLE, **window, group_by=group_by, disorder=bounded(case.backlog), **texts)
    script = Script(plan, sink=_Nowhere())
    full = case.backlog // _PAGE + (0 if case.rows else case.length // _PAGE) + 2
    spent = 0.0
    for number in range(full + pages):
        on_time = np.arange(number * _PAGE, (number + 1) * _PAGE)
        rows = pl.DataFrame(
            {
                "t": on_time - source.integers(0, case.backlog, _PAGE),
                "k": source.integers(0, max(case.keys, 1), _PAGE),
                "x": source.random(_PAGE),
            }
        )
        started = time.process_time()
        script.page(rows)
        if number >= full:
            spent += time.process_time() - started
    return spent / (pages * _PAGE) * 1e9


def by_spark(rows: int) -> dict[str, float]:
    """Nanoseconds a row of Spark's own window function, sorted and grouped by itself, for windows of some rows."""
    from slackwater.spark.storage.embedded import embedded

    spark = embedded(master="local[2]", driver_memory="4g")
    try:
        spark.range(rows).selectExpr("id AS t", "hash(id) % 1000 AS k", "rand(1) AS x").createOrReplaceTempView("r")
        figures = {}
        for ticks in (_PAGE, 10 * _PAGE):
            over = f"(PARTITION BY k ORDER BY t RANGE BETWEEN {ticks - 1} PRECEDING AND CURRENT ROW)"
            text = ", ".join(f"{f} OVER {over}" for f in ("sum(x)", "max(x)", "count(1)"))
            query = spark.sql(f"SELECT t, {text} FROM r")
            query.write.format("noop").mode("overwrite").save()
            started = time.perf_counter()
            query.write.format("noop").mode("overwrite").save()
            figures[f"range {ticks // _PAGE} pages"] = (time.perf_counter() - started) / rows * 1e9
        return figures
    finally:
        spark.stop()


def show(console: Console, figures: dict[Case, list[float]], spark: dict[str, float]) -> None:
    """A line a case: the best of all repeats, and how it is to the first of its group."""
    table = Table("case", "window", "ns a row", "to the first", title="what a row costs")
    first: dict[str, float] = {}
    for case, found in figures.items():
        best = min(found)
        base = first.setdefault(case.group, best)
        table.add_row(case.group, case.name, f"{best:,.0f}", f"{best / base:.2f} ×")
    for name, best in spark.items():
        table.add_row("Spark's OVER, 1,000 keys", name, f"{best:,.0f}", "")
    console.print(table)


def main() -> None:
    """Run all cases in turns, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pages, once: to see that it works")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="run only the cases with this text in their group")
    parser.add_argument("--spark", action="store_true", help="also Spark's own window function")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="where to write the figures as JSON")
    options = parser.parse_args()
    cases = [c for c in CASES if options.only is None or options.only in c.group]
    figures: dict[Case, list[float]] = {c: [] for c in cases}
    for repeat in range(1 if options.quick else options.repeats):
        for case in cases:
            # Enough for every block of the range to be completed once.
            pages = 20 if options.quick else max(50, 0 if case.rows else case.length // _PAGE)
            figures[case].append(measure(case, pages, repeat))
    spark = by_spark(1_000_000) if options.spark else {}
    show(Console(width=100), figures, spark)
    os.makedirs(options.out.parent, exist_ok=True)
    cases_json = [{**asdict(c), "ns_per_row": found} for c, found in figures.items()]
    options.out.write_text(json.dumps({"page": _PAGE, "cases": cases_json, "spark_ns_per_row": spark}, indent=1))


if __name__ == "__main__":
    main()
