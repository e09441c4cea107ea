"""What the disk has lost, cut or changed is refused by name, and a disk that refuses is told in our words.

No test here needs Spark.
"""

from __future__ import annotations

import errno
import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.errors import JournalError
from slackwater.spark.storage.journal_files import FileJournal, QueryNote
from slackwater.testing import Script, arrow_plan
from tests.kit.faulty_files import FaultyFiles, flip, newest
from tests.kit.streams import SAMPLE, frame

LOCAL = fs.LocalFileSystem()
PAGES = [frame([[t, "a", 1, 1.0, 1, "p"], [t + 2, "b", 1, 2.0, 2, "q"]]) for t in range(0, 40, 8)]


def script(folder: Path | str, files: object = LOCAL) -> Script:
    plan = arrow_plan(SAMPLE, 7, 3, group_by=["g"], n="count(*)", total="sum(x)")
    return Script(plan, FileJournal(files, str(folder), sync=False))


def worked(folder: Path | str, pages: int = 3) -> None:
    """A journal with a record for each page."""
    work = script(folder)
    for page in PAGES[:pages]:
        work.page(page)


def refused(folder: Path, *words: str) -> str:
    with pytest.raises(JournalError) as refusal:
        FileJournal(LOCAL, str(folder)).recover()
    for word in words:
        assert word in str(refusal.value)
    return str(refusal.value)


# --- damaged


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, bytes]:
    """A journal, the file of its newest record, and what that held."""
    folder = tmp_path_factory.mktemp("journal")
    worked(folder)
    path = newest(folder / "steps")
    return folder, path, path.read_bytes()


@settings(max_examples=400)
@given(st.data())
def test_a_record_with_one_bit_changed_is_refused_by_name(
    damaged: tuple[Path, Path, bytes], data: st.DataObject
) -> None:
    folder, path, whole = damaged
    path.write_bytes(flip(whole, data.draw(st.integers(0, 8 * len(whole) - 1))))
    refused(folder, f"{path.name}' is damaged", "restore the folder steps")


@settings(max_examples=200)
@given(st.data())
def test_a_record_that_was_cut_off_is_refused_by_name(
    damaged: tuple[Path, Path, bytes], data: st.DataObject
) -> None:
    folder, path, whole = damaged
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    refused(folder, path.name, "is damaged")


def test_a_record_with_something_behind_it_is_refused(damaged: tuple[Path, Path, bytes]) -> None:
    folder, path, whole = damaged
    path.write_bytes(whole + b"\0")
    refused(folder, path.name, "is damaged")
    path.write_bytes(whole)
    assert len(FileJournal(LOCAL, str(folder)).recover().records) == 3


def test_a_damaged_record_before_the_newest_is_refused_without_a_way_back(tmp_path: Path) -> None:
    worked(tmp_path)
    path = sorted((tmp_path / "steps").iterdir())[1]
    path.write_bytes(flip(path.read_bytes(), 999))
    assert "go back" not in refused(tmp_path, path.name, "is damaged", "restore that file")


def test_the_record_of_another_journal_or_number_is_refused(tmp_path: Path) -> None:
    worked(tmp_path / "a")
    worked(tmp_path / "b")
    mine, other = (newest(tmp_path / name / "steps") for name in "ab")
    shutil.copy(other, mine)
    refused(tmp_path / "a", mine.name, "of another record or of another journal")
    shutil.copy(min((tmp_path / "a" / "steps").iterdir()), mine)
    refused(tmp_path / "a", mine.name, "of another record or of another journal")


@settings(max_examples=100)
@given(st.data())
def test_a_header_with_one_bit_changed_is_refused(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        FileJournal(LOCAL, folder, sync=False).note({"q": QueryNote("the plan", {})})
        path = Path(folder) / "journal-1.json"
        whole = path.read_bytes()
        path.write_bytes(flip(whole, data.draw(st.integers(0, 8 * len(whole) - 1))))
        try:
            journal = FileJournal(LOCAL, folder, sync=False)
        except JournalError as error:
            assert "journal" in str(error)
        else:  # a bit of the white space
            assert json.loads(path.read_bytes()) == json.loads(whole)
            assert journal.queries == {"q": "the plan"}


# --- lost


def test_the_newest_record_is_missed(tmp_path: Path) -> None:
    worked(tmp_path)
    newest(tmp_path / "steps").unlink()
    refused(tmp_path, "has lost its newest records: record 3 is missing", "restore the folder steps", "go back")


def test_several_of_the_newest_records_are_missed(tmp_path: Path) -> None:
    worked(tmp_path)
    for _ in range(2):
        newest(tmp_path / "steps").unlink()
    refused(tmp_path, "the records 2 to 3 are missing")


def test_all_records_are_missed(tmp_path: Path) -> None:
    worked(tmp_path)
    shutil.rmtree(tmp_path / "steps")
    assert "go back" not in refused(tmp_path, "the records 1 to 3 are missing", "start again with an empty folder")


def test_the_whole_record_is_missed(tmp_path: Path) -> None:
    worked(tmp_path)
    min((tmp_path / "steps").iterdir()).unlink()
    refused(tmp_path, "is not complete: record 1 is missing")


def test_a_record_in_the_middle_is_missed(tmp_path: Path) -> None:
    worked(tmp_path, 4)
    sorted((tmp_path / "steps").iterdir())[1].unlink()
    refused(tmp_path, "is not complete: record 2 is missing")


def test_the_marks_are_missed_and_can_be_made_again(tmp_path: Path) -> None:
    worked(tmp_path)
    shutil.rmtree(tmp_path / "commits")
    mark = f"{tmp_path}/commits/000000000003"
    refused(tmp_path, "has no mark", mark)
    Path(mark).touch()
    assert FileJournal(LOCAL, str(tmp_path)).recover().committed


def test_the_header_is_missed(tmp_path: Path) -> None:
    worked(tmp_path)
    (tmp_path / "journal-1.json").unlink()
    with pytest.raises(JournalError, match=r"journal-1.json' is missing, but there are records"):
        FileJournal(LOCAL, str(tmp_path))


def test_the_way_back_by_one_record_gives_the_same_answers(tmp_path: Path) -> None:
    work = script(tmp_path)
    for page in PAGES[:3]:
        work.page(page)
    newest(tmp_path / "steps").unlink()
    refused(tmp_path, f"hold from number 3 on, make an empty file '{tmp_path}/commits/000000000002'")
    newest(tmp_path / "commits").unlink()
    (tmp_path / "commits" / "000000000002").touch()
    again = script(tmp_path)
    assert again.executor.consumed("source:s") == 1
    again.page(PAGES[2])
    assert again.sink.commits == {n: t for n, t in work.sink.commits.items() if n in again.sink.commits}
    assert again.sink.commits


# --- a disk that refuses


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(JournalError, match=r"cannot make the folder .*taken/steps.*choose another folder"):
        FileJournal(LOCAL, str(tmp_path / "taken"))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_journal_that_can_only_be_read_is_named(tmp_path: Path, number: int) -> None:
    worked(tmp_path)
    files = FaultyFiles()
    files.refuse("open_output_stream", "", number)
    with pytest.raises(JournalError, match=r"cannot write .*owner.json.*the right to write there") as refusal:
        FileJournal(files, str(tmp_path))
    assert isinstance(refusal.value.__cause__, OSError)


def test_a_record_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    worked(tmp_path)
    files = FaultyFiles()
    files.refuse("open_input_stream", ".record")
    with pytest.raises(JournalError, match=r"cannot read .*000000000003-1.record"):
        FileJournal(files, str(tmp_path)).recover()


def test_a_full_disk_stops_before_the_sink_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    files = FaultyFiles()
    full = script(tmp_path, files).page(PAGES[0])
    files.left = 100
    before = dict(full.sink.commits)
    with pytest.raises(JournalError, match=r"cannot write .*the disk is full: make room and start again"):
        full.page(PAGES[1])
    assert full.sink.commits == before
    calm = script(tmp_path / "calm")
    again = script(tmp_path)
    for page in PAGES[:3]:
        calm.page(page)
    for page in PAGES[1:3]:
        again.page(page)
    assert again.sink.rows == [row for row in calm.sink.rows if row not in full.sink.rows]
    assert again.sink.rows


# --- forced to the disk


def test_a_record_is_on_the_disk_before_its_answers_go_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[str] = []
    monkeypatch.setattr("slackwater.spark.storage.disk._force", forced.append)
    plan = arrow_plan(SAMPLE, 7, 3, group_by=["g"], n="count(*)")
    work = Script(plan, FileJournal(LOCAL, str(tmp_path)))
    seen: list[list[str]] = []
    work.sink.write = lambda payload, commit_id: seen.append(list(forced))  # type: ignore[method-assign]
    work.page(PAGES[0])
    forced.clear()
    work.page(PAGES[1])
    steps = f"{tmp_path}/steps"
    assert seen[-1] == [f"{steps}/000000000002-1.record.half", steps]


def test_without_sync_nothing_is_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[str] = []
    monkeypatch.setattr("slackwater.spark.storage.disk._force", forced.append)
    worked(tmp_path)
    assert not forced
