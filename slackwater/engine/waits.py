"""How long pages have waited since they were admitted, for strategies that watch it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice

from slackwater.engine.graph import Node
from slackwater.engine.queue import Entry
from slackwater.operators.pages import Pages
from slackwater.scheduling.strategy import WaitingPages

#: The pages before an operator are described in at most this many groups.
GROUPS = 8
#: Older admissions than this many count as the oldest of these; a page that old goes first anyway.
MOST = 10_000


class Waits:
    """When each admission was first seen; those of before a restart count from then on."""

    def __init__(self, stopwatch: Callable[[], float], pages: Pages | None = None) -> None:
        self._pages = pages or Pages()
        self._stopwatch = stopwatch
        self._last: list[int] = []
        self._seen: list[float] = []
        """When the admissions up to each of the numbers in `_last` were seen."""

    def look(self, admission: int) -> None:
        """Admissions up to this one are here."""
        if not self._last or admission > self._last[-1]:
            self._last.append(admission)
            self._seen.append(self._stopwatch())
            if len(self._last) > 2 * MOST:
                del self._last[:MOST], self._seen[:MOST]

    def of(self, node: Node) -> tuple[WaitingPages, ...]:
        """The pages that an operator could take."""
        pages = [e for queue in node.arcs for e in islice(queue, len(queue)) if e.is_page]
        if len(node.arcs) > 1:
            pages.sort(key=lambda entry: entry.admission)
        size, now, usual = -(-len(pages) // GROUPS) or 1, self._stopwatch(), node.measured.page_rows
        return tuple(self._group(pages[n : n + size], now, usual) for n in range(0, len(pages), size))

    def _group(self, pages: Sequence[Entry], now: float, usual: float) -> WaitingPages:
        first, rows = pages[0].admission, sum(entry.size(self._pages)[0] or usual for entry in pages)
        place = bisect_left(self._last, first)
        # One that has not been looked at yet has just come.
        return WaitingPages(first, now - self._seen[place] if place < len(self._seen) else 0.0, rows)
