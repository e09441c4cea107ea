"""Figures of an operator that the engine knows, for a person."""

from __future__ import annotations

from typing import TypedDict, cast

from slackwater.engine.graph import Graph, Node
from slackwater.figures import Figures
from slackwater.operators.operator import MAIN
from slackwater.operators.sink import Sink
from slackwater.progress.punctuation import Punctuation


class ShownFigures(TypedDict):
    """Figures of every operator that users see as they are."""

    queued: int
    """Elements that wait before it."""
    queued_rows: int
    """Rows that wait before it, as far as they are known."""
    queued_bytes: int
    """Their bytes."""
    waiting_for_time: int
    """Rows that wait inside the operator until the heartbeat has passed them."""
    held: int
    """Pages that wait until the heartbeat reaches their rows."""
    idle_waiting: float | None
    """Share of the time in which it waited only because one stream was behind another. None for one stream."""
    rows_in: int
    """Rows that it took, as far as they are known."""
    rows_out: int
    """Rows that it gave."""
    runs: int
    """How often it ran."""
    run_seconds: float
    """How long it ran."""
    last_run: int
    """The number of its last run among those of all operators."""
    cost: float | None
    """Seconds a row, over the last runs."""
    selectivity: float | None
    """Rows out for each row in, over the last runs."""
    growth: float | None
    """Bytes out for each byte in, over the last runs."""
    strategy: str
    """What decides which operator runs next."""
    chain: list[str]
    """The operators of its chain (S2), where the strategy has chains."""
    slope: float | None
    """What the chain frees in a second."""
    unit: str
    """In what that is counted: bytes, or rows."""
    charted: dict[str, float | None]
    """What the chart is made of: cost, selectivity, growth, width."""
    level: str
    """The level of heartbeats that the session has."""
    label: list[str]
    """The streams whose heartbeats it waits for."""
    queries: list[str]
    """The queries that it works for."""
    about: str
    """What it does."""
    feeds: list[str]
    """The operators before it."""


class EngineFigures(ShownFigures):
    """All that the engine publishes of every operator, beside the operator's own figures."""

    heartbeat: int
    """The time up to which it has given all its rows."""
    heartbeats: dict[str, int]
    """The same by port."""
    registers: list[int]
    """The time up to which each of its inputs has given all rows."""


def engine_figures(published: Figures) -> EngineFigures:
    """What the engine says of an operator, of all its published figures."""
    return cast(EngineFigures, published)


def rows_before_sinks(graph: Graph) -> dict[str, dict[str, int]]:
    """Rows of sinks and of the steps before them, by operator: a sink knows what a filter before it has left."""
    counts: dict[str, dict[str, int]] = {}
    for node in graph:
        if not isinstance(node.operator, Sink):
            continue
        rows = node.operator.passed
        counts[node.label] = {"rows_in": rows}
        while len(node.feeds) == 1 and node.feeds[0] is not None:
            node = graph.nodes[node.feeds[0][0]]
            if not node.operator.extends or len(node.feeds) != 1 or not node.measured.rows_in:
                break
            # Another sink of the same rows may have come later, and have fewer.
            before = counts.setdefault(node.label, {"rows_out": 0})
            before["rows_out"] = max(before["rows_out"], rows)
            if node.operator.drops_rows:
                break
            before["rows_in"] = before["rows_out"]
    return counts


def figures(node: Node) -> Figures:
    """What waits before it, and its heartbeat."""
    passed = node.times.get(MAIN, Punctuation.NONE)
    if not node.outputs and not node.is_source and node.feeds:
        passed = min(node.registers, key=lambda time: time.heartbeat)  # nothing is behind a sink
    rows, size = node.waiting()
    return {
        **node.operator.metrics(),
        "heartbeat": passed.heartbeat.tick,
        "heartbeats": {port: time.heartbeat.tick for port, time in node.times.items()},
        "registers": [time.heartbeat.tick for time in node.registers],
        "queued": sum(q.waiting for q in node.inputs),
        "queued_rows": rows,
        "queued_bytes": size,
        "waiting_for_time": node.operator.waiting_for_time,
        "label": sorted(source if port == MAIN else f"{source} ({port})" for source, port in node.goes_by.streams),
        "held": sum(entry.is_page for queue in node.arcs for entry in queue.held),
        "idle_waiting": node.idle_waiting.share(node.clock.now()),
        "queries": sorted(node.queries),
        "about": node.about,
        "feeds": [feed[0] for feed in node.feeds if feed is not None],
    }
