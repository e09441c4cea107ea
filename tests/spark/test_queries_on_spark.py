"""Queries on Spark: rows into sinks, expressions over aggregates, filters on results, shared work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.operators.payload import Staged
from slackwater.spark.backend import staging
from slackwater.spark.backend import work as work_module
from slackwater.spark.backend.layout import TaskLayout
from tests.kit.kept_rows import KeptRows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("whole_stages")]

ROWS = pl.DataFrame(
    {
        "t": [1, 2, 3, 12, 14, 25, 26, 41],
        "k": ["a", "b", "a", "a", "b", "b", "b", "a"],
        "v": [1.0, 2.0, 5.0, 4.0, 3.0, 8.0, 2.0, 1.0],
        "w": [1, 1, 2, 2, 1, 4, 1, 1],
    }
)


def replayed(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS.to_arrow()).selectExpr("*", "timestamp_seconds(t) AS at")


def stream(s: sw.Session, **more: Any) -> sw.Stream:
    df = replayed(s.spark)
    return s.stream("rows", df, time="t", arrival="at", page="10 seconds", disorder=sw.bounded(5), **more)


def table(run: sw.Run, *by: str) -> pl.DataFrame:
    return pl.DataFrame(run.results()).sort(*by)


def test_rows_go_straight_into_every_kind_of_sink(spark: SparkSession, tmp_path: Path) -> None:
    taken: list[pa.Table] = []
    with sw.Session(spark) as s:
        dear = stream(s).where("v > 2").select("k", twice="v * 2")
        memory = dear.start()
        dear.select("k").start(sink=tmp_path / "out")
        dear.where("k = 'a'").start(sink=lambda rows, commit: taken.append(rows.toArrow()))
        s.run_available()
        assert table(memory, "k", "twice").rows() == [
            *(("a", 8.0), ("a", 10.0)),
            *(("b", 6.0), ("b", 16.0)),
        ]
        assert memory.results().schema.names == ["k", "twice"]
    assert pl.read_parquet(tmp_path / "out" / "*.parquet")["k"].sort().to_list() == ["a", "a", "b", "b"]
    assert sum(rows.num_rows for rows in taken) == 2


def test_a_map_may_end_a_query(spark: SparkSession) -> None:
    def double(rows: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"d": [2 * v for v in rows["v"].to_pylist()]})

    with sw.Session(spark) as s:
        run = stream(s).where("k = 'b'").map(double, "d DOUBLE").start()
        s.run_available()
        assert sorted(run.results()["d"].to_pylist()) == [4.0, 4.0, 6.0, 16.0]


def test_expressions_over_aggregates_and_filters_on_results(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        rates = (
            stream(s).window(10).group_by("k").agg(n="count(*)", rate="sum(v) / sum(w)", share="round(avg(v), 1)")
        )
        plain = rates.start()
        some = rates.where("rate > 2 AND n >= 1").select("k", tenfold="rate * 10").start()
        above = rates.window(20).agg(most="max(rate)").start()
        s.run_available()
        wanted = (
            ROWS.group_by("k", window_start=pl.col("t") // 10 * 10)
            .agg(n=pl.len(), rate=pl.col("v").sum() / pl.col("w").sum(), share=pl.col("v").mean().round(1))
            .sort("window_start", "k")
        )
        got = table(plain, "window_start", "k")
        assert got.select("k", "window_start", "n", "rate", "share").equals(
            wanted.with_columns(pl.col("n").cast(pl.Int64))
        )
        assert not [name for name in plain.results().schema.names if name.startswith("__")]
        high = wanted.filter(pl.col("rate") > 2)
        assert table(some, "window_start", "k").select("k", "window_start", "tenfold").rows() == [
            (k, start, rate * 10) for k, start, _, rate, _ in high.rows()
        ]
        tops = (
            wanted.group_by(pl.col("window_start") // 20 * 20).agg(most=pl.col("rate").max()).sort("window_start")
        )
        assert table(above, "window_start").select("window_start", "most").rows() == tops.rows()


def test_early_results_keep_what_they_say_through_a_projection(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        query = stream(s).window(10).agg(n="count(*)", rate="sum(v) / count(*)")
        kept = KeptRows()
        query.select("rate", rows="n").start(kept, early=sw.early(at=0.5))
        s.run_available()
        rows = pl.DataFrame(kept.results())
        early = rows.filter(pl.col("kind") == "early")
        assert early.height > 0
        columns = ["rate", "rows", "window_start", "window_end", "kind", "emitted_at", "completeness"]
        assert rows.columns == [
            *columns,
            *(f"{c}_{what}" for c in ("rate", "rows") for what in ("seen", "low", "high")),
        ]
        assert early["rate_seen"].null_count() == 0 and early["rows_seen"].null_count() == 0


def test_many_queries_over_one_stream_are_one_read_and_one_job_a_page(spark: SparkSession, tmp_path: Path) -> None:
    source, names = tmp_path / "in", ["k", "w", "v", "k, w", "t"]
    source.mkdir()
    for n in range(3):
        ROWS.with_columns(pl.col("t") + 50 * n).write_parquet(source / f"{n}.parquet")
    df = spark.readStream.schema("t BIGINT, k STRING, v DOUBLE, w BIGINT").option("maxFilesPerTrigger", 1)
    with sw.Session(spark) as s:
        rows = s.stream("rows", df.parquet(str(source)), time="t", disorder=sw.bounded(500))
        runs = [
            rows.window(length, slide=10)
            .group_by(*by.split(", "))
            .agg(n="count(*)", total=f"sum(v + {place})")
            .start(name=f"q{place}{length}", hold=True)
            for place, by in enumerate(names)
            for length in (10, 30)
        ]
        s.run_available()
        for run in runs:
            assert sum(run.results()["n"].to_pylist()) == 3 * len(ROWS) * (1 if run.name.endswith("10") else 3)
        metrics = runs[0].metrics()
        assert (metrics["pages"], metrics["spark_jobs"]) == (3, 3)
        assert len(metrics["operators"]["source:rows"]["queries"]) == 10


@pytest.mark.parametrize("strategy", [sw.fifo(), sw.papers.round_robin(), sw.chain(max_wait="10 seconds")])
def test_the_strategy_changes_no_result(spark: SparkSession, strategy: Any) -> None:
    with sw.Session(spark, strategy=strategy) as s:
        rows = stream(s).where("v > 1")
        runs = [rows.window(10, slide=5).group_by("k").agg(n="count(*)").start(), rows.select("k").start()]
        s.run_available()
        assert sum(runs[0].results()["n"].to_pylist()) == 12 and runs[1].results().num_rows == 6


def test_metrics_and_explain_show_the_heartbeat_of_each_operator(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        run = stream(s).where("v > 0").window(10).group_by("k").agg(n="count(*)").start(name="q")
        s.run_available(drain=False)
        operators = run.metrics()["operators"]
        assert [operators[label]["heartbeat"] for label in ("source:rows", "q/where0", "q/window", "q/sink")] == [
            *("35", "35", "29", "29"),
        ]
        text = run.explain()
        assert "window range 10 slide 10 group by k" in text and "heartbeat 29, inputs at 35" in text


def test_queries_that_share_parts_go_on_from_a_journal_in_any_order(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()

    def start(s: sw.Session, names: list[str]) -> dict[str, sw.Run]:
        df = spark.readStream.schema("t BIGINT, k STRING, v DOUBLE, w BIGINT").parquet(str(source))
        rows = s.stream("rows", df, time="t", disorder=sw.bounded(5)).where("v > 1")
        ranges = {"one": 10, "two": 20}
        return {
            name: rows.window(ranges[name], slide=10).agg(n="count(*)").start(tmp_path / name, name=name, hold=True)
            for name in names
        }

    for n, names in enumerate((["one", "two"], ["two", "one"], ["one", "two"])):
        ROWS.with_columns(pl.col("t") + 50 * n).write_parquet(source / f"{n}.parquet")
        with sw.Session(spark, journal=tmp_path / "journal") as s:
            start(s, names)
            s.run_available(drain=n == 2)
    for name, times in (("one", 1), ("two", 2)):
        results = pl.read_parquet(tmp_path / name / "*.parquet")
        assert results["n"].sum() == 3 * 6 * times
        assert results["window_start"].is_unique().all()


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda q: q.select(n="count(*)"), r"select n='count\(\*\)': an aggregate needs a window"),
        (lambda q: q.select(n="row_number() OVER (ORDER BY v)"), "OVER .* takes aggregates.*rolling"),
        (lambda q: q.select(n="1 + explode(array(1, 2))"), "one row to many stands by itself in a projection"),
        (lambda q: q.explode("nothing"), "give the element a name, as in explode.'nothing', 'item'."),
        (lambda q: q.window(10).group_by(k2="sum(v)"), "a group is made of one row"),
        (
            lambda q: q.window(10).group_by("k").agg(r="sum(v) / w"),
            "'w' is a column of single rows",
        ),
        (lambda q: q.where(5), "write Spark SQL as text"),
        (lambda q: q.window(10).agg(n=5), r"agg\(n=5\).*write Spark SQL as text"),
        (lambda q: q.window(10).agg(F.count("*")), "give it a name"),
        (lambda q: q.where(F.udf(bool, "boolean", useArrow=False)("v")), "a function has no text; register it"),
        (lambda q: q.select(F.col("v").desc()), "are not sorted"),
        (lambda q: q.select(F.sum("v").over(Window.partitionBy("k"))), "write ORDER BY t"),
        (lambda q: q.rolling(range=5).join(q.rolling(range=5), on=[F.col("k"), "k"]), "write column names, or a"),
        (lambda q: q.start(name=""), "a query's name is a text that is not empty"),
        (lambda q: q.start(late="somewhere"), "no row is too late for a query without windows"),
        (lambda q: sw.Session(q.session.spark, strategy=sw.fifo), r"write strategy= with sw\.fifo\(\)"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_is_written(spark: SparkSession, write: Any, words: str) -> None:
    with sw.Session(spark) as s, pytest.raises(sw.QueryError, match=words):
        write(stream(s))


def test_results_can_be_asked_for_their_kind_and_names_may_be_words_of_sql(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        query = stream(s).window(10).group_by("k").agg(case="count(*)", twice="count(*) * 2")
        finals = query.where("kind = 'final' AND completeness = 1").start(early=sw.early(at=0.5))
        s.run_available()
        rows = pl.DataFrame(finals.results())
        assert set(rows["kind"]) == {"final"} and (rows["twice"] == 2 * rows["case"]).all()


def test_a_stopped_query_gets_nothing_more_and_keeps_its_figures(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        rows = stream(s)
        first = rows.where("v > 1").start()
        first.stop()
        second = rows.where("v > 1").start()
        s.run_available()
        assert (first.results().num_rows, second.results().num_rows) == (0, 6)
        assert set(first.metrics()) == set(second.metrics()) and "q1/sink" in first.explain()


def test_large_early_results_behind_a_projection_keep_their_columns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskLayout, "SMALL", 1_000)  # so that fewer rows count as many
    staged = list[Staged]()

    def stage(*args: Any) -> Staged:
        staged.append(staging.stage(*args))
        return staged[-1]

    monkeypatch.setattr(work_module, "stage", stage)
    with sw.Session(spark) as s:
        many = spark.range(2 * 1_010).selectExpr("id % 1010 AS k", "id DIV 1010 * 10 + 1 AS t")
        many = many.selectExpr("*", "timestamp_seconds(t) AS at")
        rows = s.stream("many", many, time="t", arrival="at", page="10 seconds", disorder=sw.bounded(5))
        query = rows.window(20).group_by("k").agg(n="count(*)").select("k", "n")
        folder, memory = tmp_path / "out", query.start()
        query.where("k >= 0").start(sink=folder)
        seen = []

        def ask(page: object) -> None:
            for run in (memory, s.queries()[1]):
                run.prod()
            seen.append(memory.results())

        s.run_available(progress=ask)
        early = pl.DataFrame(seen[-1]).filter(pl.col("kind") == "early")
        assert staged, "many rows go to the sink as files"
        assert early.height >= 1_010 and early["n_seen"].null_count() == 0
        files = [pl.read_parquet(f).columns for f in folder.glob("*.parquet")]
        assert len(files) > 1 and all(columns == files[0] and "n_seen" in columns for columns in files)
