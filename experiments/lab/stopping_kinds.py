"""Kinds of streams in which the world stops: devices that stop, half of the sources gone, outages.

Each function gives a case, and the stretches of time in which windows differ from earlier ones, in microseconds.
Choose nothing with the kinds of `HELD_OUT_STOPS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.lab.arrivals import SECOND
from experiments.lab.early_kinds import SLIDE, Random
from experiments.lab.early_streams import START, Case, made, spread_out

#: Seconds: up to this time after a change, a prodded window of 30 seconds may have rows from before the change.
AFTER = 40
#: Begin and end of each stretch, in microseconds.
Stretches = list[tuple[int, int]]
Stopping = Callable[[int, Random], tuple[Case, Stretches]]


def _stretch(begin: float, end: float) -> tuple[int, int]:
    return START + int(begin * SECOND), START + int(end * SECOND)


def _quick(size: int, rng: Random) -> Any:
    return rng.exponential(0.7, size).clip(max=4.9)


def one_by_one(windows: int, rng: Random) -> tuple[Case, Stretches]:
    """Eight devices send a row a second; from a half on they stop, one after the other, and come back together."""
    seconds, begin = windows * SLIDE, windows * SLIDE // 3
    stops = begin + np.cumsum(rng.integers(50, 200, 8))
    back = int(stops[-2]) + 300
    times = []
    for device, stop in enumerate(stops):
        ticks = np.arange(0, seconds, 1.0) + device / 8
        times.append(ticks if device == 7 else ticks[(ticks < stop) | (ticks > back)])
    rows = np.sort(np.concatenate(times))
    values = rng.normal(500, 100, len(rows))
    changes = [*stops[:-1].tolist(), back]
    return made(rows, values, _quick(len(rows), rng)), [_stretch(at, at + AFTER) for at in changes]


def half_gone(windows: int, rng: Random, shares: tuple[float, float] = (0.5, 0.5)) -> tuple[Case, Stretches]:
    """Eight sources of 2.5 rows a second; about each hundred windows half of them go, and come back later."""
    seconds, at, rates, changes = windows * SLIDE, 600.0, np.full((8, windows * SLIDE), 2.5), []
    while at < seconds - 600:
        away = rng.permutation(8)[: round(8 * rng.uniform(*shares))]
        back = at + float(rng.integers(200, 600))
        rates[away, int(at) : int(back)] = 0
        changes += [int(at), int(back)]
        at = back + float(rng.integers(300, 1_000))
    times = spread_out(rates.sum(axis=0), rng)
    values = rng.normal(500, 100, len(times))
    return made(times, values, _quick(len(times), rng)), [_stretch(c, c + AFTER) for c in changes]


def outage(windows: int, rng: Random) -> tuple[Case, Stretches]:
    """20 rows a second; about each hundred windows nothing arrives for a while, and then all that was held back."""
    times = spread_out(np.full(windows * SLIDE, 20.0), rng)
    delays, at, spans = _quick(len(times), rng), 600.0, []
    while at < windows * SLIDE - 600:
        length = float(rng.integers(40, 300))
        held = (times >= at) & (times < at + length)
        delays[held] = at + length - times[held] + rng.uniform(0, length / 10, held.sum())
        spans.append(_stretch(at, at + length + 20))
        at += length + float(rng.integers(300, 1_000))
    return made(times, rng.normal(500, 100, len(times)), delays, slack="5 seconds"), spans


def one_source_late(windows: int, rng: Random) -> tuple[Case, Stretches]:
    """Two sources; one sends nothing for a while: either it makes no rows then, or it sends them all later."""
    quick = spread_out(np.full(windows * SLIDE, 8.0), rng)
    slow = spread_out(np.full(windows * SLIDE, 12.0), rng)
    delays, at, spans, keep = _quick(len(slow), rng), 700.0, [], np.ones(len(slow), bool)
    while at < windows * SLIDE - 600:
        length = float(rng.integers(60, 200))
        away = (slow >= at) & (slow < at + length)
        if rng.random() < 0.5:
            keep &= ~away
        else:
            delays[away] = at + length - slow[away] + rng.uniform(0, 5, away.sum())
        spans.append(_stretch(at, at + length + 30))
        at += length + float(rng.integers(300, 1_000))
    times, late = np.concatenate([quick, slow[keep]]), np.concatenate([_quick(len(quick), rng), delays[keep]])
    order = np.argsort(times)
    values = rng.normal(500, 100, len(times))
    return made(times[order], values, late[order], slack="5 seconds"), spans


STOPS: dict[str, Stopping] = {
    "one by one": one_by_one,
    "half gone": half_gone,
    "outage": outage,
}
HELD_OUT_STOPS: dict[str, Stopping] = {
    "three in four gone": lambda windows, rng: half_gone(windows, rng, (0.6, 0.9)),
    "one source late or gone": one_source_late,
}
