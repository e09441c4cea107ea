"""What goes wrong at a sink is told as the query's: which one, where, and what to do; rows that wait are shown."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from slackwater.errors import QueryError, RunError
from slackwater.operators.label import Label
from slackwater.operators.sink import Sink
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.clock import ManualClock, ReplayClock, SystemClock
from slackwater.spark.sinks.parquet_sink import ParquetFolder
from slackwater.spark.sinks.sinks import CallableSink
from slackwater.spark.sinks.table_sink import TableSink
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.testing import ListSink, Script, arrow_plan
from tests.kit.streams import SAMPLE, frame

DISK = Disk(fs.LocalFileSystem(), sync=False)
PAGES: Any = SimpleNamespace(given=lambda table, schema: table, root=StorageDir.of("/nowhere"), disk=DISK)


def plan() -> Any:
    return arrow_plan(SAMPLE, 10, 10, disorder=bounded(0), n="count(*)")


def play(sink: Any, late: Any = None) -> None:
    Script(plan(), sink=sink, late=late).page(frame([[1, "a"], [25, "a"]])).page(frame([[2, "a"]]))


def broken(rows: Any, commit_id: int) -> None:
    raise ValueError("no such model\nwith a second line\nand a long tale behind it")


def test_a_function_that_raises() -> None:
    words = (
        r"^query 'q' has failed: it cannot give its results to the function 'broken': ValueError: "
        r"no such model with a second line; mend the function, then start it again"
    )
    with pytest.raises(RunError, match=words) as told:
        play(CallableSink(broken, PAGES, plan()))
    assert isinstance(told.value.__cause__, ValueError)


def test_late_rows_are_told_apart_from_results() -> None:
    with pytest.raises(
        RunError, match="query 'q' has failed: it cannot give its late rows to the function 'broken'"
    ):
        play(ListSink(), CallableSink(broken, PAGES, None))


class FullDisk:
    """Takes the files of the start and nothing more."""

    def __init__(self) -> None:
        self._files = fs.LocalFileSystem()
        self.full = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open_output_stream(self, path: str) -> Any:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._files.open_output_stream(path)


def sink_for(place: StorageDir) -> TableSink:
    return TableSink(ParquetFolder(place, "run", False, None), "run", PAGES)


def test_a_full_disk(tmp_path: Path) -> None:
    files: Any = FullDisk()
    sink = sink_for(StorageDir(files, str(tmp_path / "out"), ""))
    files.full = True
    with pytest.raises(
        RunError, match=r"results to the folder '.*/out': OSError: .*No space left .*has room"
    ) as told:
        play(sink)
    assert isinstance(told.value.__cause__, OSError)
    assert sink.due_in() is None, "what it did not take comes again, or is told to be lost"


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    sink = sink_for(StorageDir.of(tmp_path / "out"))
    (tmp_path / "out").rmdir()
    (tmp_path / "out").write_text("a file in its place")
    with pytest.raises(RunError, match=r"the folder '.*/out': NotADirectoryError: .*can be written") as told:
        play(sink)
    assert isinstance(told.value.__cause__, OSError)


class Held:
    """An output that holds rows back for two seconds."""

    def __init__(self) -> None:
        self.waits: float | None = None
        self.shown = 0
        self.fails = False

    def write(self, payload: object, commit_id: int) -> None:
        self.waits = 2.0

    def due_in(self) -> float | None:
        return self.waits

    def flush_due(self) -> None:
        if self.fails:
            raise PermissionError("read-only")
        if self.waits == 0:
            self.shown, self.waits = self.shown + 1, None


def no_emit(element: object, port: str = "main") -> None:
    raise AssertionError("a sink says nothing")


def test_held_rows_wake_a_session_that_waits_for_nothing_else() -> None:
    clock, output = SystemClock(), Held()
    sink = Sink(Label("q", "sink"), output, clock)
    assert sink.wake_at() is None
    sink.write(pa.table({}), 0)
    before = clock.now()
    wake = sink.wake_at()
    assert wake is not None and before + 2_000_000 <= wake <= clock.now() + 2_000_000
    sink.tick(before, no_emit)
    assert output.shown == 0
    output.waits = 0
    sink.tick(before, no_emit)
    assert output.shown == 1 and sink.wake_at() is None


def test_a_clock_that_stands_is_not_waited_for() -> None:
    output = Held()
    output.waits = 2.0
    assert Sink(Label("q", "sink"), output, ManualClock()).wake_at() is None
    clock = ReplayClock(0, lambda: 5.0)
    assert Sink(Label("q", "sink"), output, clock).wake_at() is None
    clock.go(60)
    assert Sink(Label("q", "sink"), output, clock).wake_at() == 120_000_000


def test_rows_that_cannot_be_shown_later_are_told_too() -> None:
    output = Held()
    output.fails = True
    with pytest.raises(
        RunError, match="query 'q' has failed: it cannot give its results to Held: PermissionError: read-only"
    ):
        Sink(Label("q", "sink"), output).tick(0, no_emit)


@pytest.mark.parametrize("where", ["", " ", 7, None, "file:///"])
def test_a_folder_without_a_name_is_refused(where: Any) -> None:
    """It would be the folder in which the program was started."""
    with pytest.raises(QueryError, match="is no folder"):
        StorageDir.of(where)
