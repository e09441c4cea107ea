"""How short a wait could be if a policy were told how late rows come: a limit for drop_ratio on steady streams.

No Spark; see benchmarks/README.md. The policy is told what each slack loses on the average of this very stream. It
begins at once, never takes chance for a change, and spends what may still be lost in a stretch. How much it keeps
free for chance is chosen with hindsight for each stream: the wait is the shortest with which no stretch loses more
than 1 %. It is not told which rows will be late: that no policy can know.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from progress import STRETCH, P, Stream, synthetic
from rich.console import Console
from rich.table import Table

import slackwater as sw
from experiments.lab.trial import (
    Case,
    Paged,
    TrialOutcome,
    fixed,
    hindsight,
    hindsight_in_every_stretch,
    required,
    run,
)
from slackwater.progress.drop_ratio.budget import AHEAD, UNSEEN, mean_within
from slackwater.progress.source_numbers import Floats
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.windows.spec import WindowSpec

#: Parts of the share that are spent, and standard deviations that are kept free.
SPENT = (0.9, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99, 1.0)
RESERVE = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)


class Law:
    """The share of pairs that each slack loses on the average."""

    def __init__(self, case: Case) -> None:
        _, needed, pairs = required(case)
        order = np.argsort(needed)
        self._slacks = np.maximum(needed[order], 0)
        self._shares: Floats = 1 - np.cumsum(pairs[order]) / pairs.sum()

    def slack(self, share: float) -> int:
        """The smallest slack that loses at most this share."""
        place = np.searchsorted(-self._shares, -share)
        return int(self._slacks[min(int(place), len(self._slacks) - 1)])


def told(case: Case, law: Law, spent: float, free: float) -> TrialOutcome:
    """What the policy makes of a case."""
    before, pages = case.paged.highest_before(), len(case.paged)
    pairs = np.array([r.all for r in case.reports])
    whole, chance = STRETCH * float(pairs.mean()), case.spec.range / case.spec.slide
    beats, lost = np.full(pages + 1, MIN_TICK, np.int64), np.zeros(pages, np.int64)
    sums = np.zeros(pages + 1)
    for k in range(pages):
        lost[k] = case.report(k, int(beats[k])).lost
        sums[k + 1] = sums[k] + lost[k]
        staying = sums[k + 1] - sums[np.maximum(0, k + 1 - np.round(STRETCH * (1 - AHEAD)).astype(int))]
        rest = mean_within(spent * P * whole - staying, chance * np.minimum(1.0, UNSEEN / AHEAD), free)
        slack = law.slack(float((rest / (AHEAD * whole)).min()))
        beats[k + 1] = max(beats[k], before[k + 1] - slack - 1) if before[k + 1] > MIN_TICK else MIN_TICK
    return TrialOutcome(case, beats, lost, pairs)


def shortest(case: Case, law: Law) -> TrialOutcome:
    """The one that waits least of those that keep to 1 % in every stretch; that which loses least if none does."""
    tried = [told(case, law, spent, free) for spent, free in product(SPENT, RESERVE)]
    kept = [outcome for outcome in tried if outcome.worst(STRETCH) <= P]
    if not kept:
        return min(tried, key=lambda outcome: outcome.worst(STRETCH))
    return min(kept, key=lambda outcome: float(outcome.waits().mean()))


def case_of(stream: Stream, length: int, slide: int) -> Case:
    rows = stream.load()
    paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), stream.page)
    return Case.of(paged, WindowSpec(length, slide))


def main() -> None:
    """Print, for each kind of steady stream, waits in parts of the wait of the fixed bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22])
    parser.add_argument("--only", help="run only the streams with this text in their names")
    options = parser.parse_args()
    table = Table(title="Mean wait to that of the fixed bound by hindsight: mean (largest)")
    for name in (
        "stream",
        "windows",
        "told: lost",
        "told: wait",
        "drop_ratio: lost",
        "drop_ratio: wait",
        "bound, e.s.",
    ):
        table.add_column(name)
    cases = [list(synthetic(options.seconds, seed)) for seed in options.seeds]
    for kind in zip(*cases, strict=True):
        if kind[0].kind != "steady" or (options.only and options.only not in kind[0].name):
            continue
        for length, slide in kind[0].windows:
            found = []
            for stream in kind:
                case = case_of(stream, length, slide)
                best = float(fixed(case, hindsight(case, P)).waits().mean())
                every = fixed(case, hindsight_in_every_stretch(case, P, STRETCH))
                ours = run(sw.drop_ratio(P).tracker(TimeDomain.TIMESTAMP), case)
                limit = shortest(case, Law(case))
                waits = [float(o.waits().mean()) / best for o in (limit, ours, every)]
                found.append((limit.share, waits[0], ours.share, waits[1], waits[2]))
            figures = np.array(found)
            shown = [
                f"{figures[:, k].mean():.2%}"
                if k in (0, 2)
                else f"{figures[:, k].mean():.2f} ({figures[:, k].max():.2f})"
                for k in range(5)
            ]
            table.add_row(kind[0].name, f"{length // 10**6} s / {slide // 10**6} s", *shown)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
