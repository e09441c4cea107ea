"""The figures for OpenTelemetry: observable instruments, read when the program's exporter asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from slackwater.dashboard.families import PREFIX, described, families
from slackwater.dashboard.watched import Watched
from slackwater.errors import QueryError


def export_metrics(session: Watched, meter: Any = None) -> None:
    """Register a session's figures with OpenTelemetry, under the names that `/metrics` has.

    `meter` is the meter to use; without it that of the program's own provider.
    """
    try:
        from opentelemetry.metrics import Observation, get_meter
    except ImportError:
        raise QueryError("export_metrics() needs opentelemetry-api: pip install 'slackwater[otel]'") from None
    chosen = meter or get_meter("slackwater")
    kinds = {"counter": chosen.create_observable_counter, "gauge": chosen.create_observable_gauge}
    for metric in described():
        read = _reader(session, metric.name, Observation)
        name = f"slackwater.{metric.name.removeprefix(PREFIX)}"
        kinds[metric.type](name, callbacks=[read], unit=metric.unit, description=metric.documentation)


def _reader(session: Watched, name: str, observation: Any) -> Callable[[Any], Iterable[Any]]:
    def read(options: Any) -> Iterable[Any]:
        samples = [sample for metric in families(session) if metric.name == name for sample in metric.samples]
        return [observation(sample.value, sample.labels) for sample in samples]

    return read
