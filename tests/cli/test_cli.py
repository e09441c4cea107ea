"""The command line: what it prints where, its exit codes, and that a user's mistake is one line."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from slackwater.cli import app
from slackwater.cli.follow import follow
from slackwater.cli.job import Runner, read_file, read_text
from slackwater.cli.prompt import prompt
from slackwater.cli.quiet import pass_on, quiet
from slackwater.cli.served import served
from slackwater.cli.show import say, show, status
from slackwater.dashboard import LivePage
from slackwater.errors import QueryError, RunError
from slackwater.scheduling.chain import BoundedChain
from slackwater.spark.api.session import Session

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
STREAM = """CREATE STREAM calls (sent TIMESTAMP, received TIMESTAMP, device STRING)
  FROM 'parquet' OPTIONS (path = 'incoming') TIME sent DISORDER BOUNDED 1 MINUTE{};
"""
LIVE, REPLAY = STREAM.format(""), STREAM.format(" REPLAY BY received PAGE 5 MINUTES")
QUERY = "SELECT device, count(*) AS n FROM calls [RANGE 10 MINUTES, SLIDE 10 MINUTES] GROUP BY device"


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
    file = tmp_path / "calls.sql"
    file.write_text(f"{REPLAY}{QUERY};")
    return file


def test_version_and_help_need_no_spark() -> None:
    assert invoke("--version").stdout.startswith("slackwater ")
    listed = invoke("--help").stdout
    assert all(command in listed for command in ("demo", "sql", "run", "check"))


def test_a_mistake_in_a_file_is_told_with_its_place_before_spark_starts(tmp_path: Path) -> None:
    file = tmp_path / "calls.sql"
    file.write_text(f"{REPLAY}{QUERY.replace('RANGE', 'RNGE')};")
    for command in ("check", "run"):
        told = invoke(command, file)
        assert told.exit_code == 1
        assert told.stdout == ""
        first, shown, caret = told.stderr.splitlines()
        assert first.startswith("error: line 3, column 42: expected one of RANGE, ROWS")
        assert first.endswith("found RNGE (did you mean 'RANGE'?)")
        assert shown.startswith("3 | SELECT device") and caret.strip("^") == "  | " + " " * 41
    assert invoke("sql", "-c", "SELEC").stderr.startswith("error: line 1, column 1: expected a statement")


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    told = invoke("run", tmp_path / "missing.sql")
    assert told.exit_code == 1
    assert told.stderr.startswith("error: cannot read ") and "No such file" in told.stderr
    assert told.stderr.count("\n") == 1


def test_settings_stand_first(tmp_path: Path) -> None:
    file = tmp_path / "calls.sql"
    file.write_text(f"{REPLAY}SET journal = 'state';")
    assert "SET comes before all other statements" in invoke("run", file).stderr


def test_a_file_says_what_runs_next(tmp_path: Path) -> None:
    job = read_text("SET strategy = 'chain'; SET max_wait = '5 seconds'; SHOW STREAMS", tmp_path)
    strategy = job.strategy()
    assert isinstance(strategy, BoundedChain) and strategy.max_wait == 5
    assert read_text("SET strategy = 'greedy'; SHOW STREAMS", tmp_path).strategy().name == "greedy"
    with pytest.raises(QueryError, match="SET max_wait = '5 seconds' goes with SET strategy = 'chain', not 'fifo'"):
        read_text("SET max_wait = '5 seconds'; SHOW STREAMS", tmp_path).strategy()


@pytest.mark.spark
def test_check_prints_the_plans_and_writes_nothing(spark: SparkSession, job: Path) -> None:
    job.write_text(f"{REPLAY}{QUERY}; INSERT INTO 'out' SELECT sent FROM calls; RUN")
    before = sorted(job.parent.rglob("*"))
    told = invoke("check", job)
    assert told.exit_code == 0, told.stderr
    one, other = told.stdout.split("\n\n")
    assert one.startswith("stream calls (sent timestamp") and "count(*)" in one
    assert other.endswith("select sent\n")
    assert sorted(job.parent.rglob("*")) == before


@pytest.mark.spark
def test_check_says_what_spark_finds(spark: SparkSession, job: Path) -> None:
    job.write_text(f"{REPLAY}{QUERY.replace('count(*)', 'max(level)')}")
    told = invoke("check", job)
    assert told.exit_code == 1
    assert told.stderr.startswith("error: line 3, column 20: n='max(level)': there is no column 'level'")
    job.write_text(f"{REPLAY}SELECT max(sent) AS m FROM calls [ROWS 5] EMIT EARLY AT 50%")
    told = invoke("check", job)
    assert told.stderr.startswith("error: line 3, column 1: early(at=…): a window for each row ends with its row")


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
    job.write_text(f"{REPLAY}INSERT INTO 'out' LATE INTO 'late' {QUERY}; INSERT INTO 'rows' SELECT * FROM calls")
    told = invoke("run", job)
    assert told.exit_code == 0, told.stderr
    assert told.stdout == ""
    assert pq.read_table(job.parent / "out")["n"].to_pylist() == [2, 2, 1]
    assert pq.read_table(job.parent / "late")["sent"].to_pylist() == [NOON + timedelta(minutes=4)]
    assert pq.read_table(job.parent / "rows").num_rows == 6
    assert "q1: heartbeat" in told.stderr and "q2: heartbeat" in told.stderr
    again = invoke("run", job)
    assert re.search(r"out holds \d+ files of results already; new ones are added", again.stderr)


ASKED = """CREATE STREAM OF PRODS asks FROM 'parquet' OPTIONS (path 'asked') TIME received REPLAY BY received;
"""


@pytest.mark.spark
def test_run_gives_early_answers_where_the_file_says(spark: SparkSession, job: Path) -> None:
    (job.parent / "asked").mkdir()
    instant = pa.timestamp("us", tz="UTC")
    asked = pa.table({"received": pa.array([NOON + timedelta(minutes=9)], instant), "until": pa.nulls(1, instant)})
    pq.write_table(asked, job.parent / "asked" / "one.parquet")
    job.write_text(f"{REPLAY}{ASKED}INSERT INTO 'out' {QUERY} EMIT EARLY AT 75%;")
    told = invoke("run", job)
    assert told.exit_code == 0, told.stderr
    rows = pq.read_table(job.parent / "out").sort_by("emitted_at").to_pylist()
    said = [(r["window_start"].minute, r["kind"], r["n_seen"]) for r in rows]
    # By the clock at 12:07:30, by the stream of prods at 12:09.
    assert said[:3] == [(0, "early", 2), (0, "early", 2), (0, "final", None)]


@pytest.mark.spark
def test_run_serves_the_live_page_and_writes_events(
    spark: SparkSession, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[str] = []

    class Seen(threading.Event):
        """A user who looks at the page when the work is done, and then leaves."""

        def wait(self, timeout: float | None = None) -> bool:
            (page,) = pages
            figures.extend(httpx.get(f"{page.url}metrics").text.splitlines())
            return True

    pages: list[LivePage] = []
    serve = Session.serve

    def noted(self: Session, *given: Any) -> LivePage:
        pages.append(serve(self, *given))
        return pages[-1]

    monkeypatch.setattr(Session, "serve", noted)
    monkeypatch.setattr(sys.modules["slackwater.cli.app"], "served", lambda port, host: served(port, host, Seen))
    done = invoke("run", job, "--page", "--log-json", tmp_path / "events.jsonl")
    assert done.exit_code == 0 and f"the live page is at {pages[0].url}" in done.stderr
    assert 'slackwater_query_late_rows_total{query="q1"} 1.0' in figures
    assert not pages[0].active
    told = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["event"] for line in told] == ["page.served", "query.started", "session.stopped"]
    assert told[1]["query"] == "q1" and told[1]["streams"] == ["calls"]


def test_run_goes_on_from_its_journal(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "calls.sql"
    file.write_text(f"SET journal = 'state';\n{LIVE}INSERT INTO 'out' AS calls {QUERY}; RUN WITHOUT DRAIN;")
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
    job.write_text(REPLAY + QUERY.replace("GROUP", "WHERE isnull(raise_error('boom')) GROUP"))
    told = invoke("run", job)
    assert told.exit_code == 1
    assert "boom" in told.stderr
    assert told.stderr.splitlines()[-1].startswith("error: ")


@pytest.mark.spark
def test_run_says_so_when_its_journal_was_drained(spark: SparkSession, job: Path) -> None:
    job.write_text(f"SET journal = 'state'; {REPLAY}{QUERY}")
    assert "the last run closed every window" not in invoke("run", job).stderr
    again = invoke("run", job)
    assert again.exit_code == 0
    assert "the last run closed every window in this journal" in again.stderr


@pytest.mark.spark
def test_a_replay_does_not_run_continuously(spark: SparkSession, job: Path) -> None:
    job.write_text(f"{REPLAY}INSERT INTO MEMORY {QUERY}; RUN CONTINUOUSLY")
    told = invoke("run", job)
    assert told.exit_code == 1
    assert "query 'q1' reads a replay, which has an end; write RUN" in told.stderr


@pytest.mark.spark
def test_sql_carries_out_what_the_command_line_says(
    spark: SparkSession, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(job.parent)
    told = invoke("sql", "-c", f"{REPLAY} SHOW STREAMS; EXPLAIN {QUERY}; {QUERY}")
    assert told.exit_code == 0, told.stderr
    assert told.stdout.split()[:5] == ["name", "columns", "time", "source", "disorder"]
    assert "agg n = count(*)" in told.stdout
    assert told.stdout.splitlines()[-1].split()[:2] == ["a", "1"]


@pytest.mark.spark
def test_the_prompt_carries_out_each_statement_and_goes_on_after_a_mistake(
    spark: SparkSession, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["SELECT nothing", "FROM calls;", "SHOW STREAMS;", *QUERY.replace(" FROM", "\nFROM").splitlines(), ";"]
    lines = iter([*REPLAY.splitlines(), *asked, "exit"])
    typed: list[str] = []

    def read(shown: str) -> str:
        typed.append(shown)
        return next(lines)

    with Session(spark) as session:
        session._interpreter.folder = job.parent
        prompt(session, read, job.parent / "history")
    told = capsys.readouterr()
    assert typed[:3] == ["slackwater> ", "        ... ", "slackwater> "]
    assert "there is no column 'nothing'" in told.err
    assert "bounded('1 minute')" in told.out
    assert told.out.splitlines()[-1].split()[:2] == ["a", "1"], told.err
    assert (job.parent / "history").exists()


def test_the_prompt_ends_at_the_end_of_input(tmp_path: Path) -> None:
    def read(shown: str) -> str:
        raise EOFError

    prompt(None, read, tmp_path / "history")  # type: ignore[arg-type]


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
    pass_on(spark_in, user_out)
    with os.fdopen(user_in, "rb") as seen:
        assert seen.read() == b"26/05/01 12:00:00 ERROR Executor: something is wrong\n\tat Some.java\n"


def test_stderr_is_put_back_after_the_start(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet():
        pass
    os.write(2, b"Setting Spark log level to is what I say\n")
    assert capfd.readouterr().err == "Setting Spark log level to is what I say\n"


def test_the_package_can_be_run_as_a_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["slackwater", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("slackwater", run_name="__main__")
    assert ended.value.code == 0 and capsys.readouterr().out.startswith("slackwater ")


def test_windows_that_end_after_the_year_9999_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Python has no such year; in many tables 9999-12-31 stands for "unknown"."""
    ends = pa.array([datetime(9999, 12, 31, tzinfo=UTC)], pa.timestamp("us", "UTC")).cast("int64")
    later = pa.array([ends[0].as_py() + 86_400_000_000]).cast(pa.timestamp("us", "UTC"))
    show(pa.table({"window_end": later, "n": [7]}))
    assert re.search(r"\+10000-01-01 00:00:00\S* +7", capsys.readouterr().out)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Editors of Windows write one."""
    (tmp_path / "job.sql").write_text("SET strategy = 'chain'; STOP q", encoding="utf-8-sig")
    assert read_file(tmp_path / "job.sql").settings == {"strategy": "chain"}


def test_a_terminal_has_one_line_of_progress_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    monkeypatch.setattr(text, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", text)
    figures = {"rows": 1200, "queued_rows": 300}
    runner = Runner(SimpleNamespace(), journaled=False)  # type: ignore[arg-type]
    runner._started = [SimpleNamespace(name=name, metrics=lambda: figures) for name in "ab"]  # type: ignore[misc]
    runner._progress()
    runner._progress()
    say("done")
    first, second, done = text.getvalue().split("\r\x1b[K")[1:]
    assert first.startswith("2,400 rows, 600 wait, ") and second.endswith(" s") and done == "done\n"
