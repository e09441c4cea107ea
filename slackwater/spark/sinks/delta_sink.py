"""The sink for Delta tables, by delta-rs: each write is one transaction, which carries the last commit id.

A Delta table keeps a version for each application (`txn` in its log). Ours is the run, its version the commit id.
So a commit that comes again is left out, and of two processes that write the same commit one is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.errors import SinkError
from slackwater.masking import masked
from slackwater.progress.time import Span
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.sinks.result_rows import (
    ResultColumns,
    batches,
    files_of,
    imported,
    last_of_key,
    read_key,
    schema_of,
)
from slackwater.spark.sinks.table_sink import Table, TableSettings, read_every
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.storage_dir import StorageDir

#: Of tables with other features files are not added as they are: delta-rs looks at each row.
_PLAIN_FEATURES = {"appendOnly", "timestampNtz"}


@dataclass(frozen=True)
class Delta(TableSettings):
    """A Delta table; see `delta`."""

    folder: str
    key: tuple[str, ...] = ()
    every: int = 10_000_000
    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    def table(self, run: str, pages: SparkBackend, columns: ResultColumns) -> Table:
        """The table."""
        columns.check_key("delta", self.key)
        return DeltaFolder(self, run, pages.disk.forces, columns)


def delta(
    folder: str | os.PathLike[str],
    key: str | Sequence[str] = (),
    every: Span = "10 seconds",
    options: Mapping[str, str] | None = None,
) -> Delta:
    """Results in a Delta table, each exactly once, as a sink for `start(sink=…)`.

    Args:
        folder: of the table; it is made if it is not there. A path, or an address such as s3://bucket/late.
        key: columns by which a row replaces an earlier one, such as the group, window_start and window_end. Then an
            early answer is replaced by the final one. Without a key each row is added.
        every: rows wait for others, so that the table gets at most one version in this time.
        options: storage options of delta-rs, such as AWS_REGION.

    >>> delta("out/late", key=("carrier", "window_start", "window_end"), every="1 minute")
    Delta(folder='out/late', key=('carrier', 'window_start', 'window_end'), every=60000000)

    Needs the package deltalake: pip install 'slackwater[delta]'.
    """
    imported("deltalake", "delta")
    return Delta(os.fspath(folder), read_key(key), read_every("delta", every), dict(options or {}))


class DeltaFolder:
    """Writes the rows of one run to a Delta table."""

    advice = "see that the table can be written, and that nobody else writes for this query"

    def __init__(self, settings: Delta, run: str, sync: bool, columns: ResultColumns) -> None:
        self.about = f"the Delta table {settings.folder!r}"
        self._delta = imported("deltalake", "delta")
        self._folder = settings.folder
        self._options = dict(settings.options)
        self._key = settings.key
        self._run = run
        self._sync = sync
        self._columns = columns
        self._table: Any = None
        self._schema: pa.Schema | None = None
        """The columns that are written, with the table's types."""

    def open(self) -> int:
        """Find the table, or make it if the columns are known."""
        try:
            found = self._delta.DeltaTable.is_deltatable(self._folder, self._options)
            if found:
                self._table = self._delta.DeltaTable(self._folder, storage_options=self._options)
            if self._columns.schema is not None:
                self._make(self._columns.schema)
            return self._taken()
        except SinkError:
            raise
        except Exception as error:
            raise SinkError(f"cannot open {self.about}: {masked(str(error))}") from error

    def _make(self, schema: pa.Schema) -> None:
        """Make the table if it is not there; then see which columns it takes."""
        if self._table is None:
            names = {name: schema.field(name).with_nullable(True) for name in schema.names}
            self._table = self._delta.DeltaTable.create(
                self._folder, pa.schema(list(names.values())), mode="ignore", storage_options=self._options
            )
        there = pa.schema(self._table.schema().to_arrow())
        self._schema = pa.schema([there.field(n) for n in self._columns.kept(self.about, schema, there.names)])

    def _taken(self) -> int:
        taken = None if self._table is None else self._table.transaction_version(self._run)
        return -1 if taken is None else int(taken)

    def put(self, rows: pa.Table | StorageDir, first: int, last: int) -> None:
        """Add the rows, or merge them by their key, in one transaction with the commit id."""
        if self._schema is None:
            self._make(self._columns.schema or schema_of(rows))
        self._table.update_incremental()
        if self._taken() >= last:
            return
        before = self._table.version()
        if self._key:
            self._merge(rows, last)
        elif isinstance(rows, StorageDir) and self._takes_files(rows):
            self._add_files(rows, last)
        else:
            self._append(rows, last)
        self._force(before)

    def _commit(self, last: int) -> Any:
        """What makes a write carry the commit id."""
        return self._delta.CommitProperties(app_transactions=[self._delta.Transaction(self._run, last)])

    def _cast(self, rows: pa.Table) -> pa.Table:
        assert self._schema is not None
        return rows.select(self._schema.names).cast(self._schema)

    def _append(self, rows: pa.Table | StorageDir, last: int) -> None:
        assert self._schema is not None
        parts = (self._cast(part) for part in batches(rows, self._columns.schema))
        found = (batch for part in parts for batch in part.to_batches())
        stream = pa.RecordBatchReader.from_batches(self._schema, found)
        self._delta.write_deltalake(
            self._table, stream, mode="append", schema_mode="merge", commit_properties=self._commit(last)
        )

    def _takes_files(self, rows: StorageDir) -> bool:
        """Whether Parquet files of Spark can become a part of the table as they are."""
        assert self._schema is not None
        protocol, there = self._table.protocol(), schema_of(rows)
        same = all(_alike(there.field(f.name).type, f.type) for f in self._schema if f.name in there.names)
        plain = protocol.min_writer_version <= 2 or set(protocol.writer_features or ()) <= _PLAIN_FEATURES
        return same and plain and not self._options and not self._table.metadata().partition_columns

    def _add_files(self, rows: StorageDir, last: int) -> None:
        """Files that Spark has written are copied, and added by one transaction; a crash leaves copies unseen."""
        place, added = StorageDir.of(self._folder), []
        for name in files_of(rows):
            target = f"part-{self._run}-{last:06d}-{name}"
            rows.copy_file(name, place, target)
            with rows.files.open_input_file(f"{rows.path}/{name}") as file:
                stats = json.dumps({"numRecords": pq.ParquetFile(file).metadata.num_rows})
            info = place.files.get_file_info(f"{place.path}/{target}")
            added.append(self._delta.transaction.AddAction(target, info.size, {}, 0, True, stats))
        schema = self._table.schema()
        self._table.create_write_transaction(added, "append", schema, commit_properties=self._commit(last))

    def _merge(self, rows: pa.Table | StorageDir, last: int) -> None:
        """Replace rows of the same key, batch by batch; the last batch carries the commit id.

        A crash between two batches leaves the first ones in the table. They come again, and replace themselves.
        """
        waiting: pa.Table | None = None
        for part in batches(rows, self._columns.schema):
            if waiting is not None:
                self._merge_batch(waiting, None)
            waiting = last_of_key(self._cast(part), self._key)
        assert waiting is not None
        self._merge_batch(waiting, self._commit(last))

    def _merge_batch(self, rows: pa.Table, commit: Any) -> None:
        same = [f"(t.`{name}` IS NOT DISTINCT FROM s.`{name}`)" for name in self._key]
        bounds = [bound for name in self._key for bound in _bounds(name, rows[name])]
        columns = {f"`{name}`": f"s.`{name}`" for name in rows.schema.names}
        merger = self._table.merge(
            rows, " AND ".join([*bounds, *same]), source_alias="s", target_alias="t", commit_properties=commit
        )
        merger.when_matched_update(columns).when_not_matched_insert(columns).execute()

    def _force(self, before: int) -> None:
        """What has been written outlives a power cut if the journal does. Only local files need it."""
        place = StorageDir.of(self._folder)
        disk = Disk(place.files, self._sync)
        if not disk.forces:
            return
        for version in range(before + 1, self._table.version() + 1):
            log = f"_delta_log/{version:020d}.json"
            actions = map(json.loads, (disk.read(f"{place.path}/{log}") or b"").splitlines())
            disk.force(place.path, [*(a["add"]["path"] for a in actions if "add" in a), log])
        disk.force(f"{place.path}/_delta_log")


def _alike(written: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type in a file is read as that of the table; Spark's timestamps have an older form."""
    return bool(written == wanted or (pa.types.is_timestamp(written) and pa.types.is_timestamp(wanted)))


def _bounds(name: str, values: pa.ChunkedArray) -> list[str]:
    """Between which values a column of the key lies, so that files with others are not read."""
    if not pa.types.is_timestamp(values.type) or values.null_count:
        return []
    ends = pc.min_max(values)
    low, high = (pc.strftime(ends[end], format="%Y-%m-%dT%H:%M:%SZ").as_py() for end in ("min", "max"))
    return [f"t.`{name}` >= '{low}'", f"t.`{name}` <= '{high}'"]
