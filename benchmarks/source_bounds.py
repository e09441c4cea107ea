"""Bounds by source that hindsight chooses, beside drop_ratio: what a learned bound with a share of loss could give.

No Spark; see benchmarks/README.md. The heartbeat is the least, over all sources, of a source's largest time less
its own slack. Every source's slack keeps the same share of its rows, the least that loses at most 1 % of all pairs.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from progress import _SHARED, SECOND, P

import slackwater as sw
from experiments.lab import arrivals as make
from experiments.lab.trial import Case, Paged, TrialOutcome, fixed, hindsight, run
from slackwater.progress.arrival import SourceArrivals
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.windows.spec import WindowSpec

Windows = tuple[tuple[int, int], ...]


class BySource:
    """A case with the source of each row."""

    def __init__(self, rows: pl.DataFrame, length: int, slide: int) -> None:
        self.names, self.source = np.unique(rows["source"].to_numpy().astype(str), return_inverse=True)
        paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), SECOND)
        self.case = Case.of(paged, WindowSpec(length, slide))

    def page(self, k: int) -> tuple[Ints, Ints]:
        """Sources and times of a page's rows."""
        paged = self.case.paged
        return self.source[paged.begins[k] : paged.begins[k + 1]], paged.page(k)

    def disorder(self) -> Any:
        """How far each row lies behind the largest time of its own source before its page."""
        highest, found = np.full(len(self.names), MIN_TICK), []
        for k in range(len(self.case.paged)):
            source, times = self.page(k)
            before = highest[source]
            found.append(np.where(before > MIN_TICK, np.maximum(before, times) - times, 0))
            np.maximum.at(highest, source, times)
        return np.concatenate(found)

    def bounded(self, slack: Ints) -> TrialOutcome:
        """What these bounds make of the case; the stream begins when every source has been seen."""
        highest, beats = np.full(len(self.names), MIN_TICK), [MIN_TICK]
        for k in range(len(self.case.paged)):
            np.maximum.at(highest, *self.page(k))
            known = bool((highest > MIN_TICK).all())
            beats.append(max(beats[-1], int((highest - slack).min()) - 1) if known else beats[-1])
        return self.outcome(np.array(beats))

    def outcome(self, beats: Ints) -> TrialOutcome:
        """What is lost behind these heartbeats."""
        told = [self.case.report(k, int(beats[k])) for k in range(len(self.case.paged))]
        return TrialOutcome(self.case, beats, np.array([r.lost for r in told]), np.array([r.all for r in told]))

    def hindsight(self, p: float) -> TrialOutcome:
        """The shortest bounds that lose at most the share p."""
        disorder, low, high = self.disorder(), 0.0, 1.0
        of_source = [disorder[self.source == s] for s in range(len(self.names))]

        def tried(kept: float) -> TrialOutcome:
            return self.bounded(np.array([np.quantile(d, kept) for d in of_source]).astype(np.int64))

        for _ in range(12):
            middle = (low + high) / 2
            low, high = (low, middle) if tried(middle).share <= p else (middle, high)
        return tried(high)

    def learned(self) -> TrialOutcome:
        """What `learned` makes of the case."""
        tracker, beats = sw.learned().tracker(TimeDomain.TIMESTAMP), [MIN_TICK]
        for k in range(len(self.case.paged)):
            source, times = self.page(k)
            found, place = np.unique(source, return_inverse=True)
            lowest, highest = np.full(len(found), times.max(initial=0)), np.full(len(found), MIN_TICK)
            np.minimum.at(lowest, place, times)
            np.maximum.at(highest, place, times)
            names = [str(self.names[s]) for s in found]
            by_source = SourceArrivals(names, np.bincount(place, minlength=len(found)), lowest, highest)
            tracker.arrive(replace(self.case.paged.arrival(k), sources=by_source))
            tracker.tick(int(self.case.paged.ats[k]))
            beats.append(tracker.heartbeat.tick)
        return self.outcome(np.array(beats))


def streams(folder: Path, seeds: list[int]) -> list[tuple[str, pl.DataFrame, Windows]]:
    """Clocks that are wrong by up to 30 seconds, and the phones where they are at hand."""
    both = ((10 * SECOND, 10 * SECOND), (20 * SECOND, 2 * SECOND))
    wrong = [
        (
            f"offsets, seed {s}",
            make.arrivals(make.exponential(0.3), seconds=600, seed=s, sources=8, offset=30),
            both,
        )
        for s in seeds
    ]
    for path in sorted(folder.glob("phones_*.parquet")):
        times = {"arrival": "received", "time": "sent"}
        columns = {name: pl.col(c).dt.timestamp("us") for name, c in times.items()}
        rows = pl.read_parquet(path).select(**columns, source=pl.col("device").cast(pl.String))
        wrong.append((path.stem, rows.sort("arrival", maintain_order=True), ((SECOND, SECOND),)))
    return wrong


def main() -> None:
    """Print share lost and mean wait of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22])
    parser.add_argument("--data", type=Path, default=_SHARED, help="the folder of the real streams")
    options = parser.parse_args()
    print("| stream, window | policy | lost | worst stretch | mean wait |\n|---|---|---|---|---|")
    for name, rows, windows in streams(options.data, options.seeds):
        for length, slide in windows:
            one = BySource(rows, length, slide)
            outcomes = {
                "hindsight, one bound": fixed(one.case, hindsight(one.case, P)),
                "hindsight, by source": one.hindsight(P),
                "drop_ratio": run(sw.drop_ratio(P).tracker(TimeDomain.TIMESTAMP), one.case),
                "learned": one.learned(),
            }
            for policy, found in outcomes.items():
                case = f"{name}, {length // SECOND} s / {slide / SECOND:g} s"
                wait = found.waits().mean() / SECOND
                print(f"| {case} | {policy} | {found.share:.2%} | {found.worst():.2%} | {wait:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
