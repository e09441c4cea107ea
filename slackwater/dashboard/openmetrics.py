"""The figures as OpenMetrics text, which Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

from slackwater.dashboard.families import Family, families
from slackwater.dashboard.watched import Watched

CONTENT_TYPE = CONTENT_TYPE_LATEST
_PREFIX = "slackwater_"


def openmetrics(watched: Watched) -> str:
    """All metrics of a session."""
    return exposed(families(watched))


def exposed(found: Sequence[Family]) -> str:
    """Metrics as text."""
    text: bytes = generate_latest(_Collected(found))  # type: ignore[no-untyped-call]
    return text.decode()


@dataclass(frozen=True)
class _Collected:
    """What `prometheus_client` asks for."""

    families: Sequence[Family]

    def collect(self) -> Iterator[Metric]:
        """Each family with its samples."""
        for family in self.families:
            metric = Metric(_PREFIX + family.name, family.help, family.kind, family.unit)
            sample = metric.name + ("_total" if family.kind == "counter" else "")
            for labels, value in family.samples:
                metric.add_sample(sample, labels, value)
            yield metric
