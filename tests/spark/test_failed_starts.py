"""A start that comes to nothing leaves the journal as it was: the program of before goes on from it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.spark.api import running

pytestmark = pytest.mark.spark

SECONDS = (1, 4, 12, 19, 23, 37)


def instant(second: int) -> datetime:
    return datetime.fromtimestamp(second, tz=UTC)


def stream(s: sw.Session, seconds: tuple[int, ...] = SECONDS) -> sw.Stream:
    frame = s.spark.createDataFrame(pl.DataFrame({"t": [instant(t) for t in seconds]}).to_arrow())
    return s.stream("past", frame, time="t", arrival="t", page="5 seconds", disorder=sw.bounded("0 seconds"))


def counted(rows: sw.Stream, **more: str) -> sw.Query:
    return rows.window("10 seconds").agg(n="count(*)", **more)


def files(folder: Path) -> dict[str, object]:
    """What the journal holds, but for who uses it; each owner writes the header and the last record anew."""
    headers = sorted(folder.glob("journal-*.json"), key=lambda p: int(p.stem.rpartition("-")[2]))
    records = {p.name.partition("-")[0] for p in (folder / "steps").iterdir()}
    inside = [p for p in folder.rglob("*") if p.is_file() and p.name not in ("owner.json", "lock")]
    same = {str(p): p.read_bytes() for p in inside if p not in headers and p.parent.name != "steps"}
    return same | {"header": headers[-1].read_bytes(), "steps": records}


def first_session(spark: SparkSession, journal: Path) -> None:
    with sw.Session(spark, journal=journal) as s:
        counted(stream(s, SECONDS[:4])).start(name="hourly")
        s.run_available(drain=False)


def old_program_goes_on(spark: SparkSession, journal: Path) -> None:
    with sw.Session(spark, journal=journal) as s:
        run = counted(stream(s)).start(name="hourly")
        s.run_available()
        # Rows of the window that was open come from the journal: this session has read none of them.
        assert run.results()["n"].to_pylist() == [2, 1, 1]
        assert run.metrics()["rows"] == len(SECONDS)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_query_without_the_old_one_changes_nothing(spark: SparkSession, tmp_path: Path, stopped: bool) -> None:
    first_session(spark, tmp_path)
    before = files(tmp_path)
    with sw.Session(spark, journal=tmp_path) as s:
        changed = counted(stream(s), last="max(t)")
        with pytest.raises(sw.JournalError, match="another query"):
            changed.start(name="hourly")
        run = changed.start(name="hourly2")
        with pytest.raises(sw.RunError, match="holds the queries hourly; start them too"):
            s.run_available()
        if stopped:
            run.stop()
    assert files(tmp_path) == before
    old_program_goes_on(spark, tmp_path)


def test_a_start_that_raises_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise OSError("no room for another query")

    first_session(spark, tmp_path)
    before = files(tmp_path)
    with sw.Session(spark, journal=tmp_path) as s, monkeypatch.context() as patch:
        patch.setattr(running, "add_query", broken)
        rows = stream(s)
        for name in ("hourly", "hourly2"):
            with pytest.raises(OSError, match="no room"):
                counted(rows).start(name=name)
    assert files(tmp_path) == before
    old_program_goes_on(spark, tmp_path)


def test_a_start_that_raises_leaves_a_stopped_query_in_the_journal(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another query on its stream ends it for good, but only one that has been started."""

    def broken(*_: Any) -> None:
        raise OSError("no room for another query")

    first_session(spark, tmp_path)
    with sw.Session(spark, journal=tmp_path) as s:
        rows = stream(s)
        counted(rows).start(name="hourly").stop()
        s._running.loop.call(lambda: None)  # the stop is committed
        before = files(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(running, "add_query", broken)
            with pytest.raises(OSError, match="no room"):
                counted(rows, last="max(t)").start(name="hourly2")
        assert files(tmp_path) == before
    old_program_goes_on(spark, tmp_path)


def test_a_new_query_beside_the_old_one_is_in_the_journal(spark: SparkSession, tmp_path: Path) -> None:
    first_session(spark, tmp_path)
    for _ in range(2):
        with sw.Session(spark, journal=tmp_path) as s:
            rows = stream(s)
            counted(rows, last="max(t)").start(name="hourly2")
            counted(rows).start(name="hourly")
            s.run_available(drain=False)
    with sw.Session(spark, journal=tmp_path) as s:
        counted(stream(s)).start(name="hourly")
        with pytest.raises(sw.RunError, match="holds the queries hourly2"):
            s.run_available()
