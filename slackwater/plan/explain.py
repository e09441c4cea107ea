"""A running query as text: its operators, how far time has come on each, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def explain(operators: Mapping[str, Mapping[str, Any]], query: str) -> str:
    """Each operator of a query: its label, what it does, its figures (as in `run.metrics()["operators"]`)."""
    lines = []
    for label, figures in operators.items():
        others = [name for name in figures["queries"] if name != query]
        shared = f" (shared with {', '.join(others)})" if others else ""
        lines.append(f"{label}{shared}")
        lines += [f"    {part}" for part in figures["about"].splitlines()]
        behind = f"reads {', '.join(figures['feeds'])}" if figures["feeds"] else ""
        time = f"heartbeat {figures['heartbeat']}"
        if figures["registers"]:
            time += f", inputs at {', '.join(figures['registers'])}"
        waits = f"{figures['queued']} waiting ({figures['queued_rows']} rows)" if figures["queued"] else ""
        runs = f"{figures['runs']} runs in {figures['run_seconds']:.3f} s" if figures["runs"] else ""
        cost = f"{figures['cost'] * 1e6:.2f} µs a row" if figures["cost"] else ""
        lines.append("    " + "; ".join(part for part in (behind, time, waits, runs, cost) if part))
    return "\n".join(lines)
