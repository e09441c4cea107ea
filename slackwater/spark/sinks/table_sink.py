"""The sink for places that take the rows of some commits at once, all or none: folders, tables, topics.

<journal>/held/<run>/58                        rows of commit 58, which are not written yet

The place knows the last commit that it has taken. So after a crash held rows that have been written are dropped,
and a commit that comes again is left out.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from slackwater.errors import QueryError
from slackwater.operators.payload import Payload, Recipe, Staged
from slackwater.progress.time import Span, microseconds
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.sinks.result_rows import ResultColumns
from slackwater.spark.storage.storage_dir import StorageDir

#: Bytes of held rows at which they are written at once.
MOST_HELD = 64 * 2**20
_HELD = "held"


class Table(Protocol):
    """A place that takes the rows of some commits at once: all of them or none, whatever crashes."""

    about: str
    """What messages call it."""
    advice: str
    """What to do when it cannot be written."""

    def open(self) -> int:
        """Make sure that it can be written; gives the last commit that it has taken, -1 for none."""

    def put(self, rows: pa.Table | StorageDir, first: int, last: int) -> None:
        """Write the rows of these commits; a folder has them as Parquet files, which are those of one commit."""


class TableSettings(ABC):
    """A table for results as a user describes it, for `start(sink=…)`."""

    every: int
    """Microseconds between two writes."""

    @abstractmethod
    def table(self, run: str, pages: SparkBackend, columns: ResultColumns) -> Table:
        """The table, for the rows of a run."""


def read_every(sink: str, every: Span) -> int:
    """How long rows may wait for others, in microseconds."""
    try:
        wait = microseconds(every)  # type: ignore[arg-type]
    except (QueryError, TypeError) as error:
        raise QueryError(f"{sink}(every={every!r}): write a time, as in every='10 seconds'") from error
    if wait < 0:
        raise QueryError(f"{sink}(every={every!r}) is negative; write every='0 seconds' to wait for nothing")
    return wait


class TableSink:
    """Gives the rows of one run to a table. One thread writes; others may ask it to write what it holds."""

    def __init__(
        self,
        table: Table,
        run: str,
        pages: SparkBackend,
        every: float = 10.0,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.about = table.about
        self.advice = table.advice
        self._table = table
        self._pages = pages
        self._every = every
        self._seconds = seconds
        self._due = seconds()
        """When rows may be written next."""
        self._held: dict[int, pa.Table] = {}
        """Rows that are not written yet, by commit."""
        self._lock = threading.RLock()
        self._place_held = pages.root.child(_HELD).child(run)
        self._written = table.open()
        """The last commit that the table has."""
        self._recover()

    def _recover(self) -> None:
        """Take what an earlier process has held back."""
        for name in self._place_held.names():
            if not name.isdigit() or int(name) <= self._written:
                files = self._place_held.files
                files.delete_file(f"{self._place_held.path}/{name}")
            else:
                with self._place_held.files.open_input_file(f"{self._place_held.path}/{name}") as file:
                    self._held[int(name)] = pa.ipc.open_stream(file.read()).read_all()

    @staticmethod
    def forget(pages: SparkBackend, run: str) -> None:
        """Drop what an earlier process has held back for a run, and its late rows, that will not come back."""
        held = pages.root.child(_HELD)
        for name in [run, f"{run}-late", *(n for n in held.names() if n.startswith(f"{run}-sink"))]:
            held.child(name).delete()

    def write(self, payload: Payload, commit_id: int) -> None:
        """Take the rows of a commit: hold them in the journal, or write them with those that are held."""
        with self._lock:
            if commit_id <= self._written:
                return
            if isinstance(payload, Recipe):
                payload = self._pages.brought(payload)
            if isinstance(payload, Staged):
                self._show()
                self._table.put(self._pages.root.child(payload.location), commit_id, commit_id)
                self._written = commit_id
                return
            self._held[commit_id] = payload
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
        """In how many seconds held rows may be written; None if there are none."""
        return max(self._due - self._seconds(), 0.0) if self._held else None

    def flush_due(self) -> None:
        """Write what is held if it is time."""
        with self._lock:
            if self.due_in() == 0:
                self._show()

    def flush(self) -> None:
        """Write all that is held."""
        with self._lock:
            self._show()

    def _show(self) -> None:
        if not self._held:
            return
        commits = sorted(self._held)
        rows = pa.concat_tables([self._held[c] for c in commits], promote_options="default")
        self._table.put(rows, commits[0], commits[-1])
        # From here on the rows are out. What follows may happen or not.
        self._written, self._due, self._held = commits[-1], self._seconds() + self._every, {}
        held = self._place_held
        for name in held.names():
            held.files.delete_file(f"{held.path}/{name}")
