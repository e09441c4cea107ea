"""Joins on Spark: the answers of in-process pages, restarts, files that come and go, stored relations, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.plan.join_node import JoinNode
from slackwater.plan.node import walk
from slackwater.progress.disorder import Disorder
from slackwater.spark.state import cell_files
from slackwater.testing import Script
from tests.kit.joins import join_of, renamed
from tests.kit.streams import frame
from tests.kit.streams_of_samples import A, B, plan, windows
from tests.kit.windows import window_of
from tests.spark.test_both_page_kinds import comparable
from tests.spark.test_union_on_spark import live, played, replayed, scattered, write

pytestmark = pytest.mark.spark

LEFT, RIGHT = renamed(A, "", "t", "g", "i"), renamed(B, "2", "t", "g", "i")
POLICIES: dict[str, Disorder] = {"a": sw.bounded(5), "b": sw.bounded(2)}
ON = "g = g2 AND i <= i2"
QUERIES: dict[str, L.Logical] = {
    "full": join_of(LEFT, RIGHT, (12, 7), ON, "full"),
    "semi": join_of(LEFT, RIGHT, (12, 7), ON, "semi"),
    "counted": windows(join_of(LEFT, RIGHT, (12, 7), "g = g2"), 9, 3, "g"),
    "windows": join_of(LEFT, RIGHT, (L.Window(9, 6), L.Window(9, 6)), ON, "full"),
    "cumulate": join_of(LEFT, RIGHT, (L.Window(9, step=3), L.Window(9, step=3)), "g = g2", "left"),
    "as of": L.JoinAsof((LEFT, RIGHT), "g = g2", "left"),
    "as of within": L.JoinAsof((LEFT, RIGHT), "g = g2", "inner", 3),
    "nearest": L.JoinAsof((LEFT, RIGHT), "g = g2", "left", 4, "nearest"),
    "forward": L.JoinAsof((LEFT, RIGHT), None, "left", 4, "forward"),
    "three": join_of(
        join_of(LEFT, RIGHT, (12, 7), "g = g2"),
        renamed(A, "3", "t", "g", "i"),
        (None, 5),
        "g = g3 AND i = i3",
        "left",
    ),
    "rows": join_of(LEFT, RIGHT, (L.Window(rows=4), L.Window(rows=2)), "g = g2", "full"),
    "rows semi": join_of(LEFT, RIGHT, (7, L.Window(rows=3)), ON, "semi"),
    "results": join_of(
        L.Select((windows(A, 8, 4, "g", n="count(*)"),), (("g", "g"), ("n", "n"))),
        L.Select((windows(B, 8, 4, "g", m="count(*)"),), (("g2", "g"), ("m", "m"))),
        (None, None),
        "g = g2",
        "left",
    ),
}


def cut(side: Any, window: L.Window | None) -> Any:
    if window is None:
        return side
    if window.step is not None:
        return side.cumulate(window.range, window.step)
    if window.slide is not None:
        return side.window(window.range, window.slide)
    return side.rolling(range=window.range, rows=window.rows)


def fluent(query: Any, streams: dict[str, Any]) -> Any:
    """The same query, written by a user."""
    if isinstance(query, L.Scan):
        return streams[query.stream]
    sides = [fluent(below, streams) for below in query.inputs]
    if isinstance(query, L.Select):
        return sides[0].select(**dict(query.columns))
    if isinstance(query, L.JoinAsof):
        return sides[0].join_asof(sides[1], query.on, query.within, query.how, query.direction)
    if isinstance(query, L.Join):
        left, right = (cut(side, window) for side, window in zip(sides, query.windows, strict=True))
        return left.join(right, on=query.on, how=query.how)
    window = window_of(sides[0], query.window.range, query.window.slide)
    return window.group_by(**dict(query.groups)).agg(**dict(query.aggregates))


def test_both_page_kinds_agree(spark: SparkSession) -> None:
    pages = scattered(8)
    with sw.Session(spark) as session:
        streams = replayed(session, spark, pages, POLICIES)
        runs = {name: fluent(query, streams).start(name=name) for name, query in QUERIES.items()}
        session.run_available()
        got = {name: run.results().to_pylist() for name, run in runs.items()}
        figures = {name: run.metrics() for name, run in runs.items()}
    for name, query in QUERIES.items():
        script = played(Script(plan(query, POLICIES)), pages)
        assert comparable(got[name]) == comparable(script.results) and got[name], name
        ours = [of["late_rows"] for label, of in script.metrics().items() if "/join" in label]
        assert [of["late_rows"] for of in figures[name]["joins"].values()] == ours, name
        assert sum(ours) or name == "results", "some rows were late"


def test_a_join_goes_on_from_a_journal(spark: SparkSession, tmp_path: Path) -> None:
    """Rows wait in the windows of a join while one session ends and the next begins."""
    results: list[tuple[Any, ...]] = []

    def session_of(*steps: tuple[str, int, pl.DataFrame]) -> dict[str, Any]:
        with sw.Session(spark, journal=tmp_path / "journal") as session:
            streams = live(session, tmp_path)
            left = streams["a"].select("t", "g").rolling(range=10)
            right = streams["b"].select("g", u="t").rolling(range=10)

            def keep(df: DataFrame, commit_id: int) -> None:
                results.extend((row["t"], row["u"]) for row in df.toArrow().to_pylist())

            run = left.join(right, on="g", how="full").start(sink=keep, name="both", hold=True)
            for name, number, rows in steps:
                write(tmp_path / name, number, rows)
                session.run_available(drain=False)
            return run.metrics()

    session_of(("a", 0, frame([[1, "x"], [2, "y"]])))
    figures = session_of(("b", 0, frame([[9, "x"], [12, "y"]])))
    assert results == [(1, 9)], "y of time 2 was alive until 12"
    assert figures["joins"]["both/join3"]["left_rows"] == 2
    session_of(("a", 1, frame([[18, "x"], [40, "z"]])), ("b", 1, frame([[41, "w"]])))
    assert sorted(results, key=repr) == sorted([(1, 9), (18, 9), (2, None), (None, 12)], key=repr)
    assert len(list((tmp_path / "journal" / "spill").rglob("*.parquet"))) <= 4, "what is needed no more has gone"


def test_many_small_pages_keep_few_files(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_files, "_MANY", 4)
    rows = [(n, n % 3, n) for n in range(36)]
    with sw.Session(spark) as session:
        streams = []
        for name, columns in (("a", "t INT, k INT, v INT"), ("b", "u INT, k INT, w INT")):
            df = spark.createDataFrame(rows, columns).selectExpr("*", f"timestamp_seconds({columns[0]}) AS at")
            stream = session.stream(
                name, df, time=columns[0], arrival="at", page="3 seconds", disorder=sw.bounded(0)
            )
            streams.append(stream.select(*(c.split()[0] for c in columns.split(", "))))
        files: list[int] = []
        run = streams[0].rolling(range=20).join(streams[1].rolling(range=20), on="k").start()
        session.run_available(progress=lambda page: files.append(run.metrics()["joins"]["q1/join3"]["files"]))
        pairs = [(row["t"], row["u"]) for row in run.results().to_pylist()]
    assert sorted(pairs) == [(t, u) for t, k, _ in rows for u, m, _ in rows if k == m and abs(t - u) < 20]
    assert max(files) < 32, "there were nearly fifty without making them one"


def test_a_stream_meets_a_stored_relation(spark: SparkSession) -> None:
    rows = [(1, "x", 3), (4, "y", 5), (12, "z", 1), (25, None, 2)]
    df = spark.createDataFrame(rows, "t INT, k STRING, v INT").selectExpr("*", "timestamp_seconds(t) AS at")
    names = spark.createDataFrame(
        [("x", "one"), ("x", "uno"), ("y", "two"), (None, "none")], "k STRING, name STRING"
    )
    spark.createDataFrame([("x", 10), ("z", 20)], "code STRING, weight INT").createOrReplaceTempView("weights")
    with sw.Session(spark) as session:
        stream = session.stream("s", df, time="t", arrival="at", page="3 seconds", disorder=sw.bounded(2))
        flat = stream.select("t", "k", "v")
        runs = {how: flat.join(names, on="k", how=how).start() for how in ("inner", "left", "semi", "anti")}
        counted = flat.join(names, on="k").window(10).group_by("name").agg(n="sum(v)").start()
        weights = spark.table("weights")
        session.register_table("heavy", weights)
        kept = flat.where("v > 1").join(weights.where("weight > 5"), on="k = code", how="left").start()
        session.run_available()
        found = {how: [(r["t"], r.get("name")) for r in run.results().to_pylist()] for how, run in runs.items()}
        sums = [(r["window_start"], r["name"], r["n"]) for r in counted.results().to_pylist()]
        with_weights = [(r["t"], r["weight"]) for r in kept.results().to_pylist()]
    assert sorted(found["inner"]) == [(1, "one"), (1, "uno"), (4, "two")]
    assert sorted(found["left"], key=repr) == [(1, "one"), (1, "uno"), (12, None), (25, None), (4, "two")]
    assert [t for t, _ in found["semi"]] == [1, 4] and [t for t, _ in found["anti"]] == [12, 25]
    assert sorted(sums) == [(0, "one", 3), (0, "two", 5), (0, "uno", 3)], "a row without a partner moves time"
    assert sorted(with_weights) == [(1, 10), (4, None), (25, None)]


def test_rows_come_to_a_sink_in_the_order_of_time(spark: SparkSession) -> None:
    rows = [(t, n) for n, t in enumerate([5, 3, 9, 4, 12, 8, 2, 20, 15, 15])]
    df = spark.createDataFrame(rows, "t INT, n INT").selectExpr("*", "timestamp_seconds(n) AS at")
    with sw.Session(spark) as session:
        stream = session.stream("s", df, time="t", arrival="at", page="3 seconds", disorder=sw.bounded(5))
        run = stream.select("t", "n").start(ordered=True)
        session.run_available()
        got = [(r["t"], r["n"]) for r in run.results().to_pylist()]
        late = run.metrics()["late_rows"]
    assert got == sorted((t, n) for t, n in rows if t != 2), "2 came behind the heartbeat"
    assert late == 1


@pytest.mark.parametrize(("within", "before", "after"), [(("3 seconds", "6 seconds"), 3, 6), ("3 seconds", 3, 3)])
def test_rows_meet_within_a_distance(spark: SparkSession, within: Any, before: int, after: int) -> None:
    """Timestamps of whole seconds, so that many pairs lie on the ends, which are included."""
    rows = [(n, n % 3) for n in range(0, 40, 2)], [(n, n % 3) for n in range(1, 40)]
    with sw.Session(spark) as session:
        one, two = (
            session.stream(
                name,
                spark.createDataFrame(side, "n INT, k INT").selectExpr("*", "timestamp_seconds(n) AS at"),
                time="at",
                arrival="at",
                page="5 seconds",
                disorder=sw.bounded("1 second"),
            )
            for name, side in zip("ab", rows, strict=True)
        )
        others = two.select("k", m="n")
        pairs = one.select("k", "n").join(others, on="k", within=within)
        assert session.sql(pairs.to_sql())._plan.same_work() == pairs._plan.same_work()
        run = pairs.start()
        alone = one.select("k", "n").join(others, on="k", how="anti", within=within).start()
        session.run_available()
        found = sorted((row["n"], row["m"]) for row in run.results().to_pylist())
        lone = sorted(row["n"] for row in alone.results().to_pylist())
    near = [(n, m) for n, k in rows[0] for m, j in rows[1] if k == j and -before <= m - n <= after]
    assert found == near
    assert {m - n for n, m in near} >= {-before, after}, "both ends occur"
    assert lone == [n for n, _ in rows[0] if n not in {n for n, _ in near}]


def test_on_says_how_far_apart_rows_may_be(spark: SparkSession) -> None:
    """Timestamps of half a minute, so that many pairs lie on the ends; in SQL, as text and as a Column."""
    rows = [(n, n % 3) for n in range(0, 40, 2)], [(n, n % 3) for n in range(1, 40)]
    with sw.Session(spark) as session:
        one, two = (
            session.stream(
                name,
                spark.createDataFrame(side, "n INT, k INT").selectExpr("*", "timestamp_seconds(30 * n) AS at"),
                time="at",
                arrival="at",
                page="2 minutes",
                disorder=sw.bounded("30 seconds"),
            )
            for name, side in zip("ab", rows, strict=True)
        )
        text = "b.at BETWEEN a.at - INTERVAL 90 SECONDS AND a.at + INTERVAL '3' MINUTES"
        sql = session.sql(f"SELECT a.n, b.n AS m FROM a LEFT JOIN b ON a.k = b.k AND {text}")
        assert "range 3 minutes (end included) and range 90 seconds (end included)" in sql.explain()
        others = two.select(j="k", m="n", at2="at")
        length = (F.col("at2") - F.col("at")) <= F.expr("INTERVAL 3 MINUTES")
        column = (F.col("k") == F.col("j")) & (F.col("at2") >= F.col("at") - F.expr("INTERVAL 90 SECONDS")) & length
        runs = [sql.start(), one.join(others, on=column, how="left").select("n", "m").start()]
        session.run_available()
        found = [sorted((r["n"], r["m"]) for r in run.results().to_pylist() if r["m"] is not None) for run in runs]
        alone = [sorted(r["n"] for r in run.results().to_pylist() if r["m"] is None) for run in runs]
    near = [(n, m) for n, k in rows[0] for m, j in rows[1] if k == j and -3 <= m - n <= 6]
    assert found == [near, near] and {m - n for n, m in near} >= {-3, 6}, "both ends occur"
    assert alone == [[n for n, _ in rows[0] if n not in {n for n, _ in near}]] * 2


REFUSED = {
    "leave rolling": lambda a, b, s: a.join(b.select("k", w="v").rolling(range=5), on="k", within=5),
    "write one length, or .before, after.": lambda a, b, s: a.join(b.select("k", w="v"), on="k", within=(1, 2, 3)),
    "-1 is negative": lambda a, b, s: a.join(b.select("k", w="v"), on="k", within=(-1, 3)),
    "within='5 s': the time column is an integer": lambda a, b, s: a.join(b.select(w="v"), within="5 s"),
    "its rows have no time; leave within out": lambda a, b, s: a.join(s.range(3).toDF("n"), within=1),
    "both sides have a column 'v'": lambda a, b, s: a.rolling(range=5).join(b.rolling(range=5), on="k"),
    "the left side has no window": lambda a, b, s: a.join(b.select("k", w="v").rolling(range=5), on="k"),
    "the sides have different ones": lambda a, b, s: a.window(5).join(b.select(j="k").rolling(range=5)),
    "is no kind of join .did you mean 'left'": lambda a, b, s: _apart(a, b, how="lefft"),
    "the left side has no such column .did you mean 'k'": lambda a, b, s: _apart(a, b, on=["kk"]),
    "there is no column 'nothing'": lambda a, b, s: _apart(a, b, on="k2 = nothing"),
    "would be known only when the stream has ended": lambda a, b, s: a.join(s.range(3).toDF("n"), how="right"),
    "write a stream with a window, a static DataFrame": lambda a, b, s: a.join("b"),
    "an aggregate needs a window": lambda a, b, s: _apart(a, b, on="sum(v) > w"),
    "this DataFrame is a stream": lambda a, b, s: a.join(s.readStream.format("rate").load()),
    "a join takes rows; leave group_by": lambda a, b, s: a.rolling(range=5).group_by("k").join(b.rolling(range=5)),
}


def _apart(a: Any, b: Any, on: Any = "k = k2", how: str = "inner") -> Any:
    return a.rolling(range=5).join(b.select(k2="k", w="v").rolling(range=5), on=on, how=how)


@pytest.mark.parametrize("said", REFUSED)
def test_mistakes_are_told_when_they_are_written(spark: SparkSession, said: str) -> None:
    df = spark.createDataFrame([(1, 2, 3)], "t INT, k INT, v INT").selectExpr("*", "timestamp_seconds(t) AS at")
    with sw.Session(spark) as session:
        one, two = (
            session.stream(name, df, time="t", arrival="at", disorder=sw.bounded(0)).select("k", "v")
            for name in ("a", "b")
        )
        with pytest.raises(QueryError, match=said):
            REFUSED[said](one, two, spark)


def test_late_rows_of_a_join_go_to_their_sink(spark: SparkSession) -> None:
    """S4 section 4: a late row meets the partner that is there, else it comes out alone. Both are kept."""
    price, parts = "CAST(t AS DECIMAL(9, 2)) AS price", "array(struct(t AS x)) AS parts"
    rows = {"a": [(50, 0), (49, 1), (5, 1), (None, 2)], "b": [(48, 0), (50, 0), (6, 1)]}
    late: list[dict[str, Any]] = []

    def keep(df: DataFrame, commit_id: int) -> None:
        late.extend(df.toArrow().to_pylist())

    with sw.Session(spark) as session:
        streams = {}
        for name in ("a", "b"):
            df = spark.createDataFrame(rows[name], "t INT, n INT").selectExpr(
                "t", "1 AS k", "timestamp_seconds(t) AS at", price, parts, "timestamp_seconds(10 * n) AS came"
            )
            streams[name] = session.stream(
                name, df, time="t", arrival="came", page="5 seconds", disorder=sw.bounded(0)
            )
        right = streams["b"].select("k", u="t", until="at", cost="price", pieces="parts").rolling(range=10)
        query = streams["a"].rolling(range=10).join(right, on="k", how="full").select("t", "u")
        run = query.start(late=keep)
        session.run_available()
        pairs = {(row["t"], row["u"]) for row in run.results().to_pylist()}
        assert run.metrics()["late_rows"] == sum(row["t"] is not None or row["u"] is not None for row in late)
    assert pairs == {(50, 48), (50, 50), (49, 48), (49, 50), (5, None), (None, 6)}
    assert {(row["t"], row["u"]) for row in late} >= {(5, None), (None, 6), (None, None)}
    assert all(row["parts"] is None for row in late if row["u"] == 6)
    (of_b,) = [row for row in late if row["u"] == 6]
    assert (of_b["until"].second, of_b["cost"], of_b["pieces"]) == (6, 6, [{"x": 6}])


def test_the_plan_of_a_join_is_told(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, 2, 3)], "t INT, k INT, v INT").selectExpr("*", "timestamp_seconds(t) AS at")
    with sw.Session(spark) as session:
        one, two = (
            session.stream(name, df, time="t", arrival="at", disorder=sw.bounded(0)).select("k", "v")
            for name in ("a", "b")
        )
        query = _apart(one, two, how="left outer")
        of_rows = one.rolling(rows=2).join(two.select(k2="k", w="v").rolling(rows=2), on="k = k2")
        for refused in (of_rows, query.window(10).agg(n="count(*)")):
            with pytest.raises(QueryError, match="late=: of joins, only one of two streams with windows of time"):
                refused.start(late=lambda df, commit_id: None)
        (node,) = [n for n in walk(query._plan) if isinstance(n, JoinNode)]
        assert (node.how, node.schema.names) == ("left", ["k", "v", "k2", "w"])
        assert "left join on k = k2 of range 5 and range 5" in query.explain()
