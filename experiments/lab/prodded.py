"""The streams of S5's experiments (chapter 4): prods come between the rows of a window and its punctuation.

Frames have the columns arrival, time (int64 microseconds) and value, and lie in the order of arrival. `punctuated`
adds S5's punctuations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from experiments.lab.arrivals import SECOND, Delay, none
from experiments.lab.arrivals import uniform as delayed
from slackwater.progress.source_numbers import Floats, Ints

#: Gives so many values.
Values = Callable[[np.random.Generator, int], Ints | Floats]


def uniform_values(most: int = 999) -> Values:
    """Whole numbers from 0 to the most, each as likely."""
    return lambda rng, n: rng.integers(0, most + 1, n)


def normal_values(deviation: float, mean: float = 500.0) -> Values:
    """Normal deviates."""
    return lambda rng, n: rng.normal(mean, deviation, n)


def rising_values(longest: int = 300) -> Values:
    """Runs of rising numbers, each of any length up to the longest, as of counters: hard for an early max."""

    def draw(rng: np.random.Generator, n: int) -> Ints:
        lengths = rng.integers(1, longest + 1, n)
        begins = np.append(0, np.cumsum(lengths))
        place = np.arange(n)
        values: Ints = place - begins[np.searchsorted(begins, place, side="right") - 1]
        return values

    return draw


def reports(
    seconds: int = 7_200, *, every: float = 20.0, longest: float = 20.0, mean: float = 12.0, seed: int = 0
) -> pl.DataFrame:
    """S5 section 4.3.1: a sensor's traffic volume each 20 seconds, delivered up to 20 seconds later.

    >>> reports(60, seed=1).columns
    ['arrival', 'time', 'value']
    """
    rng = np.random.default_rng(seed)
    made = np.arange(0, seconds, every)
    # Traffic swells and ebbs over an hour.
    volume = rng.poisson(mean * (1 + 0.4 * np.sin(2 * np.pi * made / 3_600)))
    return _delivered(rng, made, volume, delayed(longest))


def steady(
    seconds: int = 1_000,
    *,
    rate: float = 500 / 30,
    values: Values | None = None,
    delay: Delay | None = None,
    seed: int = 0,
) -> pl.DataFrame:
    """S5 section 4.3.1: rows at random instants, about 500 in 30 seconds; without `delay`, up to 0.5 s delayed."""
    rng = np.random.default_rng(seed)
    made = np.sort(rng.uniform(0, seconds, rng.poisson(seconds * rate)))
    return _delivered(rng, made, (values or uniform_values())(rng, len(made)), delay or delayed(0.5))


def dense(
    seconds: int = 2_000, *, density: float = 0.95, values: Values | None = None, seed: int = 0
) -> pl.DataFrame:
    """S5 section 4.4: times are whole seconds; with probability `density` the next row has the time of the last.

    The rows of a second come during that second.

    >>> rows = dense(1000, seed=3)
    >>> 18_000 < len(rows) < 22_000, rows["time"].n_unique()
    (True, 1000)
    """
    rng = np.random.default_rng(seed)
    counts = rng.geometric(1 - density, seconds)
    made = np.repeat(np.arange(seconds, dtype=np.float64), counts)
    return _delivered(rng, made, (values or uniform_values())(rng, len(made)), lambda r, m: r.uniform(0, 1, len(m)))


#: Begin and end in seconds and rows a second: a short burst with a lull behind it, and two sustained ones.
BURSTS = ((20.0, 22.0, 250.0), (62.0, 75.0, 115.0), (110.0, 120.0, 120.0))


def bursty(
    seconds: int = 160,
    *,
    rate: float = 75.0,
    bursts: tuple[tuple[float, float, float], ...] = BURSTS,
    period: float = 160.0,
    values: Values | None = None,
    seed: int = 0,
) -> pl.DataFrame:
    """Like S5 Figure 4.4: rows at a rate, and bursts (begin, end, rate) in each period; none is delayed."""
    rng = np.random.default_rng(seed)
    made = [rng.uniform(0, seconds, rng.poisson(seconds * rate))]
    for start in np.arange(0, seconds, period):
        for begin, end, most in bursts:
            made.append(start + rng.uniform(begin, end, rng.poisson((end - begin) * max(0.0, most - rate))))
    times = np.sort(np.concatenate(made))
    return _delivered(rng, times, (values or uniform_values())(rng, len(times)), none())


def _delivered(rng: np.random.Generator, made: Floats, values: Ints | Floats, delay: Delay) -> pl.DataFrame:
    time = (made * SECOND).astype(np.int64)
    arrival = time + (delay(rng, made) * SECOND).astype(np.int64)
    return pl.DataFrame({"arrival": arrival, "time": time, "value": values}).sort("arrival", maintain_order=True)


def punctuated(rows: pl.DataFrame, every: int) -> pl.DataFrame:
    """With a column `upto`, as S5 preprocesses: a punctuation behind each `every` of time, and all of them true.

    It rides on the row with which all earlier ones have come, and one from beyond.

    >>> punctuated(pl.DataFrame({"arrival": [0, 1, 2, 3], "time": [1, 12, 9, 21]}), 10)["upto"].to_list()
    [None, None, 9, 19]
    """
    slots = rows["time"].to_numpy() // every
    low = int(slots.min())
    slots = slots - low
    places, count = np.arange(len(rows)), int(slots.max()) + 1
    last, first = np.full(count, -1), np.full(count, len(rows))
    np.maximum.at(last, slots, places)
    np.minimum.at(first, slots, places)
    behind = np.maximum.accumulate(last)[:-1]
    beyond = np.minimum.accumulate(first[::-1])[::-1][1:]
    upto = np.full(len(rows), np.iinfo(np.int64).min)
    np.maximum.at(upto, np.maximum(behind, beyond), (low + 1 + np.arange(count - 1)) * every - 1)
    said = pl.Series("upto", upto)
    return rows.with_columns(pl.when(said > np.iinfo(np.int64).min).then(said).alias("upto"))
