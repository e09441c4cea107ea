"""What a strategy itself costs: milliseconds a choice among many ready operators, and to chart a plan anew.

    .venv/bin/python benchmarks/scheduling.py                # 200 operators, all of them ready
    .venv/bin/python benchmarks/scheduling.py --json

At most 1 ms a choice is wanted with 200 operators. A plan is charted anew once in 32 runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.scheduling.paths import PathWork, Plan
from slackwater.scheduling.strategy import Ordered, Ready, Situation, WaitingPages

DEPTH = 5
PAGES = 8
"""As many groups of waiting pages before each operator as the engine ever tells of."""


def plan_of(operators: int, seed: int) -> Plan:
    """Queries of five operators; each fourth one reads the filter of the query before it."""
    rng, plan = np.random.default_rng(seed), dict[str, PathWork]()
    for query in range(operators // DEPTH):
        shared = query % 4 == 3
        before = f"q{query - 1}/1" if shared else ""
        for place in range(DEPTH):
            label, inputs = f"q{query}/{place}", (before,) if before else ()
            cost, selectivity = float(rng.exponential(1e-6)), float(rng.uniform(0, 1.2))
            plan[label] = PathWork(inputs, cost, selectivity, selectivity, 100.0, 0.01)
            before = label
    return plan


def ready_of(plan: Plan, seed: int) -> list[Ready]:
    """All operators are ready, and pages wait before each."""
    rng, made = np.random.default_rng(seed), []
    for n, label in enumerate(plan):
        admissions = np.sort(rng.integers(0, 10_000, PAGES)).tolist()
        waits = tuple(WaitingPages(a, (10_000 - a) / 1e3, 100.0) for a in admissions)
        made.append(Ready(label, oldest=admissions[0], depth=n % DEPTH, waiting=PAGES, waits=waits))
    return made


def timed(act: Callable[[], object], times: int) -> float:
    """Milliseconds each, the median of so many."""
    took = []
    for _ in range(times):
        started = time.perf_counter()
        act()
        took.append(1e3 * (time.perf_counter() - started))
    return float(np.median(took))


def main(
    operators: int = 200, times: int = 300, seed: int = 1, as_json: bool = typer.Option(False, "--json")
) -> None:
    """Print a table, or JSON."""
    plan = plan_of(operators, seed)
    ready, now = ready_of(plan, seed), Situation()
    strategies: list[Ordered] = [
        sw.fifo(),
        sw.papers.round_robin(quantum="10 ms"),
        sw.papers.greedy(),
        sw.chain(),
        sw.chain(max_wait="1 hour"),
        sw.chain(max_wait="1 second"),
    ]
    found: list[dict[str, Any]] = []
    for strategy in strategies:
        learn = timed(lambda strategy=strategy: strategy.learn(plan), max(1, times // 10))  # type: ignore[misc]
        pick = timed(lambda strategy=strategy: strategy.pick(ready, now), times)  # type: ignore[misc]
        found.append({"strategy": strategy.name, "choice_ms": pick, "chart_ms": learn, "operators": len(plan)})
    if as_json:
        print(json.dumps(found, indent=1))
        return
    table = Table(
        title=f"{len(plan)} operators, all ready, {PAGES} groups of pages before each; medians of {times}"
    )
    for name in ("strategy", "a choice, ms", "a chart, ms", "chart a run, ms"):
        table.add_column(name, justify="left" if name == "strategy" else "right")
    for row in found:
        each = row["chart_ms"] / 32
        table.add_row(row["strategy"], f"{row['choice_ms']:.3f}", f"{row['chart_ms']:.3f}", f"{each:.3f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    typer.run(main)
