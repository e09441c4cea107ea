"""What a step of the cycle costs beside the work of its operator: milliseconds a step, by the number of operators.

    .venv/bin/python benchmarks/cycle.py                     # 20, 100 and 400 operators, no Spark: a minute
    .venv/bin/python benchmarks/cycle.py --beside 7433a16    # an earlier commit beside it, in turns
    .venv/bin/python benchmarks/cycle.py --json

Ten streams are read by queries of a filter, a window and a sink. Each has a Prodder too, as every window query has.
Pages of a few rows come to all streams at once. A step chooses an operator and runs it. Its cost is the processor
time of the executor's thread, without the time inside the operator's `run`; commits are not counted.
At most 0.3 ms are wanted with 400 operators.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import typer
from rich.console import Console
from rich.table import Table

from slackwater.engine.build import add_query
from slackwater.engine.executor import Executor
from slackwater.engine.graph import Node
from slackwater.engine.records import Ran
from slackwater.plan import logical as L
from slackwater.plan.analyse import analyse
from slackwater.plan.nodes import StreamNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import Clock, ManualClock, SystemClock
from slackwater.progress.time import TimeDomain
from slackwater.testing import ListSink, arrow_page
from slackwater.testing.script import ArrowPages
from slackwater.testing.types import SampleRelation, SampleTypes

STREAMS = 10
SIZES = (20, 100, 400)
WANTED = 0.3
_SAMPLE = pl.DataFrame({"t": [0], "k": [0], "v": [1.0]})


def graph_of(operators: int, clock: Clock) -> Executor:
    """An executor with about as many operators: a source for each stream, and four for each query."""
    executor, relation = Executor(clock, pages=ArrowPages()), SampleRelation(_SAMPLE)
    columns = tuple((name, str(kind)) for name, kind in _SAMPLE.schema.items())
    stream = StreamNode("s", columns, "t", "t", TimeDomain.SEQUENCE, bounded(10), None, None, relation.schema)
    names = [f"s{n}" for n in range(min(STREAMS, operators // 10))]
    types = SampleTypes({name: (replace(stream, name=name), relation) for name in names})
    for n in range((operators - len(names)) // 4):
        name, query = names[n % len(names)], n // len(names)
        rows = L.Where((L.Scan(name),), f"v > {query}")
        window = L.Aggregate((rows,), L.Window(100 + query, 100 + query), (("k", "k"),), (("n", "count(*)"),))
        add_query(executor, f"q{n}", analyse(window, types), ListSink())
    return executor


class Steps:
    """Counts the steps of an executor, and their processor time outside operators."""

    def __init__(self, executor: Executor) -> None:
        self.steps = 0
        self.seconds = self.inside = 0.0
        self._cycle = cycle = executor._cycle
        executor.measure_by(time.thread_time)
        cycle.on_ran = self._ran
        self._next, self._run = cycle.next, cycle.run
        cycle.next, cycle.run = self._timed_next, self._timed_run  # type: ignore[method-assign]

    def _ran(self, run: Ran) -> None:
        self.inside += run.seconds

    def _timed_next(self) -> Any:
        began = time.thread_time()
        try:
            return self._next()
        finally:
            self.seconds += time.thread_time() - began

    def _timed_run(self, node: Node) -> None:
        self.steps += 1
        began = time.thread_time()
        self._run(node)
        self.seconds += time.thread_time() - began

    @property
    def milliseconds(self) -> float:
        """A step, without the work of operators."""
        return 1e3 * (self.seconds - self.inside) / self.steps


def measure(operators: int, pages: int, running: bool) -> dict[str, Any]:
    """Pages for all streams, again and again; the first ones warm up and do not count."""
    executor = graph_of(operators, SystemClock() if running else ManualClock())
    sources = [node.label for node in executor.graph if node.is_source]
    rows = pl.DataFrame({"t": [1, 40, 80], "k": [0, 1, 2], "v": [0.5, 20.5, 90.5]})
    steps = Steps(executor)
    for number in range(pages + 2):
        if number == 2:
            steps.steps, steps.seconds, steps.inside = 0, 0.0, 0.0
        page = rows.with_columns(pl.col("t") + 60 * number)
        for source in sources:
            executor.admit(source, arrow_page(page, number, executor.clock.now(), "t"))
        executor.run_until_idle()
    count = len(executor.graph.nodes)
    return {
        "operators": count,
        "clock": "system" if running else "manual",
        "steps": steps.steps,
        "ms": steps.milliseconds,
    }


def measured(pages: int) -> list[dict[str, Any]]:
    """Every size, on a clock that stands while pages are worked on, and on the machine's."""
    return [measure(size, pages, running) for running in (False, True) for size in SIZES]


def measured_at(code: Path, pages: int) -> list[dict[str, Any]]:
    """The same with the package of another folder, in a process of its own."""
    command = [sys.executable, __file__, "--json", "--repeats", "1", "--pages", str(pages)]
    found = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(code)}, stdout=subprocess.PIPE, check=True)
    rows: list[dict[str, Any]] = json.loads(found.stdout)
    return rows


def main(
    pages: int = 20, repeats: int = 3, beside: str = "", as_json: bool = typer.Option(False, "--json")
) -> None:
    """Print a table, or JSON; with `--beside` an earlier commit takes turns with this tree."""
    now, before = list[list[dict[str, Any]]](), list[list[dict[str, Any]]]()
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-") as folder:
        if beside:
            from against import unpack

            unpack(beside, Path(folder))
        for _ in range(repeats):
            now.append(measured(pages))
            if beside:
                before.append(measured_at(Path(folder), pages))
    found = []
    for n, row in enumerate(now[0]):
        row = {**row, "ms": median(turn[n]["ms"] for turn in now)}
        if beside:
            row["before_ms"] = median(turn[n]["ms"] for turn in before)
            row["ratio"] = row["ms"] / row["before_ms"]
        found.append(row)
    if as_json:
        print(json.dumps(found, indent=1))
        return
    table = Table(title=f"Medians of {repeats}; at most {WANTED} ms are wanted with {SIZES[-1]} operators")
    for name in ("operators", "clock", "steps", "a step, ms", *([f"at {beside}, ms", "ratio"] if beside else [])):
        table.add_column(name, justify="right")
    for row in found:
        cells = [str(row["operators"]), row["clock"], str(row["steps"]), f"{row['ms']:.3f}"]
        if beside:
            cells += [f"{row['before_ms']:.3f}", f"{row['ratio']:.2f}"]
        table.add_row(*cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    typer.run(main)
