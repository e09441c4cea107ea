"""What heartbeats for many sources cost a page (S1 section 5): names, arrival, heartbeats and state together.

Every page has one row of every source, the names as new strings and in another order each time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from slackwater.papers.global_counter import global_counter
from slackwater.progress.arrival import Arrival, SourceArrivals
from slackwater.progress.bounds.environment_policy import sensors
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import TimeDomain

_RESULTS = Path(__file__).parent / "results" / "sources.json"
_SECOND = 1_000_000
#: Milliseconds of processor time a page, for 100,000 sources.
LIMIT = 50
PARTS = ("arrive", "tick", "by_source", "wake_at", "state")


def _name(i: int) -> str:
    return f"sensor-{i:06d}"


def _deviations(n: int) -> dict[str, int]:
    drawn = np.random.default_rng(1).integers(1, 5 * _SECOND, n)
    return {_name(i): f"{d} microseconds" for i, d in enumerate(drawn.tolist())}


def _times(n: int) -> dict[str, tuple[int, int]]:
    drawn = np.random.default_rng(1).integers(1, 5 * _SECOND, n)
    return {_name(i): (d // 100, d) for i, d in enumerate(drawn.tolist())}


CASES: dict[str, Callable[[int], Disorder]] = {
    "sensors, one value": lambda n: sensors("2 seconds", latency="3 seconds", timeout="1 minute"),
    "sensors, one value and rate": lambda n: sensors("2 seconds", latency="3 seconds", rate=0.9),
    "sensors, by source": lambda n: sensors(_deviations(n), latency="3 seconds", timeout="1 minute"),
    "sensors, by source, rate": lambda n: sensors(_deviations(n), latency="3 seconds", rate=0.9, indirect=False),
    "global counter, one value": lambda n: global_counter(("10 ms", "1 second"), latency="3 seconds"),
    "global counter, by source": lambda n: global_counter(_times(n), latency="3 seconds"),
    "sensors, 8 groups": lambda n: sensors(_deviations(n), latency="3 seconds", timeout="1 minute", groups=8),
    "sensors, 8 groups, rate": lambda n: sensors(_deviations(n), latency="3 seconds", rate=0.9, groups=8),
}


@dataclass
class Figures:
    """Milliseconds of one case with so many sources."""

    case: str
    sources: int
    build: float = 0.0
    """To make the tracker."""
    first: float = 0.0
    """The first page, in which sources are discovered."""
    pages: list[list[float]] = field(default_factory=list)
    """Of each later page, its parts."""
    state_bytes: int = 0

    @property
    def totals(self) -> list[float]:
        """All parts of a page together."""
        return [sum(parts) for parts in self.pages]

    def as_json(self) -> dict[str, Any]:
        """All of it, with what it comes to."""
        totals = self.totals
        return {
            **self.__dict__,
            "parts": PARTS,
            "a_page": {"median": median(totals), "min": min(totals), "max": max(totals)},
            "held": median(totals) <= LIMIT,
        }


def pages(n: int, count: int) -> Iterator[Arrival]:
    """A page a second; timestamps anywhere in that second."""
    rng = np.random.default_rng(2)
    for page in range(count):
        names = [_name(i) for i in rng.permutation(n).tolist()]
        stamps = page * _SECOND + rng.integers(0, _SECOND, n)
        sources = SourceArrivals(names, np.ones(n, dtype=np.int64), stamps, stamps)
        yield Arrival(n, 0, int(stamps.min()), int(stamps.max()), at=page * _SECOND, sources=sources)


def measure(case: str, n: int, count: int) -> Figures:
    """Run one case."""
    figures = Figures(case, n)
    policy = CASES[case](n)
    begun = time.process_time()
    tracker = policy.tracker(TimeDomain.TIMESTAMP)
    figures.build = (time.process_time() - begun) * 1e3
    state: dict[str, Any] = {}
    for arrival in pages(n, count + 1):
        marks = [time.process_time()]
        tracker.arrive(arrival)
        marks.append(time.process_time())
        tracker.tick(arrival.at + 1)
        assert tracker.heartbeat.tick <= (arrival.highest or 0)
        marks.append(time.process_time())
        tracker.by_source()
        marks.append(time.process_time())
        tracker.wake_at()
        marks.append(time.process_time())
        state = tracker.state()
        marks.append(time.process_time())
        figures.pages.append([(b - a) * 1e3 for a, b in pairwise(marks)])
    figures.first = sum(figures.pages.pop(0))
    figures.state_bytes = sum(v.nbytes for v in state.values() if isinstance(v, np.ndarray))
    return figures


def show(found: list[Figures], console: Console) -> None:
    """As a table."""
    table = Table(title=f"Milliseconds of processor time a page (at most {LIMIT} for 100,000 sources)")
    for column in ("case", "sources", "a page", "least–largest", *PARTS, "first page", "build", "state"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for f in found:
        totals = f.totals
        parts = [f"{median(page[k] for page in f.pages):.2f}" for k in range(len(PARTS))]
        middle = median(totals)
        table.add_row(
            f.case,
            f"{f.sources:,}",
            f"[{'green' if middle <= LIMIT else 'red'}]{middle:.2f}[/]",
            f"{min(totals):.2f}–{max(totals):.2f}",
            *parts,
            f"{f.first:.1f}",
            f"{f.build:.1f}",
            f"{f.state_bytes / 2**20:.1f} MiB",
        )
    console.print(table)


def main() -> None:
    """Read the options, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 pages a case: to see that it works")
    parser.add_argument("--pages", type=int, help="how many pages are measured (30; with --quick 5)")
    parser.add_argument("--only", help="run only the cases with this text in their names")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="where to write the figures as JSON")
    options = parser.parse_args()
    cases = [name for name in CASES if options.only is None or options.only in name]
    if not cases:
        sys.exit(f"no case has {options.only!r} in its name; there are: {', '.join(CASES)}")
    count = max(1, options.pages or (5 if options.quick else 30))
    console = Console() if Console().is_terminal else Console(width=180)
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    found = [measure(case, n, count) for case in cases for n in (10, 1_000, 100_000)]
    show(found, console)
    whole = {
        "versions": {p: version(p) for p in ("slackwater", "numpy", "pyarrow")}
        | {"python": platform.python_version()},
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "begun": begun,
        "limit_ms": LIMIT,
        "cases": [f.as_json() for f in found],
    }
    os.makedirs(options.out.parent, exist_ok=True)
    options.out.write_text(json.dumps(whole, indent=1) + "\n")
    console.print("[dim]All figures are in the JSON file.[/dim]")


if __name__ == "__main__":
    main()
