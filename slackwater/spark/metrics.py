"""The figures of a run: those of its stream's source, its policy, its aggregates, its prods and its maps."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from slackwater.engine.build import aggregate_labels, source_label
from slackwater.engine.executor import Executor
from slackwater.operators.operator import MAIN
from slackwater.plan.nodes import first_query, stream_of
from slackwater.progress.time import MAX_TICK, MIN_TICK, TimeDomain
from slackwater.spark.run import Run
from slackwater.spark.sinks import CallableSink
from slackwater.spark.store import SparkPages

_TRIES = 20
#: Figures that speak of the rows of the stream.
_LATE = ("late_rows", "lost_pairs", "lost_share", "late_by_source", "lost_by_window")


def run_metrics(run: Run, executor: Executor, pages: SparkPages, prod_streams: Iterable[str]) -> dict[str, Any]:
    """What `run.metrics()` gives."""
    figures = operator_figures(executor)
    source = figures.get(run.source, {})
    windows = [figures.get(label, {}) for label in aggregate_labels(run.name, run.plan)]
    asked = {name: figures.get(source_label(name), {}) for name in prod_streams}
    stream, own = stream_of(run.plan), first_query(run.plan).disorder
    policy = dict(source.get("policies", {}).get(MAIN if own is None else own.describe(), {}))
    beat = policy.pop("heartbeat", MIN_TICK)
    seconds = 1e-6 if stream.domain is TimeDomain.TIMESTAMP else 1
    known = MIN_TICK < beat < MAX_TICK and stream.domain is TimeDomain.TIMESTAMP
    return {
        "heartbeat": stream.domain.show(beat),
        "lag_seconds": (executor.clock.now() - beat) / 1e6 if known else None,
        **{k: source[k] for k in ("pages", "rows", "missing_time", "ungrammatical_rows") if k in source},
        "lateness": {name: round(ticks * seconds, 6) for name, ticks in source.get("lateness", {}).items()},
        "policy": policy,
        **_with_refused(_aggregate_figures(windows), run),
        **_without_queues(figures.get(f"{run.name}/prodder", {})),
        **({"prod_streams": asked} if asked else {}),
        **_summed([figures[label] for label in figures if label.startswith(f"{run.name}/map")]),
        "queued": sum(f["queued"] for f in figures.values()),
        "spark_jobs": pages.jobs,
        "spark_seconds": round(pages.spark_seconds, 3),
    }


def operator_figures(executor: Executor) -> dict[str, dict[str, Any]]:
    """The figures of all operators, read while the executor's thread may be at work.

    To ask that thread would be to wait for a Spark job, or to hear nothing after a failure. Looking changes
    nothing: some figures may be of this page and some of the one before, and where a table grows while it is looked
    at, that raises, and a moment later it has grown.
    """
    for _ in range(_TRIES):
        try:
            return executor.metrics()
        except Exception:
            time.sleep(0.001)
    return executor.metrics()


def _aggregate_figures(windows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a query's aggregates, the topmost first: its own, late rows as the first one saw them."""
    mine = [_without_queues(w) for w in windows]
    figures = dict(mine[0])
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


def _without_queues(figures: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in figures.items() if k not in ("queued", "queued_rows")}


def _summed(maps: list[dict[str, Any]]) -> dict[str, int]:
    return {k: sum(m[k] for m in maps) for k in _without_queues(maps[0])} if maps else {}
