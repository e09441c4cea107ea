"""The journal as files on any file system that pyarrow knows.

journal-3.json               what it is for: format version, its id, the plan of each query; of the third owner
owner.json, lock             who uses it now; see `ownership`
steps/000000000012-3.record  record 12, written by the third owner; see `record_file`
commits/000000000012         an empty mark: the answers of record 12 are out

A mark names the newest record that must be there, so that a lost one is known. No file is ever renamed to say
something: on an object store a rename is a copy and a deletion, and a crash may come between.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from pyarrow import fs

from slackwater.engine.journal import Record, Recovery
from slackwater.errors import JournalError
from slackwater.operators.label import Label
from slackwater.plan.change import KEEPS_NOTHING, Change, Keeps, compare
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.journal_names import FORMAT, HeaderFiles, RecordName, anew
from slackwater.spark.storage.ownership import Lock, Ownership
from slackwater.spark.storage.record_file import DamagedRecord, RecordAuthor, pack, unpack
from slackwater.spark.storage.storage_dir import StorageDir

_SMALLEST_WHOLE = 1 << 20


class QueryNote(NamedTuple):
    """The journal's note of a query."""

    plan: str
    parts: dict[str, Label]
    """Labels of its parts, by their place in its plan."""
    play: int | None = None
    """The number of the replay that it reads."""
    kept: Keeps = KEEPS_NOTHING
    """What its state depends on."""


class FileJournal:
    """Records under one folder. Whoever opens it last owns it: an earlier owner is refused at its next commit.

    `open_journal` also takes a lock where there is one, and so refuses the later owner instead.
    """

    durable = True

    def __init__(self, files: fs.FileSystem, folder: str, sync: bool = True, lock: Lock | None = None) -> None:
        self.folder = folder.rstrip("/")
        self._disk = Disk(files, sync)
        self._lock = lock
        self._steps, self._commits = f"{self.folder}/steps", f"{self.folder}/commits"
        self._since_whole = 0
        self._whole_size = 0
        self._kept: list[RecordName] = []
        self._changing = threading.Lock()
        """Of the header, which is replaced as a whole: a query may fail in one thread while another starts one."""
        self._new_ids: dict[str, str] = {}
        """Of queries that the header does not hold yet."""
        self._disk.make_folder(self._steps)
        self._disk.make_folder(self._commits)
        self._headers = HeaderFiles(self._disk, self.folder)
        self._headers.read(self._names(), any(self._marks()))  # refused before it has a new owner
        self._owned = Ownership(self._disk, self.folder, max((n.epoch for n in self._names()), default=0))
        # Read again: the owner before may have changed it until now. What it still writes has its own epoch.
        header = self._headers.read(self._names(), any(self._marks()))
        self._write_header({**header, "format": FORMAT} if header else self._new_header())
        self._headers.delete_older(self._owned.epoch)

    def close(self) -> None:
        """Write nothing more, and let another session have the journal."""
        self._owned.end()
        if self._lock is not None:
            self._lock.release()

    def check_owner(self) -> None:
        """Refuse to go on if another session has taken the journal."""
        self._owned.check()

    # --- what the journal is for

    def _new_header(self) -> dict[str, Any]:
        """The mark comes first: where there is a header there is a mark."""
        self._disk.mark(self._mark(0))
        self._disk.force(self._commits)
        of_queries: dict[str, Any] = {name: {} for name in ("queries", "parts", "plays", "runs", "kept")}
        return {"format": FORMAT, "id": uuid.uuid4().hex[:8], **of_queries}

    @property
    def id(self) -> str:
        """What makes this journal unlike any other."""
        return str(self._header["id"])

    def run_id(self, label: str) -> str:
        """What makes a query's commit ids unlike those of all others, and of an earlier query of its name."""
        with self._changing:
            known = self._header["runs"].get(label)
            return str(known or self._new_ids.setdefault(label, uuid.uuid4().hex[:8]))

    @property
    def queries(self) -> dict[str, str]:
        """Plans of the queries that this journal holds, by label."""
        return dict(self._header["queries"])

    def check(self, label: str, plan: str) -> dict[str, Label]:
        """Labels of a query's parts, by their place in its plan; refuses if it holds another query of that name."""
        if self.queries.get(label, plan) != plan:
            raise JournalError(
                f"{self._unlike(label, plan)}\nstart(on_change='continue') goes on with it where that can be, "
                "start(on_change='new') drops what the journal has of the old one and begins anew. "
                "Or give this query another name."
            )
        return self.parts(label)

    def change(self, label: str, plan: str, kept: Keeps) -> Change:
        """What begins anew if a query goes on as this plan; refused if what the journal keeps does not fit."""
        before = self._header["kept"].get(label)
        change = None if before is None else compare(Keeps.from_json(before), kept)
        if change is None:
            raise JournalError(
                f"{self._unlike(label, plan)}\nIts open windows and kept rows cannot be used by this one: only the "
                "steps behind the last window or join, the aggregates of that window, and policies may change. "
                "start(on_change='new') drops them and begins anew."
            )
        return change

    def _unlike(self, label: str, plan: str) -> str:
        return (
            f"the journal at {self.folder!r} holds another query {label!r}:\n{_indent(self.queries[label])}\n"
            f"This is:\n{_indent(plan)}"
        )

    def parts(self, label: str) -> dict[str, Label]:
        """Labels of a query's parts, by their place in its plan."""
        return {place: Label.from_json(fields) for place, fields in self._header["parts"].get(label, {}).items()}

    def reserved(self, label: str) -> frozenset[Label]:
        """Labels of the parts of other queries of this journal."""
        others = (name for name in self._header["parts"] if name != label)
        return frozenset(known for name in others for known in self.parts(name).values())

    @property
    def shared(self) -> frozenset[Label]:
        """Labels of the parts of all queries: those that were made for a query that is gone, too."""
        return frozenset(label for name in self._header["parts"] for label in self.parts(name).values())

    @property
    def plays(self) -> dict[str, int]:
        """Numbers of the replays that its queries read, by query."""
        return dict(self._header["plays"])

    def note(self, queries: Mapping[str, QueryNote], over: Collection[str] = ()) -> None:
        """Say which queries use this journal from now on, and which no longer do: all of it, or nothing."""
        with self._changing:
            names = ("queries", "parts", "plays", "runs", "kept")
            header = {**self._header, **{name: dict(self._header[name]) for name in names}}
            for label in over:
                for name in names:
                    header[name].pop(label, None)
                self._new_ids.pop(label, None)
            for label, noted in queries.items():
                header["queries"][label] = noted.plan
                header["kept"][label] = noted.kept.to_json()
                header["parts"][label] = {place: part.to_json() for place, part in noted.parts.items()}
                if noted.play is not None:
                    header["plays"][label] = noted.play
                if label in self._new_ids:
                    header["runs"][label] = self._new_ids[label]
            if header != self._header:
                self._write_header(header)

    def _write_header(self, header: dict[str, Any]) -> None:
        self.check_owner()
        self._headers.write(header, self._owned.epoch)
        self._header = header

    # --- records

    def recover(self) -> Recovery:
        """Read the latest whole record and all after it."""
        found = self._names()
        newest = {name.step: name for name in found}  # of two owners the later one is right
        marks = sorted(self._marks())
        marked = marks[-1] if marks else None
        self._check_newest(max(newest, default=0), marked)
        records: list[Record] = []
        for step in range(max(newest, default=0), 0, -1):
            if step not in newest:
                raise JournalError(
                    f"the journal at {self.folder!r} is not complete: record {step} is missing; "
                    + anew("restore its file in the folder steps")
                )
            back = self._back(step, step - 1 in newest) if not records else anew("restore that file")
            record, size = self._read(newest[step], back)
            records.insert(0, record)
            self._kept.insert(0, newest[step])
            self._since_whole += size
            if record.whole:
                self._since_whole, self._whole_size = self._since_whole - size, size
                break
        if records:
            self._adopt(records[-1])
        for name in set(found) - set(self._kept):
            self._disk.delete(self._file(name))
        for mark in marks[:-1]:
            self._disk.delete(self._mark(mark))
        return Recovery(records, committed=not records or records[-1].step == marked)

    def _adopt(self, last: Record) -> None:
        """Write the last record again under this owner's epoch.

        An earlier owner that is refused in the middle of a commit may still leave a record of the same step. With
        a higher epoch than the one that was read here it would be taken for it later.
        """
        seal, body = pack(last, RecordAuthor(self.id, self._owned.epoch))
        self._kept[-1] = RecordName(last.step, self._owned.epoch)
        self._disk.write(self._file(self._kept[-1]), seal, body)
        self.check_owner()

    def _check_newest(self, newest: int, marked: int | None) -> None:
        """Refuse a journal that has lost its newest records, or the marks that would tell."""
        if marked is None:
            raise JournalError(
                f"the journal at {self.folder!r} has no mark in its folder commits, so that lost records would not "
                f"be noticed: restore that folder. If nothing else was lost, an empty file {self._mark(newest)!r} "
                "will do"
            )
        if newest < marked:
            lost = f"record {marked} is" if newest == marked - 1 else f"the records {newest + 1} to {marked} are"
            raise JournalError(
                f"the journal at {self.folder!r} has lost its newest records: {lost} missing; "
                + self._back(newest + 1, newest > 0)
            )

    def _back(self, step: int, has_previous: bool) -> str:
        """How to go on without the records from this one."""
        lost = anew("restore the folder steps")
        if not has_previous:
            return lost
        return (
            f"{lost}. A replay, or a stream whose last batch Spark has not noted as done, can also go back by a "
            f"step: delete what steps and commits hold from number {step} on, make an empty file "
            f"{self._mark(step - 1)!r} and start again. Its answers since then come again under the same commit ids"
        )

    def read(self) -> list[Record]:
        """The latest whole record and the changes since, the last of them perhaps only prepared."""
        records: list[Record] = []
        newest = {name.step: name for name in self._names()}
        for step in sorted(newest, reverse=True):
            records.insert(0, self._read(newest[step], anew("restore that file"))[0])
            if records[0].whole:
                break
        return records

    @property
    def size(self) -> int:
        """Bytes that a restart reads."""
        return self._whole_size + self._since_whole

    def wants_whole(self) -> bool:
        """When the changes have outgrown the state that they change."""
        return not self._kept or self._since_whole > max(self._whole_size, _SMALLEST_WHOLE)

    def prepare(self, record: Record) -> None:
        """Write a record; see in `ownership` why the owner is asked after that."""
        seal, body = pack(record, RecordAuthor(self.id, self._owned.epoch))
        try:
            self._disk.write(self._file(RecordName(record.step, self._owned.epoch)), seal, body)
        finally:
            # A newer owner may have deleted the half of it: then that is what has gone wrong.
            self.check_owner()
        size = len(seal) + body.size
        self._since_whole, self._whole_size = (
            (0, size) if record.whole else (self._since_whole + size, self._whole_size)
        )

    def commit(self, record: Record) -> None:
        """Mark the record, then delete what a whole one has made needless."""
        self._disk.mark(self._mark(record.step))
        self._disk.delete(self._mark(record.step - 1))
        # A record that was recovered only prepared is among the kept ones already.
        older = [name for name in self._kept if name.step != record.step]
        same = [name for name in self._kept if name.step == record.step]
        if record.whole:
            for name in older:
                self._disk.delete(self._file(name))
            older = []
        self._kept = [*older, *(same or [RecordName(record.step, self._owned.epoch)])]

    def _names(self) -> list[RecordName]:
        return sorted(name for n in self._disk.names(self._steps) if (name := RecordName.read(n)) is not None)

    def _marks(self) -> list[int]:
        return [int(name) for name in self._disk.names(self._commits) if name.isdigit()]

    def _file(self, name: RecordName) -> str:
        return f"{self._steps}/{name}"

    def _mark(self, step: int) -> str:
        return f"{self._commits}/{step:012d}"

    def _read(self, name: RecordName, back: str) -> tuple[Record, int]:
        data = self._disk.read(self._file(name))
        if data is None:
            raise JournalError(
                f"{self._file(name)!r} has just gone: another session uses this journal; stop it first"
            )
        try:
            record, stamp = unpack(data)
            if (record.step, stamp) != (name.step, RecordAuthor(self.id, name.epoch)):
                raise DamagedRecord("it is the file of another record or of another journal")
        except DamagedRecord as error:
            raise JournalError(f"the journal file {self._file(name)!r} is damaged: {error}; {back}") from error
        return record, len(data)


def open_journal(place: StorageDir, sync: bool = True) -> FileJournal:
    """The journal in a folder, for this session alone; on a file system without locks the newest session wins."""
    if not place.local:
        return FileJournal(place.files, place.path, sync)
    Disk(place.files).make_folder(place.path)
    lock = Lock(place.path)
    try:
        return FileJournal(place.files, place.path, sync, lock)
    except BaseException:
        lock.release()
        raise


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
