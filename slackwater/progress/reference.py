"""The reference of a stream: the largest time that can be believed, so that a corrupt timestamp moves nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from datasketches import kll_doubles_sketch
from numpy.typing import NDArray

from slackwater.progress.arrival import Arrival

Floats = NDArray[np.float64]

#: An advance of the reference is a jump when it is so many times what nine of ten advances stay below.
JUMP = 4.0
#: A jump is believed when this share of the rows since it was first seen lies behind it,
SHARE = 0.05
#: at least so many of them,
ROWS = 3
#: in so many pages. Behind an outage that is time enough to see whether what was held back comes now.
PAGES = 3
#: Rows after which a jump that was not believed is forgotten.
FORGET = 300
#: Pages without an advance after which the very first times are taken for corrupt.
STUCK = 20
#: Advances that are remembered, and how many of them are needed to know a jump.
ADVANCES, KNOWN = 100, 5


class Reference:
    """Follows the largest time; a jump must be confirmed by other rows, until then what lies behind it is ignored.

    >>> r = Reference()
    >>> for time in range(0, 70, 10):
    ...     _ = r.pass_page(time, rows=1)
    >>> r.pass_page(10**9, rows=1), r.time                 # one row far ahead: not believed
    (False, 60)
    >>> for time in range(70, 200, 10):
    ...     _ = r.pass_page(time, rows=1)
    >>> r.time
    190
    """

    def __init__(self) -> None:
        self.time: int | None = None
        self._advances: list[int] = []
        # Since a jump was first seen: rows behind it, all rows, pages.
        self._behind = self._rows = self._pages = 0

    @property
    def usual(self) -> int:
        """The advance that nine of ten pages stay below."""
        if not self._advances:
            return 0
        # This is np.quantile, which takes 30 times as long for so few numbers; it is asked for with every page.
        ordered, place = sorted(self._advances), (len(self._advances) - 1) * 0.9
        low = ordered[int(place)]
        apart, part = ordered[min(int(place) + 1, len(ordered) - 1)] - low, place - int(place)
        return int(low + apart * part if part < 0.5 else low + apart - apart * (1 - part))

    def pass_page(self, highest: int, rows: int, times: Callable[[], Floats] | None = None) -> bool:
        """Take a page; `times` gives, if asked, increasing times that stand for equal shares of its rows.

        True if a jump is believed now.
        """
        if self.time is None or len(self._advances) < KNOWN:
            self._begin(highest, rows, times)
            return False
        limit = self.time + int(JUMP * self.usual)
        if self._pages:
            self._rows += rows
        if highest <= limit:
            self._advance(highest)
        elif self._jump(highest, rows, limit, np.full(1, float(highest)) if times is None else times()):
            return True
        if self._rows > FORGET:
            self._behind = self._rows = self._pages = 0
        return False

    def pass_arrival(self, arrival: Arrival) -> bool:
        """Take a page by what it tells about time, its sketch of times if it has one; True as above."""
        if arrival.highest is None:
            return False
        sketch = arrival.sketch

        def times() -> Floats:
            if sketch is None:
                return np.full(1, float(arrival.highest or 0))
            entries = min(arrival.timed, 100)
            ranks = (np.arange(entries) + 0.5) / entries
            return np.asarray(kll_doubles_sketch.deserialize(sketch).get_quantiles(ranks), dtype=np.float64)

        return self.pass_page(arrival.highest, arrival.timed, times)

    def _begin(self, highest: int, rows: int, times: Callable[[], Floats] | None) -> None:
        """At the start a page of some rows is its own measure; a first time that nothing reaches is dropped."""
        if times is not None and rows >= 20:
            spread = times()
            low, high = np.quantile(spread, (0.05, 0.95))
            believed = spread[spread <= high + JUMP * (high - low)]
            if float(highest) > high + JUMP * (high - low):
                highest = int(believed[-1])
        if self.time is not None and highest <= self.time:
            self._pages += 1
            self._behind = highest if self._pages == 1 else max(self._behind, highest)
            if self._pages < STUCK:
                return
            self.time = None
            highest = self._behind
        self._behind = self._pages = 0
        self._advance(highest)

    def _jump(self, highest: int, rows: int, limit: int, times: Floats) -> bool:
        inside = int(np.searchsorted(times, float(limit), side="right"))
        self._rows = self._rows if self._pages else rows
        self._behind += max(1, round(rows * (1 - inside / len(times))))
        self._pages += 1
        if self._behind < SHARE * self._rows:
            # A handful of rows: go on without them.
            if inside:
                self._advance(int(times[inside - 1]))
        elif self._pages >= PAGES and self._behind >= ROWS:
            self.time, self._behind, self._rows, self._pages = highest, 0, 0, 0
            return True
        return False

    def _advance(self, time: int) -> None:
        if self.time is None:
            self.time = time
        elif time > self.time:
            self._advances.append(time - self.time)
            del self._advances[:-ADVANCES]
            self.time = time

    def state(self) -> dict[str, Any]:
        """Time, advances, and what is known of a jump."""
        return {
            "time": self.time,
            "advances": list(self._advances),
            "jump": [self._behind, self._rows, self._pages],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state()`."""
        self.time = state["time"]
        self._advances = list(state["advances"])
        self._behind, self._rows, self._pages = state["jump"]
