"""Streams to measure early answers on, S5's generator (section 4.4) among them, and a run of one by a query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from experiments.lab.arrivals import SECOND
from slackwater.estimates.early import Early
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.time import TimeDomain
from slackwater.testing.script import Script, arrow_plan

START = 1_700_000_000 * SECOND
AGGREGATES = {"n": "count(*)", "total": "sum(v)", "mean": "avg(v)", "top": "max(v)"}


@dataclass
class Case:
    """A stream in the order of arrival (t, v, perhaps g), the instants of arrival, and a window over it."""

    rows: pl.DataFrame
    arrived: np.ndarray[Any, Any]
    range: str = "30 seconds"
    slide: str = "10 seconds"
    slack: str = "5 seconds"
    page: int = 5 * SECOND
    group_by: tuple[str, ...] = ()

    def pages(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Rows that arrived within a page's length, and when it ended."""
        number = -(-self.arrived // self.page)
        cuts = np.flatnonzero(np.diff(number)) + 1
        begins = [0, *cuts.tolist()]
        for begin, end in zip(begins, [*cuts.tolist(), len(number)], strict=True):
            yield int(number[begin]) * self.page, self.rows[begin:end]


def play(case: Case, early: Early, aggregates: dict[str, str] | None = None) -> Script:
    """Run a case through one query."""
    wanted: dict[str, Any] = dict(aggregates or AGGREGATES)
    plan = arrow_plan(
        case.rows.head(1),
        case.range,
        case.slide,
        group_by=case.group_by,
        domain=TimeDomain.TIMESTAMP,
        disorder=bounded(case.slack),
        **wanted,
    )
    script = Script(plan, early=early)
    for at, rows in case.pages():
        script.until(at).page(rows)
    return script.drain()


def made(times: Any, values: Any, delays: Any, groups: Any = None, **how: Any) -> Case:
    """A case from times and delays in seconds."""
    t = START + np.round(np.asarray(times) * SECOND).astype(np.int64)
    arrived = t + np.round(np.asarray(delays) * SECOND).astype(np.int64)
    order = np.argsort(arrived, kind="stable")
    columns: dict[str, Any] = {"t": t[order], "v": np.asarray(values)[order]}
    if groups is not None:
        columns["g"], how["group_by"] = np.asarray(groups)[order], ("g",)
    return Case(pl.DataFrame(columns), arrived[order], **how)


def dense(seconds: int, rng: np.random.Generator, values: str = "uniform", **how: Any) -> Case:
    """S5's generator at 95 %: after a row of second t comes one of t, or with 5 % of t + 1; delays to 0.5 s."""
    counts = rng.geometric(0.05, seconds)
    times = np.repeat(np.arange(seconds), counts)
    size = len(times)
    drawn = rng.integers(0, 1000, size) if values == "uniform" else np.round(rng.normal(500, 100, size))
    return made(times, drawn.astype(np.int64), rng.uniform(0, 0.5, size), **how)


def spread_out(rates: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Times of independent rows, anywhere in their second."""
    seconds = np.repeat(np.arange(len(rates)), rng.poisson(rates))
    return np.sort(seconds + rng.random(len(seconds)))


def bursts(seconds: int, rng: np.random.Generator) -> Case:
    """A quiet stream with bursts of ten times its rate, some seconds long, about one in two minutes."""
    rates = np.full(seconds, 10.0)
    for begin in np.flatnonzero(rng.random(seconds) < 1 / 120):
        rates[begin : begin + rng.integers(2, 15)] = 100.0
    times = spread_out(rates, rng)
    return made(times, rng.gamma(2, 50, len(times)), rng.exponential(0.7, len(times)).clip(max=4.9))


def rhythm(seconds: int, rng: np.random.Generator) -> Case:
    """A daily rhythm: the rate moves between 2 and 38 rows a second over 2,000 seconds."""
    rates = 20 + 18 * np.sin(np.arange(seconds) * 2 * np.pi / 2000)
    times = spread_out(rates, rng)
    return made(times, rng.normal(500, 100, len(times)), rng.exponential(0.7, len(times)).clip(max=4.9))


def change(seconds: int, rng: np.random.Generator) -> Case:
    """Half-way the rate trebles and delays become four times as long."""
    late = np.arange(seconds) >= seconds // 2
    times = spread_out(np.where(late, 60.0, 20.0), rng)
    means = np.where(times >= seconds // 2, 1.2, 0.3)
    return made(times, rng.normal(500, 100, len(times)), rng.exponential(means).clip(max=4.9))


def groups(seconds: int, rng: np.random.Generator) -> Case:
    """Ten groups from 0.3 to 75 rows a second, with values and delays of their own."""
    sizes = 0.3 * 1.85 ** np.arange(10)
    drawn = [spread_out(np.full(seconds, s), rng) for s in sizes]
    names = np.repeat(np.arange(10), [len(d) for d in drawn])
    times = np.concatenate(drawn)
    values = rng.normal(100, 10, len(times)) * 3.0**names
    return made(times, values, rng.exponential(0.2 + 0.1 * names).clip(max=4.9), names)


def ideal(case: Case, missing: float) -> float:
    """Accuracy for count of an answer that knows the true mean of the rows to come: nobody can do much better."""
    second = case.rows["t"].to_numpy() // SECOND - START // SECOND
    per = np.bincount(second)
    total = np.convolve(per, np.ones(30), "valid")[::10]
    rest = np.array([per[end - int(missing) : end].sum() for end in range(30, len(per) + 1, 10)])
    return float((1 - np.abs(rest - per.mean() * missing) / total).mean())


def generated(windows: int) -> dict[str, Case]:
    """All generated cases, each with about so many windows."""
    seconds, rng = windows * 10, np.random.default_rng(5)
    return {
        "S5 uniform 30/10": dense(seconds, rng),
        "S5 normal 30/10": dense(seconds, rng, "normal"),
        "S5 uniform 30/30": dense(3 * seconds, rng, slide="30 seconds"),
        "bursts": bursts(seconds, rng),
        "daily rhythm": rhythm(seconds, rng),
        "change": change(seconds, rng),
        "groups": groups(seconds, rng),
    }
