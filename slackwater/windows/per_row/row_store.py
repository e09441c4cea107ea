"""Stores that grow at their end: rows found again by their number, the latest row of each group, group numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from slackwater.progress.source_numbers import Ints
from slackwater.windows.runs import gather, grown

CODE = "__code"

#: A chunk is merged with the next unless it is this many times as large: few chunks, few copies of a row.
_RATIO = 4
_SLACK = 4096


class RowStore:
    """Rows that stay where they were put. Adding costs a few copies a row, whatever is there already."""

    def __init__(self) -> None:
        self._chunks: list[pl.DataFrame] = []
        self.size = 0

    def add(self, rows: pl.DataFrame) -> int:
        """Put rows at the end; gives the number of the first."""
        start = self.size
        if rows.height:
            self._chunks.append(rows)
            self.size += rows.height
            tail = 1
            while tail < len(self._chunks) and self._chunks[-tail - 1].height <= _RATIO * sum(
                c.height for c in self._chunks[-tail:]
            ):
                tail += 1
            if tail > 1:
                self._chunks[-tail:] = [pl.concat(self._chunks[-tail:], rechunk=True)]
        return start

    def take(self, numbers: Ints) -> pl.DataFrame | None:
        """Rows by their numbers; a row of nulls for -1. None when there is nothing to find."""
        if not self._chunks or not (numbers >= 0).any():
            return None
        return gather(pl.concat(self._chunks, rechunk=False), numbers)

    def keep(self, numbers: Ints) -> None:
        """Keep these rows, in this order; they are numbered anew from 0."""
        kept = self.take(numbers)
        self._chunks, self.size = ([], 0) if kept is None else ([kept], kept.height)

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return int(sum(c.estimated_size() for c in self._chunks))


class LatestRows:
    """One row for each code: the latest that was set."""

    def __init__(self) -> None:
        self._store = RowStore()
        self._at = np.empty(0, np.int64)

    def get(self, codes: Ints) -> pl.DataFrame | None:
        """The rows of some codes, of nulls where there is none or the code is -1; None when none has any."""
        if not self._store.size:
            return None
        known = (codes >= 0) & (codes < len(self._at))
        return self._store.take(np.where(known, self._at[np.where(known, codes, 0)], -1))

    def set(self, codes: Ints, rows: pl.DataFrame) -> None:
        """Rows for codes that are all different."""
        if len(codes) == 0:
            return
        self._at = grown(self._at, int(codes.max()) + 1, -1)
        self._at[codes] = self._store.add(rows) + np.arange(len(codes))
        if self._store.size > 2 * len(self._at) + _SLACK:
            live = np.flatnonzero(self._at >= 0)
            self._store.keep(self._at[live])
            self._at[live] = np.arange(len(live))

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return self._store.bytes


class GroupNumbers:
    """Numbers for the values of the group columns."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._table: pl.DataFrame | None = None

    def __len__(self) -> int:
        return 1 if self._table is None else self._table.height

    def of(self, rows: pl.DataFrame) -> Ints:
        """The number of each row's group; new groups get new numbers."""
        if not self._keys:
            return np.zeros(rows.height, np.int64)
        wanted = rows.select(self._keys)
        if self._table is None:
            self._table = wanted.clear()
        found = self._find(wanted)
        if found.null_count():
            new = wanted.filter(found.is_null()).unique(maintain_order=True)
            self._table = pl.concat([self._table, new])
            found = self._find(wanted)
        return found.cast(pl.Int64).to_numpy()

    def keys(self, codes: Ints) -> pl.DataFrame:
        """The group columns of some numbers."""
        return pl.DataFrame() if self._table is None else self._table[codes]

    def keep(self, codes: Ints) -> Ints:
        """Forget all groups but these, sorted ones; gives the new number of each old one."""
        new = np.full(len(self), -1, np.int64)
        new[codes] = np.arange(len(codes))
        if self._table is not None:
            self._table = self._table[codes]
        return new

    def _find(self, wanted: pl.DataFrame) -> pl.Series:
        assert self._table is not None
        numbered = self._table.with_row_index(CODE)
        joined = wanted.join(numbered, on=self._keys, how="left", nulls_equal=True, maintain_order="left")
        return joined[CODE]
