"""Arrival generators: streams of (arrival, time, source) whose rows come late in known ways; one seed, one stream.

Rows are made at a steady or bursty rate and each is delayed by a draw from a distribution, which may change in
mid-stream. Times are microseconds; a frame lies in the order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from slackwater.progress.source_numbers import Floats

SECOND = 1_000_000

#: Gives the delays, in seconds, of rows made at these instants (seconds from the start of the stream).
Delay = Callable[[np.random.Generator, Floats], Floats]


def none() -> Delay:
    """Rows come at once: a sorted stream."""
    return lambda rng, made: np.zeros(len(made))


def exponential(mean: float) -> Delay:
    """Exponential delays of a mean in seconds."""
    return lambda rng, made: rng.exponential(mean, len(made))


def uniform(longest: float) -> Delay:
    """Delays anywhere between nothing and the longest."""
    return lambda rng, made: rng.uniform(0, longest, len(made))


def pareto(scale: float, shape: float = 2.5) -> Delay:
    """Heavy-tailed delays (Lomax): P(delay > x) = (1 + x / scale) ** -shape."""
    return lambda rng, made: scale * rng.pareto(shape, len(made))


def lognormal(median: float, sigma: float = 1.0) -> Delay:
    """Log-normal delays, as of many networks."""
    return lambda rng, made: median * rng.lognormal(0, sigma, len(made))


def mixed(delays: Delay, others: Delay, share: float) -> Delay:
    """A share of the rows, chosen by chance, is delayed like `others`."""

    def draw(rng: np.random.Generator, made: Floats) -> Floats:
        return np.where(rng.random(len(made)) < share, others(rng, made), delays(rng, made))

    return draw


def regimes(*parts: tuple[float, Delay]) -> Delay:
    """Another distribution from each instant on: `regimes((0, exponential(1)), (600, exponential(5)))`."""

    def draw(rng: np.random.Generator, made: Floats) -> Floats:
        delays = np.zeros(len(made))
        for since, delay in parts:
            delays = np.where(made >= since, delay(rng, made), delays)
        return delays

    return draw


def walking(mean: float, step: float = 0.03) -> Delay:
    """Exponential delays whose mean goes up or down by chance, each second by about the share `step`."""

    def draw(rng: np.random.Generator, made: Floats) -> Floats:
        second = made.astype(np.int64)
        walk = np.cumsum(rng.normal(0, step, int(second.max(initial=0)) + 1))
        return rng.exponential(mean, len(made)) * np.exp(walk[second])

    return draw


def seasons(mean: float, period: float, depth: float = 0.8) -> Delay:
    """Exponential delays whose mean rises and falls with a period in seconds, by the share `depth`."""
    return lambda rng, made: rng.exponential(mean, len(made)) * (1 + depth * np.sin(2 * np.pi * made / period))


def outages(delay: Delay, every: float, lasting: float) -> Delay:
    """What is made in an outage comes after its end, beside the new rows, within a tenth of its length."""

    def draw(rng: np.random.Generator, made: Floats) -> Floats:
        phase = made % every
        held = phase > every - lasting
        return delay(rng, made) + np.where(held, every - phase + rng.uniform(0, lasting / 10, len(made)), 0.0)

    return draw


def arrivals(
    delay: Delay,
    *,
    seconds: float = 1_000,
    rate: float = 100,
    seed: int = 0,
    sources: int = 50,
    slow: Delay | None = None,
    bursts: tuple[float, float] | None = None,
    gaps: tuple[float, float] | None = None,
    zipf: float | None = None,
    offset: float = 0,
) -> pl.DataFrame:
    """A stream of `rate` rows a second as columns arrival, time (int64 microseconds) and source.

    With `slow`, the last of the sources has delays of its own. With `bursts=(every, factor)`, the first tenth of
    every so many seconds brings `factor` times the rows of the rest. With `gaps=(every, lasting)`, nothing is made
    in the last part of every so many seconds. With `zipf`, the k-th source sends k ** -zipf times as much as the
    first, and the delays of each are longer or shorter by a factor of its own. With `offset`, each source's clock
    is wrong by up to so many seconds, ahead or behind.

    >>> arrivals(exponential(2), seconds=10, rate=5, seed=1).select("arrival", "time").row(0)
    (1895951, 395928)
    """
    rng = np.random.default_rng(seed)
    made = np.sort(rng.uniform(0, seconds, rng.poisson(seconds * rate)))
    if bursts is not None:
        every, factor = bursts
        kept = (made % every < every / 10) | (rng.random(len(made)) < 1 / factor)
        made = made[kept]
    if gaps is not None:
        made = made[made % gaps[0] < gaps[0] - gaps[1]]
    if zipf is None:
        source = rng.integers(0, sources, len(made))
        delays = delay(rng, made)
    else:
        weights = np.arange(1, sources + 1) ** -zipf
        source = rng.choice(sources, len(made), p=weights / weights.sum())
        delays = delay(rng, made) * rng.lognormal(0, 1, sources)[source]
    if slow is not None:
        delays = np.where(source == sources - 1, slow(rng, made), delays)
    time = (made * SECOND).astype(np.int64)
    arrival = time + (delays * SECOND).astype(np.int64)
    if offset:
        time = time + (rng.uniform(-offset, offset, sources) * SECOND).astype(np.int64)[source]
    order = np.argsort(arrival, kind="stable")
    # What would come after the end is left out: a stream that only brings stragglers is another stream.
    order = order[: np.count_nonzero(arrival < seconds * SECOND)]
    names = np.char.add("s", source.astype(str))
    return pl.DataFrame({"arrival": arrival[order], "time": time[order], "source": names[order]})
