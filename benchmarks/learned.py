"""What learned bounds cost a page that has 100,000 sources, in time of the thread: other work does not count."""

from __future__ import annotations

import time

import numpy as np

from slackwater.progress.arrival import Arrival, SourceArrivals
from slackwater.progress.learned.learned import learned
from slackwater.progress.time import TimeDomain

SOURCES, PAGES, SECOND = 100_000, 30, 1_000_000


def main() -> None:
    rng = np.random.default_rng(0)
    names = [f"sensor-{k:06d}" for k in range(SOURCES)]
    lag = (rng.pareto(1.0, SOURCES) * SECOND).astype(np.int64)
    tracker = learned().tracker(TimeDomain.TIMESTAMP)
    spent = []
    for page in range(PAGES):
        at = (page + 1) * 10 * SECOND
        highest = at - lag - rng.integers(0, 2 * SECOND, SOURCES)
        lowest = highest - rng.integers(0, 5 * SECOND, SOURCES)
        few = SourceArrivals(names, np.full(SOURCES, 3), lowest, highest)
        arrival = Arrival(3 * SOURCES, 0, int(lowest.min()), int(highest.max()), at, sources=few)
        begin = time.thread_time()
        tracker.arrive(arrival)
        tracker.by_source()
        tracker.wake_at()
        spent.append(1000 * (time.thread_time() - begin))
    later = spent[1:]
    print(f"first page {spent[0]:.0f} ms; later pages: median {np.median(later):.1f} ms, most {max(later):.1f} ms")


if __name__ == "__main__":
    main()
