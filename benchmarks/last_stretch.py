"""How long a policy waits that takes the next stretch to be like the last one: what of a wait is caution.

No Spark; see benchmarks/README.md. At each page the policy takes the least slack that keeps to 1 % if the pages to
come lose what as many of the newest ones would have lost. It begins with the first page, and never stands still to
see how late rows will be. It is tried without room for chance, and with as much as `drop_ratio` leaves.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from foreseen import asked
from progress import STRETCH, P
from rich.console import Console
from rich.table import Table

import slackwater as sw
from experiments.lab.trial import Case, TrialOutcome, fixed, hindsight, required, run
from slackwater.progress.drop_ratio.budget import AHEAD, PLANNED, RESERVE, UNSEEN, mean_within
from slackwater.progress.source_numbers import Floats, Ints
from slackwater.progress.time import MIN_TICK, TimeDomain

#: The pages to come are looked at in these numbers.
PAGES: Ints = np.round(AHEAD * STRETCH).astype(np.int64)
#: What is planned with of the share, and the standard deviations that are kept free: all of it, and as drop_ratio.
ROOMS = ((1.0, 0.0), (PLANNED, RESERVE))


class LastStretch:
    """What each slack would have lost of the newest pages."""

    def __init__(self, case: Case, spent: float, free: float) -> None:
        self._pages, self._needed, self._pairs = required(case)
        self._begins = np.searchsorted(self._pages, np.arange(len(case.paged) + 1))
        self._by_page = np.array([r.all for r in case.reports], dtype=np.float64)
        self._spent, self._free, self._chance = spent, free, case.spec.range / case.spec.slide

    def slack(self, k: int, lost: Ints) -> int | None:
        """Behind page k, when so much was lost of each page; None where each slack would lose too much."""
        seen = min(k + 1, STRETCH)
        some = slice(self._begins[k + 1 - seen], self._begins[k + 1])
        needed, pairs, ages = self._needed[some], self._pairs[some], k - self._pages[some]
        slacks = np.unique(np.maximum(needed, 0))
        ahead = PAGES[PAGES + seen >= STRETCH]
        had = np.minimum(ahead, seen)
        newest = slice(k, k - seen if k >= seen else None, -1)
        allowed = self._allowed(self._by_page[newest], lost[newest], ahead)

        def kept(slack: int) -> bool:
            losses = np.bincount(ages, pairs * (needed > slack), seen).cumsum()
            return bool((losses[had - 1] * (ahead / had) <= allowed).all())

        # What is lost falls as the slack grows.
        place = bisect_left(slacks.tolist(), True, key=kept)
        return int(slacks[place]) if place < len(slacks) else None

    def _allowed(self, pairs: Floats, lost: Ints, ahead: Ints) -> Floats:
        """What may still be lost of so many pages to come, if they have as many pairs as the newest ones."""
        had, gone = (np.append(0.0, values.cumsum()) for values in (pairs, lost))
        seen = len(pairs)
        staying = STRETCH - ahead
        to_come = had[np.minimum(ahead, seen)] * (ahead / np.minimum(ahead, seen))
        rest = self._spent * P * (had[staying] + to_come) - gone[staying]
        return mean_within(rest, self._chance * np.minimum(1.0, UNSEEN * STRETCH / ahead), self._free)


def planned(case: Case, spent: float, free: float) -> TrialOutcome:
    """What the policy makes of a case."""
    before, pages = case.paged.highest_before(), len(case.paged)
    policy = LastStretch(case, spent, free)
    beats, lost = np.full(pages + 1, MIN_TICK, np.int64), np.zeros(pages, np.int64)
    for k in range(pages):
        lost[k] = case.report(k, int(beats[k])).lost
        slack = policy.slack(k, lost) if before[k + 1] > MIN_TICK else None
        beats[k + 1] = beats[k] if slack is None else max(beats[k], before[k + 1] - slack - 1)
    return TrialOutcome(case, beats, lost, np.array([r.all for r in case.reports]))


def main() -> None:
    """Print waits, in parts of that of the fixed bound that loses 1 % in all, and what the worst stretch loses."""
    table = Table(title="Mean wait to that of the fixed bound by hindsight (worst stretch)")
    for name in ("stream", "windows", "no room for chance", "room for chance", "drop_ratio"):
        table.add_column(name)
    for name, windows, case in asked(__doc__):
        best = float(fixed(case, hindsight(case, P)).waits().mean())
        found = [planned(case, *room) for room in ROOMS]
        found.append(run(sw.drop_ratio(P).tracker(TimeDomain.TIMESTAMP), case))
        table.add_row(name, windows, *(f"{o.waits().mean() / best:.2f} ({o.worst(STRETCH):.2%})" for o in found))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
