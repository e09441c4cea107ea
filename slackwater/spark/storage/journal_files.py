"""The journal as files on any file system that pyarrow knows; a record is one Arrow file, a commit is a rename.

journal.json        what the journal is for: format version, and the plan of each query
steps/12.prepared   a record whose answers may not be out; renamed to 12.committed when they are
"""

from __future__ import annotations

import json
import uuid
from array import array
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import fs

from slackwater.engine.journal import Emission, Record, Recovered
from slackwater.errors import JournalError
from slackwater.operators.operator import State
from slackwater.operators.payload import Payload, Staged

FORMAT = 6
_PREPARED, _COMMITTED = ".prepared", ".committed"
_SMALLEST_WHOLE = 1 << 20
_SHORT = pa.ipc.IpcWriteOptions(compression="lz4")
_CONTAINER = pa.schema([("name", pa.string()), ("data", pa.binary())])


class FileJournal:
    """Records under one folder. Opening it twice at once is the user's to avoid."""

    durable = True

    def __init__(self, files: fs.FileSystem, folder: str) -> None:
        self._fs = files
        self.folder = folder.rstrip("/")
        self._steps = f"{self.folder}/steps"
        self._since_whole = 0
        self._whole_size = 0
        self._kept: list[int] = []
        try:
            self._fs.create_dir(self._steps, recursive=True)
        except OSError as error:
            raise JournalError(f"cannot write the journal at {folder!r}: {error}; choose another folder") from error
        self._header = self._read_header()

    # --- what the journal is for

    def _read_header(self) -> dict[str, Any]:
        path = f"{self.folder}/journal.json"
        if self._fs.get_file_info(path).type == fs.FileType.NotFound:
            return {"format": FORMAT, "id": uuid.uuid4().hex[:8], "queries": {}, "parts": {}}
        with self._fs.open_input_stream(path) as stream:
            text = stream.read()
        try:
            header = json.loads(text)
            version, _, _ = header["format"], header["queries"], header["id"]
        except (ValueError, KeyError, TypeError):
            raise JournalError(
                f"{path!r} is not a Slackwater journal; give an empty folder or one that Slackwater made"
            ) from None
        if version != FORMAT:
            raise JournalError(
                f"the journal at {self.folder!r} has format {version}, this version reads format {FORMAT}: "
                "continue with the version that wrote it, or start again with an empty folder"
            )
        return dict(header)

    @property
    def id(self) -> str:
        """What makes this journal's commit ids unlike any other's."""
        return str(self._header["id"])

    @property
    def queries(self) -> dict[str, str]:
        """Plans of the queries that this journal holds, by label."""
        return dict(self._header["queries"])

    def register(self, label: str, plan: str) -> dict[str, str]:
        """Say that a query uses this journal; refuse if it holds another query of that name.

        Gives the labels of its parts, by their place in its plan.
        """
        known = self._header["queries"].get(label)
        if known is not None and known != plan:
            raise JournalError(
                f"the journal at {self.folder!r} was written by another query.\nIt holds:\n{_indent(known)}\n"
                f"This is:\n{_indent(plan)}\n"
                "Give this query a journal of its own, or delete that folder to start again."
            )
        if known is None:
            self._header["queries"][label] = plan
            self._write_header()
        return dict(self._header["parts"].get(label, {}))

    def reserved(self, label: str) -> frozenset[str]:
        """Labels of the parts of other queries of this journal."""
        others = (parts for name, parts in self._header["parts"].items() if name != label)
        return frozenset(known for parts in others for known in parts.values())

    def numbers(self, place: str) -> list[int]:
        """What is kept as a number at some place of the queries' parts."""
        return [int(parts[place]) for parts in self._header["parts"].values() if place in parts]

    def keep_parts(self, label: str, parts: dict[str, str]) -> None:
        """Remember the labels of a query's parts: others may have them too."""
        if self._header["parts"].get(label, {}) != parts:
            self._header["parts"][label] = parts
            self._write_header()

    def forget(self, label: str) -> None:
        """A query was stopped for good."""
        if self._header["queries"].pop(label, None) is not None:
            self._header["parts"].pop(label, None)
            self._write_header()

    def _write_header(self) -> None:
        self._write(f"{self.folder}/journal.json", json.dumps(self._header, indent=1).encode())

    # --- records

    def recover(self) -> Recovered:
        """Read the latest whole record and all after it."""
        self._kept, self._since_whole, self._whole_size = [], 0, 0
        found = sorted(self._list())
        records: list[Record] = []
        committed = True
        for step, done, path in reversed(found):
            record, size = self._read(path)
            if not records:
                committed = done
            records.insert(0, record)
            self._kept.insert(0, step)
            self._since_whole += size
            if record.whole:
                self._since_whole, self._whole_size = self._since_whole - size, size
                break
        if records and (not records[0].whole or self._kept[-1] - self._kept[0] >= len(records)):
            raise JournalError(
                f"the journal at {self.folder!r} is not complete: records are missing among or before "
                f"{self._kept[0]}…{self._kept[-1]}; restore its files, or start again with an empty folder"
            )
        kept = set(self._kept)
        for step, _, path in found:
            if step not in kept:
                self._fs.delete_file(path)
        return Recovered(records, committed)

    def read(self) -> list[Record]:
        """The latest whole record and the changes since, the last of them perhaps only prepared."""
        records: list[Record] = []
        for _, _, path in sorted(self._list(), reverse=True):
            records.insert(0, self._read(path)[0])
            if records[0].whole:
                break
        return records

    def wants_whole(self) -> bool:
        """When the changes have outgrown the state that they change."""
        return not self._kept or self._since_whole > max(self._whole_size, _SMALLEST_WHOLE)

    def prepare(self, record: Record) -> None:
        """Write a record; one without answers needs no second half and is committed at once."""
        data = _pack(record)
        suffix = _PREPARED if record.emissions else _COMMITTED
        self._write(f"{self._steps}/{record.step:012d}{suffix}", data)
        if record.whole:
            self._since_whole, self._whole_size = 0, len(data)
        else:
            self._since_whole += len(data)

    def commit(self, record: Record) -> None:
        """Rename the record, then delete those that a whole one has made needless."""
        name = f"{self._steps}/{record.step:012d}"
        if record.emissions:
            self._fs.move(name + _PREPARED, name + _COMMITTED)
        # A record that was recovered only prepared is among the kept ones already.
        older = [step for step in self._kept if step != record.step]
        if record.whole:
            for step in older:
                self._fs.delete_file(f"{self._steps}/{step:012d}{_COMMITTED}")
            older = []
        self._kept = [*older, record.step]

    def _list(self) -> Iterator[tuple[int, bool, str]]:
        for info in self._fs.get_file_info(fs.FileSelector(self._steps)):
            stem, _, suffix = info.base_name.partition(".")
            if stem.isdigit() and f".{suffix}" in (_PREPARED, _COMMITTED):
                yield int(stem), f".{suffix}" == _COMMITTED, info.path
            else:
                self._fs.delete_file(info.path)

    def _read(self, path: str) -> tuple[Record, int]:
        with self._fs.open_input_stream(path) as stream:
            data = stream.read()
        try:
            return _unpack(data), len(data)
        except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
            raise JournalError(f"the journal file {path!r} cannot be read: {error}") from error

    def _write(self, path: str, data: bytes | pa.Buffer) -> None:
        write_whole(self._fs, path, data)


def write_whole(files: fs.FileSystem, path: str, data: bytes | pa.Buffer) -> None:
    """Write a file so that it is there whole or not at all."""
    half = f"{path}.half"
    with files.open_output_stream(half) as stream:
        stream.write(data)
    files.move(half, path)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _pack(record: Record) -> pa.Buffer:
    names, blobs = ["record"], [pa.py_buffer(b"")]
    states: dict[str, Any] = {}
    for label, state in record.states.items():
        tables = {}
        for name, table in state.tables.items():
            tables[name] = len(names)
            names.append(f"{label}/{name}")
            blobs.append(_table_bytes(table))
        states[label] = {"values": state.values, "tables": tables, "whole": state.whole}
    emissions = []
    for emission in record.emissions:
        entry: dict[str, Any] = {"sink": emission.sink, "commit_id": emission.commit_id}
        if isinstance(emission.payload, Staged):
            entry["staged"] = [emission.payload.location, emission.payload.rows]
        else:
            entry["table"] = len(names)
            names.append(f"{emission.sink}/{emission.commit_id}")
            # Half of a result's columns say the same in every row.
            blobs.append(_table_bytes(emission.payload, _SHORT))
        emissions.append(entry)
    header = {
        "step": record.step,
        "whole": record.whole,
        "consumed": record.consumed,
        "queues": record.queues,
        "times": record.times,
        "admission": record.admission,
        "states": states,
        "emissions": emissions,
        "aside": list(range(len(names), len(names) + len(record.aside))),
    }
    names += ["aside"] * len(record.aside)
    blobs += [_pack(kept) for kept in record.aside]
    blobs[0] = pa.py_buffer(json.dumps(header).encode())
    data = pa.chunked_array([_binary(blob) for blob in blobs])
    return _table_bytes(pa.table({"name": names, "data": data}, schema=_CONTAINER))


def _binary(blob: pa.Buffer) -> pa.Array:
    """A buffer as an array of one value, without a copy."""
    ends = pa.py_buffer(array("i", [0, blob.size]))
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, blob])


def _unpack(data: bytes) -> Record:
    blobs = _table(data)["data"].to_pylist()
    header = json.loads(blobs[0])
    states = {
        label: State(s["values"], {n: _table(blobs[i]) for n, i in s["tables"].items()}, s["whole"])
        for label, s in header["states"].items()
    }
    emissions = []
    for entry in header["emissions"]:
        payload: Payload = Staged(*entry["staged"]) if "staged" in entry else _table(blobs[entry["table"]])
        emissions.append(Emission(entry["sink"], entry["commit_id"], payload))
    plain = {name: header[name] for name in ("step", "whole", "consumed", "queues", "times", "admission")}
    aside = [_unpack(blobs[n]) for n in header["aside"]]
    return Record(**plain, states=states, emissions=emissions, aside=aside)


def _table_bytes(table: pa.Table, options: pa.ipc.IpcWriteOptions | None = None) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
