"""The figures of a run: those of its streams' sources, their policies, its aggregates, its prods and its maps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar, cast

from slackwater.engine.build import source_label
from slackwater.engine.figures import EngineFigures, ShownFigures
from slackwater.engine.query_labels import aggregate_labels
from slackwater.engine.records import Choice, Snapshot
from slackwater.operators.label import Label
from slackwater.operators.operator import MAIN
from slackwater.operators.several_outputs import outputs_of
from slackwater.operators.sink import Output
from slackwater.plan.node import PlanNode, aggregates_of, first_aggregates, streams_of
from slackwater.plan.nodes import AggregateNode, StreamNode
from slackwater.progress.time import MAX_TICK, MIN_TICK, TimeDomain
from slackwater.scheduling.strategy import Act
from slackwater.spark.api.metric_types import ChoiceMetrics, Metrics, OperatorMetrics, StreamMetrics
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.sinks.memory_sink import MemorySink
from slackwater.spark.sinks.sinks import CallableSink

F = TypeVar("F", bound=StreamMetrics)
#: The published figures of an operator.
_Published = Mapping[str, Any]

_OF_ENGINE = frozenset(EngineFigures.__annotations__)
_SHOWN = frozenset(ShownFigures.__annotations__)
_COMMIT = Act.COMMIT.value
#: Counts of a stream.
_COUNTS = ("pages", "rows", "missing_time", "far_ahead", "ungrammatical_rows", "idle")
#: Figures that speak of the rows of the stream.
_LATE = frozenset(("late_rows", "lost_pairs", "lost_share", "late_by_source", "lost_by_window", "losses"))


class RunFigures:
    """Finds the figures of a run among those that the executor's thread has published.

    What it needs of the plan is found once: a page may ask ten times a second.
    """

    def __init__(self, name: str, plan: PlanNode, sink: Output, pages: SparkBackend) -> None:
        self._name = name
        self._outputs = outputs_of(sink)
        self._pages = pages
        self._pairs = first_aggregates(plan)
        """Each stream, and the first aggregate over it."""
        self._streams = [stream.name for stream in streams_of(plan)]
        labels = zip(aggregates_of(plan), aggregate_labels(name, plan), strict=True)
        self._aggregates = {id(node): label for node, label in labels}
        """Labels of the aggregates, by identity."""
        self._tops = list(dict.fromkeys(id(node) for node in plan.answers()))
        self._firsts = list(dict.fromkeys(id(node) for _, node in self._pairs if node is not None))

    def at(self, snapshot: Snapshot, now: int, prod_streams: Mapping[str, str]) -> Metrics:
        """What `run.metrics()` gives at this instant of the run's clock.

        `prod_streams` has the sources of the streams of prods that the run listens to, by name.
        """
        pairs, pages, domain = self._pairs, self._pages, self._pairs[0][0].domain
        streams = {stream.name: _of_stream(snapshot, stream, first, now) for stream, first in reversed(pairs)}
        beats = {stream.name: _heartbeat(snapshot, stream, first) for stream, first in reversed(pairs)}
        published: Mapping[str, _Published] = snapshot.operators
        mine = {label: f for label, f in published.items() if self._name in f["queries"]}
        aggregates = self._of_aggregates(snapshot)
        figures: Metrics = {
            **_of_all_streams(streams, min(beats, key=lambda name: beats[name])),
            "streams": {name: streams[name] for name in self._streams},
            **aggregates,
            **_of_joins(mine, aggregates.get("late_rows", 0)),
            **_own(snapshot.of(Label(self._name, "prodder"))),
            **_summed([_own(f) for f in mine.values() if "mapped_pages" in f]),
            "queued": sum(f["queued"] for f in mine.values()),
            "queued_rows": sum(f["queued_rows"] for f in mine.values()),
            "queued_bytes": sum(f["queued_bytes"] for f in mine.values()),
            "waiting_for_time": sum(f["waiting_for_time"] for f in mine.values()),
            "memory_bytes": pages.room.held,
            "spool_bytes": pages.room.spooled,
            "journal_bytes": snapshot.journal_bytes,
            "pushed_back_seconds": round(pages.room.pushed_back, 3),
            "strategy": snapshot.strategy,
            "choices": [_of_choice(c) for c in snapshot.choices if c.chose in mine or c.chose == _COMMIT],
            "operators": {label: _of_operator(f, domain, now) for label, f in mine.items()},
            "spark_jobs": pages.jobs,
            "spark_seconds": round(pages.spark_seconds, 3),
        }
        if prod_streams:
            sources = {name: snapshot.of(source_label(source)) for name, source in prod_streams.items()}
            figures["prod_streams"] = {name: _without_engine(f) for name, f in sources.items()}
        dropped = [output.dropped for output in self._outputs if isinstance(output, MemorySink)]
        if dropped:
            figures["results_dropped"] = sum(dropped)
        return figures

    def _of_aggregates(self, snapshot: Snapshot) -> Metrics:
        """The figures of the topmost aggregates, late rows as the first ones saw them.

        Several of a kind are counted together; what each says by itself is in `inner` and `parts`.
        """
        tops, firsts = self._tops, self._firsts
        mine = {node: _own(snapshot.of(label)) for node, label in self._aggregates.items()}
        figures = _together([mine[top] for top in tops])
        if firsts != tops:
            late = _together([mine[first] for first in firsts])
            figures = {**_chosen(figures, figures.keys() - _LATE), **_chosen(late, _LATE)}
            hidden = _LATE if len(firsts) == 1 else frozenset[str]()
            figures["inner"] = [{**_chosen(f, f.keys() - hidden)} for node, f in mine.items() if node not in tops]
        if len(tops) > 1:
            figures["parts"] = [{**mine[top]} for top in tops]
        # A filter may stand between the aggregates and the sink.
        written = _own(snapshot.of(Label(self._name, "sink")))
        figures = {**figures, **_chosen(written, figures.keys() & {"results", "early_results"})}
        refused = sum(f.get("prods_refused", 0) for f in mine.values())
        refused += sum(output.refused for output in self._outputs if isinstance(output, CallableSink))
        return {**figures, "prods_refused": refused} if refused else figures


def _of_choice(choice: Choice) -> ChoiceMetrics:
    """As a dictionary; `asdict` takes a fifth of the time of all figures of the live page."""
    return {"run": choice.run, "chose": choice.chose, "ready": choice.ready, "why": choice.why}


def _port(stream: StreamNode, first: AggregateNode | None) -> str:
    """The port of a stream's source that has the policy which a query goes by."""
    return MAIN if first is None or first.disorder in (None, stream.disorder) else first.disorder.describe()


def _heartbeat(snapshot: Snapshot, stream: StreamNode, first: AggregateNode | None) -> int:
    source: _Published = snapshot.of(source_label(stream.name))
    tick: int = source.get("heartbeats", {}).get(_port(stream, first), MIN_TICK)
    return tick


def _of_stream(snapshot: Snapshot, stream: StreamNode, first: AggregateNode | None, now: int) -> StreamMetrics:
    """How far time has come on a stream by the query's policy, and what has come."""
    source: _Published = snapshot.of(source_label(stream.name))
    port = _port(stream, first)
    beat = _heartbeat(snapshot, stream, first)
    seconds = 1e-6 if stream.domain is TimeDomain.TIMESTAMP else 1
    highest, heard = source.get("highest"), source.get("heard")
    figures: StreamMetrics = {
        "heartbeat": stream.domain.show(beat),
        "lag_seconds": _lag(beat, stream.domain, now),
        "silent_seconds": None if heard is None else (now - heard) / 1e6,
        **_chosen(cast(StreamMetrics, source), (*_COUNTS, "pages_together")),
        "lateness": {name: round(ticks * seconds, 6) for name, ticks in source.get("lateness", {}).items()},
        "lateness_shares": snapshot.once(
            ("lateness_shares", stream.name),
            lambda: [[round(ticks * seconds, 6), share] for ticks, share in source.get("lateness_shares", ())],
        ),
        "wait": None if highest is None or not MIN_TICK < beat < MAX_TICK else (highest - beat) * seconds,
        "disorder": stream.disorder.describe() if port == MAIN else port,
        "policy": source.get("policies", {}).get(port, {}),
        "held_back_by": _held_back_by(source, port, stream.domain),
    }
    return figures


def _of_all_streams(streams: Mapping[str, StreamMetrics], last: str) -> StreamMetrics:
    """The figures of the one stream; of several, the time of the last one and the sums."""
    if len(streams) == 1:
        return streams[last]
    counts = _summed([_chosen(figures, _COUNTS) for figures in streams.values()])
    return {"heartbeat": streams[last]["heartbeat"], "lag_seconds": streams[last]["lag_seconds"], **counts}


def _lag(beat: int, domain: TimeDomain, now: int) -> float | None:
    """Seconds by which a heartbeat is behind the clock, where it is a timestamp."""
    return (now - beat) / 1e6 if MIN_TICK < beat < MAX_TICK and domain is TimeDomain.TIMESTAMP else None


def _held_back_by(source: _Published, port: str, domain: TimeDomain) -> dict[str, str]:
    """The sources of a stream that are furthest behind, with their heartbeats, where the policy knows sources."""
    policy = source.get("policies", {}).get(port, {})
    own = source.get("slowest_sources", {}).get(port) or policy.get("held_back_by") or policy.get("furthest_behind")
    return {name: domain.show(tick) for name, tick in (own or {}).items()}


def _of_operator(figures: _Published, domain: TimeDomain, now: int) -> OperatorMetrics:
    """The figures of every operator: how far time has come, what waits, what it costs."""
    shown = {
        "heartbeat": domain.show(figures["heartbeat"]),
        "lag_seconds": _lag(figures["heartbeat"], domain, now),
        "state_bytes": figures.get("state_bytes", 0),
        "registers": [domain.show(tick) for tick in figures["registers"]],
        **{name: figure for name, figure in figures.items() if name in _SHOWN},
    }
    return cast(OperatorMetrics, shown)


def _of_joins(mine: Mapping[str, _Published], late: int) -> Metrics:
    """What joins, `drop_duplicates` and sinks that go by time say; their late rows count with those of windows."""
    joins = {label: _own(f) for label, f in mine.items() if "late_by_input" in f}
    waiting = [_own(f) for f in mine.values() if "waiting_rows" in f]
    distinct = [_own(f) for f in mine.values() if "duplicates" in f]
    if not (joins or waiting or distinct):
        return {}
    figures: Metrics = {"late_rows": late + sum(f["late_rows"] for f in (*joins.values(), *waiting, *distinct))}
    if distinct:
        figures["duplicates"] = sum(f["duplicates"] for f in distinct)
    if joins:
        figures["joins"] = {label: {**f} for label, f in joins.items()}
    if waiting:
        figures["waiting_rows"] = sum(f["waiting_rows"] for f in waiting)
    return figures


def _without_engine(figures: _Published) -> dict[str, Any]:
    """An operator's own figures, without those that the engine has of all."""
    return {name: figure for name, figure in figures.items() if name not in _OF_ENGINE}


def _own(figures: _Published) -> Metrics:
    """An operator's own figures, as figures of the run."""
    return cast(Metrics, _without_engine(figures))


def _chosen(figures: F, names: Collection[str]) -> F:
    """The figures of some names."""
    return cast(F, {name: figure for name, figure in figures.items() if name in names})


def _together(figures: Sequence[Metrics]) -> Metrics:
    """The figures of one as they are; for several, the sums of whole numbers."""
    return figures[0] if len(figures) == 1 else _summed(figures)


def _summed(figures: Sequence[F]) -> F:
    """The sums of what is a whole number in all of them."""
    parts: list[dict[str, Any]] = [{**each} for each in figures]
    names = [k for k in parts[0] if all(isinstance(part.get(k), int) for part in parts)] if parts else []
    return cast(F, {name: sum(part[name] for part in parts) for name in names})
