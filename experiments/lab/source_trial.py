"""A light trial of a policy that speaks of sources: pages go through its tracker, windows are counted by source.

It gives, for each source, what was lost and how long windows waited, by the source's own heartbeat and by that of
the stream.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slackwater.progress.arrival import Arrival, SourceArrivals, sketch_of
from slackwater.progress.disorder import Tracker
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK
from slackwater.progress.window_losses import RowsBySource, WindowLosses
from slackwater.tune.outcome import worst_share
from slackwater.windows.spec import WindowSpec


@dataclass
class SourceOutcome:
    """What a policy made of a stream: lists with an entry for each page, and the windows by source."""

    pairs: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    lost_by_stream: list[int] = field(default_factory=list)
    """What would have been lost by one heartbeat for all."""
    waits: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """From the end of each window to the page that closed it for the source."""
    stream_waits: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The same by one heartbeat for all."""

    def share(self, warm_up: int) -> float:
        """Lost pairs of all pairs, behind the warm-up."""
        return sum(self.lost[warm_up:]) / max(1, sum(self.pairs[warm_up:]))

    def worst(self, stretch: int, warm_up: int) -> float:
        """The largest share lost in any stretch of so many pages."""
        return worst_share(np.array(self.lost[warm_up:]), np.array(self.pairs[warm_up:]), stretch)


class _Open:
    """Windows that wait for a heartbeat."""

    def __init__(self) -> None:
        self._last_ticks: dict[str, set[int]] = defaultdict(set)

    def add(self, source: str, last_tick: int) -> None:
        self._last_ticks[source].add(last_tick)

    def close(self, source: str, beat: int, now: int) -> list[int]:
        """The waits of a source's windows that a heartbeat closes."""
        closed = [tick for tick in self._last_ticks[source] if tick <= beat]
        self._last_ticks[source].difference_update(closed)
        return [now - tick - 1 for tick in closed]


def run_by_source(tracker: Tracker, rows: pl.DataFrame, page: int, spec: WindowSpec) -> SourceOutcome:
    """Send rows (arrival, time, source), in pages of so many ticks of arrival, through a tracker."""
    found, own, shared = SourceOutcome(), _Open(), _Open()
    tracker.by_source()
    numbered = rows.sort("arrival").with_columns((pl.col("arrival") // page).alias("page"))
    for number, ((k,), here) in enumerate(numbered.group_by("page", maintain_order=True)):
        now = (k + 1) * page
        beats, stream = _beats(tracker), tracker.heartbeat.tick
        tracker.admit(number)
        told, windows = _told(number, here, spec, beats, stream)
        tracker.hear(told)
        tracker.arrive(_arrival(here, now))
        tracker.tick(now)
        found.pairs.append(told.all)
        found.lost.append(told.lost)
        found.lost_by_stream.append(sum(n for _, last, n in windows if last <= stream))
        beats_now = _beats(tracker)
        for source, last, _ in windows:
            if last > beats.get(source, MIN_TICK):
                own.add(source, last)
            if last > stream:
                shared.add(source, last)
        for source, beat in beats_now.items():
            found.waits[source] += own.close(source, beat, now)
            found.stream_waits[source] += shared.close(source, tracker.heartbeat.tick, now)
    return found


def _beats(tracker: Tracker) -> dict[str, int]:
    by = tracker.by_source()
    return {} if by is None else dict(zip(by.names, by.ticks.tolist(), strict=True))


def _told(
    number: int, rows: pl.DataFrame, spec: WindowSpec, beats: dict[str, int], stream: int
) -> tuple[WindowLosses, list[tuple[str, int, int]]]:
    """The report of a page, and its pairs by source and window."""
    panes = (pl.col("time") - spec.offset) // spec.pane
    counts = rows.group_by("source", panes.alias("pane")).len("rows").sort("source", "pane")
    windows, lost = [], []
    for source, pane, n in counts.iter_rows():
        ends = [spec.bounds(w)[1] - 1 for w in range(spec.first_window(pane), spec.last_window(pane) + 1)]
        windows += [(source, last, n) for last in ends]
        beat = beats.get(source, MIN_TICK)
        lost.append(n * sum(last <= beat for last in ends))
    panes_of, rows_of = (counts[c].cast(pl.Int64).to_numpy() for c in ("pane", "rows"))
    names, lost_of = counts["source"].to_list(), np.array(lost, dtype=np.int64)
    by = RowsBySource(names, panes_of, rows_of, lost_of, spec.rows_by_window)
    found, places = np.unique(panes_of, return_inverse=True)
    whole = np.zeros(len(found), np.int64)
    np.add.at(whole, places, rows_of)
    last_ticks, pairs = spec.rows_by_window(found, whole)
    return WindowLosses("q", number, last_ticks, pairs, sum(lost), lambda: by), windows


def _arrival(rows: pl.DataFrame, at: int) -> Arrival:
    times: Ints = rows["time"].to_numpy()
    by = rows.group_by("source").agg(
        pl.len().cast(pl.Int64).alias("rows"), pl.col("time").min().alias("low"), pl.col("time").max().alias("high")
    )
    by = by.sort("source")
    sources = SourceArrivals(by["source"].to_list(), *(by[c].to_numpy() for c in ("rows", "low", "high")))
    low, high = int(times.min()), int(times.max())
    return Arrival(len(times), 0, low, high, at, sketch=sketch_of(times), sources=sources)
