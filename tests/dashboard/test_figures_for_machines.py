"""OpenMetrics, OpenTelemetry, the log of events and the page of figures tell what `metrics()` tells."""

from __future__ import annotations

import json
import logging
import runpy
import sys
from pathlib import Path
from typing import Any, get_type_hints

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from slackwater.dashboard import families as all_families
from slackwater.dashboard.board import Board
from slackwater.dashboard.families import families
from slackwater.dashboard.openmetrics import exposed, openmetrics
from slackwater.dashboard.telemetry import export_metrics
from slackwater.errors import QueryError
from slackwater.events import JsonLines, event, log_json
from slackwater.plan.node import PlanNode
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.learned.learned import learned
from slackwater.progress.time import TimeDomain
from slackwater.spark.api.metric_types import (
    AccuracyMetrics,
    ChoiceMetrics,
    Loss,
    Metrics,
    OperatorMetrics,
    StreamMetrics,
)
from slackwater.testing import arrow_plan
from tests.kit.watched import SAMPLE, WatchedScript, rows, sliding

DOCS = Path(__file__).parents[2] / "docs"


def work(script: WatchedScript) -> None:
    """Windows close, early answers become final, and a row is lost."""
    for second in range(5, 60, 2):
        script.page(rows((second, "AA", 1.0), (second - 1, "UA", 2.0)), at=second)
        script.query("delays").prod()
    script.page(rows((1, "AA", 1.0)), at=61)


def scraped(client: httpx.Client) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    found = text_string_to_metric_families(answer.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in found for s in family.samples}


def test_prometheus_reads_what_metrics_tell(client: httpx.Client, script: WatchedScript) -> None:
    work(script)
    found = scraped(client)
    for query in script.queries():
        figures = query.metrics()
        mine = frozenset({("query", query.name)})
        for name in ("late_rows", "lost_pairs", "windows", "results", "early_results"):
            assert found[f"slackwater_query_{name}_total", mine] == figures[name]
        assert found["slackwater_query_lag_seconds", mine] == figures["lag_seconds"]
        for label, of in figures["operators"].items():
            its = frozenset({("operator", label)})
            assert found["slackwater_operator_runs_total", its] == of["runs"]
            assert found["slackwater_operator_memory_bytes", its] == of["state_bytes"] + of["queued_bytes"]
    accuracy = script.query("delays").metrics()["accuracy"]["n"]["estimate"]
    assert (
        found["slackwater_query_accuracy_ratio", frozenset({("query", "delays"), ("aggregate", "n")})] == accuracy
    )
    assert found["slackwater_query_late_rows_total", frozenset({("query", "delays")})] == 1


@given(st.text(max_size=20), st.floats(), st.sampled_from(["counter", "gauge"]))
def test_any_name_and_any_number_can_be_read_again(label: str, value: float, kind: Any) -> None:
    if kind == "counter" and not 0 <= value < float("inf"):
        return
    metric = Metric("x", "Help.", kind)
    metric.add_sample("x_total" if kind == "counter" else "x", {"query": label}, value)
    text = exposed([metric])
    if "\r" in label or any(c in label for c in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):
        return  # the reader takes these for ends of lines; the format does not
    (family,) = text_string_to_metric_families(text)
    (sample,) = family.samples
    assert sample.labels == {"query": label} and (sample.value == value or value != value)


def test_every_metric_is_described_beforehand(script: WatchedScript) -> None:
    work(script)
    known = {(f.name, f.type, f.documentation, f.unit) for f in all_families.described()}
    assert {(f.name, f.type, f.documentation, f.unit) for f in families(script)} <= known
    assert all(f.name.endswith(f.unit) for f in all_families.described()), (
        "OpenMetrics wants the unit at the end of the name"
    )


def test_opentelemetry_gets_the_same_figures(script: WatchedScript) -> None:
    work(script)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    export_metrics(script, provider.get_meter("test"))
    (resource,) = reader.get_metrics_data().resource_metrics  # type: ignore[union-attr]
    found = {
        (metric.name, frozenset((point.attributes or {}).items())): point.value  # type: ignore[union-attr]
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }
    wanted = {
        (f.name.replace("_", ".", 1), frozenset(sample.labels.items())): sample.value
        for f in families(script)
        for sample in f.samples
    }
    assert found == wanted
    provider.shutdown()


def test_without_opentelemetry_the_error_says_what_to_install(
    script: WatchedScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(QueryError, match=r"pip install 'slackwater\[otel\]'"):
        export_metrics(script)


def test_events_warnings_and_errors_are_lines_of_json(tmp_path: Path) -> None:
    handler = log_json(tmp_path / "events.jsonl")
    logger = logging.getLogger("slackwater")
    try:
        event("query.prodded", query="q\n1", until=None, where="carrier = 'ü'")
        logging.getLogger("slackwater.spark.somewhere").warning("careful: %d", 5)
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("slackwater.x").exception("failed")
    finally:
        logger.removeHandler(handler)
        handler.close()
        logger.setLevel(logging.NOTSET)
    lines = (tmp_path / "events.jsonl").read_text("utf-8").splitlines()
    first, second, third = (json.loads(line) for line in lines)
    assert first.pop("at")
    assert first == {
        "level": "INFO", "event": "query.prodded", "query": "q\n1", "until": None, "where": "carrier = 'ü'"
    }  # fmt: skip
    assert (second["event"], second["level"], second["message"]) == ("log", "WARNING", "careful: 5")
    assert second["logger"] == "slackwater.spark.somewhere"
    assert "ValueError: no" in third["error"]


def test_an_event_may_hold_anything() -> None:
    record = logging.makeLogRecord({"event": "x", "fields": {"what": object, "nan": {1, 2}}})
    assert json.loads(JsonLines().format(record))["event"] == "x"


def test_the_page_of_figures_is_made_of_their_types() -> None:
    tables = runpy.run_path(str(DOCS / "metrics_tables.py"))
    text = (DOCS / "metrics.md").read_text()
    assert tables["page"](text) == text, "run python docs/metrics_tables.py"
    assert "|  |" not in tables["tables"](), "each figure has its words"


def test_every_figure_of_a_query_is_described_and_of_its_type(script: WatchedScript) -> None:
    work(script)
    for query in script.queries():
        figures = query.metrics()
        described(figures, Metrics)
        for stream in figures["streams"].values():
            described(stream, StreamMetrics)
        for operator in figures["operators"].values():
            described(operator, OperatorMetrics)
        for choice in figures["choices"]:
            described(choice, ChoiceMetrics)
        for loss in figures["losses"]:
            described(loss, Loss)
        for accuracy in figures.get("accuracy", {}).values():
            described(accuracy, AccuracyMetrics)
    assert figures["losses"] and figures["choices"] and figures["strategy"] == "fifo"


def other_plans() -> dict[str, PlanNode]:
    kinds = {"range": "30 seconds", "group_by": ["carrier"], "domain": TimeDomain.TIMESTAMP, "n": "count(*)"}
    inner = sliding()
    return {
        "a window for each row": arrow_plan(SAMPLE, **kinds, disorder=bounded("5 seconds")),
        "by source": arrow_plan(SAMPLE, **kinds, disorder=bounded("5 seconds"), source="carrier"),
        "without windows": sliding(None, None, where="delay > 0", select={"t": "t", "carrier": "carrier"}),
        "over aggregates": arrow_plan(
            SAMPLE, over=inner, range="1 minute", slide="1 minute", domain=TimeDomain.TIMESTAMP, most="max(late)"
        ),
        "punctuated": sliding(disorder=punctuated("t"), source="carrier", n="count(*)"),
        "learned": sliding(disorder=learned(window="20 seconds"), source="carrier", n="count(*)"),
    }


@pytest.mark.parametrize("kind", other_plans())
def test_figures_of_every_kind_of_query_are_described_and_can_be_shown(kind: str) -> None:
    script = WatchedScript({"delays": other_plans()[kind]})
    try:
        for second in (5, 20, 40, 3, 90):
            script.page(rows((second, "AA", 1.0), (second - 1, "UA", 2.0)), at=second)
        figures = script.query("delays").metrics()
        described(figures, Metrics)
        assert json.loads(Board(script).sections()["queries"])[0]["figures"]["rows"] == figures["rows"] == 10
        assert list(text_string_to_metric_families(openmetrics(script)))
    finally:
        script.stop()


def described(figures: dict[str, Any], by: Any) -> None:
    hints = get_type_hints(by)
    assert set(figures) <= set(hints), set(figures) - set(hints)
    for name, value in figures.items():
        plain = {int: (int,), float: (int, float), str: (str,), bool: (bool,)}.get(hints[name])
        assert plain is None or isinstance(value, plain), (name, value)
