"""The figures of all runs, what is derived from them, and both as JSON."""

from __future__ import annotations

import json
import os
import platform
import time
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import median
from typing import Any

from cases import BATCH, FAST, GOALS, NATIVE, OURS, Case, Goal
from measure import Figures, python_peak
from pyspark.sql import SparkSession

_PACKAGES = ("slackwater", "pyspark", "pyarrow", "polars", "numpy")


class Report:
    """Figures by case and side, one a repeat; a run that failed has none."""

    def __init__(self, cases: tuple[Case, ...], spark: SparkSession, quick: bool, begun: float) -> None:
        self.cases = cases
        self.quick = quick
        self.figures: dict[str, dict[str, dict[int, Figures]]] = {
            case.name: {side: {} for side in case.sides} for case in cases
        }
        self.agreement: dict[str, dict[str, int]] = {}
        self.errors: list[str] = []
        self.seconds: dict[str, float] = {}
        """How long each part of the benchmark took."""
        self._begun = begun
        jvm: Any = spark.sparkContext._jvm
        self.setting = {
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

    def case(self, name: str) -> Case | None:
        """The case of that name, if it runs."""
        return next((case for case in self.cases if case.name == name), None)

    def values(self, case: Case, side: str) -> list[float]:
        """Rows a second, or for small pages milliseconds a micro-batch, one a repeat."""
        return list(self._by_repeat(case, side).values())

    def ratios(self, case: Case, side: str) -> list[float]:
        """Slackwater's values over those of a native side in the same repeat, or in the last in which it ran."""
        theirs = self._by_repeat(case, side)
        latest = {n: theirs[m] for n in self.figures[case.name][OURS] if (m := n - n % case.native_every) in theirs}
        return _divide(self._by_repeat(case, OURS), latest)

    def reached(self, goal: Goal) -> list[float]:
        """The ratio that a goal is about, one a repeat; none where one of its cases does not run."""
        of, over = self.case(goal.of[0]), self.case(goal.over[0])
        if of is None or over is None:
            return []
        return _divide(self._by_repeat(of, goal.of[1]), self._by_repeat(over, goal.over[1]))

    def others(self) -> list[float]:
        """How many cores other processes kept busy, by run."""
        runs = [f for sides in self.figures.values() for runs in sides.values() for f in runs.values()]
        return [f.other_cores for f in runs if f.other_cores is not None]

    @property
    def total_seconds(self) -> float:
        """Since the beginning, the start of Spark and the making of the data included."""
        return time.monotonic() - self._begun

    def _by_repeat(self, case: Case, side: str) -> dict[int, float]:
        return {n: _value(case, f) for n, f in self.figures[case.name].get(side, {}).items()}

    # --- for a program

    def json(self) -> str:
        """All figures of all runs, and what was derived from them."""
        goals = [
            {
                "name": goal.name,
                "least": goal.least,
                "most": goal.most,
                "held": goal.held(median(ratios)) if (ratios := self.reached(goal)) else None,
                "reached": _summary(ratios),
            }
            for goal in GOALS
        ]
        whole = {
            **self.setting,
            "quick": self.quick,
            "cases": [self._case(case) for case in self.cases],
            "goals": goals,
            "total_seconds": self.total_seconds,
            "seconds": self.seconds,
            "python_peak_bytes": python_peak(),
            "errors": self.errors,
        }
        return json.dumps(whole, indent=1, default=str) + "\n"

    def _case(self, case: Case) -> dict[str, Any]:
        ratios = self.ratios(case, NATIVE)
        return {
            "name": case.name,
            "queries": [query.__dict__ for query in case.queries],
            "layout": case.layout.name,
            "figure": case.figure,
            "files": {side: case.files_of(side) for side in case.sides},
            "files_per_page": case.files_per_page,
            "target": case.target,
            "held": case.held(median(ratios)) if ratios else None,
            "over_native": _summary(ratios),
            "over_native_fast_checkpoints": _summary(self.ratios(case, FAST)),
            "agreement": self.agreement.get(case.name),
            "sides": {
                side: {
                    "value": _summary(self.values(case, side)),
                    "runs": [f.as_json() for f in self.figures[case.name][side].values()],
                }
                for side in case.sides
            },
        }


def _value(case: Case, figures: Figures) -> float:
    return figures.whole_ms if case.figure == BATCH else figures.whole_rows_per_second


def _divide(some: dict[int, float], others: dict[int, float]) -> list[float]:
    return [some[n] / others[n] for n in some if n in others]


def _summary(values: list[float]) -> dict[str, float] | None:
    return {"median": median(values), "min": min(values), "max": max(values)} if values else None
