"""Sinks take each commit once; replays follow the data's own clock and continue from a journal."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.errors import QueryError
from tests.kit.kept_rows import KeptRows

pytestmark = pytest.mark.spark


def instant(second: int) -> datetime:
    return datetime.fromtimestamp(second, tz=UTC)


def past(spark: SparkSession, seconds: list[tuple[int, int]]) -> DataFrame:
    """A static frame of (event second, arrival second)."""
    frame = pl.DataFrame({"t": [instant(t) for t, _ in seconds], "at": [instant(a) for _, a in seconds]})
    return spark.createDataFrame(frame.to_arrow())


ROWS = [(0, 1), (7, 8), (3, 11), (14, 15), (2, 16), (25, 26), (31, 39)]


def count(s: sw.Session, df: DataFrame, name: str = "past", **disorder: Any) -> sw.Query:
    late = sw.bounded("5 seconds", **disorder)
    rows = s.stream(name, df, time="t", arrival="at", page="5 seconds", disorder=late)
    return rows.window("10 seconds").agg(n="count(*)")


def test_a_window_is_emitted_when_the_replayed_clock_reaches_its_heartbeat(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        run = count(s, past(spark, ROWS)).start()
        s.run_available(drain=False)
        got = [(r["window_start"], r["n"], r["emitted_at"]) for r in run.results().to_pylist()]
        # Windows close by the page that carries 25 (arrived by 30) and 31 (by 40); drain has not run.
        assert got == [(instant(0), 4, instant(30)), (instant(10), 1, instant(30))]
        assert run.metrics()["lag_seconds"] == pytest.approx(40 - 25.999999)
        s.run_available(drain=True)


def test_a_silent_stream_closes_its_windows_after_the_timeout(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        run = count(s, past(spark, [(0, 1), (10, 9), (100, 101)]), timeout="20 seconds").start()
        s.run_available(drain=False)
        first = run.results().to_pylist()[0]
        # The row of 10 was the last for long; it arrived in the page that ends at 10, so 20 seconds later all up
        # to its time is promised.
        assert (first["n"], first["emitted_at"]) == (1, instant(30))


def test_replayed_streams_are_interleaved_by_arrival(spark: SparkSession) -> None:
    seen: list[tuple[str, int]] = []
    with sw.Session(spark) as s:
        count(s, past(spark, [(0, 1), (20, 21)]), "left").start()
        count(s, past(spark, [(10, 11), (30, 31)]), "right").start()
        s.run_available(progress=lambda p: seen.append((p["stream"], p["page"])))
    assert seen == [("left", 0), ("right", 2), ("left", 4), ("right", 6)]


def test_a_replay_goes_on_from_its_journal(spark: SparkSession, tmp_path: Path) -> None:
    out, journal = tmp_path / "out", tmp_path / "journal"
    with sw.Session(spark, journal=journal) as s:
        count(s, past(spark, ROWS[:5])).start(sink=out, name="q")
        s.run_available(drain=False)
    with sw.Session(spark, journal=journal) as s:
        run = count(s, past(spark, ROWS)).start(sink=out, name="q")
        s.run_available(drain=True)
        assert run.metrics()["rows"] == len(ROWS)
    table = pq.read_table(out)
    assert sorted(zip(table["window_start"].to_pylist(), table["n"].to_pylist(), strict=True)) == [
        (instant(0), 4),
        (instant(10), 1),
        (instant(20), 1),
        (instant(30), 1),
    ]


def test_a_replay_that_was_cut_short_goes_on_and_can_be_prodded_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    class Stop(Exception):
        pass

    def stop(page: dict[str, Any]) -> None:
        if page["page"] == 3:
            raise Stop

    for last in (False, True):
        with sw.Session(spark, journal=tmp_path / "journal") as s:
            run = count(s, past(spark, ROWS)).start(sink=tmp_path / "out", name="q")
            run.prod()
            if last:
                s.run_available()
                continue
            with pytest.raises(Stop):
                s.run_available(progress=stop)
    rows = pq.read_table(tmp_path / "out").sort_by([("emitted_at", "ascending")]).to_pylist()
    early = [(r["window_start"], r["n_seen"], r["emitted_at"]) for r in rows if r["kind"] == "early"]
    # Asked before anything had come, and again at the instant of the last page that the journal knew of.
    assert early == [(instant(0), 4, instant(20)), (instant(10), 1, instant(20))]
    assert [(r["window_start"], r["n"]) for r in rows if r["kind"] == "final"] == [
        (instant(second), n) for second, n in ((0, 4), (10, 1), (20, 1), (30, 1))
    ]


def test_pages_of_one_instant_have_all_come_before_the_clock_prods(spark: SparkSession) -> None:
    def early(*names: str) -> list[tuple[datetime, int]]:
        with sw.Session(spark) as s:
            runs = [KeptRows() for _ in names]
            for kept, n in zip(runs, names, strict=True):
                count(s, past(spark, ROWS), n).start(kept, early=sw.early(every="5 seconds"))
            s.run_available()
            got = [[r for r in kept.results().to_pylist() if r["kind"] == "early"] for kept in runs]
        answers = [[(r["emitted_at"], r["n_seen"]) for r in rows] for rows in got]
        assert all(a == answers[0] for a in answers)
        return answers[0]

    alone = early("alone")
    assert (instant(10), 2) in alone
    assert early("one", "two", "three") == alone


def test_a_function_gets_data_frames_and_rising_commit_ids(spark: SparkSession) -> None:
    got: list[tuple[int, list[int]]] = []
    with sw.Session(spark) as s:
        run = count(s, past(spark, ROWS)).start(sink=lambda df, i: got.append((i, [r.n for r in df.collect()])))
        s.run_available()
        with pytest.raises(sw.RunError, match="sink=None"):
            run.results()
    assert got == [(0, [4, 1]), (1, [1, 1])]


def test_a_failing_sink_ends_the_replay_with_its_error(spark: SparkSession) -> None:
    def fail(df: DataFrame, commit_id: int) -> None:
        raise ZeroDivisionError("the sink is broken")

    with sw.Session(spark) as s:
        count(s, past(spark, ROWS)).start(sink=fail)
        with pytest.raises(sw.RunError, match=r"query 'q1' has failed.*ZeroDivisionError: the sink is broken"):
            s.run_available()
        with pytest.raises(sw.RunError, match="no query is running"):
            s.run_available()


def test_a_restart_writes_what_a_failing_sink_has_missed(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pl.DataFrame({"n": [1, 2, 30]}).write_parquet(tmp_path / "in/a.parquet")
    got: list[int] = []

    def start(sink: Any) -> None:
        with sw.Session(spark, journal=tmp_path / "journal") as s:
            df = spark.readStream.schema("n BIGINT").parquet(str(tmp_path / "in"))
            rows = s.stream("rows", df, time="n", disorder=sw.bounded(0))
            rows.window(10).agg(c="count(*)").start(sink=sink, name="q", hold=True)
            s.run_available(drain=False)

    def fail(df: DataFrame, commit_id: int) -> None:
        raise ZeroDivisionError("the sink is broken")

    with pytest.raises(sw.RunError, match="the sink is broken"):
        start(fail)
    start(lambda df, i: got.extend(r.c for r in df.collect()))
    assert got == [2]


def test_results_of_a_parquet_sink_are_read_by_spark_with_their_types(spark: SparkSession, tmp_path: Path) -> None:
    with sw.Session(spark) as s:
        count(s, past(spark, ROWS)).start(sink=tmp_path / "out")
        s.run_available()
    types = {f.name: f.dataType.simpleString() for f in spark.read.parquet(str(tmp_path / "out")).schema}
    assert types == {
        "n": "bigint",
        "window_start": "timestamp",
        "window_end": "timestamp",
        "kind": "string",
        "emitted_at": "timestamp",
        "completeness": "double",
        "n_seen": "bigint",
        "n_low": "double",
        "n_high": "double",
    }


def test_results_are_read_along_page_by_page(spark: SparkSession) -> None:
    parts = []
    with sw.Session(spark) as s:
        run = count(s, past(spark, ROWS)).start()
        s.run_available(progress=lambda page: parts.append(run.results(since=parts[-1] if parts else None)))
        parts.append(run.results(since=parts[-1]))
        assert [r for part in parts for r in part.to_pylist()] == run.results().to_pylist()
        assert run.metrics()["results_dropped"] == 0 and sum(part.num_rows > 0 for part in parts) > 1


def test_files_are_few_and_whole_when_a_replay_is_over(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with sw.Session(spark, journal=tmp_path / "journal") as s:
        count(s, past(spark, ROWS)).start(sw.parquet(out, every="1 hour"), name="q")
        s.run_available(drain=False)
        first = spark.read.parquet(str(out)).count()
        s.run_available(drain=True)
        assert (first, spark.read.parquet(str(out)).count(), pq.read_table(out).num_rows) == (2, 4, 4)
    assert len(list(out.iterdir())) <= 3 and not list((tmp_path / "journal").glob("held/*/*"))


@pytest.mark.parametrize("what", ["function", "folder"])
def test_a_sink_that_fails_is_told_as_the_querys(spark: SparkSession, tmp_path: Path, what: str) -> None:
    def broken(rows: DataFrame, commit_id: int) -> None:
        rows.selectExpr("raise_error('no such model')").collect()

    out = tmp_path / "out"
    s = sw.Session(spark)
    count(s, past(spark, ROWS)).start(broken if what == "function" else out, name="counts")
    if what == "folder":
        out.rmdir()
        out.write_text("a file in its place")
    words = {
        "function": "the function 'broken': .*no such model",
        "folder": r"the folder '.*out': NotADirectoryError",
    }
    try:
        with pytest.raises(
            sw.RunError, match=f"query 'counts' has failed: it cannot give its results to {words[what]}"
        ) as told:
            s.run_available()
    finally:
        s.stop()
    causes, error = [], told.value.__cause__
    while error is not None:
        causes.append(type(error).__name__)
        error = error.__cause__
    assert {"function": "SparkRuntimeException", "folder": "NotADirectoryError"}[what] in causes, causes


def test_several_sinks_each_have_all_results(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(40).selectExpr("id AS t", "id % 3 AS k", "timestamp_seconds(id) AS at").write.parquet(
        str(tmp_path / "in")
    )
    commits: dict[int, int] = {}

    def keep(rows: DataFrame, commit_id: int) -> None:
        commits[commit_id] = rows.count()

    with sw.Session(spark) as s:
        rows = s.stream(
            "rows", spark.read.parquet(str(tmp_path / "in")), time="t", arrival="at", disorder=sw.bounded(0)
        )
        query = rows.window(10).group_by("k").agg(n="count(*)")
        folders = [str(tmp_path / "a"), str(tmp_path / "b")]
        run = query.start(sink=[*folders, None, keep])
        both = "SELECT k, count(*) AS n FROM rows [RANGE 10, SLIDE 10] GROUP BY k"
        s.sql(f"INSERT INTO '{tmp_path / 'c'}', MEMORY AS both {both}")
        with pytest.raises(QueryError, match="is there twice"):
            s.sql("SELECT k FROM rows").start(sink=[folders[0], folders[0]])
        with pytest.raises(QueryError, match="give one sink at least"):
            s.sql("SELECT k FROM rows").start(sink=[])
        s.run_available(drain=True)
        assert run.results().num_rows == 12 == sum(commits.values())
        assert {r.name: r.results().num_rows for r in s.queries() if r.name == "both"} == {"both": 12}
    for name in "abc":
        assert pl.read_parquet(tmp_path / name / "*.parquet")["n"].sum() == 40
