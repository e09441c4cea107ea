"""The choices that S4 leaves open: over what the mean is taken, and by how much the offset moves.

Prints the tables of docs/disorder_control.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Disorder
from slackwater.progress.drop_ratio import disorder_control as control
from slackwater.progress.drop_ratio.max_delay import max_delay
from slackwater.progress.report import Report
from slackwater.progress.sources import Ints
from slackwater.progress.time import TimeDomain

ROWS = 20_000
SECOND = 1_000_000
#: Rows per second, standard deviation and maximum of the delay in seconds.
STREAMS = ((1000, 0.5, 2.0), (100, 2.0, 10.0), (5, 2.0, 10.0))


#: Delays in seconds, at 1,000 rows a second.
DELAYS: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "normal": lambda rng, n: np.minimum(np.abs(rng.normal(0, 0.5, n)), 2.0),
    "exponential": lambda rng, n: rng.exponential(1.0, n),
    "log-normal": lambda rng, n: rng.lognormal(0, 1, n),
    "Pareto 2.5": lambda rng, n: rng.pareto(2.5, n),
    "Pareto 1.5": lambda rng, n: rng.pareto(1.5, n),
    "Pareto 1.1": lambda rng, n: rng.pareto(1.1, n),
}


def stream(rate: int, deviation: float, most: float, rows: int = ROWS) -> tuple[Ints, Ints]:
    """Times and instants of arrival, in the order of arrival."""
    rng = np.random.default_rng(0)
    times = np.sort(rng.integers(0, rows * SECOND // rate, rows))
    return delayed(times, np.minimum(np.abs(rng.normal(0, deviation, rows)), most))


def delayed(times: Ints, delays: NDArray[np.float64]) -> tuple[Ints, Ints]:
    """The same rows in the order of arrival."""
    arrived = times + (delays * SECOND).astype(np.int64)
    order = np.argsort(arrived, kind="stable")
    return times[order], arrived[order]


def play(policy: Disorder, times: Ints, arrived: Ints, page: int) -> tuple[int, float]:
    """Drops, and the rows above the heartbeat on the average of the second half."""
    tracker = policy.tracker(TimeDomain.TIMESTAMP)
    drops, slacks, held = 0, [], np.zeros(0, dtype=np.int64)
    for number, begin in enumerate(range(0, len(times), page)):
        rows = times[begin : begin + page]
        last_ticks, pairs = np.unique(rows, return_counts=True)
        lost = int((rows <= tracker.heartbeat.tick).sum())
        drops += lost
        low, high, total = int(rows.min()), int(rows.max()), int(rows.sum())
        tracker.arrive(Arrival(len(rows), 0, low, high, int(arrived[begin : begin + page][-1]), total))
        tracker.hear(Report("q", number, last_ticks, pairs, lost))
        held = np.concatenate([held, rows])
        held = held[held > tracker.heartbeat.tick]
        slacks.append(len(held))
    return drops, float(np.mean(slacks[len(slacks) // 2 :]))


def means() -> None:
    recent = (0, 8, 16, 32, 64, 256, 2**62)
    print("| rows/s | sd, max | page |", *(f"{'all' if r > ROWS else r} |" for r in recent), "max-delay |")
    print("|" + "---|" * (len(recent) + 4))
    for rate, deviation, most in STREAMS:
        times, arrived = stream(rate, deviation, most)
        for page in (1, 10, 100, 1000):
            cells = []
            for control.RECENT in recent:
                cells.append(play(control.disorder_control(), times, arrived, page))
            cells.append(play(max_delay(), times, arrived, page))
            shown = " | ".join(f"{drops:,} / {slack:,.0f}" for drops, slack in cells)
            print(f"| {rate:,} | {deviation:g} s, {most:g} s | {page:,} | {shown} |", flush=True)
    control.RECENT = 32


def steps() -> None:
    shares = ("1%", "2%", "5%", "10%")
    print("| STEP |", *(f"DRATIO {s} |" for s in shares))
    print("|" + "---|" * (len(shares) + 1))
    rows = 5 * ROWS
    times, arrived = stream(*STREAMS[0], rows=rows)
    for control.STEP in (4, 8, 16, 32):
        cells = [play(control.disorder_control(s), times, arrived, page=100) for s in shares]
        print(
            f"| {control.STEP} |", *(f"{100 * d / rows:.2f} % / {slack:,.0f} |" for d, slack in cells), flush=True
        )
    control.STEP = 8


def tails() -> None:
    """Shares of drops over three seeds and three page sizes, while the stream goes on and with the stragglers."""
    print("| delays | DRATIO | while it goes on | with what comes after the last row |")
    print("|---|---|---|---|")
    for name, delays in DELAYS.items():
        for share in ("1%", "5%"):
            found: dict[bool, list[float]] = {True: [], False: []}
            for seed in range(3):
                rng = np.random.default_rng(seed)
                made = np.sort(rng.integers(0, ROWS * SECOND // 1000, ROWS))
                times, arrived = delayed(made, delays(rng, ROWS))
                for cut, rows in ((True, int(np.searchsorted(arrived, made[-1]))), (False, ROWS)):
                    for page in (10, 100, 500):
                        drops, _ = play(control.disorder_control(share), times[:rows], arrived[:rows], page)
                        found[cut].append(100 * drops / rows)
            shown = " | ".join(f"{min(f):.2f} to {max(f):.2f} %" for f in found.values())
            print(f"| {name} | {share} | {shown} |", flush=True)


if __name__ == "__main__":
    means()
    print()
    steps()
    print()
    tails()
