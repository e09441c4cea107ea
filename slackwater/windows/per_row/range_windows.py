"""The window buffer of range windows (S4 section 3): a result a row over (t - range, t], by the block method.

Time is cut into blocks of `range`. A window reaches over two of them at most: the merge of a suffix of the block
before (merged backwards once, when the block is complete) and of a prefix of its own (carried from release to
release). So a row costs the same whatever the range, and however little is released at a time.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import polars as pl

from slackwater.columns import TIME
from slackwater.progress.source_numbers import Ints
from slackwater.windows.per_row.rolling import RollingKernel
from slackwater.windows.per_row.row_store import CODE, GroupNumbers, LatestRows
from slackwater.windows.per_row.scans import fold, lift, pair, partial_columns, running
from slackwater.windows.runs import Bools, by_code, gather, spread, starts

_RUN = "__run"
#: How many groups without a row may stay in the table of groups.
_FEW_GROUPS = 1024


class RangeWindows:
    """Elements (the merged rows of one group at one time) of the current block and the one before it."""

    ends: ClassVar[Bools | None] = None

    def __init__(self, kernel: RollingKernel) -> None:
        assert kernel.spec.range is not None
        self._kernel = kernel
        self._range = kernel.spec.range
        self._codes = GroupNumbers(kernel.keys)
        self._block: int | None = None
        self._before: list[_Suffixes] = []
        """The block before the current one; a second run, and more, for what came late to it."""
        self._pieces: list[pl.DataFrame] = []
        """Elements of the current block, release after release."""
        self._late: list[pl.DataFrame] = []
        """Elements of the current block that came after their time."""
        self._carry = LatestRows()
        """Merge of a group's elements in the current block."""
        self._rolled = False

    def release(self, rows: pl.DataFrame, heartbeat: int) -> pl.DataFrame:
        """Merged partials of the window of each row; rows lie in the order of time, above all released before."""
        elements, of_row = self._elements(rows)
        code, time = elements[CODE].to_numpy(), elements[TIME].to_numpy()
        block = time // self._range
        if self._block is None:
            self._block = int(block.min())
        current = self._block
        segments = starts(code, block)
        ends = np.append(segments[1:], len(code)) - 1
        prefix = running(self._kernel, elements, segments)

        inside = block == current
        carried = self._carry.get(np.where(inside, code, -1))
        if carried is not None:
            prefix = pair(self._kernel, carried, prefix)
        merged = self._with_suffixes(prefix, code, time, inside)
        if inside.any():
            self._keep(elements, prefix, inside, ends)
        if not inside.all():
            self._roll(current + 1)
            merged = self._with_suffixes(merged, code, time, block == current + 1)
            last = int(block.max())
            if last > current + 1:
                suffixes = running(self._kernel, elements, segments, reverse=True)
                run = _Suffixes(elements, suffixes)
                found = run.behind(code, time - self._range, block > current + 1, block)
                merged = merged if found is None else pair(self._kernel, found, merged)
                self._roll(last)
                just_before = np.flatnonzero(block == last - 1)
                if len(just_before):
                    self._before = [_Suffixes(elements[just_before], suffixes[just_before])]
            self._keep(elements, prefix, block == last, ends)
        self.advance(heartbeat)
        return merged if of_row is None else gather(merged, of_row)

    def advance(self, heartbeat: int) -> None:
        """Time has passed: blocks that no later window reaches go."""
        block = heartbeat // self._range
        if self._block is None:
            self._block = block
        elif block > self._block:
            self._roll(block)
        if self._rolled:
            self._rolled = False
            self._forget_groups()

    def absorb(self, elements: pl.DataFrame) -> None:
        """Elements at or below the heartbeat that get no result: late ones, or those of a journal (D3)."""
        assert self._block is not None
        block = pl.col(TIME) // self._range
        elements = elements.filter(block.is_between(self._block - 1, self._block))
        if not elements.height:
            return
        coded = elements.select(pl.Series(CODE, self._codes.of(elements)), TIME, *partial_columns(self._kernel))
        merged = fold(self._kernel, coded.sort(CODE, TIME), [CODE, TIME])
        mine, older = merged.filter(block == self._block), merged.filter(block < self._block)
        if mine.height:
            self._late.append(mine)
            added = fold(self._kernel, mine, [CODE])
            codes = added[CODE].to_numpy()
            before, added = self._carry.get(codes), added.drop(CODE)
            self._carry.set(codes, added if before is None else pair(self._kernel, before, added))
        if older.height:
            self._add_run(older)

    def elements(self, heartbeat: int) -> pl.DataFrame | None:
        """All elements that a later window may reach, with their groups."""
        held = [*self._pieces, *self._late, *(run.elements for run in self._before)]
        if not held:
            return None
        every = pl.concat(held).filter(pl.col(TIME) > heartbeat + 1 - self._range)
        return pl.concat([self._codes.keys(every[CODE].to_numpy()), every.drop(CODE)], how="horizontal")

    @property
    def rows(self) -> int:
        """How many elements are held."""
        return sum(p.height for p in (*self._pieces, *self._late, *(run.elements for run in self._before)))

    @property
    def bytes(self) -> int:
        """Size in memory."""
        held = [*self._pieces, *self._late, *(f for run in self._before for f in (run.elements, run.suffixes))]
        return int(sum(p.estimated_size() for p in held)) + self._carry.bytes

    def _elements(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, Ints | None]:
        """Elements in the order of group and time, and for each row the place of its own."""
        code = self._codes.of(rows)
        lifted = rows.select(pl.Series(CODE, code), TIME, *lift(self._kernel, rows))
        order = by_code(code)
        if order is not None:
            lifted = lifted[order]
        at = starts(lifted[CODE].to_numpy(), lifted[TIME].to_numpy())
        if len(at) == len(code):
            if order is None:
                return lifted, None
            place = np.arange(len(at))
        else:
            place = spread(np.arange(len(at)), at, len(code))
            lifted = self._folded(lifted, at, place)
        if order is None:
            return lifted, place
        of_row = np.empty(len(code), np.int64)
        of_row[order] = place
        return lifted, of_row

    def _folded(self, lifted: pl.DataFrame, at: Ints, place: Ints) -> pl.DataFrame:
        """Simultaneous rows of a group merged into one; those that are alone stay as they are."""
        many = np.diff(at, append=lifted.height) > 1
        together = np.flatnonzero(many[place])
        runs = lifted[together].with_columns(pl.Series(_RUN, place[together]))
        merged = fold(self._kernel, runs, [_RUN]).drop(_RUN)
        named = pl.concat([lifted.select(CODE, TIME)[at[many]], merged], how="horizontal")
        both = pl.concat([lifted[at], named.select(lifted.columns)])
        return both[np.where(many, len(at) + np.cumsum(many) - 1, np.arange(len(at)))]

    def _with_suffixes(self, merged: pl.DataFrame, code: Ints, time: Ints, wanted: Bools) -> pl.DataFrame:
        for run in self._before:
            found = run.behind(code, time - self._range, wanted)
            if found is not None:
                merged = pair(self._kernel, found, merged)
        return merged

    def _keep(self, elements: pl.DataFrame, prefix: pl.DataFrame, mine: Bools, ends: Ints) -> None:
        """Add elements to the current block, and carry the prefixes of their groups on."""
        self._pieces.append(elements if mine.all() else elements.filter(pl.Series(mine)))
        ends = ends[mine[ends]]
        self._carry.set(elements[CODE].to_numpy()[ends], prefix[ends])

    def _roll(self, block: int) -> None:
        """Make a later block the current one."""
        assert self._block is not None
        adjacent = block == self._block + 1
        self._before = []
        if adjacent and self._pieces:
            # Releases come in the order of time, so only the groups have to be brought together.
            whole = pl.concat(self._pieces)
            order = by_code(whole[CODE].to_numpy())
            self._add_run(whole if order is None else whole[order])
        if adjacent and self._late:
            self._add_run(fold(self._kernel, pl.concat(self._late).sort(CODE, TIME), [CODE, TIME]))
        self._block, self._pieces, self._late, self._carry = block, [], [], LatestRows()
        self._rolled = True

    def _add_run(self, elements: pl.DataFrame) -> None:
        """Add elements to the block before; runs grow by doubling, so that late rows stay cheap."""
        while self._before and self._before[-1].size <= elements.height:
            both = pl.concat([self._before.pop().elements, elements])
            elements = fold(self._kernel, both.sort(CODE, TIME), [CODE, TIME])
        self._before.append(_Suffixes.of(self._kernel, elements))

    def _forget_groups(self) -> None:
        """Drop the numbers of groups that have no element left, if these are many."""
        if len(self._codes) <= _FEW_GROUPS:
            return
        frames = [*self._pieces, *self._late, *(run.elements for run in self._before)]
        live = np.unique(np.concatenate([np.empty(0, np.int64), *(f[CODE].to_numpy() for f in frames)]))
        if len(self._codes) < 2 * len(live):
            return
        new = self._codes.keep(live)

        def renumbered(f: pl.DataFrame) -> pl.DataFrame:
            return f.with_columns(pl.Series(CODE, new[f[CODE].to_numpy()]))

        self._pieces = [renumbered(p) for p in self._pieces]
        self._late = [renumbered(p) for p in self._late]
        self._before = [_Suffixes(renumbered(run.elements), run.suffixes) for run in self._before]
        carried = self._carry.get(live)
        self._carry = LatestRows()
        if carried is not None:
            there = carried[:, 0].is_not_null().to_numpy()
            self._carry.set(np.flatnonzero(there), carried.filter(pl.Series(there)))


class _Suffixes:
    """Elements in the order of group and time; beside each the merge of it and all behind it in its group."""

    def __init__(self, elements: pl.DataFrame, suffixes: pl.DataFrame) -> None:
        self.elements = elements
        self.suffixes = suffixes
        self._code = elements[CODE].to_numpy()
        time = elements[TIME].to_numpy()
        self._low = int(time.min())
        self._width = int(time.max()) - self._low + 2
        self._times: Ints | None = None
        """Places of the times among all times, where group and time would not fit into one whole number."""
        if (int(self._code[-1]) + 1) * self._width >= 2**62:
            self._times = np.unique(time)
            self._width = len(self._times) + 1
        self._key = self._keys(self._code, time)

    @staticmethod
    def of(kernel: RollingKernel, elements: pl.DataFrame) -> _Suffixes:
        """Merge backwards, once."""
        at = starts(elements[CODE].to_numpy())
        return _Suffixes(elements, running(kernel, elements, at, reverse=True))

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self.elements.height

    def behind(self, code: Ints, after: Ints, wanted: Bools, block: Ints | None = None) -> pl.DataFrame | None:
        """For those wanted, the merge of a group's elements after a time; with blocks, of the block before only.

        Those are the blocks of the elements here, which are then also those that ask.
        """
        asking = np.flatnonzero(wanted)
        if len(asking) == 0:
            return None
        key = self._keys(code[asking], after[asking] + 1)
        at = np.minimum(np.searchsorted(self._key, key), self.size - 1)
        hit = (self._key[at] >= key) & (self._code[at] == code[asking])
        if block is not None:
            hit &= block[at] == block[asking] - 1
        if not hit.any():
            return None
        found = np.full(len(code), -1, np.int64)
        found[asking[hit]] = at[hit]
        return gather(self.suffixes, found)

    def _keys(self, code: Ints, time: Ints) -> Ints:
        """Group and time as one whole number to search for."""
        if self._times is not None:
            place: Ints = np.searchsorted(self._times, time)
        else:
            place = np.clip(time - self._low, 0, self._width - 1)
        return code * self._width + place
