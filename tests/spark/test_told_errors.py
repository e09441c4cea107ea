"""What Spark and py4j say of an error, and what of it a user gets to read."""

from __future__ import annotations

import logging
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from slackwater.errors import QueryError, RunError
from slackwater.spark.api.declare import check_frame
from slackwater.spark.ingest.streams import Ingest, ReadNoMore
from slackwater.spark.storage.spark_errors import briefly, java_has_died

AT = "\tat org.apache.spark.util.ThreadUtils$.awaitResult(ThreadUtils.scala:359)\n"
FILE = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/c.parquet.  SQLSTATE: KD001"
UNREADABLE = f"""An error occurred while calling o838.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
{AT}{AT}Caused by: org.apache.spark.SparkException: {FILE}
{AT}Caused by: java.lang.RuntimeException: file:/in/c.parquet is not a Parquet file.
{AT}"""
MEMORY = f"""An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure
{AT}Caused by: java.lang.OutOfMemoryError: Java heap space
{AT}"""


class FromJava(Py4JJavaError):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


def test_an_error_from_java_is_told_without_its_way_through_java() -> None:
    told = briefly(FromJava(UNREADABLE))
    assert told == f"{FILE} (file:/in/c.parquet is not a Parquet file.); mend the file, then start the query again"
    assert briefly(FromJava(MEMORY)) == "Job aborted due to stage failure (Java heap space)"
    assert briefly(FromJava("nothing that is known")) == "nothing that is known"


def test_other_errors_are_told_as_they_are() -> None:
    assert briefly(ValueError("no thanks")) == "ValueError: no thanks"
    for beside in ("JVM stacktrace:", "=== Streaming Query ==="):
        assert briefly(ValueError(f"bad\n\n{beside}\n{AT}")) == "ValueError: bad"


def ingest(stopping: bool, works: bool) -> Any:
    made: Any = Ingest.__new__(Ingest)
    made._stopping, made._loop = stopping, SimpleNamespace(works=works)

    def take(frame: Any, batch_id: int) -> None:
        raise RunError("stream 's' is read no more")

    made._take = take
    return made


@pytest.mark.parametrize(("stopping", "works", "told"), [(True, True, 0), (False, False, 0), (False, True, 1)])
def test_py4j_logs_no_batch_that_ends_because_its_stream_was_stopped(
    stopping: bool, works: bool, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RunError, match="read no more") as error:
        ingest(stopping, works)._batch(None, 0)
    assert isinstance(error.value, ReadNoMore) == (told == 0)
    # As py4j does it for every error of a function that Java calls.
    logging.getLogger("py4j.clientserver").error("There was an exception", exc_info=error.value)
    assert len(caplog.records) == told


@pytest.mark.parametrize("name", ["", " ", "a/b", "../a", ".", "a#2", None, 7])
def test_a_stream_has_a_name_under_which_its_checkpoint_can_be_kept(name: Any) -> None:
    with pytest.raises(QueryError, match=r"a stream's name is a text without a slash or a #"):
        check_frame(name, None)


@pytest.mark.parametrize("name", ["flights", "my flights", "a.b", "größe"])
def test_other_names_will_do(name: str) -> None:
    with pytest.raises(QueryError, match="None is no DataFrame of Spark"):
        check_frame(name, None)


def test_a_java_that_has_died_is_named() -> None:
    """In a process of its own: the other tests need theirs."""
    done = subprocess.run(
        [sys.executable, "-c", JAVA_DIES], capture_output=True, text=True, timeout=300, check=False
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("told: ")]
    assert len(told) == 5, done.stderr[-3000:]
    assert all("Spark's Java process has ended" in line and "start the program again" in line for line in told)


def test_what_py4j_raises_when_java_ends_in_the_middle_of_a_call() -> None:
    """Found by tests/storm: such an error must not fail one query alone."""
    for error, dead in (
        (Py4JError("An error occurred while calling o1032.getResult"), True),
        (Py4JError("An error occurred while calling o7.x. Trace:\\npy4j.Py4JException: no such method"), False),
        (Py4JNetworkError("Answer from Java side is empty"), True),
        (ValueError("o"), False),
    ):
        wrapped = RunError("the executor has failed")
        wrapped.__cause__ = error
        assert java_has_died(error) == java_has_died(wrapped) == dead


JAVA_DIES = """
import os, signal, tempfile
from pyspark import SparkContext
import slackwater as sw

s = sw.Session()
frame = s.spark.readStream.schema("t TIMESTAMP, v DOUBLE").parquet(tempfile.mkdtemp())
rows = s.stream("rows", frame, time="t", disorder=sw.bounded("1 second"))
query = rows.window("1 minute").agg(n="count(*)")
run = query.start()
java = SparkContext._gateway.proc
os.kill(java.pid, signal.SIGKILL)
java.wait()
acts = (
    lambda: rows.where("v > 3"),
    lambda: rows.window("2 minutes").agg(n="sum(v)"),
    lambda: s.sql("SELECT v + 1 AS w FROM rows"),
    lambda: run.await_termination(),
)
for act in acts:
    try:
        act()
    except sw.SlackwaterError as error:
        print("told:", error)
print("told:", run.exception())
os._exit(0)
"""
