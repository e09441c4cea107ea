"""Unions on Spark: the answers of in-process pages, live streams, restarts, figures, refusals."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.progress.disorder import Disorder
from slackwater.testing import ListSink, Script
from tests.kit.kept_rows import KeptRows
from tests.kit.streams import SCHEMA, frame
from tests.kit.streams_of_samples import A, B, plan, union, where, windows
from tests.kit.windows import window_of
from tests.spark.test_both_page_kinds import PAGE, comparable

pytestmark = pytest.mark.spark

SPARK = "t BIGINT, g STRING, h BIGINT, x DOUBLE, i BIGINT, s STRING"
Pages = list[tuple[str, pl.DataFrame]]


def scattered(seed: int) -> Pages:
    """Disordered pages of two streams: null times and groups, rows behind the bound, one stream far behind."""
    source, pages = random.Random(seed), list[tuple[str, pl.DataFrame]]()
    for p in range(9):
        name, rows = source.choice("aab"), []
        for _ in range(source.randrange(0, 12)):
            time = None if source.random() < 0.05 else p * 8 - (10 if name == "b" else 0) + source.randrange(-8, 9)
            time = time - 20 if time is not None and source.random() < 0.1 else time
            rows.append(
                [time, source.choice(["x", "y", None]), source.randrange(3), 0.25, source.randrange(9), "p"]
            )
        pages.append((name, frame(rows)))
    return pages


QUERIES: dict[str, L.Logical] = {
    "windows": windows(union(A, B), 9, 3, "g"),
    "filtered": windows(union(where(A, "h > 0"), where(B, "h < 2")), 8, 4, "g"),
    "halves": windows(union(where(A, "h > 0"), where(A, "h <= 0"), B), 10, 5),
    "for each row": windows(union(A, B), 9, None, "g", n="count(*)"),
    "rows": where(union(A, B), "h > 0"),
    "in order": windows(L.Union((A, B), ordered=True), 9, 3, "g"),
    "last rows in order": L.Aggregate(
        (L.Union((A, B), ordered=True),), L.Window(rows=4), (("g", "g"),), (("n", "sum(i)"),)
    ),
    "rows in order": where(L.Union((A, B), ordered=True), "h > 0"),
    "results": union(windows(A, 8, 4, "g"), windows(B, 6, 6, "g")),
    "over results": windows(
        union(windows(A, 8, 4, "g"), windows(B, 8, 4, "g")), 4, 4, most="max(n)", groups="count(*)"
    ),
}
POLICIES: dict[str, Disorder] = {"a": sw.bounded(5), "b": sw.bounded(2)}


def fluent(query: L.Logical, streams: dict[str, Any]) -> Any:
    """The same query, written by a user."""
    if isinstance(query, L.Scan):
        return streams[query.stream]
    first, *rest = (fluent(below, streams) for below in query.inputs)
    if isinstance(query, L.Union):
        return first.union(*rest, ordered=query.ordered)
    if isinstance(query, L.Where):
        return first.where(query.condition)
    assert isinstance(query, L.Aggregate)
    window = first.rolling(rows=query.window.rows) if query.window.rows else None
    window = window or window_of(first, query.window.range, query.window.slide)
    return window.group_by(**dict(query.groups)).agg(**dict(query.aggregates))


def replayed(
    session: sw.Session, spark: SparkSession, pages: Pages, policies: dict[str, Disorder] = POLICIES
) -> dict[str, Any]:
    """Both streams, page n arriving in its own ten seconds."""
    made = {}
    for name in ("a", "b"):
        mine = [
            rows.with_columns(at=pl.lit(n * PAGE).cast(pl.Datetime("us", "UTC")))
            for n, (of, rows) in enumerate(pages)
            if of == name
        ]
        empty = pl.DataFrame(schema={**SCHEMA, "at": pl.Datetime("us", "UTC")})
        df = spark.createDataFrame(pl.concat([empty, *mine]).to_arrow())
        stream = session.stream(name, df, time="t", arrival="at", disorder=policies[name])
        made[name] = stream.select(*SCHEMA)
    return made


def played(script: Script, pages: Pages) -> Script:
    """The same in process."""
    for n, (stream, rows) in enumerate(pages):
        if rows.height:
            script.until((n + 1) * PAGE).page(rows, stream=stream)
    script.drain()
    return script


@pytest.mark.parametrize("name", QUERIES)
def test_both_page_kinds_agree(spark: SparkSession, name: str) -> None:
    pages, late, spark_late = scattered(8), ListSink(), list[dict[str, Any]]()
    routed = name in ("windows", "filtered", "halves", "for each row")
    script = played(Script(plan(QUERIES[name], POLICIES), late=late if routed else None), pages)

    def keep(df: DataFrame, commit_id: int) -> None:
        spark_late.extend(df.toArrow().to_pylist())

    with sw.Session(spark) as session:
        run = fluent(QUERIES[name], replayed(session, spark, pages)).start(late=keep if routed else None)
        session.run_available()
        got, figures = run.results().to_pylist(), run.metrics()
    assert comparable(got) == comparable(script.results) and got
    assert comparable(spark_late) == comparable(late.rows)
    ours = script.metrics()
    for stream in ("a", "b"):
        wanted = {k: ours[f"source:{stream}"][k] for k in ("pages", "rows", "missing_time")}
        assert {k: figures["streams"][stream][k] for k in wanted} == wanted
    assert figures["rows"] == sum(rows.height for _, rows in pages)
    if routed:
        assert figures["late_rows"] == ours["q/window"]["late_rows"] > 0


def test_metrics_and_explain_show_every_stream(spark: SparkSession) -> None:
    with sw.Session(spark) as session:
        policies = {"a": sw.bounded(5), "b": sw.papers.disorder_control("20%")}
        streams = replayed(session, spark, [("a", frame([[30], [5]])), ("b", frame([[12]]))], policies)
        run = fluent(QUERIES["windows"], streams).start()
        session.run_available(drain=False)
        figures, text = run.metrics(), run.explain()
    assert list(figures["streams"]) == ["a", "b"]
    assert figures["streams"]["a"]["heartbeat"] == "24" and figures["heartbeat"] != "24"
    assert "offset" in figures["streams"]["b"]["policy"]
    assert "policy" not in figures, "each stream has its own"
    assert figures["operators"]["q1/union2"]["registers"][0] == "24"
    assert "q1/union2\n    union of 2\n    reads q1/select0, q1/select1; heartbeat" in text


def test_early_answers_come_through_a_union(spark: SparkSession) -> None:
    pages = [("a", frame([[5], [6]])), ("b", frame([[7]])), ("a", frame([[8]]))]
    seen: list[Any] = []
    with sw.Session(spark) as session:
        streams = replayed(session, spark, pages)
        rows = KeptRows()
        run = streams["a"].union(streams["b"]).window(10).agg(n="count(*)").start(rows)
        nested = fluent(QUERIES["over results"], streams).start()
        session.run_available(drain=False, progress=lambda page: (run.prod(), nested.prod()))
        seen = [r["n_seen"] for r in rows.results().to_pylist() if r["kind"] == "early"]
        both = [r["groups"] for r in nested.results().to_pylist() if r["kind"] == "early"]
    assert seen == [2, 3, 4]
    assert both and max(both) == 2, "a group of each stream"


def write(folder: Path, number: int, rows: pl.DataFrame) -> None:
    pq.write_table(rows.to_arrow(), folder / f"{number}.parquet")


def live(session: sw.Session, folder: Path) -> dict[str, sw.Stream]:
    """Streams `a` and `b` of the files that come into two folders."""
    streams = {}
    for name in ("a", "b"):
        (folder / name).mkdir(exist_ok=True)
        df = session.spark.readStream.schema(SPARK).parquet(str(folder / name))
        streams[name] = session.stream(name, df, time="t", disorder=sw.bounded(0))
    return streams


def test_live_streams_go_on_from_a_journal(spark: SparkSession, tmp_path: Path) -> None:
    """Two folders of files, read in three sessions; a query reads both, another one of them."""
    results: list[dict[str, Any]] = []

    def session_of(steps: list[tuple[str, int, pl.DataFrame]]) -> dict[str, Any]:
        with sw.Session(spark, journal=tmp_path / "journal") as session:
            streams = live(session, tmp_path)
            both = streams["a"].where("h > 0").union(streams["b"])

            def keep(df: DataFrame, commit_id: int) -> None:
                results.extend(df.toArrow().to_pylist())

            query = both.window(10).group_by("g").agg(n="count(*)", whole="sum(i)")
            run = query.start(sink=keep, name="both", hold=True)
            streams["a"].window(10).agg(n="count(*)").start(name="alone", hold=True)
            for name, number, rows in steps:
                write(tmp_path / name, number, rows)
                session.run_available(drain=False)
            return run.metrics()

    session_of([("a", 0, frame([[1, "x", 1, 0.0, 2], [25, "x", 1, 0.0, 3]]))])
    assert results == [], "nothing of b has come"
    session_of([("b", 0, frame([[3, "x", 0, 0.0, 5], [12, "y", 0, 0.0, 7]]))])
    assert [(r["g"], r["n"], r["whole"]) for r in results] == [("x", 2, 7)]
    figures = session_of([("b", 1, frame([[30, "x", 0, 0.0, 1]])), ("a", 1, frame([[31, "x", 1, 0.0, 1]]))])
    told = [(r["window_start"], r["g"], r["n"], r["whole"]) for r in results]
    assert told == [(0, "x", 2, 7), (10, "y", 1, 7), (20, "x", 1, 3)]
    assert (figures["streams"]["a"]["rows"], figures["streams"]["b"]["rows"], figures["late_rows"]) == (3, 3, 0)


def test_streams_of_other_types_share_a_job_for_many_windows(spark: SparkSession) -> None:
    """One stream has sources and a filter, the other has none: pages of a union are not alike."""
    a = spark.createDataFrame([(1, "x", 3), (4, "y", 5), (22, "x", 1)], "t BIGINT, k STRING, v INT")
    b = spark.createDataFrame([(2.5, 2, "x"), (0.5, 23, "y")], "v DOUBLE, t BIGINT, k STRING")
    a, b = (df.selectExpr("*", "timestamp_seconds(t) AS at") for df in (a, b))
    with sw.Session(spark) as session:
        one = session.stream("a", a, time="t", arrival="at", source="k", page="3 seconds", disorder=sw.bounded(5))
        two = session.stream("b", b, time="t", arrival="at", page="3 seconds", disorder=sw.bounded(5))
        both = one.where("v > 2").select("k", "v").union(two.select("k", "v"))
        runs = [
            both.window(10, slide=slide).group_by(**groups).agg(n="count(*)", total="sum(v)").start()
            for slide in (10, 5)
            for groups in ({"k": "k"}, {}, {"big": "v > 2.6"}, {"w": "v"}, {"z": "length(k)"})
        ]
        session.run_available()
        tumbling = {(r["window_start"], r["k"]): (r["n"], r["total"]) for r in runs[0].results().to_pylist()}
        counts = [sum(r["n"] for r in run.results().to_pylist()) for run in runs]
    assert tumbling == {(0, "x"): (2, 5.5), (0, "y"): (1, 5.0), (20, "y"): (1, 0.5)}
    assert counts == [4] * 5 + [8] * 5


REFUSED = {
    "nothing": (lambda a, b: a.union(), "needs another stream"),
    "no query": (lambda a, b: a.union("b"), "write streams or queries"),
    "columns": (lambda a, b: a.union(b.select("t")), "a has a column 'g' and b has none"),
    "types": (lambda a, b: a.select(v="g").union(b.select(v="i")), "the column 'v' is bigint and string"),
    "late": (lambda a, b: both_results(a, b).start(late="out"), "several windows over streams"),
    "sideline": (lambda a, b: both_results(a, b).start(sideline=sw.sideline()), "results of several windows"),
}


def both_results(a: Any, b: Any) -> Any:
    return a.window(4).agg(n="count(*)").union(b.window(4).agg(n="count(*)"))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_refused(spark: SparkSession, name: str) -> None:
    act, words = REFUSED[name]
    with sw.Session(spark) as session:
        streams = replayed(session, spark, [("a", frame([[1]]))])
        with pytest.raises(QueryError, match=words):
            act(streams["a"], streams["b"])


def test_types_are_widened_as_sparks_union_does(spark: SparkSession) -> None:
    with sw.Session(spark) as session:
        streams = replayed(
            session, spark, [("a", frame([[1, "x", 1, 0.5, 7]])), ("b", frame([[2, "y", 2, 0.5, 9]]))]
        )
        one = streams["a"].select(d="DATE'2024-01-02'", v="CAST(i AS DECIMAL(5, 2))", n="CAST(h AS INT)")
        two = streams["b"].select(n="i", v="CAST(i AS DECIMAL(4, 3))", d="TIMESTAMP'2024-01-03 12:00:00'")
        run = one.union(two).start()
        session.run_available()
        rows = run.results()
    plain = spark.sql(
        "SELECT DATE'2024-01-02' d, CAST(7 AS DECIMAL(5, 2)) v, 1 n UNION ALL "
        "SELECT TIMESTAMP'2024-01-03 12:00:00', CAST(9 AS DECIMAL(4, 3)), 9L"
    ).toArrow()
    assert rows.schema.types == plain.schema.types
    assert sorted(map(str, rows.to_pylist())) == sorted(map(str, plain.to_pylist()))
