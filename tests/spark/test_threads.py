"""What one thread changes, another may be going through: the user's, the executor's and Spark's batch threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.engine.build import source_label
from slackwater.spark.api.run import Run
from slackwater.spark.api.running import Running

pytestmark = pytest.mark.spark

PATIENCE = 60


def times(*seconds: int) -> pl.DataFrame:
    return pl.DataFrame({"t": [datetime.fromtimestamp(second, tz=UTC) for second in seconds]})


def live(s: sw.Session, folder: Path, name: str = "live") -> sw.Stream:
    frame = s.spark.readStream.schema("t TIMESTAMP").parquet(str(folder))
    return s.stream(name, frame, time="t", disorder=sw.bounded("0 seconds"))


def counted(rows: sw.Stream) -> sw.Query:
    return rows.window("10 seconds").agg(n="count(*)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    times(1, 4, 12, 27).write_parquet(tmp_path / "in" / "1.parquet")
    return tmp_path / "in"


class Recorded(dict[Any, Any]):
    """A dictionary that notes which threads go through it."""

    def __init__(self, values: dict[Any, Any], threads: set[str]) -> None:
        super().__init__(values)
        self._threads = threads

    def values(self) -> Any:
        self._threads.add(threading.current_thread().name)
        return super().values()

    def items(self) -> Any:
        self._threads.add(threading.current_thread().name)
        return super().items()


def test_only_the_executors_thread_goes_through_the_ports_of_a_source(spark: SparkSession, folder: Path) -> None:
    threads: set[str] = set()
    with sw.Session(spark) as s:
        run = counted(live(s, folder)).start(hold=True)
        source: Any = s._running.loop.executor.graph.nodes[source_label("live")].operator
        source._ports = Recorded(source._ports, threads)
        s.run_available()
        assert run.metrics()["rows"] == 4
    assert threads == {"slackwater-executor"}


class Meeting:
    """Lets the executor's thread stop in the middle of a walk through the runs, until a query has been added."""

    def __init__(self, loop: Any, patch: pytest.MonkeyPatch) -> None:
        self._loop = loop
        self._inside, self._added = threading.Event(), threading.Event()
        self.armed = False
        add = Running._add

        def added(running: Running, *rest: Any) -> None:
            self._added.set()
            add(running, *rest)

        patch.setattr(Running, "_add", added)

    def stand(self) -> None:
        """Called in the middle of the walk."""
        if self.armed and self._loop.inside:
            self.armed = False
            self._inside.set()
            assert self._added.wait(PATIENCE)

    def start(self, start: Callable[[], Run]) -> Run:
        """Start a query when the walk stands."""
        self._added.clear()
        assert self._inside.wait(PATIENCE)
        return start()


def test_a_query_fails_while_another_one_starts(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boom(df: DataFrame, commit: int) -> None:
        raise ValueError("the shop is closed")

    with sw.Session(spark) as s:
        meeting = Meeting(s._running.loop, monkeypatch)
        is_active: Any = Run.active
        live_streams = Running.live_streams

        def walk(running: Running) -> set[str]:
            meeting.armed = running.loop.inside
            return live_streams(running)

        def active(run: Run) -> bool:
            meeting.stand()
            return bool(is_active.fget(run))

        monkeypatch.setattr(Running, "live_streams", walk)
        monkeypatch.setattr(Run, "active", property(active))
        rows = live(s, folder)
        good = counted(rows).start(hold=True, name="good")
        counted(rows).start(boom, name="bad")
        late = meeting.start(lambda: counted(rows).start(name="late"))
        assert (good.status, late.status) == ("running", "running")
        assert [run.name for run in s.queries()] == ["good", "bad", "late"]


def test_a_streams_prod_comes_while_a_query_starts(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def replayed(name: str, seconds: list[int], **role: Any) -> sw.Stream:
        rows = spark.createDataFrame(times(*seconds).to_arrow())
        return s.stream(name, rows, time="t", arrival="t", page="10 seconds", **role)

    with sw.Session(spark) as s:
        meeting = Meeting(s._running.loop, monkeypatch)

        class Play:
            """Run._play, with a stop where the executor's thread reads it."""

            def __get__(self, run: Any, owner: Any) -> Any:
                meeting.stand()
                return run.__dict__["play"]

            def __set__(self, run: Any, play: Any) -> None:
                run.__dict__["play"] = play

        monkeypatch.setattr(Run, "_play", Play(), raising=False)
        replayed("asks", [15], role="prods")
        past = replayed("past", [1, 2, 3], disorder=sw.bounded("1 minute"))
        run = counted(past).start(name="first")
        meeting.armed = True
        worker = threading.Thread(target=s.run_available)
        worker.start()
        meeting.start(lambda: counted(past).start(name="second"))
        worker.join(PATIENCE)
        assert not worker.is_alive() and run.exception() is None
        assert run.metrics()["early_results"] >= 1


def test_what_threads_share_is_replaced_and_never_changed(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    """A walk that began before the session changed ends as it began: each race, at its widest."""

    def replayed(name: str, **role: Any) -> sw.Stream:
        rows = spark.createDataFrame(times(1, 2, 15).to_arrow())
        return s.stream(name, rows, time="t", arrival="t", page="10 seconds", **role)

    def everything(number: int) -> None:
        """All that changes what threads share: each kind of declaration, a start, work, a failure and a stop."""
        table = spark.createDataFrame(times(1).to_arrow())
        s.register_table(f"table{number}", table)
        replayed(f"asks{number}", role="prods")
        run = counted(live(s, folder, f"live{number}")).start(hold=True)
        counted(replayed(f"past{number}", disorder=sw.bounded("1 minute"))).start()
        counted(live(s, folder, f"bad{number}")).start(lambda rows, commit: 1 / 0, hold=True)
        with pytest.raises(sw.RunError, match="division by zero"):
            s.run_available()
        run.stop()

    with sw.Session(spark, journal=tmp_path / "journal") as s:
        running = s._running
        executor, queries = running.loop.executor, running._noted
        shared: dict[str, Callable[[], Any]] = {
            "queries": lambda: running.runs,
            "inputs": lambda: running._inputs,
            "streams that are read on": lambda: running._open,
            "readers": lambda: running.readers._ingests,
            "readers that stop": lambda: running.readers._stopping,
            "streams": lambda: s._catalogue._streams,
            "tables": lambda: s._catalogue.tables,
            "tables as given": lambda: s._tables,
            "streams of prods": lambda: running.controls._all,
            "owners of prods": lambda: running.controls.owners,
            "plays": lambda: running.plays.all,
            "queries to be noted": lambda: queries._new,
            "operators": lambda: executor.graph.nodes,
            "pages taken": lambda: executor._admission.consumed,
            "figures": lambda: running.loop.history.latest.operators,
        }
        everything(1)
        before = {name: list(find()) for name, find in shared.items()}
        walks = {name: iter(find()) for name, find in shared.items()}
        begun = {name: [next(walk)] if before[name] else [] for name, walk in walks.items()}
        everything(2)
        ended = {name: [*begun[name], *walk] for name, walk in walks.items()}
        assert ended == before
        changed = {name for name, find in shared.items() if list(find()) != before[name]}
        assert {"queries", "inputs", "streams", "tables", "streams of prods", "plays", "operators"} <= changed


class Turns:
    """A lock that says when a second thread waits for it."""

    def __init__(self) -> None:
        self._lock, self.contended = threading.Lock(), threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.contended.set()
            self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def test_two_threads_start_queries(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, add = Turns(), Running._add

    def both(running: Running, *rest: Any) -> None:
        assert turns.contended.wait(PATIENCE), "the second thread went by"
        add(running, *rest)

    with sw.Session(spark) as s:
        rows = live(s, folder)
        monkeypatch.setattr(s._running, "_starting", turns)
        monkeypatch.setattr(Running, "_add", both)
        starts = [threading.Thread(target=counted(rows).start, kwargs={"hold": True}) for _ in range(2)]
        for start in starts:
            start.start()
        for start in starts:
            start.join(PATIENCE)
        assert [run.name for run in s.queries()] == ["q1", "q2"]


def test_prods_of_a_live_stream_of_files_come(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """A page of files is noted by Spark's batch thread, which asks the source what will be asked of the page."""
    (tmp_path / "asks").mkdir()
    times(40).write_parquet(tmp_path / "asks" / "1.parquet")
    with sw.Session(spark) as s:
        run = counted(live(s, folder)).start(hold=True)
        asks = spark.readStream.schema("t TIMESTAMP").parquet(str(tmp_path / "asks"))
        s.stream("asks", asks, time="t", role="prods")
        s.run_available(drain=False)
        assert run.metrics()["prod_streams"]["asks"]["prods"] == 1
