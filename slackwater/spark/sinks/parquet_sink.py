"""The Parquet sink: a folder of files that are never changed, each with the rows of many commits.

<folder>/part-<run>-000012-000057.parquet      the rows of commits 12 to 57

Rows are shown by one rename. A file that is there is whole, and stays as it is. So a reader of the folder sees each
row once, whenever it comes. Which commits have been shown is in the names of the files.
"""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.errors import QueryWarning, SinkError
from slackwater.progress.time import Span
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.sinks.result_rows import ResultColumns, batches, files_of, in_full
from slackwater.spark.sinks.table_sink import Table, TableSettings, read_every
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.storage_dir import StorageDir


@dataclass(frozen=True)
class Parquet(TableSettings):
    """A folder for results, and how often it gets a file; see `parquet`."""

    folder: str | os.PathLike[str]
    every: int = 10_000_000

    def table(self, run: str, pages: SparkBackend, columns: ResultColumns) -> Table:
        """The folder."""
        return ParquetFolder(StorageDir.of(self.folder), run, pages.disk.forces, columns.schema, columns.corrected)


def parquet(folder: str | os.PathLike[str], every: Span = "10 seconds") -> Parquet:
    """Results as Parquet files, at most one file each `every`, as a sink for `start(sink=…)`.

    >>> parquet("out/late", every="1 minute")
    Parquet(folder='out/late', every=60000000)

    Rows that come less than `every` after the last file wait for the next one. With "0 seconds" each commit is a
    file of its own, at once.
    """
    return Parquet(folder, read_every("parquet", every))


class ParquetFolder:
    """Shows the rows of one run in a folder."""

    advice = "check that the folder can be written and that the disk has room"

    def __init__(
        self, place: StorageDir, run: str, sync: bool, schema: pa.Schema | None, gaps: bool = False
    ) -> None:
        """`gaps`: some commits of the run have no rows, and no file."""
        self.place = place
        self.about = f"the folder {place.path!r}"
        self._run = run
        self._schema = schema
        self._gaps = gaps
        self._disk = Disk(place.files, sync)

    def open(self) -> int:
        """Try to write. What a crash has left half written goes; files that somebody has deleted are noticed."""
        files, shown, whole = self.place.files, list[tuple[int, int]](), -1
        try:
            files.create_dir(self.place.path, recursive=True)
            self._write(b"", f"{self.place.path}/.slackwater-{self._run}")
            files.delete_file(f"{self.place.path}/.slackwater-{self._run}")
            pattern = re.compile(rf"part-{re.escape(self._run)}-(\d{{6,}})-(?:(\d{{6,}})\.)?.*parquet")
            for name in self.place.names():
                found = pattern.fullmatch(name)
                if found is not None:
                    shown.append((int(found[1]), int(found[2] or found[1])))
                    # Of a commit of files some may be missing: it comes again, and replaces itself.
                    whole = max(whole, int(found[2] or -1))
                elif name == self._half:
                    files.delete_file(f"{self.place.path}/{name}")
        except OSError as error:
            raise SinkError(
                f"cannot write to sink {self.place.path!r}: {error}; give a folder that can be written"
            ) from error
        last = -1
        for first, until in sorted(shown):
            if first > last + 1 and not self._gaps:
                warnings.warn(
                    f"{self.about} lacks the files of commits {last + 1} to {first - 1} of this query, which were "
                    "there: their answers do not come again. Restore the files if nobody has moved them on purpose",
                    QueryWarning,
                    stacklevel=2,
                )
            last = max(last, until)
        return whole

    def put(self, rows: pa.Table | StorageDir, first: int, last: int) -> None:
        """Rows become one file. Files are shown one by one; a commit of files that comes again replaces itself."""
        if isinstance(rows, StorageDir):
            for part in files_of(rows):
                self._put_file(rows, part, f"{self.place.path}/{self._name(first)}-{part}")
            return
        buffer, schema = pa.BufferOutputStream(), self._schema or rows.schema
        with pq.ParquetWriter(buffer, schema) as writer:
            for part in batches(rows, schema):
                writer.write_table(part)
        self._write(buffer.getvalue(), f"{self.place.path}/{self._name(first)}-{last:06d}.parquet")

    def _put_file(self, staged: StorageDir, part: str, target: str) -> None:
        source = f"{staged.path}/{part}"
        whole = self._schema is None or len(pq.read_schema(source, filesystem=staged.files)) == len(self._schema)
        if whole:
            staged.copy_file(part, self.place, self._half)
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
