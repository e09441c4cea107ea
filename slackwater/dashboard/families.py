"""A session's figures for machines: metrics of Prometheus with samples and labels, whoever reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prometheus_client.metrics_core import Metric

from slackwater.dashboard.board import memory
from slackwater.dashboard.watched import Watched

Kind = Literal["counter", "gauge"]
Subject = Literal["session", "stream", "query", "operator", "lateness", "aggregate"]
#: Figures, each with its labels.
Labelled = Sequence[tuple[dict[str, str], Mapping[str, Any]]]
PREFIX = "slackwater_"


@dataclass(frozen=True)
class Figure:
    """How a metric is found among the figures of the session, a stream, a query or an operator."""

    name: str
    kind: Kind
    help: str
    figure: str | Callable[[Mapping[str, Any]], object]
    """The name of the figure, or a function of all figures."""
    unit: str = ""

    def value(self, figures: Mapping[str, Any]) -> object:
        """The figure, if it is there."""
        return figures.get(self.figure) if isinstance(self.figure, str) else self.figure(figures)


#: What metrics are about, and the metrics of each.
FIGURES: dict[Subject, list[Figure]] = {
    "session": [Figure("paused", "gauge", "1 while the session is paused.", "paused")],
    "stream": [
        Figure("stream_rows", "counter", "Rows that have come.", "rows"),
        Figure("stream_pages", "counter", "Pages that have come.", "pages"),
        Figure("stream_missing_time_rows", "counter", "Rows without a time that could be read.", "missing_time"),
        Figure("stream_far_ahead_rows", "counter", "Rows with a time too far ahead to believe.", "far_ahead"),
        Figure("stream_lag_seconds", "gauge", "From the heartbeat to the clock.", "lag_seconds", "seconds"),
        Figure("stream_wait", "gauge", "By how much the heartbeat is behind the largest time seen.", "wait"),
    ],
    "query": [
        Figure("query_active", "gauge", "1 while the query has neither been stopped nor failed.", "active"),
        Figure("query_lag_seconds", "gauge", "From the heartbeat to the clock.", "lag_seconds", "seconds"),
        Figure("query_late_rows", "counter", "Rows that came too late for some window.", "late_rows"),
        Figure("query_lost_pairs", "counter", "Pairs of a row and a window that were lost.", "lost_pairs"),
        Figure("query_lost_ratio", "gauge", "Their share of all pairs.", "lost_share", "ratio"),
        Figure("query_windows", "counter", "Windows that were closed.", "windows"),
        Figure("query_results", "counter", "Final rows that the sink got.", "results"),
        Figure("query_early_results", "counter", "Early rows that the sink got.", "early_results"),
        Figure("query_prods", "counter", "Prods that the query has sent itself.", "prods"),
        Figure("query_queued", "gauge", "Elements that wait on its arcs.", "queued"),
    ],
    "operator": [
        Figure("operator_rows_in", "counter", "Rows that it took.", "rows_in"),
        Figure("operator_rows_out", "counter", "Rows that it gave.", "rows_out"),
        Figure("operator_runs", "counter", "How often it ran.", "runs"),
        Figure("operator_run_seconds", "counter", "How long it ran.", "run_seconds", "seconds"),
        Figure("operator_idle_waiting_ratio", "gauge", "Share of time it waited for one stream.", "idle_waiting"),
        Figure("operator_queued", "gauge", "Elements that wait before it.", "queued"),
        Figure("operator_queued_rows", "gauge", "Rows that wait before it.", "queued_rows"),
        Figure("operator_memory_bytes", "gauge", "Bytes that it holds or that wait before it.", memory, "bytes"),
    ],
    "lateness": [
        Figure("stream_lateness", "gauge", "Lateness that this share of the rows does not exceed.", "lateness")
    ],
    "aggregate": [
        Figure("query_accuracy_ratio", "gauge", "Mean accuracy of early answers.", "estimate", "ratio"),
        Figure("query_coverage_ratio", "gauge", "Share of the intervals that held.", "coverage", "ratio"),
    ],
}


def families(watched: Watched) -> list[Metric]:
    """All metrics of a session that have a value."""
    queries = [({"query": query.name}, {**query.metrics(), "active": query.active}) for query in watched.queries()]
    streams = {
        (name, stream["disorder"]): ({"stream": name, "disorder": stream["disorder"]}, stream)
        for _, figures in queries
        for name, stream in figures.get("streams", {}).items()
    }
    by_subject: dict[Subject, Labelled] = {
        "session": [({}, {"paused": watched.paused})],
        "stream": list(streams.values()),
        "query": queries,
        "operator": [({"operator": label}, figures) for label, figures in watched.history.latest.operators.items()],
        "lateness": [
            ({**labels, "share": share}, {"lateness": value})
            for labels, stream in streams.values()
            for share, value in stream["lateness"].items()
        ],
        "aggregate": [
            ({**labels, "aggregate": name}, accuracy)
            for labels, figures in queries
            for name, accuracy in figures.get("accuracy", {}).items()
        ],
    }
    return [metric for metric in _metrics(by_subject) if metric.samples]


def described() -> list[Metric]:
    """Every metric that there may be, without samples."""
    return _metrics({})


def _metrics(by_subject: Mapping[Subject, Labelled]) -> list[Metric]:
    return [
        _metric(figure, by_subject.get(subject, ())) for subject, figures in FIGURES.items() for figure in figures
    ]


def _metric(figure: Figure, labelled: Labelled) -> Metric:
    metric = Metric(PREFIX + figure.name, figure.help, figure.kind, figure.unit)
    sample = metric.name + ("_total" if figure.kind == "counter" else "")
    for labels, figures in labelled:
        value = figure.value(figures)
        if isinstance(value, (int, float)):
            metric.add_sample(sample, labels, float(value))
    return metric
