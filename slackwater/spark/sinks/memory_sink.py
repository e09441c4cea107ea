"""Results in the driver, for `run.results()`: final rows, and the last early answer of each window and group.

They take a bounded size. When there is more, the oldest rows go; that is logged once and counted.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.errors import QueryError
from slackwater.operators.payload import Payload, Recipe, Staged
from slackwater.progress.source_numbers import Ints
from slackwater.spark.backend.backend import SparkBackend
from slackwater.windows.results import KIND

_log = logging.getLogger(__name__)

#: Bytes of results that are kept in memory.
MOST_BYTES = 256 * 2**20
#: A table has some KB beside its rows, so as many tables become one if they are small.
_TABLES = 256
#: Where a table of results says up to which place it has them.
_CURSOR = b"slackwater.results_through"


@dataclass(frozen=True, slots=True)
class _ResultBuffer:
    """Rows, each with its place in the order of arrival; those of one commit have the same."""

    places: Ints
    table: pa.Table

    def after(self, place: int) -> _ResultBuffer:
        """The rows that came after a place."""
        begin = int(np.searchsorted(self.places, place, side="right"))
        return _ResultBuffer(self.places[begin:], self.table.slice(begin))

    def take(self, which: Ints) -> _ResultBuffer:
        """Some of them."""
        return _ResultBuffer(self.places[which], self.table.take(pa.array(which)))

    def __add__(self, other: _ResultBuffer) -> _ResultBuffer:
        return _joined([self, other])


def _joined(parts: Sequence[_ResultBuffer]) -> _ResultBuffer:
    table = pa.concat_tables([p.table for p in parts], promote_options="permissive").combine_chunks()
    return _ResultBuffer(np.concatenate([p.places for p in parts]), table)


class MemorySink:
    """Keeps results in the driver. One thread writes, others read.

    Args:
        pages: where staged rows are found.
        schema: that of final rows; None if it is not known.
        keys: columns of the window and the group; a later early row of the same ones replaces the earlier. Without
            keys all early rows stay.
        most_bytes: how much is kept.
    """

    def __init__(
        self,
        pages: SparkBackend,
        schema: pa.Schema | None = None,
        keys: Sequence[str] = (),
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._pages = pages
        self._schema = schema
        self._keys = list(keys)
        self._most_bytes = most_bytes
        self._final: deque[_ResultBuffer] = deque()
        self._final_bytes = 0
        self._loose = 0
        """How many of the last tables of final rows are as they came."""
        self._early: _ResultBuffer | None = None
        self._place = 0
        self.dropped = 0
        """Rows that were dropped for the size; those that a later answer has replaced do not count."""
        self._lock = threading.Lock()

    def write(self, payload: Payload, commit_id: int) -> None:
        """Keep the rows of a commit."""
        for rows in self._tables(payload):
            with self._lock:
                self._add(rows)

    def _tables(self, payload: Payload) -> Iterator[pa.Table]:
        """The rows; many come file by file, so that never much more than the bound is in memory."""
        if isinstance(payload, Recipe):
            payload = self._pages.brought(payload)
        if not isinstance(payload, Staged):
            yield payload
            return
        place = self._pages.root.child(payload.location)
        for name in place.names():
            if name.endswith(".parquet"):
                yield pq.read_table(f"{place.path}/{name}", filesystem=place.files)

    def _add(self, rows: pa.Table) -> None:
        self._place += 1
        is_early = pc.equal(rows[KIND], "early") if self._keys and KIND in rows.schema.names else None
        early = None if is_early is None or not pc.any(is_early).as_py() else rows.filter(is_early)
        final = rows if early is None else rows.filter(pc.invert(is_early))
        self._replace(rows)
        if early is not None:
            new = _ResultBuffer(np.full(early.num_rows, self._place), early)
            self._early = new if self._early is None else self._early + new
        if final.num_rows:
            self._final.append(_ResultBuffer(np.full(final.num_rows, self._place), self._plain(final)))
            self._final_bytes += self._final[-1].table.nbytes
            self._loose += 1
            if self._loose >= _TABLES:
                self._tidy()
        self._shrink()

    def _tidy(self) -> None:
        """Make one table of the last ones, if they are small."""
        loose = [self._final.pop() for _ in range(min(self._loose, len(self._final)))][::-1]
        size = sum(part.table.nbytes for part in loose)
        made = [_joined(loose)] if size <= self._most_bytes // 16 else loose
        self._final.extend(made)
        self._final_bytes += sum(part.table.nbytes for part in made) - size
        self._loose = 0

    def _plain(self, final: pa.Table) -> pa.Table:
        """Final rows without the columns that only early ones have a value in. Without keys they may be early."""
        if self._schema is None or not set(self._schema.names) <= set(final.schema.names):
            return final
        if not self._keys and final.num_columns > len(self._schema):
            return final
        return final.select(self._schema.names).cast(self._schema)

    def _replace(self, rows: pa.Table) -> None:
        """Take out the early rows that these ones, early or final, come in the place of."""
        if self._early is None:
            return
        old, new = (pl.DataFrame(t.select(self._keys)) for t in (self._early.table, rows))
        stays = old.with_row_index("__row").join(new, on=self._keys, how="anti", nulls_equal=True)["__row"]
        if len(stays) < old.height:
            self._early = self._early.take(np.sort(stays.to_numpy())) if len(stays) else None

    @property
    def bytes(self) -> int:
        """Size of what is kept."""
        return self._final_bytes + (0 if self._early is None else int(self._early.table.nbytes))

    def _shrink(self) -> None:
        """Drop the oldest rows but the newest, until the rest fits."""
        before = self.dropped
        while self.bytes > self._most_bytes:
            final = int(self._final[0].places[0]) if self._final else self._place
            early = self._place if self._early is None else int(self._early.places[0])
            if min(final, early) == self._place:
                break
            if final <= early:
                gone = self._final.popleft()
                self._final_bytes -= gone.table.nbytes
                self.dropped += len(gone.places)
            else:
                assert self._early is not None
                stays = np.flatnonzero(self._early.places != early)
                self.dropped += len(self._early.places) - len(stays)
                self._early = self._early.take(stays) if len(stays) else None
        if self.dropped and not before:
            _log.warning(
                "results in memory take more than %d MiB: the oldest are dropped from now on, and counted as "
                "results_dropped in run.metrics(); give start(sink=) a folder or a function to keep all of them",
                self._most_bytes >> 20,
            )

    def table(self, since: object = None) -> pa.Table:
        """The kept rows in the order of arrival, or only those that came after an earlier table."""
        after = 0 if since is None else _cursor(since)
        with self._lock:
            place, parts = self._place, [*self._final, *([] if self._early is None else [self._early])]
        found = [rows for part in parts if len((rows := part.after(after)).places)]
        schema = pa.schema([]) if self._schema is None else self._schema
        tables = [part.table for part in found]
        table = pa.concat_tables(tables, promote_options="permissive") if tables else schema.empty_table()
        places = np.concatenate([part.places for part in found]) if found else np.zeros(0, np.int64)
        if (np.diff(places) < 0).any():
            table = table.take(pa.array(np.argsort(places, kind="stable")))
        return table.replace_schema_metadata({**(table.schema.metadata or {}), _CURSOR: str(place).encode()})


def _cursor(since: object) -> int:
    metadata = since.schema.metadata if isinstance(since, pa.Table) else None
    if metadata is None or _CURSOR not in metadata:
        raise QueryError(
            "results(since=…): give a table that results() of this run has returned, as in\n"
            "  seen = run.results()\n"
            "  news = run.results(since=seen)"
        )
    return int(metadata[_CURSOR])
