"""The figures as OpenMetrics text, which Prometheus reads."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

from slackwater.dashboard.families import families
from slackwater.dashboard.watched import Watched

CONTENT_TYPE = CONTENT_TYPE_LATEST


def openmetrics(watched: Watched) -> str:
    """All metrics of a session."""
    return exposed(families(watched))


def exposed(metrics: Sequence[Metric]) -> str:
    """Metrics as text."""
    text: bytes = generate_latest(SimpleNamespace(collect=lambda: metrics))  # type: ignore[no-untyped-call]
    return text.decode()
