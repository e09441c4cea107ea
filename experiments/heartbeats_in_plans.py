"""S1 section 7: latency and memory of the three levels of heartbeats on the plan of Figure 5, with virtual costs.

    .venv/bin/python experiments/heartbeats_in_plans.py

S1 and S2 send a page each every so many ticks; S3 lags behind and catches up in bursts. O1 reads S1 and S2, O2 its
results and S3; each takes rows in the order of time, at a tick a row. S1 prints no figures here: it says that the
query level is slower, and that the operator level may need more memory (sections 7.1 to 7.3).
"""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

import slackwater as sw
from experiments.lab.figure_5 import BOTH, PROLIFERATIVE, SELECTIVE, Below, lagging, run

PLANS: dict[str, dict[str, Below]] = {
    "O1 gives 4 rows for one": {"O1": PROLIFERATIVE},
    "O1 gives one row for 4": {"O1": SELECTIVE},
    "both: O1 over S1 and S2, O3 over S4 and S5": BOTH,
}
LEVELS = (sw.papers.query_level(), sw.operator_level(), sw.memory_aware())


def main(pages: int = 64, rows: int = 8, every: int = 400, burst: int = 8, out: Path | None = None) -> None:
    """Print a table: pages of each stream, rows a page, ticks between pages, pages in a burst of S3."""
    found = []
    table = Table(
        title=f"{pages} pages of {rows} rows a stream, every {every} ticks; S3 in bursts of {burst} pages"
    )
    for name in ("plan", "heartbeats", "mean latency, ticks", "longest", "most rows that waited"):
        table.add_column(name, justify="left" if name in ("plan", "heartbeats") else "right")
    for plan, below in PLANS.items():
        come = lagging(
            ["S3", *(stream for of in below.values() for stream in of.streams)], pages, rows, every, burst
        )
        for level in LEVELS:
            ran = run(come, below, level)
            shown = plan if level is LEVELS[0] else ""
            table.add_row(shown, level.name, f"{ran.latency:.0f}", f"{max(ran.waits)}", f"{ran.peak}")
            row = {"plan": plan, "heartbeats": level.name, "mean latency": ran.latency, "longest": max(ran.waits)}
            found.append({**row, "most rows that waited": ran.peak})
    Console(width=120).print(table)
    if out is not None:
        out.write_text(json.dumps({"plans": found}, indent=1))


if __name__ == "__main__":
    typer.run(main)
