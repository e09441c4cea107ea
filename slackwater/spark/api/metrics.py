"""The figures of a run: those of its streams' sources, their policies, its aggregates, its prods and its maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

from slackwater.engine.build import aggregate_labels, source_label
from slackwater.engine.figures import ENGINE_FIGURES
from slackwater.engine.records import Choice, Snapshot
from slackwater.operators.label import Label
from slackwater.operators.operator import MAIN
from slackwater.plan.node import aggregates_of, first_aggregates
from slackwater.plan.nodes import AggregateNode, StreamNode
from slackwater.progress.time import MAX_TICK, MIN_TICK, TimeDomain
from slackwater.scheduling.strategy import Act
from slackwater.spark.api.metric_types import Metrics
from slackwater.spark.api.run import Run
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.sinks.memory_sink import MemorySink
from slackwater.spark.sinks.sinks import CallableSink

#: Figures of the engine that are shown as they are; the others are times.
_SHOWN = tuple(name for name in ENGINE_FIGURES if name not in ("heartbeat", "heartbeats", "registers"))
_OF_ENGINE = frozenset(ENGINE_FIGURES)
_COMMIT = Act.COMMIT.value
#: What has come by a stream.
_COUNTS = ("pages", "rows", "missing_time", "ungrammatical_rows")
#: Figures that speak of the rows of the stream.
_LATE = ("late_rows", "lost_pairs", "lost_share", "late_by_source", "lost_by_window", "losses")


@dataclass(frozen=True)
class _Shape:
    """What figures need to know of a plan; it is found once, for a page may ask ten times a second."""

    pairs: list[tuple[StreamNode, AggregateNode | None]]
    labels: dict[int, Label]
    """Of aggregates, by identity."""
    tops: list[int]
    firsts: list[int]


_SHAPES: WeakKeyDictionary[Run, _Shape] = WeakKeyDictionary()


def _shape(run: Run) -> _Shape:
    if run not in _SHAPES:
        nodes, labels, pairs = (
            aggregates_of(run.plan),
            aggregate_labels(run.name, run.plan),
            first_aggregates(run.plan),
        )
        _SHAPES[run] = _Shape(
            pairs,
            {id(node): label for node, label in zip(nodes, labels, strict=True)},
            list(dict.fromkeys(id(node) for node in run.plan.answers())),
            list(dict.fromkeys(id(node) for _, node in pairs if node is not None)),
        )
    return _SHAPES[run]


def run_metrics(
    run: Run, snapshot: Snapshot, now: int, pages: SparkPages, prod_streams: Mapping[str, str]
) -> Metrics:
    """What `run.metrics()` gives: all from what the executor's thread has published."""
    pairs = _shape(run).pairs
    streams = {stream.name: _of_stream(snapshot, stream, first, now) for stream, first in reversed(pairs)}
    asked = {name: snapshot.of(source_label(source)) for name, source in prod_streams.items()}
    domain = pairs[0][0].domain
    mine = {label: f for label, f in snapshot.operators.items() if run.name in f["queries"]}
    aggregates = _with_refused(_aggregate_figures(run, snapshot), run)
    written = snapshot.of(Label(run.name, "sink"))
    # A filter may stand between the aggregates and the sink.
    aggregates |= {name: written[name] for name in ("results", "early_results") if name in aggregates and written}
    figures: dict[str, Any] = {
        **_of_all_streams(list(streams.values())),
        "streams": {name: streams[name] for name in run.streams},
        **aggregates,
        **_of_joins(mine, aggregates.get("late_rows", 0)),
        **_own(snapshot.of(Label(run.name, "prodder"))),
        **({"prod_streams": {name: _own(f) for name, f in asked.items()}} if asked else {}),
        **_summed([_own(f) for f in mine.values() if "mapped_pages" in f]),
        **({"results_dropped": run.sink.dropped} if isinstance(run.sink, MemorySink) else {}),
        "queued": sum(f["queued"] for f in mine.values()),
        "queued_rows": sum(f["queued_rows"] for f in mine.values()),
        "queued_bytes": sum(f["queued_bytes"] for f in mine.values()),
        "memory_bytes": pages.room.held,
        "spool_bytes": pages.room.spooled,
        "pushed_back_seconds": round(pages.room.pushed_back, 3),
        "strategy": snapshot.strategy,
        "choices": [_told(c) for c in snapshot.choices if c.chose in mine or c.chose == _COMMIT],
        "operators": {label: _of_operator(f, domain, now) for label, f in mine.items()},
        "spark_jobs": pages.jobs,
        "spark_seconds": round(pages.spark_seconds, 3),
    }
    return cast(Metrics, figures)


def _told(choice: Choice) -> dict[str, Any]:
    """As a dictionary; `asdict` takes a fifth of the time of all figures of the live page."""
    return {"run": choice.run, "chose": choice.chose, "ready": choice.ready, "why": choice.why}


def _of_stream(snapshot: Snapshot, stream: StreamNode, first: AggregateNode | None, now: int) -> dict[str, Any]:
    """How far time has come on a stream by the query's policy, and what has come."""
    source = snapshot.of(source_label(stream.name))
    own = None if first is None or first.disorder in (None, stream.disorder) else first.disorder
    port = MAIN if own is None else own.describe()
    beat = source.get("heartbeats", {}).get(port, MIN_TICK)
    seconds = 1e-6 if stream.domain is TimeDomain.TIMESTAMP else 1
    highest = source.get("highest")
    wait = None if highest is None or not MIN_TICK < beat < MAX_TICK else (highest - beat) * seconds
    return {
        "heartbeat": stream.domain.show(beat),
        "lag_seconds": _lag(beat, stream.domain, now),
        **{k: source[k] for k in (*_COUNTS, "pages_together") if k in source},
        "lateness": {name: round(ticks * seconds, 6) for name, ticks in source.get("lateness", {}).items()},
        "lateness_shares": snapshot.once(
            ("lateness_shares", stream.name),
            lambda: [[round(ticks * seconds, 6), share] for ticks, share in source.get("lateness_shares", ())],
        ),
        "wait": wait,
        "disorder": (own or stream.disorder).describe(),
        "policy": source.get("policies", {}).get(port, {}),
        "held_back_by": _held_back_by(source, port, stream.domain),
        "tick": beat,
    }


def _of_all_streams(streams: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of the one stream; of several, the least heartbeat and the sums."""
    last = min(streams, key=lambda figures: figures["tick"])
    for figures in streams:
        del figures["tick"]
    if len(streams) == 1:
        return last
    lag = {name: last[name] for name in ("heartbeat", "lag_seconds")}
    return {**lag, **_summed([{k: f[k] for k in _COUNTS if k in f} for f in streams])}


def _lag(beat: int, domain: TimeDomain, now: int) -> float | None:
    """Seconds by which a heartbeat is behind the clock, where it is a timestamp."""
    return (now - beat) / 1e6 if MIN_TICK < beat < MAX_TICK and domain is TimeDomain.TIMESTAMP else None


def _held_back_by(source: dict[str, Any], port: str, domain: TimeDomain) -> dict[str, str]:
    """The sources of a stream that are furthest behind, with their heartbeats, where the policy knows sources."""
    policy = source.get("policies", {}).get(port, {})
    own = source.get("slowest_sources", {}).get(port) or policy.get("held_back_by") or policy.get("furthest_behind")
    return {name: domain.show(tick) for name, tick in (own or {}).items()}


def _of_operator(figures: dict[str, Any], domain: TimeDomain, now: int) -> dict[str, Any]:
    """What is said of every operator: how far time has come, what waits, what it costs."""
    shown = {name: figures[name] for name in _SHOWN if name in figures}
    return {
        "heartbeat": domain.show(figures["heartbeat"]),
        "lag_seconds": _lag(figures["heartbeat"], domain, now),
        "state_bytes": figures.get("state_bytes", 0),
        "registers": [domain.show(tick) for tick in figures["registers"]],
        **shown,
    }


def _of_joins(mine: Mapping[str, dict[str, Any]], late: int) -> dict[str, Any]:
    """What joins keep, and a sink that goes by time; their late rows are counted with those of windows."""
    joins = {label: _own(f) for label, f in mine.items() if "late_by_input" in f}
    waiting = [_own(f) for f in mine.values() if "waiting_rows" in f]
    if not joins and not waiting:
        return {}
    late += sum(figures["late_rows"] for figures in (*joins.values(), *waiting))
    ordered = {"waiting_rows": waiting[0]["waiting_rows"]} if waiting else {}
    return {"late_rows": late, **({"joins": joins} if joins else {}), **ordered}


def _aggregate_figures(run: Run, snapshot: Snapshot) -> dict[str, Any]:
    """The figures of a query's aggregates: those of the topmost, late rows as the first ones saw them.

    Several of a kind are counted together; what each says by itself is in `inner` and `parts`.
    """
    shape = _shape(run)
    tops, firsts = shape.tops, shape.firsts
    mine = {node: _own(snapshot.of(label)) for node, label in shape.labels.items()}
    figures = _together([mine[top] for top in tops])
    if firsts != tops:
        late = _together([mine[first] for first in firsts])
        figures = {k: v for k, v in figures.items() if k not in _LATE}
        figures.update({k: v for k, v in late.items() if k in _LATE})
        hidden = _LATE if len(firsts) == 1 else ()
        inner = [figures for node, figures in mine.items() if node not in tops]
        figures["inner"] = [{k: v for k, v in f.items() if k not in hidden} for f in inner]
    if len(tops) > 1:
        figures["parts"] = [mine[top] for top in tops]
    refused = sum(m.get("prods_refused", 0) for m in mine.values())
    return {**figures, "prods_refused": refused} if refused else figures


def _together(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """Those of one as they are; of several, the sums of whole numbers."""
    return figures[0] if len(figures) == 1 else _summed(figures)


def _with_refused(figures: dict[str, Any], run: Run) -> dict[str, Any]:
    """With the prods that the sink's function asked for and that made no sense."""
    refused = figures.get("prods_refused", 0) + (run.sink.refused if isinstance(run.sink, CallableSink) else 0)
    return {**figures, "prods_refused": refused} if refused else figures


def _own(figures: dict[str, Any]) -> dict[str, Any]:
    """An operator's own figures, without those that the engine has of all."""
    return {k: v for k, v in figures.items() if k not in _OF_ENGINE}


def _summed(figures: list[dict[str, Any]]) -> dict[str, int]:
    """The sums of what is a whole number in all of them."""
    names = [k for k in figures[0] if all(isinstance(f.get(k), int) for f in figures)] if figures else []
    return {k: sum(f[k] for f in figures) for k in names}
