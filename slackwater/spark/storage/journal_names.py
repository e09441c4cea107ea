"""Names of a journal's files, and its header. Both hold the epoch of the owner that has written them.

So an owner that is refused in the middle of a write cannot replace what a newer one has written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from slackwater.errors import JournalError
from slackwater.spark.storage.disk import Disk

FORMAT = 20
#: Formats that are read. Of 19, the header had no epoch in its name.
READ_FORMATS = (19, FORMAT)
_RECORD, _HEADER = ".record", "journal"


class RecordName(NamedTuple):
    """What the name of a record's file says."""

    step: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.step:012d}-{self.epoch}{_RECORD}"

    @staticmethod
    def read(name: str) -> RecordName | None:
        """From the name of a file; None if it is no record's."""
        step, _, epoch = name.removesuffix(_RECORD).partition("-")
        fits = name.endswith(_RECORD) and step.isdigit() and epoch.isdigit()
        return RecordName(int(step), int(epoch)) if fits else None


class HeaderFiles:
    """The headers of a journal's owners. The newest one holds."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk, self._folder = disk, folder

    def _epochs(self) -> list[int]:
        names = (name.removesuffix(".json").partition("-") for name in self._disk.names(self._folder))
        return sorted(int(epoch or 0) for name, _, epoch in names if name == _HEADER and (epoch or "0").isdigit())

    def _path(self, epoch: int) -> str:
        return f"{self._folder}/{_HEADER}{f'-{epoch}' if epoch else ''}.json"

    def read(self, records: Sequence[RecordName], marks: bool) -> dict[str, Any]:
        """The header; empty if there is no journal yet."""
        newest = max(self._epochs(), default=0)
        # Each owner writes its own before its first record. With format 19, no header has an epoch.
        path = self._path(max(newest, *(name.epoch for name in records)) if newest and records else newest)
        text = self._disk.read(path)
        if text is None:
            if records or marks:
                path = self._path(max((name.epoch for name in records), default=0))
                raise JournalError(f"{path!r} is missing, but there are records: {anew('restore that file')}")
            return {}
        try:
            header = json.loads(text)
            version, _, _ = header["format"], header["queries"], header["parts"]
        except (ValueError, KeyError, TypeError):
            raise JournalError(
                f"{path!r} is not a Slackwater journal; give an empty folder or one that Slackwater made"
            ) from None
        if version not in READ_FORMATS:
            raise JournalError(
                f"the journal at {self._folder!r} has format {version}, this version reads the formats "
                f"{' and '.join(map(str, READ_FORMATS))}: continue with the version that wrote it, or start again "
                "with an empty folder"
            )
        if header.pop("checksum", None) != _checksum(header):
            raise JournalError(f"{path!r} is damaged: its checksum is wrong; {anew('restore that file')}")
        return dict(header)

    def write(self, header: dict[str, Any], epoch: int) -> None:
        """Replace this owner's header."""
        sealed = {**header, "checksum": _checksum(header)}
        self._disk.write(self._path(epoch), json.dumps(sealed, indent=1).encode())

    def delete_older(self, epoch: int) -> None:
        """Delete those of earlier owners."""
        for other in self._epochs():
            if other < epoch:
                self._disk.delete(self._path(other))


def anew(first: str) -> str:
    """What to do, and the way that is always left."""
    return f"{first}, or start again with an empty folder and empty sinks: all answers then come again"


def _checksum(header: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16).hexdigest()
