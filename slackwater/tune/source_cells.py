"""The rows of pages by source and pane, with sources by number: for queries that group by the source."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.progress.source_numbers import Ints
from slackwater.windows.spec import WindowSpec


@dataclass(frozen=True, eq=False)
class Cells:
    """A page's rows by source and pane: an entry for each, and its windows."""

    names: list[str]
    sources: Ints
    """Numbers of the names."""
    panes: Ints
    rows: Ints
    first: Ints
    last: Ints
    """The earliest and the latest window of each entry."""
    keys: Ints
    """Each window of each source that has rows for it, as window * sources + source; in order, and each once."""


class SourceCells:
    """All pages; `begins` is where the entries of each page begin, and where the last ones end."""

    def __init__(self, spec: WindowSpec, begins: Ints, names: list[str], panes: Ints, rows: Ints) -> None:
        self._begins = begins.tolist()
        self._of, self._panes, self._rows = names, panes, rows
        self.names = sorted(set(names))
        """All sources."""
        place = {name: k for k, name in enumerate(self.names)}
        self._sources = np.fromiter(map(place.__getitem__, names), np.int64, len(names))
        self._first, self._last = spec.windows_of(panes)
        self._page: tuple[int, Cells] | None = None

    def cells_of(self, k: int) -> Cells:
        """The entries of a page; those of the last one that was asked for are at hand."""
        if self._page is None or self._page[0] != k:
            self._page = k, self._cells_of(k)
        return self._page[1]

    def _cells_of(self, k: int) -> Cells:
        part = slice(self._begins[k], self._begins[k + 1])
        sources, first, last = (column[part] for column in (self._sources, self._first, self._last))
        counts = last - first + 1
        windows = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts - first, counts)
        keys = np.unique(windows * len(self.names) + np.repeat(sources, counts))
        return Cells(self._of[part], sources, self._panes[part], self._rows[part], first, last, keys)
