"""The figures of a run: those of its stream's source, its policy, its aggregates, its prods and its maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slackwater.engine.build import aggregate_labels, source_label
from slackwater.engine.executor import ENGINE_FIGURES
from slackwater.engine.records import Snapshot
from slackwater.operators.operator import MAIN
from slackwater.plan.nodes import first_query, stream_of
from slackwater.progress.time import MAX_TICK, MIN_TICK, TimeDomain
from slackwater.spark.api.run import Run
from slackwater.spark.pages.pages import SparkPages
from slackwater.spark.storage.memory_sink import MemorySink
from slackwater.spark.storage.sinks import CallableSink

_TICKS = ("heartbeat", "heartbeats", "registers")
#: Figures that speak of the rows of the stream.
_LATE = ("late_rows", "lost_pairs", "lost_share", "late_by_source", "lost_by_window")


def run_metrics(
    run: Run, snapshot: Snapshot, now: int, pages: SparkPages, prod_streams: Mapping[str, str]
) -> dict[str, Any]:
    """What `run.metrics()` gives: all from what the executor's thread has published."""
    stream, first = stream_of(run.plan), first_query(run.plan)
    source = snapshot.of(source_label(stream.name))
    windows = [snapshot.of(label) for label in aggregate_labels(run.name, run.plan)]
    asked = {name: snapshot.of(source_label(source)) for name, source in prod_streams.items()}
    own = None if first is None else first.disorder
    port = MAIN if own is None else own.describe()
    beat = source.get("heartbeats", {}).get(port, MIN_TICK)
    seconds = 1e-6 if stream.domain is TimeDomain.TIMESTAMP else 1
    known = MIN_TICK < beat < MAX_TICK and stream.domain is TimeDomain.TIMESTAMP
    mine = {label: f for label, f in snapshot.operators.items() if run.name in f["queries"]}
    return {
        "heartbeat": stream.domain.show(beat),
        "lag_seconds": (now - beat) / 1e6 if known else None,
        **{k: source[k] for k in ("pages", "rows", "missing_time", "ungrammatical_rows") if k in source},
        "lateness": {name: round(ticks * seconds, 6) for name, ticks in source.get("lateness", {}).items()},
        "policy": source.get("policies", {}).get(port, {}),
        **_with_refused(_aggregate_figures(windows), run),
        **_own(snapshot.of(f"{run.name}/prodder")),
        **({"prod_streams": {name: _own(f) for name, f in asked.items()}} if asked else {}),
        **_summed([f for f in mine.values() if "mapped_pages" in f]),
        **({"results_dropped": run.sink.dropped} if isinstance(run.sink, MemorySink) else {}),
        "queued": sum(f["queued"] for f in mine.values()),
        "operators": {label: _of_operator(f, stream.domain) for label, f in mine.items()},
        "spark_jobs": pages.jobs,
        "spark_seconds": round(pages.spark_seconds, 3),
    }


def _of_operator(figures: dict[str, Any], domain: TimeDomain) -> dict[str, Any]:
    """What is said of every operator: how far time has come, what waits, what it costs."""
    shown = {name: figures[name] for name in ENGINE_FIGURES if name in figures and name not in _TICKS}
    return {
        "heartbeat": domain.show(figures["heartbeat"]),
        "registers": [domain.show(tick) for tick in figures["registers"]],
        **shown,
    }


def _aggregate_figures(windows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a query's aggregates, the topmost first: its own, late rows as the first one saw them."""
    mine = [_own(w) for w in windows]
    figures = dict(mine[0]) if mine else {}
    if len(mine) > 1:
        figures.update({k: v for k, v in mine[-1].items() if k in _LATE})
        figures["inner"] = [{k: v for k, v in m.items() if k not in _LATE} for m in mine[1:]]
        refused = sum(m.get("prods_refused", 0) for m in mine)
        figures.update({"prods_refused": refused} if refused else {})
    return figures


def _with_refused(figures: dict[str, Any], run: Run) -> dict[str, Any]:
    """With the prods that the sink's function asked for and that made no sense."""
    refused = figures.get("prods_refused", 0) + (run.sink.refused if isinstance(run.sink, CallableSink) else 0)
    return {**figures, "prods_refused": refused} if refused else figures


def _own(figures: dict[str, Any]) -> dict[str, Any]:
    """An operator's own figures, without those that the engine has of all."""
    return {k: v for k, v in figures.items() if k not in ENGINE_FIGURES}


def _summed(maps: list[dict[str, Any]]) -> dict[str, int]:
    return {k: sum(m[k] for m in maps) for k in _own(maps[0])} if maps else {}
