"""Pages of arrival statistics for tests of policies that learn, and how to look at their heartbeats."""

from __future__ import annotations

import numpy as np

from slackwater.progress.arrival import Arrival, SourceArrivals
from slackwater.progress.disorder import Tracker

Rows = dict[str, list[int]]


def page(at: int, rows: Rows) -> Arrival:
    """A page in which each source has rows with these times."""
    all_rows = [t for times in rows.values() for t in times]
    names = list(rows)
    few = SourceArrivals(
        names,
        np.array([len(rows[n]) for n in names], dtype=np.int64),
        np.array([min(rows[n], default=0) for n in names], dtype=np.int64),
        np.array([max(rows[n], default=0) for n in names], dtype=np.int64),
    )
    lowest, highest = min(all_rows, default=None), max(all_rows, default=None)
    return Arrival(rows=len(all_rows), missing=0, lowest=lowest, highest=highest, at=at, sources=few)


def plain(at: int, *times: int) -> Arrival:
    """A page of a stream without sources."""
    return Arrival(rows=len(times), missing=0, lowest=min(times), highest=max(times), at=at)


def beats(tracker: Tracker) -> dict[str, int]:
    by_source = tracker.by_source()
    assert by_source is not None
    return dict(zip(by_source.names, by_source.ticks.tolist(), strict=True))
