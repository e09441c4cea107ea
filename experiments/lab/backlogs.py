"""Streams whose rows come late in backlogs: a source is out of reach for a while, then sends all that it holds.

The sources differ: each sends between 0.005 and 0.5 rows a second, so backlogs have sizes over three orders.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from experiments.lab.arrivals import SECOND
from slackwater.progress.source_numbers import Floats

Random = np.random.Generator


def tunnels(seconds: float, rng: Random, vehicles: int = 1_000) -> pl.DataFrame:
    """Vehicles, each in a tunnel for 10 to 45 seconds about each five minutes."""
    away = [_away(seconds, rng, 300, lambda: rng.uniform(10, 45)) for _ in range(vehicles)]
    return _sent(seconds, rng, away)


def ferries(seconds: float, rng: Random, lines: int = 12, vehicles: int = 1_000) -> pl.DataFrame:
    """Vehicles, some of them on ferries: all of a crossing of 2 to 8 minutes come back at once."""
    crossings = np.vstack([_away(seconds, rng, 600, lambda: rng.uniform(120, 480)) for _ in range(lines)])
    away = []
    for _ in range(vehicles):
        mine = crossings[rng.random(len(crossings)) < 0.004]
        away.append(mine[mine[:, 0].argsort()])
    return _sent(seconds, rng, away)


def cellars(seconds: float, rng: Random, phones: int = 1_000) -> pl.DataFrame:
    """Phones, each in a cellar for 1 to 1,000 seconds about each two hours."""
    away = [_away(seconds, rng, 7_200, lambda: 10 ** rng.uniform(0, 3)) for _ in range(phones)]
    return _sent(seconds, rng, away)


def populations(seconds: float, rng: Random) -> pl.DataFrame:
    """A third of each of them."""
    parts = [
        kind(seconds, rng, **{who: 333})
        for kind, who in ((tunnels, "vehicles"), (ferries, "vehicles"), (cellars, "phones"))
    ]
    named = [
        part.with_columns(pl.format("{}.{}", pl.lit(n), "source").alias("source")) for n, part in enumerate(parts)
    ]
    return pl.concat(named).sort("arrival", maintain_order=True)


def _away(seconds: float, rng: Random, every: float, length: Callable[[], float]) -> Floats:
    """When a source is out of reach: beginnings and ends."""
    spans, at = [], rng.exponential(every) - every / 2
    while at < seconds:
        end = at + length()
        spans.append((at, end))
        at = end + rng.exponential(every)
    return np.array(spans).reshape(-1, 2)


def _sent(seconds: float, rng: Random, away: list[Floats]) -> pl.DataFrame:
    """The rows of these sources, as columns arrival, time and source."""
    made, came, names = [], [], []
    for source, spans in enumerate(away):
        times = np.sort(rng.uniform(0, seconds, rng.poisson(seconds * 0.005 * 100 ** rng.random())))
        which = np.searchsorted(spans[:, 0], times, side="right")
        back = np.append(-np.inf, np.maximum.accumulate(spans[:, 1]) if len(spans) else [])[which]
        # A backlog is sent within two seconds.
        came.append(
            np.where(times < back, back + rng.uniform(0, 2, len(times)), times) + rng.exponential(0.4, len(times))
        )
        made.append(times)
        names.append(np.full(len(times), f"s{source}"))
    arrival, time = np.concatenate(came), np.concatenate(made)
    order = np.argsort(arrival, kind="stable")
    order = order[: np.count_nonzero(arrival < seconds)]
    rows = {"arrival": (arrival[order] * SECOND).astype(np.int64), "time": (time[order] * SECOND).astype(np.int64)}
    return pl.DataFrame({**rows, "source": np.concatenate(names)[order]})


KINDS: dict[str, Callable[[float, Random], pl.DataFrame]] = {
    "tunnels of many": tunnels,
    "ferries": ferries,
    "cellars": cellars,
    "populations": populations,
}


def joining(seed: int, seconds: float = 300, rate: float = 10) -> pl.DataFrame:
    """Ten sources that join one after the other, every five seconds; the clocks of two are 15 to 30 s ahead."""
    rng = np.random.default_rng(seed)
    ahead = rng.permutation([*rng.uniform(15, 30, 2), *[0.0] * 8])
    parts = []
    for source, by in enumerate(ahead.tolist()):
        made = np.sort(rng.uniform(5 * source, seconds, rng.poisson((seconds - 5 * source) * rate)))
        came = made + rng.exponential(0.3, len(made))
        parts.append(pl.DataFrame({"arrival": came, "time": made + by, "source": [f"s{source}"] * len(made)}))
    rows = pl.concat(parts).sort("arrival").filter(pl.col("arrival") < seconds)
    return rows.with_columns((pl.col("arrival", "time") * SECOND).cast(pl.Int64))
