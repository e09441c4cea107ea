"""The window buffer of count windows: a result a row over the last n rows of its group, by the block method.

The rows of a group are numbered as they are released and cut into blocks of n. A window is the merge of a suffix
of the group's block before and of a prefix of its current one, as for range windows. A late row is put between
the last n - 1 rows of its group, if it belongs there; these then begin a block (S4 section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from slackwater.columns import ROWS, TIME
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK
from slackwater.windows.per_row.rolling import RollingKernel
from slackwater.windows.per_row.row_store import GroupNumbers, LatestRows, RowStore
from slackwater.windows.per_row.scans import lift, pair, partial_columns, running
from slackwater.windows.runs import Bools, by_code, gather, grown, spread, starts

#: Bits of a row's number in a key; the others are its group's.
_BITS = 38
_MASK = 2**_BITS - 1
#: Rows are numbered anew when a number is above this: late rows skip numbers.
_LARGEST = 2 ** (_BITS - 1)
_SLACK = 4096


class CountWindows:
    """Rows of each group's current block, and the suffixes of its block before."""

    def __init__(self, kernel: RollingKernel) -> None:
        assert kernel.spec.rows is not None
        self._kernel = kernel
        self._n = kernel.spec.rows
        self._slide = kernel.spec.slide
        self.ends: Bools | None = None
        """Which of the rows that were released last end a window; None: all."""
        self._codes = GroupNumbers(kernel.keys)
        self._count = np.zeros(0, np.int64)
        """How many rows each group has had, late ones too, where windows slide."""
        self._seen = np.zeros(0, np.int64)
        """The number of each group's next row."""
        self._latest = np.zeros(0, np.int64)
        """The time of each group's last row."""
        self._at = np.zeros(0, np.int64)
        """Where each group's last complete block begins, in two stores."""
        self._forget()

    def _forget(self) -> None:
        """Without rows."""
        self._current = _Runs(fan=max(2, min(16, self._n // 4)))
        self._carry = LatestRows()
        self._before = RowStore()
        self._suffixes = RowStore()
        """Rows of each group's last complete block, and beside each the merge of it and all behind it there."""
        self._seen[:], self._at[:] = 0, -1

    def release(self, rows: pl.DataFrame, heartbeat: int) -> pl.DataFrame:
        """Merged partials of the window of each row; rows lie in order, behind all released before."""
        code = self._codes.of(rows)
        if self._slide > 1:
            self.ends = self._counted(code) % self._slide == 0
        return self._take(code, rows.select(TIME, *lift(self._kernel, rows)))

    def _counted(self, code: Ints) -> Ints:
        """The place of each row in its group."""
        self._count = grown(self._count, len(self._codes), 0)
        order = np.argsort(code, kind="stable")
        groups = starts(code[order])
        place = np.empty(len(code), np.int64)
        place[order] = np.arange(len(code)) - spread(groups, groups, len(code)) + 1
        place += self._count[code]
        np.maximum.at(self._count, code, place)
        return place

    def advance(self, heartbeat: int) -> None:
        """Rows leave by number, not by time."""

    def absorb(self, elements: pl.DataFrame) -> None:
        """Rows in the order of time. Some may lie before the last row of their group."""
        if not elements.height:
            return
        code, rows = self._codes.of(elements), elements.select(TIME, *partial_columns(self._kernel))
        if ROWS in elements.columns:
            self._count = grown(self._count, len(self._codes), 0)
            self._count[code] = elements[ROWS].to_numpy()
        elif self._slide > 1:
            self._counted(code)
        self._grow()
        changed = np.unique(code[rows[TIME].to_numpy() < self._latest[code]])
        if len(changed):
            mine = np.isin(code, changed)
            self._put_between(changed, code[mine], rows.filter(pl.Series(mine)))
            code, rows = code[~mine], rows.filter(pl.Series(~mine))
        if rows.height:
            self._take(code, rows)

    def _put_between(self, groups: Ints, code: Ints, rows: pl.DataFrame) -> None:
        """Take rows in the order of time with those that their groups have; the last n - 1 of each are needed."""
        found = self._last(groups)
        if found is not None:
            code, rows = np.concatenate([found[0] >> _BITS, code]), pl.concat([found[1], rows])
        order = np.lexsort((rows[TIME].to_numpy(), code))
        code = code[order]
        ends = np.searchsorted(code, code, side="right")
        last = ends - np.arange(len(code)) < self._n
        # They begin a block: what is in those before is of no use any more.
        self._seen[groups] = -(-self._seen[groups] // self._n) * self._n
        self._at[groups] = -1
        if last.any():
            self._take(code[last], rows[order[last]])
        if self._seen.max() > _LARGEST:
            found = self._last(np.arange(len(self._codes)))
            self._forget()
            if found is not None:
                self._take(found[0] >> _BITS, found[1])

    def elements(self, heartbeat: int) -> pl.DataFrame | None:
        """The last n - 1 rows of each group, with their groups, in order."""
        self._grow()
        found = self._last(np.arange(len(self._codes)))
        if found is None:
            return None
        key, rows = found
        if self._slide > 1:
            rows = rows.with_columns(pl.Series(ROWS, self._count[key >> _BITS]))
        return pl.concat([self._codes.keys(key >> _BITS), rows], how="horizontal")

    def _last(self, groups: Ints) -> tuple[Ints, pl.DataFrame] | None:
        """The last n - 1 rows of some groups, and their keys, in order."""
        seen = self._seen
        complete = groups[self._at[groups] >= 0]
        at = self._at[complete]
        held = self._before.take(_ranges(at, at + self._n))
        parts = [] if held is None else [held]
        numbers = _ranges((seen[complete] // self._n - 1) * self._n, seen[complete] // self._n * self._n)
        keys = [] if held is None else [(np.repeat(complete, self._n) << _BITS) + numbers]
        current = groups[seen[groups] % self._n > 0]
        low = (current << _BITS) + seen[current] // self._n * self._n
        for key, rows in self._current.between(low, (current << _BITS) + seen[current]):
            parts.append(rows)
            keys.append(key)
        if not parts:
            return None
        key = np.concatenate(keys)
        code = key >> _BITS
        wanted = np.flatnonzero((key & _MASK) > seen[code] - self._n)
        wanted = wanted[np.argsort(key[wanted], kind="stable")]
        return key[wanted], pl.concat(parts)[wanted]

    @property
    def rows(self) -> int:
        """How many rows are held."""
        return self._current.size + self._before.size

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return self._current.bytes + self._before.bytes + self._suffixes.bytes + self._carry.bytes

    def _take(self, code: Ints, rows: pl.DataFrame) -> pl.DataFrame:
        order = by_code(code)
        if order is not None:
            code, rows = code[order], rows[order]
        self._grow()
        groups = starts(code)
        seen = self._seen[code]
        number = seen + np.arange(len(code)) - spread(groups, groups, len(code))
        block = number // self._n
        segments = starts(code, block)
        ends = np.append(segments[1:], len(code)) - 1
        segment = spread(np.arange(len(segments)), segments, len(code))
        prefix = running(self._kernel, rows, segments)
        begun = (block == seen // self._n) & (seen % self._n > 0)
        carried = self._carry.get(np.where(begun, code, -1))
        if carried is not None:
            prefix = pair(self._kernel, carried, prefix)

        complete = number[ends] % self._n == self._n - 1
        begins = self._complete(code, number, rows, segment, complete)
        # A group's block before is the segment before, if that has been released here too.
        here = np.append(False, code[segments[1:]] == code[segments[:-1]])
        before = np.where(here, np.append(-1, begins[:-1]), self._at[code[segments]])[segment]
        offset = number % self._n
        reaches_back = (before >= 0) & (offset < self._n - 1)
        suffixes = self._suffixes.take(np.where(reaches_back, before + offset + 1, -1))
        merged = prefix if suffixes is None else pair(self._kernel, suffixes, prefix)

        self._at[code[ends[complete]]] = begins[complete]
        lasts = np.append(groups[1:], len(code)) - 1
        self._seen[code[lasts]] = number[lasts] + 1
        self._latest[code[lasts]] = rows[TIME].to_numpy()[lasts]
        self._keep(code, number, rows, prefix, segment, ends[~complete])
        if order is None:
            return merged
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return merged[back]

    def _grow(self) -> None:
        """There may be new groups."""
        self._seen = grown(self._seen, len(self._codes), 0)
        self._latest = grown(self._latest, len(self._codes), MIN_TICK)
        self._at = grown(self._at, len(self._codes), -1)

    def _complete(self, code: Ints, number: Ints, rows: pl.DataFrame, segment: Ints, complete: Bools) -> Ints:
        """Merge the blocks that are complete now backwards; gives where each begins, -1 for the others."""
        begins = np.full(len(complete), -1, np.int64)
        mine = np.flatnonzero(complete[segment])
        if len(mine) == 0:
            return begins
        first = mine[starts(segment[mine])]
        group, low = code[first], number[first] // self._n * self._n
        keys, parts = [(code[mine] << _BITS) + number[mine]], [rows[mine]]
        begun = number[first] > low
        for key, found in self._current.between(
            (group[begun] << _BITS) + low[begun], (group[begun] << _BITS) + number[first[begun]]
        ):
            keys.append(key)
            parts.append(found)
        blocks = pl.concat(parts)
        if len(parts) > 1:
            blocks = blocks[np.argsort(np.concatenate(keys), kind="stable")]
        self._shrink()
        at = np.arange(len(first)) * self._n
        begins[complete] = self._before.add(blocks) + at
        self._suffixes.add(running(self._kernel, blocks, at, reverse=True))
        return begins

    def _keep(
        self, code: Ints, number: Ints, rows: pl.DataFrame, prefix: pl.DataFrame, segment: Ints, open_ends: Ints
    ) -> None:
        """Keep the rows of blocks that are not complete, and carry their prefixes on."""
        self._carry.set(code[open_ends], prefix[open_ends])
        still = np.zeros(int(segment[-1]) + 1, bool)
        still[segment[open_ends]] = True
        mine = np.flatnonzero(still[segment])
        if len(mine):
            self._current.add((code[mine] << _BITS) + number[mine], rows[mine], self._is_current)

    def _is_current(self, key: Ints) -> Bools:
        seen = self._seen[key >> _BITS]
        live: Bools = (key & _MASK) >= seen // self._n * self._n
        return live

    def _shrink(self) -> None:
        """Drop blocks that have been followed by another, once they are more than the others."""
        live = np.flatnonzero(self._at >= 0)
        if self._before.size > 2 * len(live) * self._n + _SLACK:
            at = self._at[live]
            kept = _ranges(at, at + self._n)
            self._before.keep(kept)
            self._suffixes.keep(kept)
            self._at[live] = np.arange(len(live)) * self._n


class _Runs:
    """Rows in runs that are sorted by key; of `fan` runs of like size one is made."""

    def __init__(self, fan: int) -> None:
        self._fan = fan
        self._runs: list[tuple[Ints, pl.DataFrame]] = []

    def add(self, key: Ints, rows: pl.DataFrame, live: Callable[[Ints], Bools]) -> None:
        """Add rows in the order of their keys; those no longer live go when runs are merged."""
        self._runs.append((key, rows))
        while len(self._runs) >= self._fan:
            tail = self._runs[-self._fan :]
            if len(tail[0][0]) > self._fan * max(len(k) for k, _ in tail[1:]):
                break
            key = np.concatenate([k for k, _ in tail])
            kept = np.flatnonzero(live(key))
            order = kept[np.argsort(key[kept], kind="stable")]
            self._runs[-self._fan :] = [(key[order], pl.concat([r for _, r in tail])[order])]

    def between(self, low: Ints, high: Ints) -> Iterator[tuple[Ints, pl.DataFrame]]:
        """Keys and rows from each low to below each high."""
        for key, rows in self._runs:
            at = _ranges(np.searchsorted(key, low), np.searchsorted(key, high))
            if len(at):
                yield key[at], gather(rows, at)

    @property
    def size(self) -> int:
        """How many rows there are."""
        return sum(len(k) for k, _ in self._runs)

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return int(sum(k.nbytes + r.estimated_size() for k, r in self._runs))


def _ranges(low: Ints, high: Ints) -> Ints:
    """The numbers of all ranges, one after the other.

    >>> _ranges(np.array([3, 7]), np.array([5, 8]))
    array([3, 4, 7])
    """
    lengths = high - low
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    numbers: Ints = np.arange(total) + np.repeat(low - ends + lengths, lengths)
    return numbers
