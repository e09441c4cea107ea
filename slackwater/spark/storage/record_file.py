"""A journal record as bytes: a seal over all of it, then one Arrow table with a JSON header and the tables.

slw-rec6 | checksum, 16 bytes | length of the body, 8 bytes | body
"""

from __future__ import annotations

import hashlib
import json
from array import array
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.engine.journal import Emission, Record
from slackwater.operators.label import Label
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.operators.payload import Payload, Recipe, Staged

_MAGIC = b"slw-rec6"
_DIGEST = 16
_HEAD = len(_MAGIC) + _DIGEST + 8
#: Half of a result's columns say the same in every row, and most of a partial's are small whole numbers. A million
#: partials are compressed and written in half of the time that it takes to write them as they are.
_SHORT = pa.ipc.IpcWriteOptions(compression="lz4")
#: Tables of fewer rows are compressed by the thread that has them: of 20 rows in 6 microseconds instead of 24.
_FEW_ROWS = 10_000
_SHORT_ALONE = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_CONTAINER = pa.schema([("name", pa.string()), ("data", pa.binary())])


class DamagedRecord(ValueError):
    """Bytes that are not those which were written."""


@dataclass(frozen=True)
class RecordAuthor:
    """Who wrote a record: the journal's id, and the epoch of its owner."""

    journal: str
    epoch: int


def pack(record: Record, stamp: RecordAuthor) -> tuple[bytes, pa.Buffer]:
    """A record as its seal and its body."""
    body = _body(record, stamp)
    length = body.size.to_bytes(8, "big")
    return _MAGIC + _checksum(length, body) + length, body


def unpack(data: bytes) -> tuple[Record, RecordAuthor]:
    """The record and its author. Nothing is parsed before the seal has been checked."""
    head, body = data[:_HEAD], memoryview(data)[_HEAD:]
    if len(head) < _HEAD or not head.startswith(_MAGIC):
        raise DamagedRecord("it does not begin as a record does")
    length = head[-8:]
    if int.from_bytes(length, "big") != len(body):
        raise DamagedRecord(
            f"it should have {int.from_bytes(length, 'big'):,} bytes after its seal and has {len(body):,}"
        )
    if _checksum(length, body) != head[len(_MAGIC) : len(_MAGIC) + _DIGEST]:
        raise DamagedRecord("its checksum is wrong")
    return _record(body)


def _checksum(length: bytes, body: pa.Buffer | memoryview) -> bytes:
    digest = hashlib.blake2b(length, digest_size=_DIGEST)
    digest.update(body)
    return digest.digest()


def _body(record: Record, stamp: RecordAuthor) -> pa.Buffer:
    names, blobs = ["record"], [pa.py_buffer(b"")]
    labels: dict[Label, int] = {}
    """The names in the record, each once; the rest of it has their numbers."""

    def number(label: str) -> int:
        return labels.setdefault(Label.of(label), len(labels))

    states = list[Any]()
    for label, state in record.states.items():
        tables = {}
        for name, table in state.tables.items():
            tables[name] = len(names)
            names.append(f"{label}/{name}")
            blobs.append(_table_bytes(table, _short(table)))
        states.append([number(label), {"values": state.values, "tables": tables, "whole": state.whole}])
    emissions = []
    for emission in record.emissions:
        entry: dict[str, Any] = {"sink": number(emission.sink), "commit_id": emission.commit_id}
        if isinstance(emission.payload, Staged):
            entry["staged"] = [emission.payload.location, emission.payload.rows]
        elif isinstance(emission.payload, Recipe):
            recipe = emission.payload
            entry["recipe"] = [recipe.page.to_json(), recipe.rows]
        else:
            entry["table"] = len(names)
            names.append(f"{emission.sink}/{emission.commit_id}")
            blobs.append(_table_bytes(emission.payload, _short(emission.payload)))
        emissions.append(entry)
    header = {
        "journal": stamp.journal,
        "epoch": stamp.epoch,
        "step": record.step,
        "whole": record.whole,
        "consumed": [[number(label), page] for label, page in record.consumed.items()],
        "queues": [[number(label), n, waiting] for (label, n), waiting in record.queues.items()],
        "times": [[number(label), times] for label, times in record.times.items()],
        "admission": record.admission,
        "states": states,
        "emissions": emissions,
        "aside": list(range(len(names), len(names) + len(record.aside))),
    }
    header["labels"] = [label.to_json() for label in labels]
    names += ["aside"] * len(record.aside)
    blobs += [_body(kept, stamp) for kept in record.aside]
    blobs[0] = pa.py_buffer(json.dumps(header).encode())
    data = pa.chunked_array([_binary(blob) for blob in blobs])
    return _table_bytes(pa.table({"name": names, "data": data}, schema=_CONTAINER))


def _record(body: bytes | memoryview) -> tuple[Record, RecordAuthor]:
    blobs = _table(body)["data"].to_pylist()
    header = json.loads(blobs[0])
    labels = [Label.from_json(fields) for fields in header["labels"]]
    record = Record(
        header["step"],
        header["whole"],
        {labels[n]: page for n, page in header["consumed"]},
        {
            labels[n]: State(s["values"], {name: _table(blobs[i]) for name, i in s["tables"].items()}, s["whole"])
            for n, s in header["states"]
        },
        {(labels[n], place): waiting for n, place, waiting in header["queues"]},
        {labels[n]: times for n, times in header["times"]},
        header["admission"],
        [Emission(labels[e["sink"]], e["commit_id"], _payload(e, blobs)) for e in header["emissions"]],
        [_record(blobs[n])[0] for n in header["aside"]],
    )
    return record, RecordAuthor(header["journal"], header["epoch"])


def _payload(entry: dict[str, Any], blobs: list[bytes]) -> Payload:
    if "staged" in entry:
        return Staged(*entry["staged"])
    if "recipe" in entry:
        page, rows = entry["recipe"]
        return Recipe(Page.from_json(page), rows)
    return _table(blobs[entry["table"]])


def _binary(blob: pa.Buffer) -> pa.Array:
    """A buffer as an array of one value, without a copy."""
    ends = pa.py_buffer(array("i", [0, blob.size]))
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, blob])


def _short(table: pa.Table) -> pa.ipc.IpcWriteOptions:
    return _SHORT_ALONE if table.num_rows < _FEW_ROWS else _SHORT


def _table_bytes(table: pa.Table, options: pa.ipc.IpcWriteOptions | None = None) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _table(data: bytes | memoryview) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
