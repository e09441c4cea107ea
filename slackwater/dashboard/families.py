"""A session's figures for machines: families of samples with labels, whoever reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from slackwater.dashboard.board import memory
from slackwater.dashboard.watched import Watched

Kind = Literal["counter", "gauge"]
Subject = Literal["session", "stream", "query", "operator"]
Labels = dict[str, str]
#: Figures, each with its labels.
Labelled = Sequence[tuple[Labels, Mapping[str, Any]]]


@dataclass(frozen=True)
class Family:
    """One metric: what it counts or measures, and its samples by label."""

    name: str
    kind: Kind
    help: str
    samples: list[tuple[Labels, float]]
    unit: str = ""


@dataclass(frozen=True)
class Figure:
    """How a metric is found among the figures of the session, a stream, a query or an operator."""

    name: str
    kind: Kind
    help: str
    of: str | Callable[[Mapping[str, Any]], object]
    """The name of the figure, or a function of all figures."""
    unit: str = ""

    def value(self, figures: Mapping[str, Any]) -> object:
        """The figure, if it is there."""
        return figures.get(self.of) if isinstance(self.of, str) else self.of(figures)


_SESSION = (Figure("paused", "gauge", "1 while the session is paused.", "paused"),)
_STREAM = (
    Figure("stream_rows", "counter", "Rows that have come.", "rows"),
    Figure("stream_pages", "counter", "Pages that have come.", "pages"),
    Figure("stream_missing_time_rows", "counter", "Rows without a time that could be read.", "missing_time"),
    Figure(
        "stream_lag_seconds", "gauge", "By how much the heartbeat is behind the clock.", "lag_seconds", "seconds"
    ),
    Figure("stream_wait", "gauge", "By how much the heartbeat is behind the largest time seen.", "wait"),
)
_QUERY = (
    Figure("query_active", "gauge", "1 while the query has neither been stopped nor failed.", "active"),
    Figure("query_lag_seconds", "gauge", "By how much the heartbeat is behind.", "lag_seconds", "seconds"),
    Figure("query_late_rows", "counter", "Rows that came too late for some window.", "late_rows"),
    Figure("query_lost_pairs", "counter", "Pairs of a row and a window that were lost.", "lost_pairs"),
    Figure("query_lost_ratio", "gauge", "Their share of all pairs.", "lost_share", "ratio"),
    Figure("query_windows", "counter", "Windows that were closed.", "windows"),
    Figure("query_results", "counter", "Final rows that the sink got.", "results"),
    Figure("query_early_results", "counter", "Early rows that the sink got.", "early_results"),
    Figure("query_prods", "counter", "Prods that the query has sent itself.", "prods"),
    Figure("query_queued", "gauge", "Elements that wait on its arcs.", "queued"),
)
_OPERATOR = (
    Figure("operator_rows_in", "counter", "Rows that it took.", "rows_in"),
    Figure("operator_rows_out", "counter", "Rows that it gave.", "rows_out"),
    Figure("operator_runs", "counter", "How often it ran.", "runs"),
    Figure("operator_run_seconds", "counter", "How long it ran.", "run_seconds", "seconds"),
    Figure("operator_queued", "gauge", "Elements that wait before it.", "queued"),
    Figure("operator_queued_rows", "gauge", "Rows that wait before it.", "queued_rows"),
    Figure("operator_memory_bytes", "gauge", "Bytes that it holds or that wait before it.", memory, "bytes"),
)
#: What metrics are about, and the metrics of each.
FIGURES: dict[Subject, list[Figure]] = {
    "session": [*_SESSION],
    "stream": [*_STREAM],
    "query": [*_QUERY],
    "operator": [*_OPERATOR],
}
_OF_EARLY = (
    ("estimate", "query_accuracy_ratio", "Mean accuracy of early answers."),
    ("coverage", "query_coverage_ratio", "Share of the intervals that held."),
)


def families(watched: Watched) -> list[Family]:
    """All metrics of a session that have a value."""
    queries = {query.name: {**query.metrics(), "active": query.active} for query in watched.queries()}
    streams: dict[tuple[str, str], Mapping[str, Any]] = {}
    for figures in queries.values():
        for name, stream in figures.get("streams", {}).items():
            streams.setdefault((name, stream["disorder"]), stream)
    by_stream = [({"stream": n, "disorder": d}, of) for (n, d), of in streams.items()]
    by_query = [({"query": name}, of) for name, of in queries.items()]
    by_operator = [({"operator": label}, of) for label, of in watched.history.latest.operators.items()]
    return [f for f in _all([({}, {"paused": watched.paused})], by_stream, by_query, by_operator) if f.samples]


def _all(session: Labelled, streams: Labelled, queries: Labelled, operators: Labelled) -> list[Family]:
    found: list[Family] = []
    for among, labelled in zip(FIGURES.values(), (session, streams, queries, operators), strict=True):
        found += [_family(figure, labelled) for figure in among]
    return [*found, _lateness(streams), *_accuracy(queries)]


def _family(figure: Figure, labelled: Labelled) -> Family:
    values = [(labels, figure.value(of)) for labels, of in labelled]
    known = [(labels, float(v)) for labels, v in values if isinstance(v, (int, float))]
    return Family(figure.name, figure.kind, figure.help, known, figure.unit)


def _lateness(streams: Labelled) -> Family:
    samples = [
        ({**labels, "share": share}, float(v)) for labels, of in streams for share, v in of["lateness"].items()
    ]
    return Family("stream_lateness", "gauge", "Lateness that this share of the rows does not exceed.", samples)


def _accuracy(queries: Labelled) -> Iterable[Family]:
    told = [
        ({**labels, "aggregate": name}, figures)
        for labels, of in queries
        for name, figures in of.get("accuracy", {}).items()
    ]
    for key, name, help in _OF_EARLY:
        samples = [(labels, float(of[key])) for labels, of in told if isinstance(of.get(key), (int, float))]
        yield Family(name, "gauge", help, samples, "ratio")


def described() -> list[Family]:
    """Every metric that there may be, without samples."""
    return _all([], [], [], [])
