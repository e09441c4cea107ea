"""The outcome of a policy on the pages, and the figures by which we compare policies."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MAX_TICK
from slackwater.tune.arrival_pages import ArrivalPages

#: Pages of a stretch, when we look for the worst one; as in `drop_ratio`.
STRETCH = 100
HOUR, DAY = 3_600_000_000, 86_400_000_000
#: Windows are not judged if they ended long before the first page: a day, and this many times the whole stream.
LONG_BEFORE = 10


def worst_share(lost: Ints, pairs: Ints, stretch: int) -> float:
    """The largest share lost in any stretch of pages.

    >>> worst_share(np.array([0, 2, 0, 1]), np.array([4, 4, 4, 4]), 2)
    0.25
    """
    stretch = min(stretch, len(lost))
    lost, pairs = (np.append(0, np.cumsum(a)) for a in (lost, pairs))
    return float(((lost[stretch:] - lost[:-stretch]) / np.maximum(1, pairs[stretch:] - pairs[:-stretch])).max())


@dataclass(frozen=True)
class Figures:
    """Shares are of (row, window) pairs, waits in seconds from a window's end to its final answer."""

    lost_share: float
    lost_pairs: int
    lost_rows: int
    """Rows that some window no longer took."""
    worst_share: float
    """The largest share lost in a stretch of 100 pages."""
    wait_mean: float
    wait_p95: float
    wait_p99: float
    held_mean: float
    """Rows of windows that are open, after each page."""
    held_max: int
    answers: int
    """Windows that were answered; by source where the query groups by it."""
    open_at_end: int
    """Windows among them that only the end of the data closed."""

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class PolicyOutcome:
    """Page by page what was lost and held, and answer by answer when it was final."""

    pages: ArrivalPages
    met: Ints
    """The heartbeat that each page met; by source, that of the stream."""
    lost: Ints
    """Pairs whose window had been answered."""
    lost_rows: Ints
    held: Ints
    ends: Ints
    """Where the window of each answer ends."""
    closed: Ints
    """When it was final; MAX_TICK where only the end of the data closed it."""

    @staticmethod
    def of(pages: ArrivalPages, met: Ints, after: Ints, instants: Ints, beats: Ints) -> PolicyOutcome:
        """From one heartbeat for all rows: before and after each page, and when it rose to what."""
        places, last_ticks, pairs = pages.pairs
        n, lost = len(pages), last_ticks <= met[places]
        answered = np.unique(last_ticks[~lost])
        came, panes, rows = pages.panes
        first, last = pages.spec.windows_of(panes)
        ends = pages.spec.offset + pages.spec.range - 1
        # A pane is needed until its last window is final; a row loses something when its first one was.
        left = np.maximum(np.searchsorted(after, last * pages.spec.slide + ends), came)
        change = np.bincount(came, rows, n + 1) - np.bincount(left, rows, n + 1)
        late = first * pages.spec.slide + ends <= met[came]
        return PolicyOutcome(
            pages,
            met,
            lost=np.bincount(places[lost], pairs[lost], n).astype(np.int64),
            lost_rows=np.bincount(came[late], rows[late], n).astype(np.int64),
            held=np.cumsum(change)[:n].astype(np.int64),
            ends=answered + 1,
            closed=np.append(instants, MAX_TICK)[np.searchsorted(beats, answered)],
        )

    @property
    def share(self) -> float:
        """Lost pairs of all pairs."""
        return float(self.lost.sum() / max(1, self.pages.all_pairs.sum()))

    @property
    def worst(self) -> float:
        """The largest share lost in any stretch of pages."""
        return worst_share(self.lost, self.pages.all_pairs, STRETCH)

    def waits(self) -> Ints:
        """From the end of each window to its answer.

        An answer that only the end of the data gave counts as given there. That cuts the waits of the last windows
        short for every policy, so windows that end in the last tenth of the time are left out. So are those that
        ended long before the first page: a row of 1970 alone would make the mean wait some days.
        """
        first, last = int(self.pages.ats[0]), int(self.pages.ats[-1])
        old = first - max(LONG_BEFORE * (last - first), DAY)
        judged = (self.ends <= last - (last - first) // 10) & (self.ends >= old)
        judged = judged if judged.any() else np.ones(len(self.ends), bool)
        waits: Ints = np.minimum(self.closed, last)[judged] - self.ends[judged]
        return waits

    def lost_per_hour(self) -> tuple[float, int, int]:
        """Rows lost in an hour of arrival: on average, at most, and when that hour began."""
        hours, lost = self.lost_by_hour()
        worst, ats = int(lost.argmax()), self.pages.ats
        span = int(ats[-1]) - int(ats[0]) + self.pages.page
        return float(lost.sum() * HOUR / span), int(lost[worst]), int(hours[worst]) * HOUR

    def lost_by_hour(self) -> tuple[Ints, Ints]:
        """The hours of arrival in which pages came, since 1970, and the rows that were lost in each."""
        hours, place = np.unique((self.pages.ats - 1) // HOUR, return_inverse=True)
        return hours, np.bincount(place, self.lost_rows).astype(np.int64)

    def figures(self) -> Figures:
        """All in a few numbers."""
        waits = self.waits() / 1e6
        mean, p95, p99 = (
            (float(waits.mean()), *(float(q) for q in np.quantile(waits, (0.95, 0.99))))
            if len(waits)
            else (0.0,) * 3
        )
        return Figures(
            lost_share=self.share,
            lost_pairs=int(self.lost.sum()),
            lost_rows=int(self.lost_rows.sum()),
            worst_share=self.worst,
            wait_mean=mean,
            wait_p95=p95,
            wait_p99=p99,
            held_mean=float(self.held.mean()),
            held_max=int(self.held.max()),
            answers=len(self.ends),
            open_at_end=int((self.closed == MAX_TICK).sum()),
        )
