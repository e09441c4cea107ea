"""Kinds of streams to judge early answers on; `experiments/early.py` says how good they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.lab.arrivals import SECOND
from experiments.lab.early_streams import Case, bursts, made, spread_out

Random = np.random.Generator
#: Windows of 30 seconds each 10 seconds, unless a kind says otherwise.
SLIDE = 10


def _delays(size: int, rng: Random, mean: float = 0.7) -> Any:
    return rng.exponential(mean, size).clip(max=4.9)


def _plain(rates: Any, rng: Random, **how: Any) -> Case:
    times = spread_out(rates, rng)
    return made(times, rng.normal(500, 100, len(times)), _delays(len(times), rng), **how)


def steady(windows: int, rng: Random) -> Case:
    """20 rows a second."""
    return _plain(np.full(windows * SLIDE, 20.0), rng)


def walk(windows: int, rng: Random) -> Case:
    """The rate walks: by a tenth each slide, and slowly back to 20 rows a second."""
    return _plain(20 * np.exp(np.repeat(_walks(windows, rng), SLIDE)), rng)


def _walks(windows: int, rng: Random, step: float = 0.1, back: float = 0.02) -> Any:
    level, levels = 0.0, []
    for move in rng.normal(0, step, windows):
        level = (1 - back) * level + move
        levels.append(level)
    return np.array(levels)


def regime(windows: int, rng: Random) -> Case:
    """Rate and delays change together, about each hundred windows, between three regimes."""
    ends = np.cumsum(rng.integers(50, 150, windows // 50 + 2)) * SLIDE
    which = np.searchsorted(ends, np.arange(windows * SLIDE), side="right") % 3
    times = spread_out(np.array([10.0, 40.0, 20.0])[which], rng)
    means = np.array([0.3, 0.6, 2.0])[which[times.astype(np.int64)]]
    return made(times, rng.normal(500, 100, len(times)), rng.exponential(means).clip(max=4.9))


def gaps(windows: int, rng: Random) -> Case:
    """20 rows a second, and silence of 20 to 600 seconds about each sixty windows."""
    rates, at = np.full(windows * SLIDE, 20.0), 0
    while at < len(rates):
        at += int(rng.exponential(60 * SLIDE)) + 10 * SLIDE
        length = int(rng.integers(20, 600))
        rates[at : at + length] = 0
        at += length
    return _plain(rates, rng)


def season(windows: int, rng: Random, rate: float = 18.0) -> Case:
    """Five times the rate at noon, windows of 30 minutes each 10 minutes: 144 windows a day; rows a minute."""
    minutes = windows * 10
    of_day = 2 * np.pi * np.arange(minutes) / 1440
    times = spread_out(rate * (1 - 2 / 3 * np.cos(of_day)), rng) * 60
    values = rng.normal(500, 100, len(times))
    how = {"range": "30 minutes", "slide": "10 minutes", "slack": "5 minutes", "page": 150 * SECOND}
    return made(times, values, _delays(len(times), rng) * 60, **how)


def _by_group(rates: Any, rng: Random, delay: Any) -> Case:
    """Rates by group and second; values and delays of each group's own."""
    drawn = [spread_out(r, rng) for r in rates]
    names = np.repeat(np.arange(len(rates)), [len(d) for d in drawn])
    times = np.concatenate(drawn)
    values = rng.normal(100, 20, len(times)) * (1 + names % 7)
    return made(times, values, delay(names, rng), names)


def zipf(windows: int, rng: Random) -> Case:
    """40 groups with Zipf frequencies, 24 rows a second in all."""
    return _by_group(_zipf(windows), rng, lambda names, r: _delays(len(names), r))


def _zipf(windows: int) -> Any:
    shares = 1 / np.arange(1, 41)
    return np.repeat(24 * (shares / shares.sum())[:, None], windows * SLIDE, axis=1)


def drifting(windows: int, rng: Random) -> Case:
    """The same groups, each with a rate that walks on its own."""
    moves = np.stack([_walks(windows, rng) for _ in range(40)])
    return _by_group(_zipf(windows) * np.exp(np.repeat(moves, SLIDE, axis=1)), rng, lambda n, r: _delays(len(n), r))


def tails(windows: int, rng: Random) -> Case:
    """Values and delays with heavy tails."""
    times = spread_out(np.full(windows * SLIDE, 20.0), rng)
    values = 10 * (1 + rng.pareto(2.2, len(times)))
    return made(times, values, rng.lognormal(-0.5, 1.0, len(times)).clip(max=4.9))


def offsets(windows: int, rng: Random) -> Case:
    """Eight sources whose rows come 0 to 4 seconds late, each always by about the same."""
    rates = np.repeat(rng.uniform(0.5, 5, 8)[:, None], windows * SLIDE, axis=1)
    return _by_group(rates, rng, lambda names, r: (names * 0.55 + r.exponential(0.2, len(names))).clip(max=4.9))


def correlated(windows: int, rng: Random) -> Case:
    """The later a row, the larger its value."""
    times = spread_out(np.full(windows * SLIDE, 10.0), rng)
    delays = rng.exponential(8, len(times)).clip(max=59.0)
    return made(times, rng.normal(200, 40, len(times)) + 30 * delays, delays, slack="60 seconds")


KINDS: dict[str, Callable[[int, Random], Case]] = {
    "steady": steady,
    "walk": walk,
    "regime": regime,
    "gaps": gaps,
    "season": season,
    "dense season": lambda windows, rng: season(3 * windows, rng, rate=60.0),
    "zipf": zipf,
    "drifting": drifting,
    "tails": tails,
    "offsets": offsets,
    "correlated": correlated,
    "bursts": lambda windows, rng: bursts(windows * SLIDE, rng),
}
