"""A session is used for a whole day: replays one after another, queries that fail, stop and come back (D11)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.spark.api import running

pytestmark = pytest.mark.spark

PATIENCE = 60


def instant(second: int) -> datetime:
    return datetime.fromtimestamp(second, tz=UTC)


def past(spark: SparkSession, *seconds: tuple[int, int]) -> DataFrame:
    """A static frame of (event second, arrival second)."""
    frame = pl.DataFrame({"t": [instant(t) for t, _ in seconds], "at": [instant(a) for _, a in seconds]})
    return spark.createDataFrame(frame.to_arrow())


def counted(stream: sw.Stream) -> sw.Query:
    return stream.window("10 seconds").agg(n="count(*)")


def history(s: sw.Session, df: DataFrame, name: str = "past", slack: str = "0 seconds", **policy: Any) -> sw.Stream:
    late = sw.bounded(slack, **policy)
    return s.stream(name, df, time="t", arrival="at", page="5 seconds", disorder=late)


def replayed(s: sw.Session, name: str, df: DataFrame, slack: str = "0 seconds", **policy: Any) -> sw.Query:
    return counted(history(s, df, name, slack, **policy))


class Files:
    """A folder that a stream reads, a file for each list of seconds."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        folder.mkdir()
        self._folder, self._spark, self._files = folder, spark, 0

    def add(self, *seconds: int) -> None:
        self._files += 1
        hidden = self._folder / f".{self._files}"
        pl.DataFrame({"t": [instant(t) for t in seconds], "v": list(seconds)}).write_parquet(hidden)
        hidden.rename(self._folder / f"{self._files:03d}.parquet")

    def spoil(self) -> None:
        (self._folder / "x.parquet").write_bytes(b"no parquet at all")

    def stream(self, s: sw.Session, name: str = "live") -> sw.Stream:
        reader = self._spark.readStream.schema("t TIMESTAMP, v BIGINT").option("maxFilesPerTrigger", 1)
        return s.stream(name, reader.parquet(str(self._folder)), time="t", disorder=sw.bounded("0 seconds"))


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path / "in")


def windows(run: sw.Run) -> dict[int, int]:
    return {int(r["window_start"].timestamp()): r["n"] for r in run.results().to_pylist()}


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "it did not come to pass"  # Spark looks for new files by its own clock
        threading.Event().wait(0.02)


def test_a_second_replay_goes_by_a_clock_of_its_own(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        first = replayed(s, "first", past(spark, (1, 2), (1_000, 1_003))).start()
        s.run_available()
        assert (first.status, windows(first)) == ("finished", {0: 1, 1_000: 1})
        second = replayed(s, "second", past(spark, (1, 2), (11, 13), (21, 22))).start()
        assert second.status == "waiting"
        s.run_available()
        emitted = [r["emitted_at"] for r in second.results().to_pylist()]
        assert emitted == [instant(15), instant(25), instant(25)]
        assert windows(first) == {0: 1, 1_000: 1}


def test_a_timeout_in_a_replays_gap_fires_at_its_own_instant(spark: SparkSession) -> None:
    """The quiet stream's timeout runs out between two pages of the other one."""
    with sw.Session(spark) as s:
        busy = replayed(s, "busy", past(spark, *((t, t) for t in range(0, 60, 10))), timeout="1 hour").start()
        rows = past(spark, (1, 2), (10, 12), (91, 92))
        quiet = replayed(s, "quiet", rows, "5 seconds", timeout="23 seconds").start()
        s.run_available(drain=False)
        # The row of 10 came in the page that ends at 15; 23 seconds later all up to its time is promised.
        assert quiet.results()["emitted_at"].to_pylist()[0] == instant(15 + 23)
        assert len(busy.results()) == 5


def test_a_new_query_replays_an_exhausted_stream_from_its_start(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        stream = history(s, past(spark, (1, 2), (11, 13)))
        first = counted(stream).start()
        s.run_available()
        again = counted(stream).start(name="again")
        alike = stream.window("20 seconds").agg(n="count(*)").start(name="alike")
        s.run_available()
        assert windows(first) == windows(again) == {0: 1, 10: 1}
        assert windows(alike) == {0: 2}
        assert (first.metrics()["rows"], again.metrics()["rows"]) == (2, 2)


def test_plays_of_a_journal_go_on_in_the_next_session(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(1, 2), (11, 13), (21, 22)]
    for part, expected in ((2, [1]), (3, [1, 1, 1])):
        with sw.Session(spark, journal=tmp_path / "journal") as s:
            stream = history(s, past(spark, *rows[:part]))
            counted(stream).start(tmp_path / "one", name="one")
            if part == 2:
                s.run_available(drain=False)
            counted(stream).start(tmp_path / "two", name="two")
            s.run_available(drain=part == 3)
        for name in ("one", "two"):
            assert pl.read_parquet(tmp_path / name)["n"].to_list() == expected


def test_a_stopped_query_ends_its_replay(spark: SparkSession) -> None:
    seen: list[int] = []
    with sw.Session(spark) as s:
        query = replayed(s, "past", past(spark, *((t, t) for t in range(0, 100, 10))))

        def sink(df: DataFrame, commit: int) -> None:
            seen.append(commit)
            if len(seen) == 2:
                run.stop()

        run = query.start(sink)
        s.run_available()
        assert (seen, run.status, run.active) == ([0, 1], "stopped", False)
        again = query.start()
        s.run_available()
        assert len(windows(again)) == 10


def test_a_live_stream_beside_a_replay(spark: SparkSession, files: Files) -> None:
    files.add(1, 12)
    with sw.Session(spark) as s:
        live, old = counted(files.stream(s)).start(), replayed(s, "past", past(spark, (1, 2), (11, 13))).start()
        s.run_available()
        assert windows(live) == windows(old) == {0: 1, 10: 1}
        assert old.results()["emitted_at"].to_pylist()[0] == instant(15)
        assert live.results()["emitted_at"].to_pylist()[0].year >= 2024


def test_a_drained_live_stream_goes_on(spark: SparkSession, files: Files) -> None:
    files.add(1, 12)
    with sw.Session(spark) as s:
        run = counted(files.stream(s)).start(hold=True)
        assert run.status == "waiting"
        s.run_available()
        assert windows(run) == {0: 1, 10: 1}
        files.add(2, 31, 32)
        s.run_available()
        assert windows(run) == {0: 1, 10: 1, 30: 2}
        assert (run.metrics()["late_rows"], run.status) == (1, "waiting")


def test_a_query_that_starts_after_run_available_is_fed(spark: SparkSession, files: Files) -> None:
    with sw.Session(spark) as s:
        stream = files.stream(s)
        files.add(1)
        first = counted(stream).start()
        s.run_available(drain=False)
        later = stream.select("t").start()
        eventually(lambda: later.status == "running")
        files.add(11)
        eventually(lambda: len(later.results()) == 1)
        eventually(lambda: windows(first) == {0: 1})


def test_a_start_that_fails_leaves_others_as_they_were(
    spark: SparkSession, files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with sw.Session(spark, journal=tmp_path / "journal") as s:
        stream = files.stream(s)
        run = counted(stream).start(name="fine")

        def broken(*_: Any) -> None:
            raise OSError("no room for another query")

        with monkeypatch.context() as patch:
            patch.setattr(running, "add_query", broken)
            with pytest.raises(OSError, match="no room"):
                stream.window("10 seconds").agg(top="max(v)").start(name="broken")
        files.add(1, 11)
        eventually(lambda: windows(run) == {0: 1})
        assert [r.name for r in s.queries()] == ["fine"]
    with sw.Session(spark, journal=tmp_path / "journal") as s:
        counted(files.stream(s)).start(name="fine", hold=True)
        s.run_available()


class Boom(Exception):
    pass


def boom(df: DataFrame, commit: int) -> None:
    raise Boom("the shop is closed")


@pytest.mark.parametrize("journal", [False, True])
def test_a_query_fails_alone(spark: SparkSession, files: Files, journal: bool, tmp_path: Path) -> None:
    with sw.Session(spark, journal=tmp_path / "journal" if journal else None) as s:
        stream, other = files.stream(s), Files(spark, tmp_path / "other")
        good, bad = counted(stream).start(name="good"), counted(stream).start(boom, name="bad")
        keys, more = set(bad.metrics()), set(good.metrics())
        files.add(1, 11)
        with pytest.raises(sw.RunError, match=r"query 'bad' has failed.*Boom: the shop is closed") as caught:
            bad.await_termination(PATIENCE)
        assert isinstance(caught.value.__cause__, Boom) and "journal" not in str(caught.value)
        assert bad.exception() is caught.value
        assert (bad.status, bad.active, good.status, good.active) == ("failed", False, "running", True)
        assert set(bad.metrics()) == keys
        files.add(21)
        eventually(lambda: windows(good) == {0: 1, 10: 1})
        late = counted(other.stream(s, "other")).start(name="late")
        other.add(1, 11)
        eventually(lambda: windows(late) == {0: 1})
        with pytest.raises(sw.RunError, match="query 'bad' has failed"):
            bad.prod()
        good.stop()
        assert (good.status, good.exception(), set(good.metrics())) == ("stopped", None, more)


def test_a_failed_query_goes_on_in_the_next_session(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    files.add(1, 11)
    files.add(21)
    with sw.Session(spark, journal=tmp_path / "journal") as s:
        bad = counted(files.stream(s)).start(boom, name="q", hold=True)
        with pytest.raises(sw.RunError, match="the shop is closed"):
            s.run_available()
        assert bad.status == "failed"
    got: dict[int, list[int]] = {}
    with sw.Session(spark, journal=tmp_path / "journal") as s:

        def sink(df: DataFrame, commit: int) -> None:
            got[commit] = df.toArrow()["n"].to_pylist()

        counted(files.stream(s)).start(sink, name="q", hold=True)
        s.run_available()
    assert [n for part in got.values() for n in part] == [1, 1, 1]


@pytest.mark.parametrize("name", ['a/b #1: "é", 日本', "../*", "prods/s", "source:s"])
def test_a_query_of_any_name_writes_files_and_goes_on(
    spark: SparkSession, files: Files, tmp_path: Path, name: str
) -> None:
    for rows, first in ((2, 1), (4, 21)):
        files.add(first, first + 10)
        with sw.Session(spark, journal=tmp_path / "journal", resident_limit=1) as s:
            run = counted(files.stream(s)).start(tmp_path / "out", name=name, hold=True)
            before = {path.name for path in tmp_path.iterdir()}
            s.run_available(drain=rows == 4)
            assert run.metrics()["rows"] == rows
            assert {path.name for path in tmp_path.iterdir()} <= before | {"out"}
    written = spark.read.parquet(str(tmp_path / "out")).toArrow().sort_by("window_start")
    assert written["n"].to_pylist() == [1, 1, 1, 1]


def test_an_early_answer_that_cannot_be_written_ends_its_query_at_once(spark: SparkSession, files: Files) -> None:
    with sw.Session(spark) as s:
        run = counted(files.stream(s)).start(boom, early=sw.early(every="1 second"))
        files.add(1)
        with pytest.raises(sw.RunError, match="the shop is closed"):
            run.await_termination(PATIENCE)
        assert run.metrics()["rows"] == 1


def test_a_stream_that_spark_cannot_read_ends_its_own_queries(
    spark: SparkSession, files: Files, tmp_path: Path
) -> None:
    with sw.Session(spark) as s:
        good, other = Files(spark, tmp_path / "other"), counted(files.stream(s)).start()
        fine = counted(good.stream(s, "good")).start()
        files.spoil()
        with pytest.raises(sw.RunError, match="query 'q1' has failed"):
            other.await_termination(PATIENCE)
        good.add(1, 11)
        eventually(lambda: windows(fine) == {0: 1})
        assert (other.status, fine.status) == ("failed", "running")


def test_stopping_does_not_wait_for_a_backlog(spark: SparkSession, files: Files) -> None:
    begun, permits, written = threading.Event(), threading.Semaphore(0), list[int]()

    def gated(df: DataFrame, commit: int) -> None:
        begun.set()
        assert permits.acquire(timeout=PATIENCE)
        written.append(commit)

    def calls_until_it_ends(stop: Callable[[], None]) -> int:
        """How often the sinks are called meanwhile: they are let go one by one."""
        before, stopper = len(written), threading.Thread(target=stop)
        stopper.start()
        while stopper.is_alive():
            permits.release()
            stopper.join(0.1)
        return len(written) - before

    for second in range(1, 401, 10):
        files.add(second)
    with sw.Session(spark) as s:
        stream = files.stream(s).map(_same, "t TIMESTAMP, v BIGINT")
        run, other = counted(stream).start(gated), counted(stream).start(gated)
        assert begun.wait(PATIENCE)
        assert calls_until_it_ends(run.stop) < 30, "there are eighty in all"
        assert (run.status, other.status) == ("stopped", "running")
        assert calls_until_it_ends(s.stop) < 30
        assert other.status == "stopped"


def _same(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


def test_a_session_can_be_stopped_inside_a_sinks_function(spark: SparkSession, files: Files) -> None:
    files.add(1, 11, 21)
    with sw.Session(spark) as s:
        run = counted(files.stream(s)).start(lambda df, commit: s.stop())
        assert run.await_termination(PATIENCE)
        assert run.status == "stopped"
        with pytest.raises(sw.RunError, match="the session has been stopped"):
            s.run_available()
