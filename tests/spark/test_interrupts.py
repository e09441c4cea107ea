"""Ctrl-C in a program: what is under way is finished, nothing is lost, and the program is told how to go on."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.spark.api.session import stop_at_exit
from slackwater.spark.ingest.interrupts import Interrupts
from slackwater.spark.storage.embedded import own_interrupts
from tests.kit.borrowed_spark import lent

ROOT = Path(__file__).parents[2]
START = datetime(2024, 1, 1, tzinfo=UTC)


def ctrl_c(*_: Any) -> None:
    signal.raise_signal(signal.SIGINT)


def interrupts(paused: bool = False, journal: str | None = None) -> Interrupts:
    return Interrupts(lambda: paused, journal)


def test_it_is_noted_and_raised_at_the_end() -> None:
    wanted, steps, before = interrupts(journal="state"), [], signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match=r"Call it again; or start .*the journal 'state' has"):  # noqa: SIM117
        with wanted.heard("Call it again"):
            ctrl_c()
            steps.append(wanted.wished)
    assert steps == [True] and not wanted.wished
    assert signal.getsignal(signal.SIGINT) is before


def test_without_it_nothing_is_raised() -> None:
    with interrupts().heard("Call it again"):
        pass


@pytest.mark.parametrize("paused", [False, True])
def test_a_second_one_or_one_while_all_stands_is_raised_at_once(paused: bool) -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt, match="committed"), interrupts(paused).heard(""):
        steps.append("first")
        ctrl_c()
        steps.append("second")
        ctrl_c()
        steps.append("third")
    assert steps == (["first"] if paused else ["first", "second"])


def test_waiting_ends_with_it() -> None:
    wanted, pauses, never = interrupts(), list[float](), Future[object]()
    with pytest.raises(KeyboardInterrupt, match="needs a journal"), wanted.heard(""):
        wanted.wait(1e9, lambda seconds: ctrl_c() if len(pauses) == 3 else pauses.append(seconds))
        wanted.await_end(never)
    assert len(pauses) == 3


def test_an_error_of_the_work_is_told_though_it_is_a_timeout() -> None:
    failed = Future[object]()
    failed.set_exception(TimeoutError("of a sink"))
    with pytest.raises(TimeoutError, match="of a sink"):
        interrupts().await_end(failed)


def test_other_threads_hear_nothing() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def look() -> None:
        with interrupts().heard(""):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]


def rows(spark: SparkSession) -> DataFrame:
    times = [START + timedelta(minutes=7 * n) for n in range(40)]
    return spark.createDataFrame([(t, t) for t in times], "t TIMESTAMP, came TIMESTAMP")


def hourly(s: sw.Session) -> sw.Run:
    stream = s.stream("s", rows(s.spark), time="t", arrival="came", page="1 hour", disorder=sw.bounded("0 seconds"))
    return stream.window("1 hour").agg(n="count(*)").start()


def test_a_replay_goes_on_where_it_was(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        run, pages = hourly(s), list[int]()

        def on_page(page: dict[str, Any]) -> None:
            pages.append(page["page"])
            if len(pages) == 2:
                ctrl_c()

        with pytest.raises(KeyboardInterrupt, match=r"^interrupted: .*run_available\(\) again"):
            s.run_available(progress=on_page)
        assert len(pages) == 2 and run.status == "waiting"
        assert run.metrics()["rows"] < 40
        s.run_available()
        assert run.status == "finished"
        assert sum(run.results()["n"].to_pylist()) == run.results()["n"].to_pylist()[0] + 31 == 40


def test_a_program_goes_on_from_its_journal(spark: SparkSession, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    for interrupted in (True, False):
        with sw.Session(spark, journal=tmp_path / "journal") as s:
            stream = s.stream(
                "s", rows(spark), time="t", arrival="came", page="1 hour", disorder=sw.bounded("0 seconds")
            )
            stream.window("1 hour").agg(n="count(*)").start(name="q", sink=out)
            if interrupted:
                with pytest.raises(KeyboardInterrupt, match=r"start .* again: the journal '.*journal' has"):
                    s.run_available(progress=ctrl_c)
                assert not list((tmp_path / "out").glob("*.parquet")), "no window had ended"
            else:
                s.run_available()
    counts = [row.n for row in spark.read.parquet(out).orderBy("window_start").collect()]
    assert counts == [9, 9, 8, 9, 5]


PROGRAM = """
import sys
import slackwater as sw
from tests.kit.borrowed_spark import borrowed
from tests.spark.test_interrupts import rows

s = sw.Session(borrowed(), journal=sys.argv[1])
stream = s.stream("s", rows(s.spark), time="t", arrival="came", page="1 hour", disorder=sw.bounded("0 seconds"))
stream.window("1 hour", "1 hour").agg(n="count(*)").start(name="q", sink=sys.argv[2])

def told(page):
    if sys.argv[3] == "waits":
        print("a page is done", flush=True)
        sys.stdin.readline()

s.run_available(progress=told)
print("the end", flush=True)
"""


def test_ctrl_c_ends_a_plain_program_and_the_same_program_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    def program(how: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "journal"), str(tmp_path / "out"), how]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, text=True, env=lent(spark), cwd=ROOT, **pipes)  # type: ignore[call-overload, no-any-return]

    with program("waits") as first:
        assert first.stdout and first.stdout.readline() == "a page is done\n", first.communicate()[1]
        first.send_signal(signal.SIGINT)
        said, errors = first.communicate("\n", timeout=120)
    assert first.returncode == -signal.SIGINT and said == ""
    last = errors.rstrip().splitlines()[-1]
    assert last.startswith("KeyboardInterrupt: interrupted: the page under way was finished and committed.")
    assert last.endswith(f"or start the program again: the journal '{tmp_path / 'journal'}' has all that was done")
    assert "py4j" not in errors and "\tat org.apache" not in errors
    with program("goes on") as again:
        said, errors = again.communicate(timeout=120)
    assert (again.returncode, said) == (0, "the end\n"), errors
    counts = [row.n for row in spark.read.parquet(str(tmp_path / "out")).orderBy("window_start").collect()]
    assert counts == [9, 9, 8, 9, 5]


def test_a_live_stream_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    for n in range(3):
        rows(spark).where(f"minute(t) % 3 = {n}").coalesce(1).write.mode("append").parquet(str(tmp_path))
    frame = spark.readStream.schema("t TIMESTAMP").option("maxFilesPerTrigger", 1).parquet(str(tmp_path))
    with sw.Session(spark, batch_pages=False) as s:
        stream, asked = s.stream("s", frame, time="t", disorder=sw.bounded("1 day")), threading.Event()

        def sink(rows: DataFrame, commit_id: int) -> None:
            if not asked.is_set():
                asked.set()
                ctrl_c()

        every = stream.where("true").select("t").start(sink=sink, name="every", hold=True)
        total = stream.window("1 day").agg(n="count(*)").start(name="total", hold=True)
        with pytest.raises(KeyboardInterrupt, match="again to go on"):
            s.run_available()
        assert every.status == "waiting" and total.results().num_rows == 0, "windows are open"
        s.run_available()
        assert total.results()["n"].to_pylist() == [40]


def test_what_starts_spark_leaves_ctrl_c_as_it_was() -> None:
    """PySpark's handler cancels all jobs, of queries too."""
    before = signal.getsignal(signal.SIGINT)
    with own_interrupts():
        signal.signal(signal.SIGINT, ctrl_c)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_program_that_ends_without_stop_leaves_its_journal_in_order(spark: SparkSession, tmp_path: Path) -> None:
    s = sw.Session(spark, journal=tmp_path)
    run = hourly(s)
    stop_at_exit()
    assert run.status == "stopped"
    with pytest.raises(sw.RunError, match="the session has been stopped"):
        s.run_available()
    with sw.Session(spark, journal=tmp_path) as again:  # it is free, and knows the query
        hourly(again)
        again.run_available()


def test_what_is_called_after_each_page_must_be_a_function(spark: SparkSession) -> None:
    with sw.Session(spark) as s:
        hourly(s)
        with pytest.raises(sw.QueryError, match="progress=7: give a function"):
            s.run_available(progress=7)  # type: ignore[arg-type]
