"""Levels of heartbeats on Spark: answers are the same, replayed and live, and labels are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.progress.disorder import Disorder
from slackwater.testing import Script
from tests.kit.streams import frame
from tests.kit.streams_of_samples import plan
from tests.spark.test_both_page_kinds import comparable
from tests.spark.test_union_on_spark import QUERIES, SPARK, fluent, played, replayed, scattered, write

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "level",
    [sw.papers.query_level(), pytest.param(sw.memory_aware(), marks=pytest.mark.long)],
    ids=lambda level: level.name,
)
def test_replays_give_the_answers_of_the_operator_level(spark: SparkSession, level: Any) -> None:
    """When they come is another matter. Nothing is late here: that may depend on when a window was closed."""
    policies: dict[str, Disorder] = {"a": sw.bounded(36), "b": sw.bounded(36)}
    asked, pages = ("filtered", "for each row", "over results"), scattered(3)
    with sw.Session(spark, heartbeat_scope=level) as session:
        streams = replayed(session, spark, pages, policies)
        runs = {name: fluent(QUERIES[name], streams).start() for name in asked}
        session.run_available()
        answers = {name: run.results().drop_columns("emitted_at").to_pylist() for name, run in runs.items()}
    for name in asked:
        wanted = played(Script(plan(QUERIES[name], policies)), pages).results
        told = [{column: row[column] for column in row if column != "emitted_at"} for row in wanted]
        assert comparable(answers[name]) == comparable(told) and told, name


def test_live_pages_wait_at_the_query_level_without_keeping_the_next_batch_from_coming(
    spark: SparkSession, tmp_path: Path
) -> None:
    results: list[dict[str, Any]] = []

    def keep(df: DataFrame, commit_id: int) -> None:
        results.extend(df.toArrow().to_pylist())

    with sw.Session(spark, heartbeat_scope=sw.papers.query_level()) as session:
        streams = {}
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            df = spark.readStream.schema(SPARK).parquet(str(tmp_path / name))
            streams[name] = session.stream(name, df, time="t", disorder=sw.bounded(0))
        both = streams["a"].where("h > 0").union(streams["b"])
        run = both.window(10).agg(n="count(*)").start(sink=keep, name="both", hold=True)
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


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"heartbeat_scope": sw.memory_aware()}, id="heartbeat_scope"),
        pytest.param({"strategy": sw.chain()}, id="charts", marks=pytest.mark.long),
    ],
)
def test_what_a_join_gives_is_counted_for_those_who_go_by_it(spark: SparkSession, settings: dict[str, Any]) -> None:
    """A row finds seven partners. Behind the join rows wait for time, so what multiplies them waits instead."""
    rows = [(n, n % 2) for n in range(24)]
    with sw.Session(spark, **settings) as session:
        streams = []
        for name, columns in (("a", "t INT, k INT"), ("b", "u INT, k INT"), ("c", "v INT, k INT")):
            df = spark.createDataFrame(rows, columns).selectExpr("*", f"timestamp_seconds({columns[0]}) AS at")
            stream = session.stream(
                name, df, time=columns[0], arrival="at", page="8 seconds", disorder=sw.bounded(0)
            )
            streams.append(stream.select(columns[0], "k"))
        a, b, c = streams
        pairs = a.rolling(range=8).join(b.rolling(range=8), on="k").where("t <= u")
        run = pairs.rolling(range=4).join(c.rolling(rows=2), on="k").start(name="q")
        session.run_available()
        figures = run.metrics()["operators"]
    (label,) = [label for label, f in figures.items() if "range 8" in f["about"]]
    given = sum(1 for t, _ in rows for u, _ in rows if (t - u) % 2 == 0 and abs(t - u) < 8)
    # A mean over the last runs, each with what the page before it gave.
    assert abs(figures[label]["selectivity"] - given / 48) < 1
    assert figures[label]["growth"] > 0, "its pages have a size, too"
    if "heartbeat_scope" in settings:
        assert len(figures[label]["label"]) == 3, "the first join goes by all three streams"


def test_what_is_no_level_is_refused(spark: SparkSession) -> None:
    for wrong in ("query", sw.papers.query_level):
        with pytest.raises(QueryError, match=r"heartbeat_scope=.*sw\.operator_level\(\) or sw\.memory_aware\(\)"):
            sw.Session(spark, heartbeat_scope=wrong)  # type: ignore[arg-type]
