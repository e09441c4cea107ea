"""How short a wait could be if the slack were chosen with hindsight again and again: a limit for every policy.

No Spark; see benchmarks/README.md. Windows are put in groups by their ends, and each group has a slack of its own.
Hindsight chooses all of them together, so that no stretch loses more than 1 %. With a group for each window it
knows of every row when it comes: no policy that keeps to 1 % can wait less, if it never promises more than the
largest time seen. With longer groups it knows less of single rows, and only how late rows come in this part.

What is printed is a lower bound, by Lagrange multipliers: each stretch has a price for a lost pair. Each group then
takes the slack that costs least, waits and losses together. For any prices the sum of these costs, less the price
of what all stretches may lose, is at most the least wait (weak duality). Better prices only make it tighter.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from progress import _SHARED, SECOND, STRETCH, P, real, synthetic
from rich.console import Console
from rich.table import Table

import slackwater as sw
from experiments.lab.trial import Case, Paged, fixed, hindsight, hindsight_in_every_stretch, required, run
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import TimeDomain
from slackwater.windows.spec import WindowSpec

Floats = NDArray[np.float64]

#: Windows that end within so many pages have one slack together; 0: each window has its own.
TOGETHER = (100, 25, 0)
#: The search for prices takes so many steps at most. It hopes for half as much when so many were in vain, and ends
#: when it hopes for no more than this part of the wait.
STEPS, IN_VAIN, SMALLEST = 5000, 20, 1e-3


@dataclass(frozen=True, eq=False)
class Choices:
    """The slacks that each group of windows may have: how long its windows then wait, and which pairs they lose.

    The pairs that can be lost lie group by group, those that need the least slack first. A group that takes the
    slack of one entry loses the entries behind it. The first entry of each group is no slack at all, and no pair.
    """

    groups: Ints
    """The group of each entry."""
    pages: Ints
    """In which page its pairs come."""
    pairs: Floats
    waits: Floats
    """Of all windows of the group that count, together, if its slack is that of the entry."""
    begins: Ints
    """Where the entries of each group begin."""
    windows: int
    """How many windows count."""
    allowed: Floats
    """Pairs that each stretch may lose."""
    stretch: int

    @staticmethod
    def of(case: Case, together: int, p: float = P, stretch: int = STRETCH) -> Choices:
        """A group of the windows that end within so many pages; with 0 each window is a group."""
        ats, all_pairs = case.paged.ats, np.array([r.all for r in case.reports], dtype=np.float64)
        stretch = min(stretch, len(ats))
        ends, window = np.unique(np.concatenate([r.last_ticks for r in case.reports]), return_inverse=True)
        group = np.searchsorted(ats, ends) // together if together else np.arange(len(ends))
        group = np.unique(group, return_inverse=True)[1]
        pages, needs, pairs = required(case)
        late = needs > 0
        none = np.arange(group[-1] + 1)
        groups = np.append(none, group[window[late]])
        slacks, pages, pairs = (np.append(0 * none, a[late]) for a in (needs, pages, pairs))
        order = np.lexsort((slacks, groups))
        groups, slacks = groups[order], slacks[order]
        begins = np.searchsorted(groups, none)
        counts = judged(case, ends)
        if together:
            several = enumerate(np.split(slacks, begins[1:]))
            waits = np.concatenate([_waits(case, ends[counts & (group == g)], mine).sum(0) for g, mine in several])
        else:
            # A single window may close behind any page, also where a slack would wait for time to move.
            at_once = _waits(case, ends, np.zeros(1, np.int64))[:, 0]
            later = ats[pages[order]] - (ends[groups] + 1.0)
            waits = np.where(slacks == 0, at_once[groups], later) * counts[groups]
        allowed = p * sums(all_pairs, stretch)
        return Choices(groups, pages[order], pairs[order], waits, begins, int(counts.sum()), allowed, stretch)

    def at(self, prices: Floats) -> tuple[float, Floats]:
        """The bound at these prices; and how much more than allowed each stretch then loses."""
        costs = (self.pairs * np.convolve(prices, np.ones(self.stretch))[self.pages]).cumsum()
        ends = np.append(self.begins[1:], len(costs)) - 1
        totals = self.waits + costs[ends][self.groups] - costs
        least = np.minimum.reduceat(totals, self.begins)
        best = np.flatnonzero(totals <= least[self.groups])
        chosen = np.zeros(len(self.begins), np.int64)
        chosen[self.groups[best]] = best
        lost = self.pairs * (np.arange(len(costs)) > chosen[self.groups])
        by_page = np.bincount(self.pages, lost, len(self.allowed) + self.stretch - 1)
        return float(least.sum() - prices @ self.allowed), sums(by_page, self.stretch) - self.allowed


def judged(case: Case, ends: Ints) -> NDArray[np.bool_]:
    """The windows whose waits count, as in `TrialOutcome.waits`."""
    begin, end = int(case.paged.ats[0]), int(case.paged.ats[-1])
    found: NDArray[np.bool_] = (ends >= begin) & (ends < end - (end - begin) // 10)
    return found


def _waits(case: Case, ends: Ints, slacks: Ints) -> Floats:
    """How long each window waits with each slack."""
    ats, after = case.paged.ats, case.paged.highest_before()[1:]
    closed = np.searchsorted(after, ends[:, None] + slacks + 1)
    waits: Floats = ats[np.minimum(closed, len(ats) - 1)] - (ends[:, None] + 1.0)
    return waits


def sums(values: Floats, together: int) -> Floats:
    """The sums of so many neighbours."""
    found: Floats = np.convolve(values, np.ones(together), mode="valid")
    return found


def least_wait(choices: Choices, reached: float) -> float:
    """A mean wait that no choice can fall short of, as large as is found; `reached` is one that can be had."""
    prices = np.zeros(len(choices.allowed))
    best, excess = choices.at(prices)
    kept, value, direction = prices, best, excess
    hoped, in_vain = (reached * choices.windows - best) / 2, 0
    for _ in range(STEPS):
        step = np.where((excess > 0) | (prices > 0), excess, 0.0)
        length = float(step @ step)
        if length == 0 or hoped <= SMALLEST * best:
            break
        prices = np.maximum(0.0, prices + (best + hoped - value) / length * step)
        value, excess = choices.at(prices)
        in_vain += 1
        if value > best:
            best, kept, direction, in_vain = value, prices, excess, 0
        elif in_vain >= IN_VAIN:
            # Hope for less, from the best prices on.
            prices, value, excess, hoped, in_vain = kept, best, direction, hoped / 2, 0
    return best / choices.windows


def measured(case: Case) -> list[float]:
    """Mean waits in parts of that of the fixed bound that loses 1 % in all: of the policy, and the limits."""
    in_all = float(fixed(case, hindsight(case, P)).waits().mean())
    every = float(fixed(case, hindsight_in_every_stretch(case, P, STRETCH)).waits().mean())
    ours = float(run(sw.drop_ratio(P).tracker(TimeDomain.TIMESTAMP), case).waits().mean())
    limits = [least_wait(Choices.of(case, together), every) for together in TOGETHER]
    return [wait / in_all for wait in (ours, every, *limits)]


def asked(about: str | None) -> Iterator[tuple[str, str, Case]]:
    """Each case that the command line asks for: the name of its stream, its windows, and itself."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22])
    parser.add_argument("--only", help="run only the streams with this text in their names")
    parser.add_argument("--data", type=Path, default=_SHARED, help="the folder of the real streams")
    options = parser.parse_args()
    streams = list(real(options.data))
    streams += [stream for seed in options.seeds for stream in synthetic(options.seconds, seed)]
    for stream in streams:
        if options.only is None or options.only in stream.name:
            rows = stream.load()
            paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), stream.page)
            for length, slide in stream.windows:
                windows = f"{length // SECOND:,} s / {slide // SECOND:,} s"
                yield stream.name, windows, Case.of(paged, WindowSpec(length, slide))


def main() -> None:
    """Print the limits of each kind of stream, the mean over the seeds."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    for name, windows, case in asked(__doc__):
        found.setdefault((name, windows), []).append(measured(case))
    table = Table(title="Mean wait to that of the fixed bound that loses 1 % in all; limits: at least")
    limits = [f"a slack for {n} pages" if n else "a slack for each window" for n in TOGETHER]
    for name in ("stream", "windows", "drop_ratio", "bound, e.s.", *limits):
        table.add_column(name)
    for (name, windows), several in found.items():
        table.add_row(name, windows, *(f"{mean:.2f}" for mean in np.mean(several, axis=0)))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
