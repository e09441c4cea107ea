"""Which batch Spark gives next, read from its notes, must follow the last one taken. No test here needs Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from slackwater.errors import JournalError
from slackwater.spark.ingest.checkpoint import Checkpoint
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.storage_dir import StorageDir


def checkpoint(root: Path, begun: int = -1, done: int = -1) -> Checkpoint:
    """Notes of batches up to `begun`, of which those up to `done` are done."""
    place = root / "checkpoints" / "rows"
    for folder, last in (("offsets", begun), ("commits", done), ("sources/0", begun)):
        (place / folder).mkdir(parents=True)
        for n in range(last + 1):
            (place / folder / str(n)).write_text("{}")
            (place / folder / f".{n}.crc").write_text("")
    return Checkpoint("rows", StorageDir.of(place), StorageDir.of(root))


@pytest.mark.parametrize(("begun", "done", "following"), [(-1, -1, 0), (0, -1, 0), (4, 3, 4), (4, 4, 5), (4, 2, 4)])
def test_a_batch_that_is_not_done_comes_again(tmp_path: Path, begun: int, done: int, following: int) -> None:
    assert checkpoint(tmp_path, begun, done).next_batch() == following


def test_a_stream_without_notes_begins(tmp_path: Path) -> None:
    assert Checkpoint("rows", StorageDir.of(tmp_path / "nowhere"), StorageDir.of(tmp_path)).next_batch() == 0


def test_what_a_stop_has_left_of_the_first_note_goes(tmp_path: Path) -> None:
    notes, half = checkpoint(tmp_path), tmp_path / "checkpoints" / "rows" / "offsets" / ".0.1b2c.tmp"
    half.write_text("{")
    notes.tidy()
    assert not half.exists()


def test_notes_of_batches_stay(tmp_path: Path) -> None:
    notes = checkpoint(tmp_path, begun=1, done=0)
    notes.tidy()
    assert notes.next_batch() == 1


@pytest.mark.parametrize(("number", "taken"), [(0, None), (0, 0), (1, 0), (7, 7), (8, 7)])
def test_the_last_batch_taken_and_the_one_after_it_may_come(tmp_path: Path, number: int, taken: int | None) -> None:
    checkpoint(tmp_path).check(number, taken)


@pytest.mark.parametrize(
    ("number", "taken", "told"),
    [
        (1, None, r"goes on with batch 1, but the journal at .* holds none yet, so batches 0 to 0 would be lost"),
        (
            9,
            7,
            r"holds batches up to 7, so batches 8 to 8 would be lost.*restore the folders steps, commits and spool",
        ),
        (6, 7, r"holds batches up to 7, so rows would be lost.*checkpoints/rows' is missing or older"),
        (0, 7, r"goes on with batch 0.*start again with an empty folder and empty sinks"),
    ],
)
def test_any_other_batch_is_refused(tmp_path: Path, number: int, taken: int | None, told: str) -> None:
    with pytest.raises(JournalError, match=told):
        checkpoint(tmp_path).check(number, taken)


def test_the_notes_of_a_batch_are_forced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[str] = []
    monkeypatch.setattr("slackwater.spark.storage.disk._force", forced.append)
    notes = checkpoint(tmp_path, 12, 11)
    notes.force(1, Disk(fs.LocalFileSystem(), sync=False))
    assert not forced
    notes.force(1, Disk(fs.LocalFileSystem()))
    place = notes.place.path
    assert forced == [f"{place}/offsets/1", f"{place}/offsets", f"{place}/sources/0/1", f"{place}/sources/0"]
