"""Streams of devices that fall silent: one after the other, half of them at once, or all of them for a while.

`affected` are the windows that are prodded in the minute after something has stopped. Of a stop that comes after
the prod nobody can know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.lab.arrivals import SECOND
from experiments.lab.early_kinds import SLIDE, Random
from experiments.lab.early_streams import START, Case, made

#: Seconds: how long after a change windows count as affected.
AFTER = 60
DEVICES = 12


@dataclass
class Stops:
    """A case, and the instants at which something stopped, in seconds."""

    case: Case
    at: Any

    def affected(self, prodded: Any) -> Any:
        """Whether windows that were prodded at these instants, in microseconds, were prodded soon after a stop."""
        seconds = (np.asarray(prodded) - START) / SECOND
        after = seconds[:, None] - np.asarray(self.at)[None, :]
        return ((after > 0) & (after <= AFTER)).any(axis=1)


def _devices(silent: list[tuple[float, float, int]], seconds: int, rng: Random, even: bool, late: float) -> Stops:
    """Each device sends a row in about 1.3 seconds, evenly or by chance; `silent` says which do not, and when.

    Rows of a silence are not made, or where `late` is given come that long after its end.
    """
    parts: list[tuple[Any, int]] = []
    for device in range(DEVICES):
        steps = np.full(seconds, 1.3) if even else rng.exponential(1.3, seconds)
        own = np.cumsum(steps) + rng.random()
        parts.append((own[own < seconds], device))
    times: Any = np.concatenate([t for t, _ in parts])
    sender: Any = np.concatenate([np.full(len(t), d) for t, d in parts])
    delays = rng.exponential(0.7, len(times)).clip(max=4.9)
    stays = np.ones(len(times), bool)
    for begin, end, which in silent:
        hit = (times >= begin) & (times < end) & (sender == which)
        if late:
            delays[hit] = end - times[hit] + rng.uniform(0, late, int(hit.sum()))
        else:
            stays &= ~hit
    times, delays = times[stays], delays[stays]
    slack = f"{int(delays.max()) + 1} seconds"
    case = made(times, rng.normal(100, 20, len(times)), delays, slack=slack)
    return Stops(case, sorted({begin for begin, _, _ in silent}))


def _events(windows: int, rng: Random, every: int = 600) -> Any:
    return 600 + np.arange(max((windows * SLIDE - 900) // every, 1)) * every + rng.uniform(0, 120)


def one_by_one(windows: int, rng: Random, even: bool = True) -> Stops:
    """Again and again the devices stop one after the other, each 20 seconds another one, until two are left."""
    silent = [
        (at + 20 * k, at + 300.0, device)
        for at in _events(windows, rng)
        for k, device in enumerate(rng.permutation(DEVICES)[2:])
    ]
    return _devices(silent, windows * SLIDE, rng, even, late=0)


def half_gone(windows: int, rng: Random, even: bool = True) -> Stops:
    """Seven of twelve devices stop in one instant, and come back five minutes later."""
    silent = [(at, at + 300.0, device) for at in _events(windows, rng) for device in rng.permutation(DEVICES)[:7]]
    return _devices(silent, windows * SLIDE, rng, even, late=0)


def outage(windows: int, rng: Random, even: bool = True) -> Stops:
    """Nothing comes for 40 to 100 seconds; then all that was held back comes within five seconds."""
    silent = []
    for at in _events(windows, rng):
        end = at + rng.uniform(40, 100)
        silent += [(at, end, device) for device in range(DEVICES)]
    return _devices(silent, windows * SLIDE, rng, even, late=5)


STOPS: dict[str, Callable[[int, Random], Stops]] = {
    "one by one": one_by_one,
    "one by one, by chance": lambda windows, rng: one_by_one(windows, rng, even=False),
    "half gone": half_gone,
    "half gone, by chance": lambda windows, rng: half_gone(windows, rng, even=False),
    "outage": outage,
    "outage, by chance": lambda windows, rng: outage(windows, rng, even=False),
}
