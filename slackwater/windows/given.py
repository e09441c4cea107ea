"""Which windows have been given for which source: a row is lost to no other (D10).

Time may pass a window of which a source has no row. Such a window is not given, and a row that comes for it later
still gets its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import polars as pl

from slackwater.columns import BEFORE, SINCE, SOURCE
from slackwater.progress.intervals import united
from slackwater.progress.source_numbers import Ints
from slackwater.progress.source_table import SourceTable
from slackwater.progress.time import MAX_TICK, MIN_TICK
from slackwater.windows.runs import Bools, starts
from slackwater.windows.spec import WindowSpec

#: Runs of windows that are kept for each source. When there are more, the oldest two count as one, and a row for a
#: window between them is late. Most sources have one run.
MOST_RUNS = 8
_FIRST, _LAST = "first", "last"
#: An empty place among the runs: no window lies in it, and differences of its ends fit into 64 bits.
_NO_FIRST, _NO_LAST = 2**62, -(2**62)


class GivenWindows(SourceTable):
    """Runs of windows, from a first to a last, for each source.

    >>> given = GivenWindows()
    >>> given.add(["a", "a", "b", "a"], np.array([3, 4, 4, 7]))
    >>> given.count(["a", "a", "b", "c"], np.array([0, 5, 0, 0]), np.array([9, 6, 9, 9])).tolist()
    [3, 0, 1, 0]
    """

    width = MOST_RUNS
    new: ClassVar[dict[str, int | float]] = {"first": _NO_FIRST, "last": _NO_LAST}
    first: Ints
    """The first window of each run, by source and run, the newest run first."""
    last: Ints

    def __init__(self, names: Sequence[str] = ()) -> None:
        """Sources that are named have the numbers from 0 on, in this order."""
        super().__init__(names)
        self._changed: Bools = np.zeros(len(names), bool)
        self.highest: int | None = None
        """The last window that has been given for any source."""

    def meet(self, names: list[str]) -> Ints:
        """The numbers of some sources; those that are new get the next ones."""
        number = super().meet(names)
        self._changed = np.pad(self._changed, (0, len(self) - len(self._changed)))
        return number

    def add(self, sources: list[str], windows: Ints) -> None:
        """These windows have been given for these sources."""
        if len(windows):
            self.add_numbered(self.meet(sources), windows)

    def add_numbered(self, number: Ints, windows: Ints) -> None:
        """The same, of sources by number; there is one window at least."""
        order = np.lexsort((windows, number))
        number, windows = number[order], windows[order]
        begins = starts(number, windows - np.arange(len(windows)))
        ends = np.append(begins[1:], len(windows)) - 1
        source, first, last = number[begins], windows[begins], windows[ends]
        # One run of each source at a time, the lowest first; nearly always there is one.
        of_source = starts(source)
        turn = np.arange(len(source)) - np.repeat(of_source, np.diff(of_source, append=len(source)))
        for k in range(int(turn.max()) + 1):
            mine = turn == k
            self._add_runs(source[mine], first[mine], last[mine])
        self._changed[source] = True
        top = int(last.max())
        self.highest = top if self.highest is None else max(top, self.highest)

    def _add_runs(self, source: Ints, first: Ints, last: Ints) -> None:
        """One run for each of some sources."""
        newest = self.last[source, 0]
        longer = first == newest + 1
        self.last[source[longer], 0] = last[longer]
        above = first > newest + 1
        if above.any():
            self._push(source[above], first[above], last[above])
        for k in np.flatnonzero(first <= newest).tolist():
            self._insert(int(source[k]), int(first[k]), int(last[k]))

    def _push(self, source: Ints, first: Ints, last: Ints) -> None:
        oldest = self.first[source, -1]
        for runs, new in ((self.first, first), (self.last, last)):
            runs[source, 1:] = runs[source, :-1]
            runs[source, 0] = new
        self.first[source, -1] = np.minimum(self.first[source, -1], oldest)

    def _insert(self, source: int, first: int, last: int) -> None:
        """A run below the newest: between, or as part of, those that are there."""
        runs = list(united([*self._runs(source), (first, last)], touching=1))
        while len(runs) > MOST_RUNS:
            runs[:2] = [(runs[0][0], runs[1][1])]
        self.first[source], self.last[source] = _NO_FIRST, _NO_LAST
        for place, (low, high) in enumerate(reversed(runs)):
            self.first[source, place], self.last[source, place] = low, high

    def _runs(self, source: int) -> list[tuple[int, int]]:
        pairs = zip(self.first[source].tolist(), self.last[source].tolist(), strict=True)
        return [(low, high) for low, high in pairs if low <= high]

    def count(self, sources: list[str], first: Ints, last: Ints) -> Ints:
        """How many windows, from the first to the last of each entry, have been given for its source."""
        number = self._numbers.of(sources)
        known = np.flatnonzero(number >= 0)
        found = np.zeros(len(sources), np.int64)
        found[known] = self.count_numbered(number[known], first[known], last[known])
        return found

    def count_numbered(self, number: Ints, first: Ints, last: Ints) -> Ints:
        """The same, of sources by number, all of which are known."""
        found = np.zeros(len(number), np.int64)
        # Rows on time lie behind the newest run of their source.
        late = np.flatnonzero(first <= self.last[number, 0])
        if len(late):
            low = np.maximum(self.first[number[late]], first[late, None])
            high = np.minimum(self.last[number[late]], last[late, None])
            found[late] = np.maximum(high - low + 1, 0).sum(1)
        return found

    def lost_by_window(
        self, sources: list[str], first: Ints, last: Ints, rows: Ints, most: int
    ) -> list[tuple[int, int]]:
        """For entries and the rows of each: at most `most` of the latest given windows, and the rows lost to each.

        >>> given = GivenWindows()
        >>> given.add(["a", "a", "b"], np.array([3, 4, 4]))
        >>> given.lost_by_window(["a", "b"], np.array([0, 4]), np.array([9, 9]), np.array([1, 10]), most=5)
        [(3, 1), (4, 11)]
        """
        known, low, high = self._inside(sources, first, last)
        entry, _ = there = np.nonzero(low <= high)
        lost = rows[known[entry]]
        ticks, place = np.unique(np.append(low[there], high[there] + 1), return_inverse=True)
        change = np.bincount(place, np.append(lost, -lost), len(ticks)).astype(np.int64)
        found: list[tuple[int, int]] = []
        for k in range(len(ticks) - 2, -1, -1):
            of_each = int(change[: k + 1].sum())
            if of_each:
                begin = max(int(ticks[k]), int(ticks[k + 1]) - (most - len(found)))
                found += [(w, of_each) for w in range(int(ticks[k + 1]) - 1, begin - 1, -1)]
            if len(found) >= most:
                break
        return found[::-1]

    def _inside(self, sources: list[str], first: Ints, last: Ints) -> tuple[Ints, Ints, Ints]:
        """The entries whose source is known; of each, by run, the first and last given window inside."""
        number = self._numbers.of(sources)
        known = np.flatnonzero(number >= 0)
        low = np.maximum(self.first[number[known]], first[known, None])
        return known, low, np.minimum(self.last[number[known]], last[known, None])

    def late_ranges(self, sources: Sequence[str], spec: WindowSpec) -> pl.DataFrame:
        """The times of all given windows of some sources: SOURCE, SINCE, BEFORE, the ranges of a source apart."""
        rows = []
        for source, number in zip(sources, self._numbers.of(list(sources)).tolist(), strict=True):
            times = [
                (max(spec.bounds(low)[0], MIN_TICK), min(spec.bounds(high)[1], MAX_TICK))
                for low, high in self._runs(number)
            ]
            rows += [(source, low, high) for low, high in united(times)]
        return pl.DataFrame(rows, schema={SOURCE: pl.String, SINCE: pl.Int64, BEFORE: pl.Int64}, orient="row")

    def until(self, last: Mapping[str, int], others: int | None) -> GivenWindows:
        """The same windows, of each source up to a last one.

        >>> given = GivenWindows()
        >>> given.add(["a", "a", "b"], np.array([3, 7, 4]))
        >>> given.until({"a": 6}, None).count(["a", "b"], np.array([0, 0]), np.array([9, 9])).tolist()
        [1, 0]
        """
        made = GivenWindows(self.names)
        rest = _NO_LAST if others is None else others
        limits = np.array([last.get(name, rest) for name in self.names], np.int64)
        made.first, made.last = self.first.copy(), np.minimum(self.last, limits[:, None])
        gone = made.first > made.last
        made.first[gone], made.last[gone] = _NO_FIRST, _NO_LAST
        newest = np.argsort(-made.last, axis=1, kind="stable")
        made.first, made.last = (np.take_along_axis(ends, newest, 1) for ends in (made.first, made.last))
        made.highest = int(made.last.max()) if len(made.last) and not gone.all() else None
        return made

    def table(self, whole: bool) -> pl.DataFrame | None:
        """Runs of the sources that have changed since this was last asked, or of all; None if there are none."""
        wanted = np.arange(len(self._numbers)) if whole else np.flatnonzero(self._changed)
        self._changed[:] = False
        first, last = self.first[wanted], self.last[wanted]
        there = first <= last
        if not there.any():
            return None
        names = pl.Series(self._numbers.names, dtype=pl.String)[np.repeat(wanted, there.sum(1))]
        return pl.DataFrame({SOURCE: names, _FIRST: first[there], _LAST: last[there]})

    def load(self, tables: Sequence[pl.DataFrame]) -> None:
        """Continue from what `table` gave: a whole one, then the changes since."""
        for table in tables:
            number = self.meet(table[SOURCE].to_list())
            # The runs of a source lie together, the newest first.
            begins = starts(number)
            place = np.arange(len(number)) - np.repeat(begins, np.diff(begins, append=len(number)))
            self.first[number], self.last[number] = _NO_FIRST, _NO_LAST
            self.first[number, place] = table[_FIRST].to_numpy()
            self.last[number, place] = table[_LAST].to_numpy()
        self._changed[:] = False
        self.highest = int(self.last.max()) if len(self.last) else None
