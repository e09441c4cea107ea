"""What a user writes wrong is named, with what to write instead, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater as sw

pytestmark = pytest.mark.spark

SCHEMA = "t TIMESTAMP, n BIGINT, k STRING, v DOUBLE"


@pytest.fixture
def session(spark: SparkSession) -> Iterator[sw.Session]:
    with sw.Session(spark) as s:
        yield s


@pytest.fixture
def rows(session: sw.Session, tmp_path: Path) -> sw.Stream:
    folder = tmp_path / "in"
    folder.mkdir()
    df = session.spark.readStream.schema(SCHEMA).parquet(str(folder))
    return session.stream("rows", df, time="t", disorder=sw.bounded("1 minute"))


def count(rows: sw.Stream) -> sw.Query:
    return rows.window("1 minute").agg(n="count(*)")


CASES: list[tuple[str, Callable[[sw.Stream], Any], list[str]]] = [
    ("unknown column in where", lambda r: r.where("speed > 3"), ["speed", "t, n, k, v"]),
    ("unknown column in select", lambda r: r.select("speed"), ["speed", "t, n, k, v"]),
    ("unknown function", lambda r: r.select(x="frobnicate(v)"), ["frobnicate"]),
    ("syntax", lambda r: r.where("v >"), ["where", "v >"]),
    ("name twice in select", lambda r: r.select("k", k="v"), ["'k'", "twice"]),
    ("no columns", lambda r: r.select(), ["select()", "at least one"]),
    ("no range", lambda r: r.window("0 seconds"), ["size='0 seconds'", "must be positive"]),
    ("negative range", lambda r: r.window("-5 seconds"), ["size='-5 seconds'"]),
    ("no slide", lambda r: r.window("1 minute", slide="0 seconds"), ["slide='0 seconds'"]),
    ("months", lambda r: r.window("1 month"), ["month", "no fixed length"]),
    ("number for a timestamp", lambda r: r.rolling(range=30), ["range=30", "'30 minutes'"]),
    ("range of a window", lambda r: r.window(range="1 hour"), ["window('1 hour')", "rolling(range='1 hour')"]),
    ("unknown word", lambda r: r.window("1 hour", sldie="1 hour"), ["sldie", "did you mean 'slide'"]),
    ("no size", lambda r: r.window(), ["needs a size", "window('10 minutes')"]),
    ("no unit", lambda r: r.window("30"), ["'30'", "'30 minutes'"]),
    ("unknown group", lambda r: r.window("1 minute").group_by("speed"), ["speed", "t, n, k, v"]),
    ("group without a name", lambda r: r.window("1 minute").group_by("upper(k)"), ["upper(k)", "name"]),
    (
        "unknown aggregate",
        lambda r: r.window("1 minute").agg(m="quantile(v, 0.5)"),
        ["quantile", "percentile"],
    ),
    (
        "unknown column in agg",
        lambda r: r.window("1 minute").agg(m="sum(speed)"),
        ["speed", "t, n, k, v"],
    ),
    ("wrong type in agg", lambda r: r.window("1 minute").agg(m="sum(array(k))"), ["m=", "sum"]),
    ("no order", lambda r: r.window("1 minute").agg(m="first(map(k, v))"), ["m=", "is a map"]),
    ("distinct", lambda r: r.rolling(rows=5).agg(m="count(DISTINCT k)"), ["all rows of a window", "slide"]),
    ("no aggregate", lambda r: r.window("1 minute").agg(), ["agg()", "count(*)"]),
    ("name twice", lambda r: r.window("1 minute").group_by("k").agg(k="count(*)"), ["'k'", "twice"]),
    ("reserved name", lambda r: r.window("1 minute").agg(kind="count(*)"), ["'kind'", "another name"]),
    (
        "name of an early column",
        lambda r: r.window("1 minute").agg(n="count(*)", n_seen="sum(v)"),
        ["'n_seen'", "early results", "another name"],
    ),
    (
        "group named like an early column",
        lambda r: r.window("1 minute").group_by(m_low="k").agg(m="sum(v)"),
        ["'m_low'", "early results", "another name"],
    ),
    ("no function", lambda r: r.map("abc", schema="k STRING"), ["'abc'", "function of a pyarrow.RecordBatch"]),
    ("function of nothing", lambda r: r.map(lambda: None, schema="k STRING"), ["takes (a pyarrow.RecordBatch)"]),
    ("share for early", lambda r: count(r).start(early=0.75), ["early=0.75", "sw.early(at=0.75)"]),
    ("flag for early", lambda r: count(r).start(early=True), ["early=True", "sw.early(at=0.75)"]),
    ("number for sideline", lambda r: count(r).start(sideline=4), ["sideline=4", "sw.sideline(ratio=4)"]),
    ("misspelt column", lambda r: r.where("kk = 'a'"), ["no column 'kk'", "did you mean 'k'?", "t, n, k, v"]),
    ("misspelt function", lambda r: r.select(x="uper(k)"), ["no function 'uper'", "did you mean 'upper'?"]),
    (
        "misspelt aggregate",
        lambda r: r.window("1 minute").agg(m="cuont(*)"),
        ["m='cuont(*)'", "unknown aggregate 'cuont'", "did you mean 'count'?"],
    ),
    (
        "unknown aggregate in an expression",
        lambda r: r.window("1 minute").agg(m="quantile(v, 0.5)/2"),
        ["m='quantile(v, 0.5)/2': unknown aggregate 'quantile'", "approx_percentile"],
    ),
    (
        "misspelt aggregate in an expression",
        lambda r: r.window("1 minute").agg(m="sum(v)/cuont(*)"),
        ["m='sum(v)/cuont(*)'", "'cuont'", "did you mean 'count'?"],
    ),
    (
        "unknown column in an expression",
        lambda r: r.window("1 minute").agg(m="sum(speed)/2"),
        ["m='sum(speed)/2': there is no column 'speed'"],
    ),
    (
        "wrong type in an expression",
        lambda r: r.window("1 minute").agg(m="array_max(sum(v))+1"),
        ["m='array_max(sum(v))+1': ", "array_max(sum(v))"],
    ),
    (
        "name twice but for capitals",
        lambda r: r.window("1 minute").agg(m="count(*)", M="sum(v)"),
        ["'m' is used twice", "capitals"],
    ),
    ("reserved name in capitals", lambda r: r.window("1 minute").agg(Kind="count(*)"), ["'Kind'"]),
    (
        "name of an early column in capitals",
        lambda r: r.window("1 minute").agg(n="count(*)", N_Seen="sum(v)"),
        ["'N_Seen'", "early results"],
    ),
    ("backtick in a name", lambda r: r.select(**{"a`b": "k"}), ["backtick", "rename"]),
    ("nothing early", lambda r: sw.early(), ["early()", "early(at=0.75)"]),
    (
        "sideline without windows",
        lambda r: r.where("v > 0").start(sideline=sw.sideline(ratio=4)),
        ["sideline=: a query without windows", "leave it out"],
    ),
    ("hidden name", lambda r: r.window("1 minute").agg(__n="count(*)"), ["__n", "rename"]),
]


@pytest.mark.parametrize(("write", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_wrong_query_is_named(rows: sw.Stream, write: Callable[[sw.Stream], Any], words: list[str]) -> None:
    with pytest.raises(sw.QueryError) as caught:
        write(rows)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("time", "words"),
    [
        ("k", ["time='k'", "string", "try_to_timestamp(k)"]),
        ("v", ["bounded='1 minute'", "digits behind the point"]),
        ("when", ["when", "t, n, k, v"]),
    ],
)
def test_a_wrong_time_column_is_named(session: sw.Session, tmp_path: Path, time: str, words: list[str]) -> None:
    df = session.spark.readStream.schema(SCHEMA).parquet(str(tmp_path))
    with pytest.raises(sw.QueryError) as caught:
        session.stream("s", df, time=time, disorder=sw.bounded("1 minute"))
    for word in words:
        assert word in str(caught.value)


def test_wrong_streams_are_named(session: sw.Session, rows: sw.Stream) -> None:
    df, late = session._catalogue["rows"].frame, sw.bounded("1 minute")
    static = session.spark.createDataFrame([], SCHEMA)
    twice = df.withColumns({"k": df.k}).select("*", df.v.alias("K"))
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("already a stream 'rows'", lambda: session.stream("rows", df, time="t", disorder=late)),
        ("disorder=sw.bounded", lambda: session.stream("s", df, time="t")),
        ("'0 seconds'", lambda: session.stream("s", df, time="t", disorder=sw.bounded("-1 seconds"))),
        ("whole number", lambda: session.stream("s", df, time="n", disorder=late)),
        ("leave out arrival", lambda: session.stream("s", df, time="t", disorder=late, arrival="t")),
        ("arrival='received'", lambda: session.stream("s", static, time="t", disorder=late)),
        ("arrival is a timestamp", lambda: session.stream("s", static, time="t", disorder=late, arrival="k")),
        ("page='0 s'", lambda: session.stream("s", static, time="t", disorder=late, arrival="t", page="0 s")),
        ("'s': \\[1\\] is no DataFrame", lambda: session.stream("s", [1], time="t", disorder=late)),  # type: ignore[arg-type]
        ("'k' and 'K' have one name", lambda: session.stream("s", twice, time="t", disorder=late)),
        ("called '\\*'", lambda: session.stream("s", df.withColumn("*", df.v), time="t", disorder=late)),
        ("called '\\^k\\$'", lambda: session.stream("s", df.withColumn("^k$", df.v), time="t", disorder=late)),
        ("rename '__x'", lambda: session.stream("s", df.withColumn("__x", df.v), time="t", disorder=late)),
    ]
    for words, write in wrong:
        with pytest.raises(sw.QueryError, match=words.replace("(", "\\(")):
            write()


def test_a_query_starts_once(rows: sw.Stream) -> None:
    query = rows.window("1 minute").agg(n="count(*)")
    query.start(hold=True, name="one")
    with pytest.raises(sw.RunError, match="started already"):
        query.start()
    with pytest.raises(sw.RunError, match="'one' was used"):
        rows.window("2 minutes").agg(n="count(*)").start(name="one")


def test_a_sink_that_cannot_be_written_is_named(rows: sw.Stream, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    query = rows.window("1 minute").agg(n="count(*)")
    with pytest.raises(sw.SinkError, match="file/out"):
        query.start(sink=tmp_path / "file" / "out")
    with pytest.raises(sw.QueryError, match=r"takes \(DataFrame, commit_id\)"):
        query.start(sink=lambda rows: None)  # type: ignore[arg-type,misc]
    with pytest.raises(sw.QueryError, match="sink=3"):
        query.start(sink=3)  # type: ignore[arg-type]


def test_nothing_started_and_a_stopped_session_are_said(spark: SparkSession, tmp_path: Path) -> None:
    s = sw.Session(spark)
    with pytest.raises(sw.RunError, match="start one first"):
        s.run_available()
    df = spark.readStream.schema(SCHEMA).parquet(str(tmp_path))
    query = s.stream("rows", df, time="t", disorder=sw.bounded("1 minute")).window("1 minute").agg(n="count(*)")
    s.stop()
    with pytest.raises(sw.RunError, match="stopped"):
        query.start()


def test_a_journal_of_another_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    df = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    with sw.Session(spark, journal=tmp_path / "journal") as s:
        rows = s.stream("rows", df, time="t", disorder=sw.bounded("1 minute"))
        rows.window("1 minute").agg(n="count(*)").start(name="q", hold=True)
    with sw.Session(spark, journal=tmp_path / "journal") as s:
        rows = s.stream("rows", df, time="t", disorder=sw.bounded("1 minute"))
        with pytest.raises(sw.JournalError, match=r"another query[\s\S]*range 1 minute[\s\S]*range 2 minutes"):
            rows.window("2 minutes").agg(n="count(*)").start(name="q")
        rows.window("2 minutes").agg(n="count(*)").start(name="other", hold=True)
        with pytest.raises(sw.RunError, match="holds the queries q"):
            s.run_available()
        s.forget("q")
        with pytest.raises(sw.QueryError, match="speed= is for replays"):
            s.run_available(speed=2)
        s.run_available()


def test_a_speed_is_a_positive_number(spark: SparkSession) -> None:
    static = spark.createDataFrame([], SCHEMA)
    with sw.Session(spark) as s:
        past = s.stream("past", static, time="t", arrival="t", disorder=sw.bounded("1 minute"))
        past.window("1 minute").agg(n="count(*)").start()
        for speed in (0, -1.0, float("nan"), float("inf"), True, "fast"):
            with pytest.raises(sw.QueryError, match=r"speed=.*as in speed=60"):
                s.run_available(speed=speed)  # type: ignore[arg-type]
        s.run_available(speed=60)
