"""The results of the last windows of one query, and the slack that each of them needed.

Rows come late by different amounts. So for each window and group we keep the counts and sums that were in time at
each slack. A result needs the smallest slack at which all its values are within the bound, and stay within it at
every longer slack.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Floats, Ints
from slackwater.progress.window_losses import WindowLosses

#: Windows whose results are kept: 5 % of them are ten, enough to know a share to about 2 %.
WINDOWS = 200
#: Entries kept. If there are more, only some groups are followed. 20,000 entries take some 3 ms a page.
ENTRIES = 20_000
#: Steps for each doubling of a slack: slacks are rounded up by at most 2 %.
STEPS = 32
#: A relative error up to this is only rounding.
_ROUNDING = 1e-9


class WindowResults(Restorable):
    """Counts and sums of each window and group, by how late they came; sorted by window, group and slack."""

    STATE = (
        "ticks",
        "groups",
        "needs",
        "_numbers",
        "_values",
        "_halvings",
        "_ended",
        "_slacks",
        "all_results",
        "all_broken",
    )

    def __init__(self, error: float) -> None:
        self._error = error
        self.ticks: Ints = np.zeros(0, np.int64)
        """The last tick of the window of each entry."""
        self.groups: Ints = np.zeros(0, np.int64)
        self.needs: Ints = np.zeros(0, np.int64)
        """The smallest slack with which the entry is in time."""
        self._numbers: Floats = np.zeros(0)
        """Counts and sums, entry by entry."""
        self._values: list[list[int]] = []
        self._halvings = 0
        """How often the set of followed groups has been halved."""
        self._ended: Ints = np.zeros(0, np.int64)
        """The closed windows, and in `_slacks` the slack with which each was closed."""
        self._slacks: Ints = np.zeros(0, np.int64)
        self.all_results = self.all_broken = 0
        """Results, and results outside of the bound, of windows that are no longer kept."""

    def hear(self, report: WindowLosses, met: int | None) -> None:
        """Take a report on a page. `met` is the reference before the page arrived; None for the first pages."""
        parts = report.parts()
        if not len(parts.last_ticks):
            return
        values = [list(columns) for columns in parts.values]
        if values != self._values:  # the query has other aggregates since a restart
            self._values, self._numbers = values, np.zeros(0)
            self.ticks, self.groups, self.needs = (np.zeros(0, np.int64) for _ in range(3))
        needs = np.zeros(len(parts.last_ticks)) if met is None else np.maximum(float(met) - parts.last_ticks, 0.0)
        late = needs > 0
        needs[late] = np.maximum(np.floor(2 ** (np.ceil(np.log2(needs[late]) * STEPS) / STEPS)), needs[late])
        self.ticks = np.append(self.ticks, parts.last_ticks)
        self.groups = np.append(self.groups, parts.groups)
        self.needs = np.append(self.needs, needs.astype(np.int64))
        self._numbers = np.append(self._numbers, parts.numbers.ravel())
        self._forget(self.groups & (2**self._halvings - 1) == 0)
        self._unite()
        while len(self.ticks) > ENTRIES and len(np.unique(self.groups)) > 1:
            self._halvings += 1
            self._forget(self.groups & (2**self._halvings - 1) == 0)
        windows = np.unique(self.ticks)
        if len(windows) > WINDOWS:
            self._leave(int(windows[-WINDOWS]))

    def _table(self) -> Floats:
        columns = 1 + max((column for value in self._values for column in value), default=0)
        return self._numbers.reshape(-1, columns)

    def _forget(self, left: NDArray[np.bool_]) -> None:
        if not left.all():
            self._numbers = self._table()[left].ravel()
            self.ticks, self.groups, self.needs = self.ticks[left], self.groups[left], self.needs[left]

    def _unite(self) -> None:
        """Sort the entries, and add up entries of the same window, group and slack."""
        order = np.lexsort((self.needs, self.groups, self.ticks))
        columns = self.ticks[order], self.groups[order], self.needs[order]
        first = np.flatnonzero(np.append(True, np.any([column[1:] != column[:-1] for column in columns], axis=0)))
        self._numbers = np.add.reduceat(self._table()[order], first).ravel()
        self.ticks, self.groups, self.needs = (column[first] for column in columns)

    def _leave(self, since: int) -> None:
        """Forget the windows before this tick, and add their results to the counts."""
        ticks, needed = self.needed()
        broken = self._broken(ticks, needed)
        gone = (ticks < since) & (broken >= 0)
        self.all_results += int(gone.sum())
        self.all_broken += int(broken[gone].sum())
        self._forget(self.ticks >= since)
        kept = self._ended >= since
        self._ended, self._slacks = self._ended[kept], self._slacks[kept]

    def close(self, heartbeat: int, reference: int) -> None:
        """Note the slack of windows that this heartbeat has closed."""
        new = np.setdiff1d(self.ticks[self.ticks <= heartbeat], self._ended)
        self._ended = np.append(self._ended, new)
        self._slacks = np.append(self._slacks, reference - new - 1)

    def shift(self, ahead: int) -> None:
        """Clocks that are ahead have moved the reference: all other rows now count as later by this amount."""
        self.needs, self._slacks = self.needs + ahead, self._slacks + ahead

    def needed(self) -> tuple[Ints, Ints]:
        """For each result, the last tick of its window, and the slack that it has needed so far."""
        if not len(self.ticks):
            return self.ticks, self.needs
        new = (self.ticks[1:] != self.ticks[:-1]) | (self.groups[1:] != self.groups[:-1])
        first = np.flatnonzero(np.append(True, new))
        entries = np.diff(np.append(first, len(self.ticks)))
        table = self._table()
        totals = np.add.reduceat(table, first).repeat(entries, axis=0)
        sums = table.cumsum(axis=0) - table
        sums -= sums[first].repeat(entries, axis=0)  # what is there at a slack that is just too short
        outside = np.zeros(len(self.ticks), bool)
        for value in self._values:
            there, final = (_value(each, value) for each in (sums, totals))
            off = np.abs(there - final) > (self._error + _ROUNDING) * np.abs(final)
            outside |= off | (np.isnan(there) & ~np.isnan(final))
        return self.ticks[first], np.maximum.reduceat(np.where(outside, self.needs, 0), first)

    def _broken(self, ticks: Ints, needed: Ints) -> Ints:
        """For each result: 1 if its window was closed too early, 0 if not, -1 if it is open."""
        if not len(self._ended):
            return np.full(len(ticks), -1)
        order = self._ended.argsort()
        place = np.minimum(self._ended.searchsorted(ticks, sorter=order), len(order) - 1)
        mine = order[place]
        return np.where(self._ended[mine] == ticks, (needed > self._slacks[mine]).astype(np.int64), -1)

    def broken(self) -> tuple[int, int, int, int]:
        """The number of kept results, and of those outside of the bound; then the same two of all results."""
        broken = self._broken(*self.needed())
        results, outside = int((broken >= 0).sum()), int((broken == 1).sum())
        return results, outside, results + self.all_results, outside + self.all_broken

    @property
    def followed(self) -> float:
        """The share of the groups that are followed."""
        return float(2.0**-self._halvings)


def _value(numbers: Floats, value: list[int]) -> Floats:
    """A count or a sum, or the quotient of two; NaN where there is none."""
    found: Floats = numbers[:, value[0]]
    if len(value) > 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(numbers[:, value[1]] > 0, found / numbers[:, value[1]], np.nan)
    return found
