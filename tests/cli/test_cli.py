"""The command line: what it prints where, its exit codes, and that a user's mistake is one line."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from slackwater.cli import _pass_on, app, follow, quiet, status
from slackwater.errors import RunError

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
JOB = """
[streams.calls]
format = "parquet"
path = "incoming"
schema = "sent TIMESTAMP, received TIMESTAMP, device STRING"
time = "sent"
disorder = {bounded = "1 minute"}

[query]
from = "calls"
range = "10 minutes"
slide = "10 minutes"
group_by = ["device"]
agg = {n = "count(*)"}
"""
REPLAY = JOB.replace("[query]", 'replay = true\narrival = "received"\npage = "5 minutes"\n[query]')


def arrive(folder: Path, name: str, minutes: list[tuple[float, float]]) -> None:
    """A file of rows, each sent and received so many minutes after noon."""
    rows = [(NOON + timedelta(minutes=s), NOON + timedelta(minutes=r), "a") for s, r in minutes]
    instant = pa.timestamp("us", tz="UTC")
    schema = pa.schema([("sent", instant), ("received", instant), ("device", pa.string())])
    (folder / "incoming").mkdir(exist_ok=True)
    table = pa.table([list(c) for c in zip(*rows, strict=True)], schema=schema)
    pq.write_table(table, folder / "incoming" / f"{name}.parquet")


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A replay with a row that is sent at 12:04, and received when its window has been answered."""
    arrive(tmp_path, "all", [(1, 1), (3, 3), (12, 12), (14, 14), (4, 16), (25, 25)])
    file = tmp_path / "calls.toml"
    file.write_text(REPLAY)
    return file


def test_version_and_help_need_no_spark() -> None:
    assert invoke("--version").stdout.startswith("slackwater ")
    listed = invoke("--help").stdout
    assert all(command in listed for command in ("demo", "run", "check"))


def test_a_mistake_in_a_job_file_is_one_line_on_stderr(tmp_path: Path) -> None:
    file = tmp_path / "calls.toml"
    file.write_text(JOB.replace("range", "rnge"))
    for command in ("check", "run"):
        told = invoke(command, file)
        assert told.exit_code == 1
        assert told.stdout == ""
        assert told.stderr.startswith("error: calls.toml: query.rnge: unknown key (did you mean 'range'?)")
        assert told.stderr.count("\n") == 1


@pytest.mark.spark
def test_check_prints_the_plan_and_writes_nothing(spark: SparkSession, job: Path) -> None:
    before = sorted(job.parent.rglob("*"))
    told = invoke("check", job)
    assert told.exit_code == 0, told.stderr
    assert told.stdout.startswith("stream calls (sent timestamp")
    assert "count(*)" in told.stdout
    assert sorted(job.parent.rglob("*")) == before


@pytest.mark.spark
def test_check_says_what_spark_finds(spark: SparkSession, job: Path) -> None:
    job.write_text(REPLAY.replace("count(*)", "max(level)"))
    told = invoke("check", job)
    assert told.exit_code == 1
    assert told.stderr.startswith("error: calls.toml: query.agg: ")
    assert "there is no column 'level'" in told.stderr
    assert told.stderr.count("\n") == 1


@pytest.mark.spark
def test_run_without_a_sink_prints_the_results(spark: SparkSession, job: Path) -> None:
    told = invoke("run", job)
    assert told.exit_code == 0, told.stderr
    header, *rows = [line.split() for line in told.stdout.splitlines()]
    assert header[:3] == ["device", "n", "window_start"]
    assert [(r[1], r[3]) for r in rows] == [("2", "12:00:00"), ("2", "12:10:00"), ("1", "12:20:00")]
    assert "6 rows, 1 late, 3 windows, 3 results" in told.stderr


@pytest.mark.spark
def test_run_writes_results_and_late_rows_where_the_file_says(spark: SparkSession, job: Path) -> None:
    job.write_text(REPLAY + '[sink]\npath = "out"\nlate = "late"\n')
    told = invoke("run", job)
    assert told.exit_code == 0, told.stderr
    assert told.stdout == ""
    assert pq.read_table(job.parent / "out")["n"].to_pylist() == [2, 2, 1]
    assert pq.read_table(job.parent / "late")["sent"].to_pylist() == [NOON + timedelta(minutes=4)]
    again = invoke("run", job)
    assert "files of results already; new ones are added" in again.stderr


ASKED = """
[streams.asks]
format = "parquet"
path = "asked"
time = "received"
replay = true
arrival = "received"
role = "prods"
"""


@pytest.mark.spark
def test_run_gives_early_answers_where_the_file_says(spark: SparkSession, job: Path) -> None:
    (job.parent / "asked").mkdir()
    instant = pa.timestamp("us", tz="UTC")
    asked = pa.table({"received": pa.array([NOON + timedelta(minutes=9)], instant), "until": pa.nulls(1, instant)})
    pq.write_table(asked, job.parent / "asked" / "one.parquet")
    job.write_text(REPLAY + "early = {at = 0.75}\n" + ASKED + '[sink]\npath = "out"\n')
    told = invoke("run", job)
    assert told.exit_code == 0, told.stderr
    rows = pq.read_table(job.parent / "out").sort_by("emitted_at").to_pylist()
    said = [(r["window_start"].minute, r["kind"], r["n_seen"]) for r in rows]
    # By the clock at 12:07:30, by the stream of prods at 12:09.
    assert said[:3] == [(0, "early", 2), (0, "early", 2), (0, "final", None)]


@pytest.mark.spark
def test_run_goes_on_from_its_journal(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "calls.toml"
    file.write_text('journal = "state"\ndrain = false\n' + JOB + '[sink]\npath = "out"\n')
    arrive(tmp_path, "first", [(1, 1), (12, 12)])
    assert invoke("run", file).exit_code == 0
    assert pq.read_table(tmp_path / "out")["n"].to_pylist() == [1]
    arrive(tmp_path, "second", [(13, 13), (25, 25)])
    told = invoke("run", file)
    assert told.exit_code == 0, told.stderr
    assert sorted(pq.read_table(tmp_path / "out")["n"].to_pylist()) == [1, 2]
    assert "4 rows, 0 late" in told.stderr


@pytest.mark.spark
def test_a_row_that_spark_fails_on_is_one_line_too(spark: SparkSession, job: Path) -> None:
    job.write_text(REPLAY.replace("range", "where = \"isnull(raise_error('boom'))\"\nrange"))
    told = invoke("run", job)
    assert told.exit_code == 1
    assert told.stderr.startswith("error: ")
    assert "boom" in told.stderr
    assert told.stderr.count("\n") == 1


@pytest.mark.spark
def test_run_says_so_when_its_journal_was_drained(spark: SparkSession, job: Path) -> None:
    job.write_text('journal = "state"\n' + REPLAY)
    assert "the last run closed every window" not in invoke("run", job).stderr
    again = invoke("run", job)
    assert again.exit_code == 0
    assert "the last run closed every window in this journal" in again.stderr


def test_follow_tells_now_and_then_until_the_work_ends() -> None:
    told: list[int] = []
    enough = threading.Event()

    def tell() -> None:
        told.append(1)
        if len(told) == 3:
            enough.set()

    assert follow(lambda: check_set(enough), threading.Event(), tell, every=0)
    assert len(told) >= 3


def check_set(event: threading.Event) -> None:
    assert event.wait(60)


def test_follow_leaves_the_work_when_it_is_stopped() -> None:
    stop, never = threading.Event(), threading.Event()
    stop.set()
    assert not follow(lambda: check_set(never), stop)
    never.set()


def test_follow_raises_what_ended_the_work() -> None:
    def work() -> None:
        raise RunError("stream 'calls' has failed")

    with pytest.raises(RunError, match="'calls' has failed"):
        follow(work, threading.Event())


def test_status_is_one_line() -> None:
    counts = {"rows": 5000, "missing_time": 1, "late_rows": 2, "windows": 3, "results": 4}
    assert status({"heartbeat": "2024-05-01 12:00:00", "lag_seconds": 1.25, **counts}) == (
        "heartbeat 2024-05-01 12:00:00, lag 1.2 s, 5,000 rows (1 without a time), 2 late, 3 windows, 4 results"
    )


def test_greetings_of_spark_are_left_out_and_all_else_comes_through() -> None:
    spark_in, spark_out = os.pipe()
    user_in, user_out = os.pipe()
    os.write(spark_out, b"WARNING: Using incubator modules: jdk.incubator.vector\n")
    os.write(spark_out, b"26/05/01 12:00:00 ERROR Executor: something is wrong\n\tat Some.java\n")
    os.write(spark_out, b"Warning: Java versions > Java 11 can only operate in restricted mode\n")
    os.close(spark_out)
    _pass_on(spark_in, user_out)
    with os.fdopen(user_in, "rb") as seen:
        assert seen.read() == b"26/05/01 12:00:00 ERROR Executor: something is wrong\n\tat Some.java\n"


def test_stderr_is_put_back_after_the_start(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet():
        pass
    os.write(2, b"Setting Spark log level to is what I say\n")
    assert capfd.readouterr().err == "Setting Spark log level to is what I say\n"
