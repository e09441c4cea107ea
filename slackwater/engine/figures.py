"""Figures of an operator that the engine knows, for a person."""

from __future__ import annotations

from typing import Any, TypedDict

from slackwater.engine.graph import Graph, Node
from slackwater.operators.operator import MAIN
from slackwater.operators.sink import Sink
from slackwater.progress.punctuation import Punctuation


class EngineFigures(TypedDict):
    """What the engine publishes of every operator, beside the operator's own figures."""

    heartbeat: int
    """The time up to which it has given all its rows."""
    heartbeats: dict[str, int]
    """The same by port."""
    registers: list[int]
    """The time up to which each of its inputs has given all rows."""
    queued: int
    queued_rows: int
    queued_bytes: int
    held: int
    rows_in: int
    rows_out: int
    runs: int
    run_seconds: float
    last_run: int
    cost: float | None
    selectivity: float | None
    growth: float | None
    strategy: str
    chain: list[str]
    slope: float | None
    unit: str
    charted: dict[str, float | None]
    level: str
    label: list[str]
    queries: list[str]
    about: str
    feeds: list[str]


def rows_before_sinks(graph: Graph) -> dict[str, dict[str, int]]:
    """Rows of sinks and of the steps before them, by operator: a sink knows what a filter before it has left."""
    found: dict[str, dict[str, int]] = {}
    for node in graph:
        if not isinstance(node.operator, Sink):
            continue
        rows = node.operator.passed
        found[node.label] = {"rows_in": rows}
        while len(node.feeds) == 1 and node.feeds[0] is not None:
            node = graph.nodes[node.feeds[0][0]]
            if not node.operator.extends or len(node.feeds) != 1 or not node.measured.rows_in:
                break
            # Another sink of the same rows may have come later, and have fewer.
            known = found.setdefault(node.label, {"rows_out": 0})
            known["rows_out"] = max(known["rows_out"], rows)
            if node.operator.drops_rows:
                break
            known["rows_in"] = known["rows_out"]
    return found


def figures(node: Node) -> dict[str, Any]:
    """What waits before it, and its heartbeat."""
    said = node.times.get(MAIN, Punctuation.NONE)
    if not node.outputs and not node.is_source and node.feeds:
        said = min(node.registers, key=lambda time: time.heartbeat)  # nothing is behind a sink
    rows, size = node.waiting()
    return {
        **node.operator.metrics(),
        "heartbeat": said.heartbeat.tick,
        "heartbeats": {port: time.heartbeat.tick for port, time in node.times.items()},
        "registers": [time.heartbeat.tick for time in node.registers],
        "queued": sum(q.waiting for q in node.inputs),
        "queued_rows": rows,
        "queued_bytes": size,
        "label": sorted(source if port == MAIN else f"{source} ({port})" for source, port in node.goes_by.streams),
        "held": sum(entry.is_page for queue in node.arcs for entry in queue.held),
        "queries": sorted(node.queries),
        "about": node.about,
        "feeds": [feed[0] for feed in node.feeds if feed is not None],
    }
