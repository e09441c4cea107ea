"""The Parquet sink: a folder of files that are never changed, each with the rows of many commits.

<folder>/part-<run>-000012-000057.parquet      the rows of commits 12 to 57
<journal>/held/<run>/58                        rows of commit 58, which are not shown yet

Rows are shown by one rename. A file that is there is whole, and stays as it is. So a reader of the folder sees each
row once, whenever it comes. Which commits have been shown is in the names of the files: after a crash at any point
held rows that have been shown are dropped, and a commit that comes again is left out.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from slackwater.errors import QueryError, SinkError
from slackwater.operators.payload import Payload, Recipe, Staged
from slackwater.progress.time import Span, microseconds
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.storage_dir import StorageDir

#: Rows are shown at once when so many bytes are held.
MOST_HELD = 64 * 2**20
_HELD = "held"


@dataclass(frozen=True)
class Parquet:
    """A folder for results, and how often it gets a file; see `parquet`."""

    folder: str | os.PathLike[str]
    every: int = 10_000_000


def parquet(folder: str | os.PathLike[str], every: Span = "10 seconds") -> Parquet:
    """Results as Parquet files, at most one file each `every`, as a sink for `start(sink=…)`.

    >>> parquet("out/late", every="1 minute")
    Parquet(folder='out/late', every=60000000)

    Rows that come less than `every` after the last file wait for the next one. With "0 seconds" each commit is a
    file of its own, at once.
    """
    try:
        wait = microseconds(every)  # type: ignore[arg-type]
    except (QueryError, TypeError) as error:
        raise QueryError(f"parquet(every={every!r}): write a time, as in every='10 seconds'") from error
    if wait < 0:
        raise QueryError(f"parquet(every={every!r}) is negative; write every='0 seconds' to wait for nothing")
    return Parquet(folder, wait)


class ParquetSink:
    """Shows the rows of one run in a folder. One thread writes; others may ask it to show what it holds."""

    advice = "check that the folder can be written and that the disk has room"

    def __init__(
        self,
        place: StorageDir,
        run: str,
        pages: SparkBackend,
        schema: pa.Schema | None,
        every: float = 10.0,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.place = place
        self.about = f"the folder {place.path!r}"
        self._run = run
        self._pages = pages
        self._schema = schema
        self._every = every
        self._seconds = seconds
        self._due = seconds()
        """When the next file may be made."""
        self._held: dict[int, pa.Table] = {}
        """Rows that are not shown yet, by commit."""
        self._shown = -1
        """The last commit whose rows a file has."""
        self._lock = threading.RLock()
        self._disk = Disk(place.files, pages.disk.forces)
        self._place_held = pages.root.child(_HELD).child(run)
        self._recover()

    # --- what an earlier process has left

    def _recover(self) -> None:
        files = self.place.files
        try:
            files.create_dir(self.place.path, recursive=True)
            self._write(b"", f"{self.place.path}/.slackwater-{self._run}")
            files.delete_file(f"{self.place.path}/.slackwater-{self._run}")
            pattern = re.compile(rf"part-{re.escape(self._run)}-\d{{6,}}-(\d{{6,}})\.parquet")
            for name in self.place.names():
                found = pattern.fullmatch(name)
                if found is not None:
                    self._shown = max(self._shown, int(found[1]))
                elif name == self._half:
                    files.delete_file(f"{self.place.path}/{name}")
        except OSError as error:
            raise SinkError(
                f"cannot write to sink {self.place.path!r}: {error}; give a folder that can be written"
            ) from error
        for name in self._place_held.names():
            if not name.isdigit() or int(name) <= self._shown:
                files = self._place_held.files
                files.delete_file(f"{self._place_held.path}/{name}")
            else:
                with self._place_held.files.open_input_file(f"{self._place_held.path}/{name}") as file:
                    self._held[int(name)] = pa.ipc.open_stream(file.read()).read_all()

    @staticmethod
    def forget(pages: SparkBackend, run: str) -> None:
        """Drop what an earlier process has held back for a run, and its late rows, that will not come back."""
        for name in (run, f"{run}-late"):
            pages.root.child(_HELD).child(name).delete()

    # --- rows

    def write(self, payload: Payload, commit_id: int) -> None:
        """Take the rows of a commit: hold them where a crash leaves them, or show them with those that are held."""
        with self._lock:
            if commit_id <= self._shown:
                return
            if isinstance(payload, Recipe):
                payload = self._pages.brought(payload)
            if isinstance(payload, Staged):
                self._show()
                self._put_staged(payload, commit_id)
                return
            self._held[commit_id] = in_full(payload, self._schema)
            try:
                if self._seconds() >= self._due or sum(t.nbytes for t in self._held.values()) >= MOST_HELD:
                    self._show()
                else:
                    self._hold(commit_id)
            except Exception:
                # It has not been taken: it comes again.
                self._held.pop(commit_id, None)
                raise

    def _hold(self, commit_id: int) -> None:
        rows, buffer = self._held[commit_id], pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, rows.schema) as writer:
            writer.write_table(rows)
        self._pages.disk.make_folder(self._place_held.path)
        self._pages.disk.write(f"{self._place_held.path}/{commit_id}", buffer.getvalue())

    def due_in(self) -> float | None:
        """In how many seconds held rows may be shown; None if there are none."""
        return max(self._due - self._seconds(), 0.0) if self._held else None

    def flush_due(self) -> None:
        """Show what is held if it is time."""
        with self._lock:
            if self.due_in() == 0:
                self._show()

    def flush(self) -> None:
        """Show all that is held."""
        with self._lock:
            self._show()

    def _show(self) -> None:
        if not self._held:
            return
        commits = sorted(self._held)
        rows, buffer = pa.concat_tables([self._held[c] for c in commits]), pa.BufferOutputStream()
        pq.write_table(rows, buffer)
        self._write(buffer.getvalue(), f"{self.place.path}/{self._name(commits[0])}-{commits[-1]:06d}.parquet")
        # From here on the rows are out. What follows may happen or not.
        self._shown, self._due, self._held = commits[-1], self._seconds() + self._every, {}
        held = self._place_held
        for name in held.names():
            held.files.delete_file(f"{held.path}/{name}")

    def _put_staged(self, payload: Staged, commit_id: int) -> None:
        """Many rows are files already: each is shown by a rename; a commit that comes again replaces itself."""
        staged = self._pages.root.child(payload.location)
        for part in staged.names():
            if part.endswith(".parquet"):
                self._put(staged, part, f"{self.place.path}/{self._name(commit_id)}-{part}")

    def _put(self, staged: StorageDir, part: str, target: str) -> None:
        hidden, source = f"{self.place.path}/{self._half}", f"{staged.path}/{part}"
        whole = self._schema is None or len(pq.read_schema(source, filesystem=staged.files)) == len(self._schema)
        if whole:
            fs.copy_files(source, hidden, source_filesystem=staged.files, destination_filesystem=self.place.files)
            self._show_half(target)
            return
        buffer = pa.BufferOutputStream()
        pq.write_table(in_full(pq.read_table(source, filesystem=staged.files), self._schema), buffer)
        self._write(buffer.getvalue(), target)

    @property
    def _half(self) -> str:
        """A file that is being written; readers pass over names with a dot in front."""
        return f".half-{self._run}"

    def _name(self, commit_id: int) -> str:
        return f"part-{self._run}-{commit_id:06d}"

    def _write(self, data: bytes | pa.Buffer, target: str) -> None:
        with self.place.files.open_output_stream(f"{self.place.path}/{self._half}") as stream:
            stream.write(data)
        self._show_half(target)

    def _show_half(self, target: str) -> None:
        """What is written becomes a file of the folder, which outlives a power cut if the journal does."""
        self._disk.force(self.place.path, [self._half], entries=False)
        self.place.files.move(f"{self.place.path}/{self._half}", target)
        self._disk.force(self.place.path)


def in_full(rows: pa.Table, schema: pa.Schema | None) -> pa.Table:
    """Rows with all columns; those of early results are null in final ones."""
    if schema is None or rows.num_columns == len(schema):
        return rows
    for field in schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows
