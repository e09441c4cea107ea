"""The choices that S4 leaves open: over what the mean is taken, and by how much the offset moves.

Prints the tables of docs/disorder_control.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from slackwater.papers.max_delay import max_delay
from slackwater.progress.arrival import Arrival
from slackwater.progress.disorder import Disorder
from slackwater.progress.source_numbers import Ints
from slackwater.progress.time import TimeDomain
from slackwater.progress.window_losses import WindowLosses

#: The module: the room exports the function of the same name.
control = import_module("slackwater.papers.disorder_control")
ROWS = 20_000
SECOND = 1_000_000
#: Rows per second, standard deviation and maximum of the delay in seconds.
STREAMS = ((1000, 0.5, 2.0), (100, 2.0, 10.0), (5, 2.0, 10.0))


Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
#: Delays in seconds, at 1,000 rows a second.
DELAYS: dict[str, Draw] = {
    "normal": lambda rng, n: np.minimum(np.abs(rng.normal(0, 0.5, n)), 2.0),
    "uniform": lambda rng, n: rng.uniform(0, 2, n),
    "exponential": lambda rng, n: rng.exponential(1.0, n),
    "log-normal, sigma 1": lambda rng, n: rng.lognormal(0, 1, n),
    "log-normal, sigma 2": lambda rng, n: rng.lognormal(0, 2, n),
    "Pareto 2": lambda rng, n: rng.pareto(2, n),
    "Pareto 1.3": lambda rng, n: rng.pareto(1.3, n),
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
        tracker.hear(WindowLosses("q", number, last_ticks, pairs, lost))
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


def tails(seeds: Sequence[int]) -> None:
    """Shares of drops over seeds and three page sizes, while the stream goes on and with the stragglers."""
    print("| delays | DRATIO | while it goes on | runs above | with what comes after the last row | runs above |")
    print("|" + "---|" * 6)
    for name, delays in DELAYS.items():
        for percent in (1, 5):
            cells = [_cell(found, percent) for found in _shares(delays, percent, seeds)]
            print(f"| {name} | {percent}% |", *cells, flush=True)


def _shares(delays: Draw, percent: int, seeds: Sequence[int]) -> tuple[list[float], list[float]]:
    """Dropped percent of each run, up to the last row that is made and up to the last that arrives."""
    going_on: list[float] = []
    to_the_end: list[float] = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        made = np.sort(rng.integers(0, ROWS * SECOND // 1000, ROWS))
        times, arrived = delayed(made, delays(rng, ROWS))
        for found, rows in ((going_on, int(np.searchsorted(arrived, made[-1]))), (to_the_end, ROWS)):
            for page in (10, 100, 500):
                drops, _ = play(control.disorder_control(f"{percent}%"), times[:rows], arrived[:rows], page)
                found.append(100 * drops / rows)
    return going_on, to_the_end


def _cell(found: list[float], percent: int) -> str:
    above = sum(share > percent for share in found)
    return f"{min(found):.2f} to {max(found):.2f} % | {above or 'none'} of {len(found)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many streams of each kind the last table has")
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--only-tails", action="store_true", help="the last table alone")
    options = parser.parse_args()
    if not options.only_tails:
        means()
        print()
        steps()
        print()
    tails(range(options.first_seed, options.first_seed + options.seeds))
