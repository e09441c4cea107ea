"""Levels of heartbeats on Spark: answers are the same, replayed and live, and labels are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.errors import QueryError
from tests.kit.streams import frame
from tests.spark.test_both_page_kinds import comparable
from tests.spark.test_union_on_spark import QUERIES, SPARK, fluent, replayed, scattered, write

pytestmark = pytest.mark.spark

LEVELS = {"operator": sw.operator_level(), "query": sw.query_level(), "memory": sw.memory_aware()}


def test_replays_give_the_same_answers_at_each_level(spark: SparkSession) -> None:
    """When they come is another matter. Nothing is late here: that may depend on when a window was closed."""
    answers, policies = dict[str, Any](), {"a": sw.bounded(36), "b": sw.bounded(36)}
    for name, level in LEVELS.items():
        with sw.Session(spark, heartbeats=level) as session:
            streams = replayed(session, spark, scattered(3), policies)
            asked = ("filtered", "for each row", "over results")
            runs = [fluent(QUERIES[query], streams).start() for query in asked]
            session.run_available()
            answers[name] = [comparable(run.results().drop_columns("emitted_at").to_pylist()) for run in runs]
    assert answers["query"] == answers["memory"] == answers["operator"]
    assert all(answers["query"])


def test_live_pages_wait_at_the_query_level_without_keeping_the_next_batch_from_coming(
    spark: SparkSession, tmp_path: Path
) -> None:
    results: list[dict[str, Any]] = []

    def keep(df: DataFrame, commit_id: int) -> None:
        results.extend(df.toArrow().to_pylist())

    with sw.Session(spark, heartbeats=sw.query_level()) as session:
        streams = {}
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            df = spark.readStream.schema(SPARK).parquet(str(tmp_path / name))
            streams[name] = session.stream(name, df, time="t", disorder=sw.bounded(0))
        both = streams["a"].where("h > 0").union(streams["b"])
        run = both.window(range=10, slide=10).agg(n="count(*)").start(sink=keep, name="both", hold=True)
        for number, tick in enumerate((1, 15, 40)):
            write(tmp_path / "a", number, frame([[tick, "x", 1, 0.0, 2]]))
            session.run_available(drain=False)
        held = {label: f["held"] for label, f in run.metrics()["operators"].items() if f["held"]}
        assert held == {"both/where0": 3} and results == []
        explained = run.explain()
        assert "query level: goes by source:a, source:b" in explained and "3 pages held back" in explained
        for number, tick in enumerate((20, 41)):
            write(tmp_path / "b", number, frame([[tick, "x", 1, 0.0, 2]]))
            session.run_available(drain=False)
        assert [(r["window_start"], r["n"]) for r in results] == [(0, 1), (10, 1), (20, 1)]
        assert run.metrics()["operators"]["both/where0"]["held"] == 1, "that of 40, for which a must go on"
        session.run_available()
        assert [(r["window_start"], r["n"]) for r in results][3:] == [(40, 2)]


def test_what_a_join_gives_is_counted_where_pages_wait_by_it(spark: SparkSession) -> None:
    """A row finds seven partners. Behind the join rows wait for time, so what multiplies them waits instead."""
    rows = [(n, n % 2) for n in range(24)]
    with sw.Session(spark, heartbeats=sw.memory_aware()) as session:
        streams = []
        for name, columns in (("a", "t INT, k INT"), ("b", "u INT, k INT"), ("c", "v INT, k INT")):
            df = spark.createDataFrame(rows, columns).selectExpr("*", f"timestamp_seconds({columns[0]}) AS at")
            stream = session.stream(
                name, df, time=columns[0], arrival="at", page="8 seconds", disorder=sw.bounded(0)
            )
            streams.append(stream.select(columns[0], "k"))
        a, b, c = streams
        pairs = a.window(range=8).join(b.window(range=8), on="k").where("t <= u")
        run = pairs.window(range=4).join(c.window(rows=2), on="k").start(name="q")
        session.run_available()
        figures = run.metrics()["operators"]
    (label,) = [label for label, f in figures.items() if "range 8" in f["about"]]
    given = sum(1 for t, _ in rows for u, _ in rows if (t - u) % 2 == 0 and abs(t - u) < 8)
    # A mean over the last runs, each with what the page before it gave.
    assert abs(figures[label]["selectivity"] - given / 48) < 1
    assert len(figures[label]["label"]) == 3, "the first join goes by all three streams"


def test_what_is_no_level_is_refused(spark: SparkSession) -> None:
    for wrong in ("query", sw.query_level):
        with pytest.raises(QueryError, match=r"heartbeats=.*sw\.query_level\(\) or sw\.memory_aware\(\)"):
            sw.Session(spark, heartbeats=wrong)  # type: ignore[arg-type]
