"""One session at a time uses a journal: by a lock where there is one, else the newer session wins.

No test here needs Spark.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.errors import JournalError, RunError
from slackwater.spark.storage.journal_files import FileJournal, QueryNote, open_journal
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.testing import ListSink, Script, arrow_plan
from tests.kit.faulty_files import FaultyFiles, newest
from tests.kit.streams import SAMPLE, frame

PAGES = [frame([[t, "a", 1, 1.0, 1, "p"], [t + 2, "b", 1, 2.0, 2, "q"]]) for t in range(0, 80, 8)]


class Outside(ListSink):
    """A sink that both sessions write to: a commit id must always bring the same rows."""

    def write(self, payload: object, commit_id: int) -> None:
        if commit_id in self.commits:
            assert self.commits[commit_id].equals(payload)
        super().write(payload, commit_id)  # type: ignore[arg-type]


def script(folder: Path | str, sink: ListSink | None = None, files: object = None) -> Script:
    plan = arrow_plan(SAMPLE, 7, 3, group_by=["g"], n="count(*)", total="sum(x)")
    return Script(plan, FileJournal(files or fs.LocalFileSystem(), str(folder), sync=False), sink)


def calm_rows(pages: int) -> list[dict[str, object]]:
    calm = Script(arrow_plan(SAMPLE, 7, 3, group_by=["g"], n="count(*)", total="sum(x)"))
    for page in PAGES[:pages]:
        calm.page(page)
    return [{k: v for k, v in row.items() if k != "emitted_at"} for row in calm.sink.rows]


def rows(sink: ListSink) -> list[dict[str, object]]:
    return [{k: v for k, v in row.items() if k != "emitted_at"} for row in sink.rows]


# --- the lock


def test_a_second_session_is_refused_and_told_who_is_there(tmp_path: Path) -> None:
    first = open_journal(StorageDir.of(tmp_path))
    with pytest.raises(
        JournalError, match=r"is in use by a session of this process, since 20\d\d-.*stop that session"
    ):
        open_journal(StorageDir.of(tmp_path))
    first.close()
    open_journal(StorageDir.of(tmp_path)).close()


HOLDER = """
import sys
from slackwater.spark.storage.journal_files import open_journal
from slackwater.spark.storage.storage_dir import StorageDir
journal = open_journal(StorageDir.of(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_one_dies(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as holder:  # type: ignore[call-overload]
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(JournalError, match=rf"is in use by process {holder.pid} on host .*, since 20\d\d-"):
            open_journal(StorageDir.of(tmp_path))
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        open_journal(StorageDir.of(tmp_path)).close()


def test_a_journal_that_is_refused_lets_go_of_its_lock(tmp_path: Path) -> None:
    (tmp_path / "journal.json").write_text("no json")
    for _ in range(2):
        with pytest.raises(JournalError, match="is not a Slackwater journal"):
            open_journal(StorageDir.of(tmp_path))


def test_a_stopped_session_writes_nothing_more(tmp_path: Path) -> None:
    journal = open_journal(StorageDir.of(tmp_path))
    journal.close()
    with pytest.raises(JournalError, match="has been stopped"):
        journal.note({"q": QueryNote("plan", {})})


# --- without a lock


def test_the_older_of_two_sessions_stops_before_it_writes_a_sink(tmp_path: Path) -> None:
    sink = Outside()
    older = script(tmp_path, sink)
    older.page(PAGES[0]).page(PAGES[1])
    newer = script(tmp_path, sink)
    before = dict(sink.commits)
    with pytest.raises(JournalError, match=r"was taken over by a session of this process, since .*one session"):
        older.page(PAGES[2])
    assert sink.commits == before
    newer.page(PAGES[2]).page(PAGES[3])
    assert rows(sink) == calm_rows(4)
    again = script(tmp_path, sink)
    again.page(PAGES[4])
    assert rows(sink) == calm_rows(5)


def test_a_record_that_the_older_one_had_written_goes_out_with_the_next_session(tmp_path: Path) -> None:
    sink = Outside()
    older = script(tmp_path, sink)
    older.page(PAGES[0])
    script(tmp_path, sink)
    with pytest.raises(JournalError, match="was taken over"):
        older.page(PAGES[1])
    assert newest(tmp_path / "steps").name == "000000000002-1.record"
    third = script(tmp_path, sink)
    assert third.executor.consumed("source:s") == 1
    assert rows(sink) == calm_rows(2)


def test_an_owner_that_nobody_can_name_stops_the_session(tmp_path: Path) -> None:
    work = script(tmp_path).page(PAGES[0])
    (tmp_path / "owner.json").unlink()
    with pytest.raises(JournalError, match=r"owner.json' is gone or cannot be read"):
        work.page(PAGES[1])
    script(tmp_path).page(PAGES[1])


def test_rows_that_a_crash_left_are_not_written_by_a_session_that_was_overtaken(tmp_path: Path) -> None:
    class Broken(ListSink):
        def write(self, payload: object, commit_id: int) -> None:
            raise RuntimeError("the sink is gone")

    with pytest.raises(RunError, match="the sink is gone"):
        script(tmp_path, Broken()).page(PAGES[0]).page(PAGES[1])
    sink, files = Outside(), FaultyFiles()

    def overtake(act: str, path: str) -> None:
        if act == "open_input_stream" and path.endswith(".record"):
            files.after = lambda act, path: None
            FileJournal(fs.LocalFileSystem(), str(tmp_path), sync=False)

    files.after = overtake
    with pytest.raises(JournalError, match="was taken over"):
        script(tmp_path, sink, files)
    assert not sink.commits
    script(tmp_path, sink)
    assert sink.commits


@settings(max_examples=60)
@given(st.integers(1, 70))
def test_a_session_may_be_overtaken_at_any_act_on_a_file(point: int) -> None:
    """Whatever the older one was at, all answers are out once, under ids that always bring the same rows.

    The newer one gets the rows in larger pages, as Spark gives them where it had not noted its batch.
    """
    with tempfile.TemporaryDirectory() as folder:
        sink, files = Outside(), FaultyFiles()
        older = script(folder, sink, files)
        given_to_newer: list[int] = []
        acts = 0

        def overtake(act: str, path: str) -> None:
            nonlocal acts
            acts += 1
            if acts == point:
                newer = script(folder, sink)
                first = taken(newer) + 1
                newer.page(pl.concat(PAGES[first : first + 2]))
                given_to_newer.append(first)

        files.after = overtake
        try:
            for page in PAGES[:4]:
                older.page(page)
        except JournalError as error:
            assert "was taken over" in str(error)
        else:
            assert not given_to_newer or given_to_newer[0] == 4
        last = script(folder, sink)
        behind = 1 if given_to_newer else 0
        assert not given_to_newer or taken(last) == given_to_newer[0]
        for page in PAGES[taken(last) + 1 + behind : 7]:
            last.page(page)
        assert sorted(rows(sink), key=str) == sorted(calm_rows(7), key=str)


def taken(work: Script) -> int:
    number = work.executor.consumed("source:s")
    return -1 if number is None else number
