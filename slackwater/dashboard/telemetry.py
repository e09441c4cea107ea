"""The figures for OpenTelemetry: observable instruments, read when the program's exporter asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from slackwater.dashboard.families import described, families
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
    for family in described():
        read = _reader(session, family.name, Observation)
        kinds[family.kind](f"slackwater.{family.name}", callbacks=[read], unit=family.unit, description=family.help)


def _reader(session: Watched, name: str, observation: Any) -> Callable[[Any], Iterable[Any]]:
    def read(options: Any) -> Iterable[Any]:
        found = [family for family in families(session) if family.name == name]
        return [observation(value, labels) for family in found for labels, value in family.samples]

    return read
