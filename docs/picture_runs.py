"""Sends a small stream through a disorder policy's tracker and notes its heartbeats, for docs/pictures.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from experiments.lab.trial import report
from slackwater.progress.arrival import Arrival, SourceArrivals, sketch_of
from slackwater.progress.disorder import Disorder, Tracker
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.windows.spec import WindowSpec

SECOND = 1_000_000


@dataclass
class Followed:
    """What a tracker made of a stream; times in seconds (or tokens)."""

    rows: pl.DataFrame
    """arrival (of the page), time, source, and whether the row was lost to its window."""
    ats: list[float] = field(default_factory=list)
    beats: list[float] = field(default_factory=list)
    by_source: dict[str, list[float]] = field(default_factory=dict)
    states: list[dict[str, Any]] = field(default_factory=list)

    def note(self, tracker: Tracker, now: int, unit: int) -> None:
        """The heartbeats at an instant."""
        named = tracker.by_source()
        for name, tick in [] if named is None else zip(named.names, named.ticks.tolist(), strict=True):
            self.by_source.setdefault(name, [np.nan] * len(self.ats)).append(_shown(tick, unit))
        self.ats.append(now / SECOND)
        self.beats.append(_shown(tracker.heartbeat.tick, unit))
        self.states.append(tracker.state())


def _shown(tick: int, unit: int) -> float:
    return np.nan if tick == MIN_TICK else tick / unit


def follow(
    policy: Disorder, rows: pl.DataFrame, window: int, page: int = SECOND, domain: TimeDomain = TimeDomain.TIMESTAMP
) -> Followed:
    """Send rows (arrival and time, perhaps source and upto) through a policy in pages, as a replay does."""
    tracker, spec = policy.tracker(domain), WindowSpec(window, window)
    unit = SECOND if domain is TimeDomain.TIMESTAMP else 1
    rows = rows.sort("arrival", maintain_order=True)
    rows = rows.with_columns(
        at=(pl.col("arrival") // page + 1) * page, last=pl.col("time") // window * window + window - 1
    )
    kept, found = [], Followed(pl.DataFrame())
    for number, ((at,), here) in enumerate(rows.group_by("at", maintain_order=True)):
        while (wake := tracker.wake_at()) is not None and wake < at:
            tracker.tick(wake)
            found.note(tracker, wake, unit)
        tracker.admit(number)
        kept.append(here.with_columns(lost=pl.col("last") <= _before(tracker, here)))
        tracker.hear(report("q", number, here["time"].to_numpy(), spec, tracker.heartbeat.tick))
        tracker.arrive(_arrival(here, at))
        tracker.tick(at)
        found.note(tracker, at, unit)
    all_rows = pl.concat(kept)
    found.rows = all_rows.with_columns(pl.col("at") / SECOND, pl.col("arrival") / SECOND, pl.col("time") / unit)
    return found


def _before(tracker: Tracker, rows: pl.DataFrame) -> pl.Series:
    """The heartbeat that each row meets: its source's, where there is one."""
    beats, named = tracker.heartbeat.tick, tracker.by_source()
    if named is None or "source" not in rows.columns:
        return pl.Series([beats] * rows.height, dtype=pl.Int64)
    each = dict(zip(named.names, named.ticks.tolist(), strict=True))
    return pl.Series([each.get(source, named.others) for source in rows["source"]], dtype=pl.Int64)


def _arrival(rows: pl.DataFrame, at: int) -> Arrival:
    """The statistics that a page's Spark job would bring."""
    sources = None
    if "source" in rows.columns:
        upto = pl.col("upto").max().fill_null(MIN_TICK) if "upto" in rows.columns else pl.lit(MIN_TICK)
        by = rows.group_by("source", maintain_order=True).agg(
            n=pl.len(), low=pl.col("time").min(), high=pl.col("time").max(), upto=upto
        )
        n, low, high, upto_ = (by[c].cast(pl.Int64).to_numpy() for c in ("n", "low", "high", "upto"))
        sources = SourceArrivals(by["source"].to_list(), n, low, high, upto_)
    low, high = rows["time"].min(), rows["time"].max()
    sketch = sketch_of(rows["time"].to_numpy())
    return Arrival(rows.height, 0, low, high, at, total=rows["time"].sum(), sketch=sketch, sources=sources)
