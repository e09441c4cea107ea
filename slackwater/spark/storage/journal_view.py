"""A journal for readers other than the session that owns it: they change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from slackwater.errors import JournalError
from slackwater.progress.punctuation import Punctuation
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.spark.storage.journal_names import HeaderFiles
from slackwater.spark.storage.storage_dir import StorageDir


class _ReadOnly(Disk):
    """Files that a reader leaves as they are, including those that the owner is writing."""

    def delete(self, path: str) -> None:
        """Leave it."""


class JournalView(FileJournal):
    """The queries and the records of a journal, without its ownership."""

    def __init__(self, place: StorageDir) -> None:
        self.folder, self._disk = place.path, _ReadOnly(place.files)
        self._steps, self._commits = f"{self.folder}/steps", f"{self.folder}/commits"
        self._header = HeaderFiles(self._disk, self.folder).read(self._names(), any(self._marks()))
        if not self._header:
            raise JournalError(f"{self.folder!r} holds no journal")
        self._records = self.read()

    @property
    def format(self) -> int:
        """The number of its format."""
        return int(self._header["format"])

    def plan(self, query: str) -> str:
        """What a query does."""
        if query not in self.queries:
            held = ", ".join(self.queries) or "none"
            raise JournalError(f"the journal at {self.folder!r} holds no query {query!r}; it holds {held}")
        return self.queries[query]

    @property
    def batches(self) -> dict[str, int]:
        """Number of the last batch that was taken of each stream."""
        taken: dict[str, int] = {}
        for record in self._records:
            taken.update({source.removeprefix("source:"): n for source, n in record.consumed.items()})
        return taken

    def heartbeats(self, query: str) -> dict[str, int]:
        """The heartbeat of each operator's output in a query, in ticks."""
        self.plan(query)
        known = [part for record in self._records for part in (*record.aside, record)]
        times = {label: time["said"] for record in known for label, time in record.times.items()}
        mine = {label: said for label, said in times.items() if label.query == query and said}
        return {
            str(label): min(Punctuation.load(time).heartbeat.tick for time in said.values())
            for label, said in mine.items()
        }

    def tables(self, query: str) -> Iterator[tuple[str, int, pa.Table]]:
        """What is kept for a query, by operator and part, as of the last whole record, then what has changed."""
        self.plan(query)
        for record in self._records:
            for part in (*record.aside, record):
                for label, state in part.states.items():
                    if label.query == query:
                        for name, table in state.tables.items():
                            yield f"{label}/{name}", record.step, table
