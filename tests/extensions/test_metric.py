"""A metric of one's own, at `/metrics` and for OpenTelemetry: the share of the rows that an operator keeps back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from slackwater.dashboard.families import FIGURES, Figure, described, families
from slackwater.dashboard.openmetrics import openmetrics
from tests.kit.watched import WatchedScript, rows, sliding


def kept_ratio(figures: Mapping[str, Any]) -> float | None:
    """The share of rows that came in and did not go out; None before the first row."""
    taken, given = figures.get("rows_in", 0), figures.get("rows_out", 0)
    return max(0.0, 1 - given / taken) if taken else None


KEPT = Figure("operator_kept_ratio", "gauge", "Share of the rows that it keeps back.", kept_ratio, "ratio")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    FIGURES["operator"].append(KEPT)
    yield
    FIGURES["operator"].remove(KEPT)


@pytest.fixture
def script() -> Iterator[WatchedScript]:
    made = WatchedScript({"delays": sliding(where="delay > 1", n="count(*)")})
    yield made
    made.stop()


def test_it_is_described_and_has_a_value_for_each_operator(script: WatchedScript) -> None:
    script.page(rows((1, "AA", 0.5), (2, "AA", 5.0), (3, "UA", 9.0)), at=4)
    (family,) = [family for family in families(script) if family.name == f"slackwater_{KEPT.name}"]
    values = {sample.labels["operator"]: sample.value for sample in family.samples}
    assert values["source:s"] == 0 and values["delays/window"] == 1, "the window has given nothing yet"
    assert f"slackwater_{KEPT.name}" in {family.name for family in described()}
    assert "slackwater_operator_kept_ratio{" in openmetrics(script)
