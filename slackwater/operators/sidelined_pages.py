"""What is known of the pages that a map has set aside (S5 section 6.2): which comes next, what time may pass.

The pages themselves wait on a queue of the map, in the same order. They are known by the window that they complete,
so that no question looks at every page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque


class SidelinedPages:
    """Spans and sizes of sidelined pages, by the end of their last window.

    >>> pages = SidelinedPages()
    >>> for low, high, rows in [(1, 5, 10), (2, 6, 10), (13, 14, 1)]:
    ...     pages.put(low, high, rows, end=high // 10 * 10 + 10)
    >>> pages.gaps(25)
    [(None, 0), (6, 12), (14, 25)]
    >>> pages.next_rows(), pages.take(), pages.take(), pages.gaps(25)
    (1, 2, 0, [(None, 1), (6, 25)])
    """

    def __init__(self) -> None:
        self._bursts: dict[int, _Burst] = {}
        self._order: list[int] = []
        """Numbers of the pages, as they wait on the queue."""
        self._put = 0

    def __len__(self) -> int:
        return len(self._order)

    def put(self, low: int, high: int, rows: int, end: int) -> None:
        """A page with rows between two times, in windows up to the one that ends here, waits behind all others."""
        self._bursts.setdefault(end, _Burst()).put(self._put, low, high, rows)
        self._order.append(self._put)
        self._put += 1

    def next_rows(self) -> int:
        """How many rows the page has that comes next."""
        return self._bursts[self._next()].pages[0][3]

    def take(self) -> int:
        """Forget the page that comes next; gives its place on the queue."""
        end = self._next()
        place = bisect_left(self._order, self._bursts[end].take())
        del self._order[place]
        if not self._bursts[end].pages:
            del self._bursts[end]
        return place

    def _next(self) -> int:
        """End of the window that lacks the fewest rows: what is nearly whole does not wait for a burst."""
        return min(self._bursts, key=lambda end: (self._bursts[end].rows, self._bursts[end].pages[0][0]))

    def gaps(self, tick: int) -> list[tuple[int | None, int]]:
        """The stretches (after, until] of time up to a tick that no page reaches into; the first has no beginning.

        Between pages with the same last window none is looked for: no whole window lies there.
        """
        gaps: list[tuple[int | None, int]] = []
        after: int | None = None
        for low, high in sorted((burst.lows[0], burst.highs[0]) for burst in self._bursts.values()):
            if after is None or after < min(low - 1, tick):
                gaps.append((after, min(low - 1, tick)))
            after = high if after is None else max(after, high)
        if after is None or after < tick:
            gaps.append((after, tick))
        return gaps


class _Burst:
    """The pages of one window; they leave in the order in which they came."""

    def __init__(self) -> None:
        self.rows = 0
        self.pages: deque[tuple[int, int, int, int]] = deque()
        """Number, lowest time, highest time, rows."""
        self.lows: deque[int] = deque()
        """The lowest time of all pages, then that of those behind the page which has it, and so on."""
        self.highs: deque[int] = deque()

    def put(self, number: int, low: int, high: int, rows: int) -> None:
        self.rows += rows
        self.pages.append((number, low, high, rows))
        while self.lows and self.lows[-1] > low:
            self.lows.pop()
        self.lows.append(low)
        while self.highs and self.highs[-1] < high:
            self.highs.pop()
        self.highs.append(high)

    def take(self) -> int:
        number, low, high, rows = self.pages.popleft()
        self.rows -= rows
        if self.lows[0] == low:
            self.lows.popleft()
        if self.highs[0] == high:
            self.highs.popleft()
        return number
