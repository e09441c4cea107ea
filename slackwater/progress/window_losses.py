"""What a query tells its source of a page: feedback for policies that aim at a share of lost rows (S4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.source_numbers import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class RowsBySource:
    """How a page's rows fell on the panes of a query: arrays side by side, an entry for each source and pane."""

    names: list[str]
    panes: Ints
    rows: Ints
    lost: Ints
    """Pairs of the entry whose window had been emitted."""
    pairs_of: Callable[[Ints, Ints], tuple[Ints, Ints]]
    """Of panes, each named once, and their rows: last ticks and pairs of windows, as in a report."""


@dataclass(frozen=True, slots=True, eq=False)
class ResultParts:
    """What a page adds to the results of a query: parallel arrays, with an entry for each window and group."""

    last_ticks: Ints
    """The last tick of the entry's window."""
    groups: Ints
    """A hash of its group columns."""
    numbers: Floats
    """A row for each entry, a column for each count and sum."""
    values: tuple[tuple[int, ...], ...]
    """For each aggregate, its column of `numbers`; for an average two columns, the sum and the count."""
    sources: list[str] | None = None
    """The entries' sources, in a query that groups by the source."""

    def where(self, some: NDArray[np.bool_]) -> ResultParts:
        """Some of the entries."""
        return ResultParts(self.last_ticks[some], self.groups[some], self.numbers[some], self.values)


@dataclass(frozen=True, slots=True, eq=False)
class WindowLosses:
    """How a page's rows fell on windows. A row that counts for five windows is five (row, window) pairs.

    With heartbeat h before the page, exactly the pairs of windows whose `last` tick is at or below h are lost. So a
    policy can see from one report what any other heartbeat would have lost.
    """

    query: str
    """Label of the operator that tells."""
    page: int
    """Number of the page."""
    last_ticks: Ints
    """The last tick of each window that the page has rows for, increasing."""
    pairs: Ints
    """How many of the page's rows fall into that window."""
    lost: int
    """Pairs whose window had been emitted."""
    by_source: Callable[[], RowsBySource] | None = None
    """The same by source, for a policy that asks, in a query that groups by the source."""
    results: Callable[[], ResultParts] | None = None
    """What the page adds to results, for a policy that asks, where partials are in the driver."""

    def parts(self) -> ResultParts:
        """What the page adds to results; where nobody knows their values, the number of rows of each window."""
        if self.results is not None:
            return self.results()
        return ResultParts(
            self.last_ticks, np.zeros(len(self.pairs), np.int64), self.pairs[:, None].astype(np.float64), ((0,),)
        )

    @property
    def all(self) -> int:
        """All pairs of the page."""
        return int(self.pairs.sum())
