"""The figures as tables for a person and as JSON."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import median
from typing import Any

import agree
from cases import Case
from measure import Figures, python_peak
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

NATIVE, FAST, OURS = "native", "native, fast ckpt", "Slackwater"
_PACKAGES = ("slackwater", "pyspark", "pyarrow", "polars", "numpy")


class Report:
    """Figures by case and side, one a repeat; a run that failed is None."""

    def __init__(self, cases: tuple[Case, ...], spark: SparkSession, quick: bool) -> None:
        self.cases = cases
        self.quick = quick
        self.figures: dict[str, dict[str, dict[int, Figures]]] = {
            c.name: {NATIVE: {}, FAST: {}, OURS: {}} for c in cases
        }
        self.agreement: dict[str, dict[str, int]] = {}
        self.errors: list[str] = []
        jvm: Any = spark.sparkContext._jvm
        self._setting = {
            "versions": {p: version(p) for p in _PACKAGES}
            | {"python": platform.python_version(), "java": jvm.java.lang.System.getProperty("java.version")},
            "master": spark.sparkContext.master,
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "begun": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def add(self, case: Case, side: str, repeat: int, figures: Figures | None) -> None:
        """Keep what a run gave."""
        if figures is not None:
            self.figures[case.name][side][repeat] = figures

    # --- derived figures

    def values(self, case: Case, side: str) -> list[float]:
        """Rows a second, or for small pages milliseconds a micro-batch, one a repeat."""
        return [_value(case, f) for f in self.figures[case.name][side].values()]

    def ratios(self, case: Case, side: str) -> list[float]:
        """Slackwater's value over another side's of the same repeat."""
        mine, theirs = self.figures[case.name][OURS], self.figures[case.name][side]
        return [_value(case, mine[n]) / _value(case, theirs[n]) for n in mine if n in theirs]

    def _all(self) -> list[Figures]:
        return [f for sides in self.figures.values() for runs in sides.values() for f in runs.values()]

    def growth(self, side: str) -> float | None:
        """Cost of a row with the most windows per row over that of a tumbling window, pages of equal size."""
        like = [c for c in self.cases if not c.small and c.files_per_page == 1 and self.values(c, side)]
        if len(like) < 2:
            return None
        few, many = min(like, key=lambda c: c.windows_per_row), max(like, key=lambda c: c.windows_per_row)
        return median(self.values(few, side)) / median(self.values(many, side))

    # --- for a person

    def print(self, console: Console) -> None:
        """All tables."""
        large = [c for c in self.cases if not c.small]
        small = [c for c in self.cases if c.small]
        if large:
            self._ratios(console, "Rows a second (median, min–max)", large, "at least", _rate)
        if small:
            self._ratios(console, "Milliseconds a micro-batch (median, min–max)", small, "at most", _millis)
        self._inside(console)
        for side in (NATIVE, OURS):
            growth = self.growth(side)
            if growth is not None:
                console.print(f"Cost of a row, most windows per row over fewest: {side} {growth:.2f} ×")
        others = [f.other_cores for f in self._all() if f.other_cores is not None]
        if others:
            busy = f"Other processes kept {median(others):.2f} cores busy meanwhile (at most {max(others):.2f})"
            console.print(
                busy if median(others) < 0.1 else f"[yellow]{busy}: the figures are indicative only[/yellow]"
            )
        console.print(f"Python's peak resident memory: {_size(python_peak())}")
        for error in self.errors:
            console.print(f"[red]{error}[/red]")
        if self.quick:
            console.print("[yellow]A quick run: too few batches for figures that could be quoted.[/yellow]")

    def _ratios(self, console: Console, title: str, cases: list[Case], bound: str, show: Any) -> None:
        table = Table(title=title)
        for name in ("case", NATIVE, FAST, OURS, "over native", "over fast", "target", "held", "results"):
            table.add_column(name, justify="left" if name == "case" else "right")
        for case in cases:
            ratios = self.ratios(case, NATIVE)
            held = case.held(median(ratios)) if ratios else None
            table.add_row(
                case.name,
                *(_spread(self.values(case, side), show) for side in (NATIVE, FAST, OURS)),
                _spread(ratios, _times),
                _spread(self.ratios(case, FAST), _times),
                "–" if case.target is None else f"{bound} {case.target}",
                "–" if held is None else "[green]yes[/green]" if held else "[red]no[/red]",
                self._agreement(case),
            )
        console.print(table)

    def _agreement(self, case: Case) -> str:
        counts = self.agreement.get(case.name)
        if counts is None:
            return "[red]not compared[/red]"
        if agree.agreed(counts):
            return f"[green]{counts['compared']:,} equal[/green]"
        return f"[red]{counts}[/red]"

    def _inside(self, console: Console) -> None:
        table = Table(title="Inside (medians)")
        names = ("case", "side", "processor", "jobs a page", "in page jobs", "heap peak", "old heap peak", "state")
        for name in names:
            table.add_column(name, justify="left" if name in ("case", "side") else "right")
        for case in self.cases:
            for side in (NATIVE, FAST, OURS):
                runs = list(self.figures[case.name][side].values())
                if runs:
                    table.add_row(case.name, side, *_inside(case, runs))
        console.print(table)

    # --- for a program

    def json(self) -> str:
        """All figures of all runs, and what was derived from them."""
        cases = [
            {
                "name": case.name,
                "windows_per_row": case.windows_per_row,
                "small_pages": case.small,
                "files": case.files,
                "files_per_page": case.files_per_page,
                "target": case.target,
                "held": case.held(median(ratios)) if (ratios := self.ratios(case, NATIVE)) else None,
                "over_native": _summary(ratios),
                "over_native_fast_checkpoints": _summary(self.ratios(case, FAST)),
                "agreement": self.agreement.get(case.name),
                "sides": {
                    side: {
                        "value": _summary(self.values(case, side)),
                        "runs": [f.as_json() for f in self.figures[case.name][side].values()],
                    }
                    for side in (NATIVE, FAST, OURS)
                },
            }
            for case in self.cases
        ]
        growth = {side: self.growth(side) for side in (NATIVE, FAST, OURS)}
        whole = {
            **self._setting,
            "quick": self.quick,
            "cases": cases,
            "cost_growth": growth,
            "python_peak_bytes": python_peak(),
            "errors": self.errors,
        }
        return json.dumps(whole, indent=1, default=str) + "\n"


def _inside(case: Case, runs: list[Figures]) -> list[str]:
    cpu = [f.cpu_seconds * 1e3 / f.batches for f in runs if f.cpu_seconds is not None]
    if not case.small:
        cpu = [f.cpu_seconds * 1e9 / f.rows for f in runs if f.cpu_seconds is not None]
    share = [f.more["spark_seconds"] / f.total_seconds for f in runs if "spark_seconds" in f.more]
    state = [f.more["state_bytes"] for f in runs if "state_bytes" in f.more]
    return [
        (f"{median(cpu):.0f} ms a page" if case.small else f"{median(cpu):.0f} ns a row") if cpu else "–",
        f"{median(f.jobs / f.batches for f in runs):.2f}",
        f"{median(share):.0%}" if share else "–",
        _size(median(f.heap_peak for f in runs)),
        _size(median(f.old_peak for f in runs)),
        _size(median(state)) if state else "–",
    ]


def _value(case: Case, figures: Figures) -> float:
    return figures.median_ms if case.small else figures.rows_per_second


def _summary(values: list[float]) -> dict[str, float] | None:
    return {"median": median(values), "min": min(values), "max": max(values)} if values else None


def _spread(values: list[float], show: Any) -> str:
    if not values:
        return "[red]failed[/red]"
    return show(median(values)) + ("" if len(values) == 1 else f"\n{show(min(values))}–{show(max(values))}")


def _rate(value: float) -> str:
    return f"{value / 1e6:.2f} M"


def _millis(value: float) -> str:
    return f"{value:.0f}"


def _times(value: float) -> str:
    return f"{value:.2f} ×"


def _size(value: float) -> str:
    return f"{value / 2**20:,.1f} MiB"
