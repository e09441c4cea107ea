"""Who owns a journal: one session at a time.

lock         held by the owner, on a local file system; the system lets go of it when the process dies
owner.json   the epoch of the newest owner, and who that is

Where there is no lock the newer owner wins. It writes `owner.json` first and reads the records then; the older
one writes its record first and reads `owner.json` then, before it writes a sink. So either the older one stops
before the sink, or the newer one finds the record and writes the same rows under the same commit ids.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import uuid
import weakref
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from pyarrow import fs

from slackwater.errors import JournalError
from slackwater.events import decision
from slackwater.spark.storage.disk import Disk, io_errors_explained

try:
    import fcntl
except ImportError:  # not on Windows: there the newer owner wins
    fcntl = None  # type: ignore[assignment]

_OWNER = "owner.json"


@dataclass(frozen=True)
class Owner:
    """One session that uses a journal, or has used it."""

    epoch: int
    token: str
    host: str
    process: int
    since: str

    @staticmethod
    def here(epoch: int) -> Owner:
        """This process, from now on."""
        now = datetime.now(tz=UTC).isoformat(sep=" ", timespec="seconds")
        return Owner(epoch, uuid.uuid4().hex, socket.gethostname(), os.getpid(), now)

    def __str__(self) -> str:
        mine = (self.host, self.process) == (socket.gethostname(), os.getpid())
        who = "a session of this process" if mine else f"process {self.process} on host {self.host}"
        return f"{who}, since {self.since}"


class Ownership:
    """The right to write a journal; it ends when another session takes it."""

    def __init__(self, disk: Disk, folder: str, written: int) -> None:
        """Take it. `written` is the highest epoch among the records that are there."""
        self._disk = disk
        self._folder = folder
        before = self._read()
        self._ended = False
        self._mine = Owner.here(max(written, before.epoch if before is not None else 0) + 1)
        disk.write(self._path, json.dumps(asdict(self._mine), indent=1).encode())

    @property
    def epoch(self) -> int:
        """Its number; each later owner has a higher one."""
        return self._mine.epoch

    def end(self) -> None:
        """Give it up."""
        self._ended = True

    def check(self) -> None:
        """Refuse to go on if another session has taken the journal."""
        if self._ended:
            raise JournalError(f"the session that used the journal at {self._folder!r} has been stopped")
        owner = self._read()
        if owner is None:
            raise JournalError(
                f"{self._path!r} is gone or cannot be read, so this session may not be the only one that uses the "
                "journal: nothing more is written; start again"
            )
        if owner.token != self._mine.token:
            raise JournalError(
                f"the journal at {self._folder!r} was taken over by {owner}: this session has stopped before it "
                "wrote its next answers; let one session at a time use a journal"
            )

    @property
    def _path(self) -> str:
        return f"{self._folder}/{_OWNER}"

    def _read(self) -> Owner | None:
        return read_owner(self._disk, self._folder)


def read_owner(disk: Disk, folder: str) -> Owner | None:
    """The newest owner of a journal; None if nobody can be named."""
    text = disk.read(f"{folder}/{_OWNER}")
    try:
        return None if text is None else Owner(**json.loads(text))
    except (ValueError, TypeError) as error:
        decision("journal.owner_unreadable", folder=folder, error=error)
        return None


class Lock:
    """A lock on a local folder that ends with the process."""

    def __init__(self, folder: str) -> None:
        """Take it, or say who has it."""
        path = f"{folder}/lock"
        with io_errors_explained("write", path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.release = weakref.finalize(self, os.close, handle)
        """Let others have it."""
        try:
            _try_lock(handle)
        except BlockingIOError:
            self.release()
            raise JournalError(_in_use(folder)) from None


def _try_lock(handle: int) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        # Some network file systems have no locks: there the newer owner wins.
        decision("journal.not_locked", error=error)
        return


def _in_use(folder: str) -> str:
    owner = None
    with contextlib.suppress(JournalError):  # the message says "another process" then
        owner = read_owner(Disk(fs.LocalFileSystem()), folder)
    return (
        f"the journal at {folder!r} is in use by {owner or 'another process'}; stop that session first, "
        "or give this one a journal of its own"
    )
