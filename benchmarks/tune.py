"""How long `sw.tune` takes for a million rows of a day: processor time and clock, by the number of sources.

No Spark; see benchmarks/README.md. Every case runs in a process of its own, one after the other.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import slackwater as sw

SECOND, DAY = 1_000_000, 86_400_000_000
#: 2024-05-01, in microseconds.
FIRST = 1_714_521_600 * SECOND
SOURCES = (0, 50, 1_000)
_RESULTS = Path(__file__).parent / "results" / "tune.json"


def day(rows: int, sources: int, seed: int = 1) -> pl.DataFrame:
    """Rows of a day: 3 % of them come a minute late in the mean, the others half a second."""
    dice = np.random.default_rng(seed)
    arrival = np.sort(dice.integers(0, DAY, rows))
    late = np.where(dice.random(rows) < 0.03, dice.exponential(60, rows), dice.exponential(0.5, rows))
    instants = {"sent": FIRST + arrival - (late * SECOND).astype(np.int64), "received": FIRST + arrival}
    made = pl.DataFrame(instants).cast(pl.Datetime("us"))
    if not sources:
        return made
    numbers = pl.Series("device", dice.integers(0, sources, rows))
    return made.with_columns(pl.format("d{}", numbers).alias("device"))


def measure(rows: int, sources: int, page: str | None) -> dict[str, Any]:
    """One back-test."""
    data = day(rows, sources)
    processor, clock = time.process_time(), time.perf_counter()
    source = "device" if sources else None
    report = sw.tune(
        data, time="sent", arrival="received", source=source, page=page, progress=lambda what, done, steps: None
    )
    return {
        "rows": rows,
        "sources": sources,
        "page_seconds": report.page / SECOND,
        "pages": report.pages,
        "policies": len(report.tried),
        "processor_seconds": round(time.process_time() - processor, 2),
        "clock_seconds": round(time.perf_counter() - clock, 2),
    }


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sources", type=int, nargs="*", default=SOURCES)
    parser.add_argument("--page", help="length of a page, as '15 seconds'; without it, what tune chooses")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="figures as JSON")
    parser.add_argument("--alone", type=int, help="measure one number of sources in this process")
    options = parser.parse_args()
    if options.alone is not None:
        print(json.dumps(measure(options.rows, options.alone, options.page)))
        return
    page = [] if options.page is None else ["--page", options.page]
    figures = []
    for sources in options.sources:
        command = [sys.executable, __file__, "--rows", str(options.rows), "--alone", str(sources), *page]
        figures.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    table = Table(title="sw.tune, rows of a day")
    for name in figures[0]:
        table.add_column(name.replace("_", " "), justify="right")
    for figure in figures:
        table.add_row(*(f"{value:,}" for value in figure.values()))
    Console().print(table)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
