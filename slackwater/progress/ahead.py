"""Times far ahead: a row that claims to be from a distant future is not believed, so that it makes nobody late.

The guard stands before every disorder policy: a row beyond its limit counts as one without a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slackwater.errors import QueryError
from slackwater.progress.arrival import Arrival
from slackwater.progress.restorable import Restorable
from slackwater.progress.source_numbers import Floats
from slackwater.progress.time import LONGEST_SPAN, MIN_TICK, Span, TimeDomain

#: How far ahead rows may be where the user does not say. Clocks in a wrong time zone are within 14 hours; a corrupt
#: time is mostly years away.
DEFAULT_AHEAD = "1 day"
#: Rows: a page with fewer does not say by itself where the bulk of its stream is; its last pages do so, too. A page
#: with more has it in its own median.
RECENT = 20
#: Of a stream that lies wholly in the future, times are believed up to this many times the distance between its
#: 5 % quantile and its median beyond the median. Even times reach 1.1 times as far; the rest is for gaps.
SPREAD = 8.0


def read_ahead(ahead: Span | None, domain: TimeDomain) -> int | None:
    """How far ahead the times of rows may be, in ticks; None: as far as they like.

    >>> read_ahead("5 minutes", TimeDomain.TIMESTAMP), read_ahead("never", TimeDomain.TIMESTAMP)
    (300000000, None)
    >>> read_ahead(None, TimeDomain.TIMESTAMP), read_ahead(None, TimeDomain.SEQUENCE)
    (86400000000, None)
    """
    if ahead == "never" or (ahead is None and domain is not TimeDomain.TIMESTAMP):
        return None
    if domain is not TimeDomain.TIMESTAMP:
        raise QueryError(
            f"ahead={ahead!r}: only timestamps can be compared with the clock, and this stream counts in "
            f"{domain.value}s; leave out ahead="
        )
    ticks = domain.span(DEFAULT_AHEAD if ahead is None else ahead, "ahead")
    if ticks <= 0:
        raise QueryError(
            f"ahead={ahead!r} must be positive, as in ahead='5 minutes'; ahead='never' believes all times"
        )
    return ticks


class AheadGuard(Restorable):
    """Says up to which time the rows of a page are believed.

    Ahead is measured against the clock or the bulk of recent rows, whichever is later. So a stream that lies wholly
    in the future loses nothing.

    >>> guard = AheadGuard(60)
    >>> page = Arrival(rows=3, missing=0, lowest=90, highest=9_000, at=100)
    >>> guard.limit(page, lambda: np.array([90.0, 95.0, 9_000.0]))
    160
    >>> AheadGuard(60).limit(page, lambda: np.array([8_990.0, 8_995.0, 9_000.0]))      # all of it is in the future
    """

    STATE = ("rows", "_recent")

    def __init__(self, ahead: int | None) -> None:
        """`ahead` in ticks; None believes all."""
        self._ahead = LONGEST_SPAN if ahead is None else ahead
        self.rows = 0
        """Rows that were not believed."""
        self._recent: list[list[int]] = []
        """Smallest time, largest time and rows of the newest pages."""

    def limit(self, arrival: Arrival, times: Callable[[], Floats]) -> int | None:
        """The largest time that is believed of a page; None if all are.

        `times` gives, if asked, increasing times that stand for equal shares of the page's rows.
        """
        if self._ahead == LONGEST_SPAN or arrival.highest is None:
            return None
        if arrival.highest <= max(arrival.at, self._middle()) + self._ahead:
            return None
        limit = self._measured(times(), arrival)
        return limit if arrival.highest > limit else None

    def note(self, arrival: Arrival) -> None:
        """Take a page, without the rows that are not believed."""
        self.rows += arrival.ahead
        if arrival.lowest is None or arrival.highest is None:
            return
        self._recent.append([arrival.lowest, arrival.highest, arrival.timed])
        while sum(rows for _, _, rows in self._recent[1:]) >= RECENT:
            del self._recent[0]

    def _middle(self) -> int:
        """About the median of the recent rows."""
        middles = sorted((low + (high - low) // 2, rows) for low, high, rows in self._recent)
        left = sum(rows for _, rows in middles) / 2
        for middle, rows in middles:
            left -= rows
            if left <= 0:
                return middle
        return MIN_TICK

    def _measured(self, times: Floats, arrival: Arrival) -> int:
        """The limit, by the recent rows and those of the page."""
        values, weights = [*times], [arrival.timed / len(times)] * len(times)
        if arrival.timed < RECENT:
            for low, high, rows in self._recent:
                values += np.linspace(low, high, 5).tolist()
                weights += [rows / 5] * 5
        middle = max(arrival.at, _quantile(values, weights, 0.5))
        if middle <= arrival.at + self._ahead:
            return middle + self._ahead
        # The stream is in the future, and only its page says how far. Few rows cannot: all of them are believed.
        early, middle = (_quantile(times, np.ones(len(times)), share) for share in (0.05, 0.5))
        return middle + max(self._ahead, int(SPREAD * (middle - early)))


def _quantile(values: Sequence[float] | Floats, weights: Sequence[float] | Floats, share: float) -> int:
    """The value that this share of the weight lies below; the median of two is the second.

    >>> _quantile([9.0, 5.0], [1.0, 1.0], 0.5)
    9
    """
    order = np.argsort(values)
    upto = np.cumsum(np.asarray(weights)[order])
    place = int(np.searchsorted(upto, share * upto[-1], side="right"))
    return int(np.asarray(values)[order][min(place, len(upto) - 1)])
