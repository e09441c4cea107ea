"""Spark's own notes of a stream: which batch it gives next, and whether that one follows what the journal has."""

from __future__ import annotations

from slackwater.errors import JournalError
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.storage_dir import StorageDir


class Checkpoint:
    """The folder in which Spark notes what each batch holds (`offsets`) and which are done (`commits`)."""

    def __init__(self, stream: str, place: StorageDir, journal: StorageDir) -> None:
        self.place = place
        self._stream = stream
        self._journal = journal

    def next_batch(self) -> int:
        """Number of the batch that Spark gives first when it starts: the one it was at, or a new one."""
        begun, done = (self._last(folder) for folder in ("offsets", "commits"))
        return begun if begun > done else begun + 1

    def tidy(self) -> None:
        """Delete what a stop has left of the first batch's notes, half written: with it Spark refuses to start."""
        if self._last("offsets") < 0:
            for folder in ("offsets", "commits"):
                self.place.child(folder).delete()

    def _last(self, folder: str) -> int:
        return max((int(name) for name in self.place.child(folder).names() if name.isdigit()), default=-1)

    def check(self, number: int, taken: int | None) -> None:
        """Refuse a batch that is neither the last one taken nor the one after it: rows would be lost silently."""
        last = -1 if taken is None else taken
        if last <= number <= last + 1:
            return
        stands = f"stream {self._stream!r}: Spark goes on with batch {number}, but the journal at "
        stands += f"{self._journal.path!r} holds " + ("none yet" if taken is None else f"batches up to {taken}")
        anew = "or start again with an empty folder and empty sinks: all answers then come again"
        if number > last:
            raise JournalError(
                f"{stands}, so batches {last + 1} to {number - 1} would be lost. Records of the journal or pages "
                f"of its spool are missing: restore the folders steps, commits and spool, {anew}"
            )
        raise JournalError(
            f"{stands}, so rows would be lost. Spark's checkpoint {self.place.path!r} is missing or older than the "
            f"journal: restore it, {anew}"
        )

    def force(self, number: int, disk: Disk) -> None:
        """Force Spark's notes of a batch to the disk.

        Else a power cut could leave a record of the batch, and Spark would fill the same number with other rows.
        """
        if not disk.forces:
            return
        sources = self.place.child("sources")
        folders = [self.place.child("offsets"), *(sources.child(name) for name in sources.names())]
        for folder in folders:
            disk.force(folder.path, [n for n in folder.names() if n.partition(".")[0] == str(number)])
