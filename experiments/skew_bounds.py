"""S1's settings, and what each of them costs: W and alpha, indirect guarantees, coarser units, groups, and t = 0.

The paper has no experiment. No Spark: rows go through the policies' trackers on a clock that is moved by hand.
"""

from __future__ import annotations

import argparse
import json
from heapq import heapify, heappop, heappush
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from disorder import show
from rich.console import Console

import slackwater as sw
from experiments.lab import arrivals as make
from experiments.lab.trial import Case, Paged, fixed, hindsight, run
from slackwater.papers.global_counter import counter_bounds
from slackwater.progress.arrival import Arrival, SourceArrivals
from slackwater.progress.bounds.heartbeat_generator import HeartbeatGenerator
from slackwater.progress.bounds.skew import SkewBounds, SkewMatrix
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.windows.spec import WindowSpec

matplotlib.use("Agg")
from matplotlib import pyplot

_RESULTS = Path(__file__).parent / "results"
SECOND = 1_000_000
WINDOWS = (5, 20, 60, 240)
ALPHAS = (0.0, 0.25, 0.5, 0.75, 0.95)
Points = list[dict[str, Any]]


def learned(seconds: int, seeds: int) -> Points:
    """Section 6: for W and alpha the mean wait and the share lost, beside the fixed bound that loses as much."""
    points: Points = []
    cases = []
    for seed in range(seeds):
        rows = make.arrivals(make.walking(2), seconds=seconds, seed=seed)
        paged = Paged.cut(rows["arrival"].to_numpy(), rows["time"].to_numpy(), SECOND)
        cases.append(Case.of(paged, WindowSpec(10 * SECOND, 10 * SECOND)))
    for window in WINDOWS:
        for alpha in ALPHAS:
            policy = sw.learned(window=f"{window} seconds", alpha=alpha)
            outcomes = [run(policy.tracker(TimeDomain.TIMESTAMP), case) for case in cases]
            wait = float(np.mean([o.waits().mean() for o in outcomes])) / SECOND
            lost = float(np.mean([o.share for o in outcomes]))
            equal = [
                fixed(case, hindsight(case, o.share)).waits().mean()
                for case, o in zip(cases, outcomes, strict=True)
            ]
            beside = float(np.mean(equal)) / SECOND
            points.append(
                {"W, s": window, "alpha": alpha, "lost, %": 100 * lost, "wait, s": wait, "fixed, s": beside}
            )
    return points


def lags(bounds: SkewMatrix, seconds: int, **settings: Any) -> float:
    """How far the heartbeat of all is behind the clock, on the average; one source sends, all others are silent.

    Rows carry the clock's time and arrive at once, so that the bounds are all that holds time back.
    """
    generator, found = HeartbeatGenerator(bounds, timeout=10**9, **settings), []
    for now in range(seconds):
        generator.arrive(0, 1, now, now)
        generator.tick(now)
        if now >= seconds // 2:
            found.append(now - generator.heartbeat.tick)
    return float(np.mean(found))


def environment(n: int, seed: int) -> SkewMatrix:
    """Bounds between any two of n sources: t and δ of up to 60 seconds, as somebody would write them down."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 60, (n, n, 2)).tolist()
    return SkewMatrix([[(0, 1) if i == j else tuple(pairs[i][j]) for j in range(n)] for i in range(n)])


def indirect(seconds: int, seeds: int) -> Points:
    """Section 3.2: the lag of the heartbeat by B, and by B*."""
    points: Points = []
    for n in (3, 5, 10, 20):
        found = {
            used: float(np.mean([lags(environment(n, s), seconds, indirect=used) for s in range(seeds)]))
            for used in (False, True)
        }
        points.append(
            {"sources": n, "B, s": found[False], "B*, s": found[True], "B* / B": found[True] / found[False]}
        )
    return points


def units(seconds: int, seeds: int) -> Points:
    """Section 5.1: fewer cells, and heartbeats by less than a unit later."""
    points: Points = []
    for unit in (1, 2, 5, 10, 30):
        lag = float(np.mean([lags(environment(5, s), seconds, unit=unit) for s in range(seeds)]))
        cells = HeartbeatGenerator(environment(5, 0), timeout=10**9, unit=unit).cells
        first = points[0]["lag, s"] if points else lag
        points.append({"unit, s": unit, "cells": cells, "lag, s": lag, "later by, s": lag - first})
    return points


def groups(seconds: int) -> Points:
    """Section 5.2: 64 sensors, deviations of 1 to 30 seconds, in m groups; the lag of a source's heartbeat."""
    rng = np.random.default_rng(0)
    n = 64
    deviation = {f"s{k:02d}": int(d) for k, d in enumerate(rng.integers(1, 30, n))}
    points: Points = []
    for most in (1, 2, 4, 8, 16, 32, None):
        tracker: Any = sw.sensors(deviation, timeout=10**9, groups=most).tracker(TimeDomain.SEQUENCE)
        numbers, found = np.random.default_rng(1), []
        for now in range(seconds):
            sends = np.flatnonzero(numbers.random(n) < 0.1)
            names = [f"s{k:02d}" for k in sends.tolist()]
            stamps = np.full(len(names), now)
            sources = SourceArrivals(names, np.ones(len(names), dtype=np.int64), stamps, stamps)
            if names:
                tracker.arrive(Arrival(len(names), 0, now, now, now, sources=sources))
            beats = tracker.by_source().ticks
            found += (now - beats[beats > MIN_TICK]).tolist()
        points.append({"groups": n if most is None else most, "lag, s": float(np.mean(found))})
    return points


def tokens(n: int, shortest: int, longest: int, ticks: int, seed: int, pauses: int) -> list[tuple[int, int, int]]:
    """Section 4.1: n sources take tokens of one counter, each asking again when it has emitted the last one.

    The first source pauses from an instant on. Gives the instant, source and token of each emission, in order.
    """
    rng, found, token = np.random.default_rng(seed), list[tuple[int, int, int]](), 0
    asks = [(int(at), source) for source, at in enumerate(rng.integers(0, longest, n))]
    heapify(asks)
    while asks[0][0] < ticks:
        at, source = heappop(asks)
        if source == 0 and at > pauses:
            continue
        emits = at + int(rng.integers(shortest, longest, endpoint=True))
        found.append((emits, source, token := token + 1))
        heappush(asks, (emits, source))
    return sorted(found)


def global_counter(ticks: int, seeds: int) -> Points:
    """Section 4.1: how long a token waits for the heartbeat, with delayed guarantees, and with t = 0 alone."""
    points: Points = []
    for n, shortest, longest in ((3, 20, 40), (3, 5, 40), (3, 1, 40), (10, 20, 40), (10, 5, 40), (10, 1, 40)):
        naive = (n - 1) * -(-longest // shortest)
        rows = [[(0, 0) if i == j else (0, naive) for j in range(n)] for i in range(n)]
        kinds = {
            "(t, 0), ms": counter_bounds({str(k): (shortest, longest) for k in range(n)}),
            "(0, δ), ms": SkewMatrix(rows, [0] * n, list(map(str, range(n)))),
        }
        for pauses, what in ((ticks, "none"), (ticks // 10, "one")):
            runs = [tokens(n, shortest, longest, ticks, seed, pauses) for seed in range(seeds)]
            waits = {k: float(np.mean([_token_waits(b, run) for run in runs])) for k, b in kinds.items()}
            about = {"sources": n, "pauses": what, "shortest, ms": shortest, "longest, ms": longest, "δ": naive}
            points.append({**about, **waits})
    return points


def _token_waits(bounds: SkewBounds, emissions: list[tuple[int, int, int]]) -> float:
    """The mean wait of a token; those that still wait at the end are left out."""
    generator, waiting, waits = HeartbeatGenerator(bounds, timeout=10**9), list[tuple[int, int]](), list[int]()
    instants = groupby(emissions, key=itemgetter(0))
    at, come = next(instants)
    for now in range(emissions[-1][0]):
        while at == now:
            for _, source, token in come:
                assert token > generator.heartbeat.tick, "a token is late"
                generator.arrive(source, 1, token, now)
                heappush(waiting, (token, now))
            at, come = next(instants)
        generator.tick(now)
        while waiting and waiting[0][0] <= generator.heartbeat.tick:
            waits.append(now - heappop(waiting)[1])
    return float(np.mean(waits))


def draw(figures: dict[str, Points], path: Path) -> None:
    """Wait against share lost for W and alpha; lag by B and B*, by units, by groups."""
    matplotlib.rcParams.update({"svg.hashsalt": "slackwater", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    figure, axes = pyplot.subplots(1, 4, figsize=(16, 4), layout="constrained")
    for window in WINDOWS:
        mine = [p for p in figures["learned"] if p["W, s"] == window]
        axes[0].plot(
            [p["lost, %"] for p in mine], [p["wait, s"] for p in mine], marker="o", label=f"W = {window} s"
        )
    best = sorted(figures["learned"], key=lambda p: p["lost, %"])
    axes[0].plot([p["lost, %"] for p in best], [p["fixed, s"] for p in best], "k--", linewidth=0.8, label="fixed")
    axes[0].set(title="learned: alpha from 0 to 0.95 on each line", xlabel="lost, %", ylabel="mean wait, s")
    for name, (axis, key, x, ys) in {
        "B and B*": (axes[1], "indirect", "sources", ("B, s", "B*, s")),
        "coarser units": (axes[2], "units", "unit, s", ("lag, s",)),
        "groups of 64 sensors": (axes[3], "groups", "groups", ("lag, s",)),
    }.items():
        for y in ys:
            axis.plot([p[x] for p in figures[key]], [p[y] for p in figures[key]], marker="o", label=y)
        axis.set(title=name, xlabel=x, ylim=(0, None))
    axes[3].set_xscale("log", base=2)
    for axis in axes:
        axis.legend()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    """Run, print, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=900, help="of each stream")
    parser.add_argument("--seeds", type=int, default=3, help="how many streams of each kind")
    parser.add_argument(
        "--out", type=Path, default=_RESULTS / "skew_bounds.json", help="where to write the figures"
    )
    options = parser.parse_args()
    console = Console(width=120)
    figures = {
        "learned": learned(options.seconds, options.seeds),
        "indirect": indirect(options.seconds, options.seeds),
        "units": units(options.seconds, options.seeds),
        "groups": groups(options.seconds),
        "global counter": global_counter(10 * options.seconds, options.seeds),
    }
    for title, points in figures.items():
        show(console, title, points)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"seconds": options.seconds, "seeds": options.seeds, **figures}, indent=1))
    draw(figures, options.out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
