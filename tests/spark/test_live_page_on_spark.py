"""The live page of a real session: its figures, a prod, a pause, a stop, and its end with the session."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from pyspark.sql import SparkSession

import slackwater as sw

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def test_a_session_is_watched_prodded_paused_and_stopped_from_its_page(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    sent = [(NOON + timedelta(seconds=s), NOON + timedelta(seconds=s), "AA" if s % 2 else "UA") for s in range(100)]
    late = (NOON, NOON + timedelta(seconds=101), "AA")
    frame = spark.createDataFrame([*sent, late], "t timestamp, at timestamp, carrier string")
    caplog.set_level(logging.INFO, "slackwater")
    with sw.Session(spark=spark) as s, ThreadPoolExecutor(1) as apart:
        stream = s.stream(
            "calls", frame, time="t", arrival="at", page="50 seconds", disorder=sw.bounded("5 seconds")
        )
        window = stream.window("20 seconds").group_by("carrier")
        run = window.agg(n="count(*)").start(name="calls")
        page = s.serve()
        with httpx.Client(base_url=page.url, headers={"x-slackwater": "1"}, timeout=60) as client:
            assert client.get("/").text.startswith("<!doctype html>")
            assert client.post("/pause").status_code == 200 and s.paused
            replayed = apart.submit(s.run_available, False)
            assert not replayed.done()
            assert client.post("/resume").status_code == 200 and not s.paused
            replayed.result(120)
            told = client.get("/state").json()
            wanted = json.loads(json.dumps(run.metrics()))
            figures = told["queries"][0]["figures"]
            assert figures == {name: wanted[name] for name in figures} and "late_rows" in figures
            assert told["queries"][0]["status"] == "finished" and told["streams"][0]["rows"] == 101
            assert wanted["losses"] == [{"minute": "2024-05-01 12:00:00", "source": None, "rows": 1}]
            asked = client.post("/queries/calls/prod", json={"where": "carrier = 'AA'"})
            assert asked.status_code == 200
            early = [row for row in run.results().to_pylist() if row["kind"] == "early"]
            assert [(row["carrier"], row["n_seen"]) for row in early] == [("AA", 10)]
            shown = client.get("/state").json()["answers/calls"]
            cells = [dict(zip(shown["columns"], row, strict=True)) for row in shown["rows"]]
            given = [(row["kind"], row["carrier"], row["n"]) for row in run.results().to_pylist()]
            assert sorted((row["kind"], row["carrier"], row["n"]) for row in cells) == sorted(given)
            assert told["session"]["spark_ui"] == (spark.sparkContext.uiWebUrl or "")
            assert client.post("/queries/calls/prod", json={"where": "n > 1"}).status_code == 400
            assert client.post("/queries/calls/stop").status_code == 200 and run.status == "stopped"
    assert not page.active
    with pytest.raises(sw.RunError, match="has been stopped"):
        s.serve()
    names = [record.event for record in caplog.records if hasattr(record, "event")]
    assert names == [
        "query.started", "page.served", "session.paused", "session.resumed", "query.prodded", "query.stopped",
        "session.stopped",
    ]  # fmt: skip
