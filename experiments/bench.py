"""What the experiments have in common: where they run, the figures that they keep, and the tables of these."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from play import SECOND, Answers, Query, in_process, on_spark
from rich.console import Console
from rich.table import Table

import slackwater as sw

TARGETS = {"corrected": 97.0, "coverage": (88.0, 94.0)}


@dataclass
class Bench:
    """How the experiments run, and what they have given so far."""

    console: Console
    fast: bool
    quick: bool
    seed: int
    data: Path
    figures: list[dict[str, Any]] = field(default_factory=list)
    curves: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Points for the pictures."""
    notes: list[str] = field(default_factory=list)

    def play(self, rows: pl.DataFrame, query: Query, small: bool = False) -> Answers:
        """On Spark what is small, unless it should be fast."""
        if self.fast or not small:
            return in_process(rows, query)
        with sw.Session() as session:
            return on_spark(session, rows, query)

    def where(self, small: bool) -> str:
        """Where `play` runs it."""
        return "Spark" if small and not self.fast else "in process"

    def add(self, experiment: str, case: str, figure: str, thesis: object, ours: object, **more: Any) -> None:
        """Keep a figure; `thesis` is None where S5 states none."""
        self.figures.append(
            {"experiment": experiment, "case": case, "figure": figure, "thesis": thesis, "ours": ours, **more}
        )

    def point(self, curve: str, **values: Any) -> None:
        """Keep a point of a curve."""
        self.curves.setdefault(curve, []).append(values)

    def series(self, curve: str, answers: Answers) -> None:
        """Keep the early and final latencies of each window."""
        # The last windows end with the stream, before their time.
        finals = answers.finals.filter(pl.col("final_at") >= pl.col("window_end"))
        for row in finals.join(answers.pairs, on="window_start", how="left").iter_rows(named=True):
            early = row["early_at"]
            self.point(
                curve,
                end=row["window_end"] / SECOND,
                final=(row["final_at"] - row["window_end"]) / SECOND,
                early=None if early is None else (early - row["window_end"]) / SECOND,
            )


# --- tables


def show(bench: Bench) -> None:
    """All figures beside the thesis's, then estimates and intervals."""
    if bench.figures:
        bench.console.print(_beside(bench.figures))
    if "estimates" in bench.curves:
        bench.console.print(_intervals(bench.curves["estimates"]))
    for note in bench.notes:
        bench.console.print(f"[yellow]{note}[/yellow]")


def _beside(figures: list[dict[str, Any]]) -> Table:
    table = Table(title="S5's figures beside ours (accuracy in percent, early answers of what has arrived)")
    for name in ("experiment", "case", "figure", "S5", "ours", "whole windows", "corrected"):
        table.add_column(name, justify="left" if name in ("experiment", "case", "figure") else "right")
    last = ""
    for f in figures:
        table.add_row(
            f["experiment"] if f["experiment"] != last else "",
            f["case"],
            f["figure"],
            _number(f["thesis"]),
            _number(f["ours"]),
            _number(f.get("whole")),
            _number(f.get("corrected")),
        )
        last = f["experiment"]
    return table


def _intervals(points: list[dict[str, Any]]) -> Table:
    low, high = TARGETS["coverage"]  # type: ignore[misc]
    table = Table(
        title="Early answers at P = 50 %, whole windows "
        f"(targets: sum and count corrected ≥ {TARGETS['corrected']:g} %, 90 % intervals hold {low:g}–{high:g} %)"
    )
    for name in (
        "stream",
        "aggregate",
        "windows",
        "seen",
        "corrected",
        "best",
        "covered",
        "width, %",
        "s earlier",
    ):
        table.add_column(name, justify="left" if name in ("stream", "aggregate") else "right")
    last = ""
    for p in points:
        kept = low <= p["covered"] <= high or math.isnan(p["covered"])
        good = p["corrected"] >= TARGETS["corrected"] or p["aggregate"] in ("avg", "max")  # type: ignore[operator]
        table.add_row(
            p["case"] if p["case"] != last else "",
            p["aggregate"],
            f"{p['with_interval']:,} of {p['windows']:,}",
            _number(p["seen"]),
            _number(p["corrected"]) if good else f"[red]{_number(p['corrected'])}[/red]",
            _number(p["best"]),
            _number(p["covered"]) if kept else f"[red]{_number(p['covered'])}[/red]",
            _number(p["width"]),
            _number(p["seconds"]),
        )
        last = p["case"]
    return table


def _number(value: object) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.2f}"
    return "" if value is None else str(value)
