"""How much memory a driver needs for open windows, and how many pages a second it works on.

    .venv/bin/python benchmarks/sizing.py            # both tables: some ten minutes
    .venv/bin/python benchmarks/sizing.py --json     # as JSON too, for docs/deploy.md

Memory: a query keeps a partial result for each group, pane and aggregate. Each measurement is a process of its own
that reads one page with `groups` groups in each of 12 panes (RANGE 60, SLIDE 5), all windows still open. What
counts is the largest resident memory of Python, above that of the same query with a single group; and above it
with the default `resident_limit`, where what is more lies in files.

Pages: a replay of 60 pages of 1,000 rows for each stream, read by 1 to 16 queries, on local[2].
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

import slackwater as sw

PANES = 12
AGGREGATES = {
    1: {"n": "count(*)"},
    4: {"n": "count(*)", "total": "sum(v)", "low": "min(v)", "high": "max(v)"},
}
STATES = ((1, 1), (20_000, 1), (100_000, 1), (20_000, 4), (100_000, 4))
SHAPES = ((1, 1), (1, 4), (1, 16), (4, 4))
PAGES, ROWS = 60, 1_000
NO_LIMIT = 2**40


def state(groups: int, aggregates: int, limited: bool) -> dict[str, float]:
    """Peak of Python's memory with so many groups in twelve open panes, and what the query counts itself."""
    more = {} if limited else {"resident_limit": NO_LIMIT}
    with sw.Session(**more) as s:  # type: ignore[arg-type]
        rows = s.spark.range(groups * PANES).selectExpr(
            f"id % {groups} AS k", f"id DIV {groups} * 5 AS t", "id * 0.5 AS v", "timestamp_seconds(1) AS came"
        )
        stream = s.stream("s", rows, time="t", arrival="came", disorder=sw.bounded(1_000))
        run = stream.window(60, slide=5).group_by("k").agg(**AGGREGATES[aggregates]).start(sink=lambda *_: None)
        s.run_available(drain=False)
        held = sum(float(f.get("state_bytes", 0)) for f in run.metrics()["operators"].values())  # type: ignore[call-overload]
        return {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0, "held": held}


def pages(streams: int, queries: int) -> dict[str, float]:
    """Pages a second of so many streams, each read by its share of the queries; the first run warms Java."""
    seconds = []
    with sw.Session() as s:
        rows = s.spark.range(PAGES * ROWS).selectExpr(
            "id AS t", "id % 50 AS k", "id * 0.5 AS v", f"timestamp_seconds(id DIV {ROWS}) AS came"
        )
        for repeat in range(3):
            for n in range(streams):
                stream = s.stream(
                    f"s{repeat}-{n}", rows, time="t", arrival="came", page="1 second", disorder=sw.bounded(10)
                )
                for q in range(queries // streams):
                    window = stream.where(f"v >= {q}").window(500, slide=100)
                    window.group_by("k").agg(**AGGREGATES[4]).start(sink=lambda *_: None)
            began = time.perf_counter()
            s.run_available()
            seconds.append(time.perf_counter() - began)
    return {"pages_a_second": streams * PAGES / median(seconds[1:])}


def _child(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__)), "--child", json.dumps(arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def main(as_json: bool = typer.Option(False, "--json"), child: str = typer.Option("", hidden=True)) -> None:
    """Measure both, and print the tables."""
    if child:
        kind, *arguments = json.loads(child)
        print(json.dumps({"state": state, "pages": pages}[kind](*arguments)))
        return
    console = Console(stderr=as_json)
    memory = [
        {"groups": groups, "aggregates": n, "limited": limited, **_child("state", groups, n, limited)}
        for limited in (False, True)
        for groups, n in STATES
    ]
    table = Table(
        "groups",
        "panes",
        "aggregates",
        "resident_limit",
        "state_bytes, MB",
        "Python's peak, MB",
        "bytes a partial result",
    )
    for row in memory:
        least = next(r["peak"] for r in memory if r["groups"] == 1 and r["limited"] == row["limited"])
        partials = row["groups"] * PANES * row["aggregates"]
        row["bytes"] = (row["peak"] - least) / partials
        limit = "256 MB" if row["limited"] else "none"
        each = f"{row['bytes']:.0f}" if row["groups"] > 1 else ""
        held, peak = (f"{row[name] / 1e6:,.0f}" for name in ("held", "peak"))
        table.add_row(f"{row['groups']:,}", str(PANES), str(row["aggregates"]), limit, held, peak, each)
    console.print(table)
    speed = [{"streams": n, "queries": q, **_child("pages", n, q)} for n, q in SHAPES]
    table = Table("streams", "queries", "pages a second", "milliseconds a page")
    for row in speed:
        rate = row["pages_a_second"]
        table.add_row(str(row["streams"]), str(row["queries"]), f"{rate:.1f}", f"{1e3 / rate:.0f}")
    console.print(table)
    if as_json:
        print(json.dumps({"memory": memory, "pages": speed}, indent=1))


if __name__ == "__main__":
    typer.run(main)
