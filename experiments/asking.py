"""Section 3.2: who asks for early answers; and section 6, Figure 6.4: the accuracy decides when.

S5 describes these and gives no figures for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
from bench import Bench
from play import SECOND, Answers, Query, accuracies, accuracy, asked_on_spark, gain
from pyspark.sql import DataFrame
from streams import real

import slackwater as sw
from experiments.lab import prodded as make
from experiments.lab.arrivals import none
from slackwater.estimates.early import Early

_SLIDE = 10
QUERY = Query(
    "30 seconds",
    f"{_SLIDE} seconds",
    {"max": "max(value)", "sum": "sum(value)"},
    Early(),
    sw.punctuated("upto"),
    "0.5 seconds",
)
#: Seconds into the last slide.
_AT = 7


def asking(bench: Bench) -> None:
    """First who asks, then what is held."""
    if not bench.fast:
        who(bench)
    targets(bench)


# --- who asks


@dataclass(frozen=True)
class Asker:
    """How early answers are asked for: by a setting, a stream of prods, the sink or a user."""

    early: Early
    control: list[dict[str, Any]] | None = None
    sink: Callable[[DataFrame, int], object] | None = None
    user: Callable[[sw.Run, int], None] | None = None
    """Called after each page, with the clock."""


def who(bench: Bench) -> None:
    """The same windows asked for by the clock, a control stream, the sink and a user, on Spark by replay."""
    length = 100 if bench.quick else 500
    rows = make.punctuated(make.steady(length, seed=bench.seed), _SLIDE * SECOND)
    finals: list[pl.DataFrame] = []
    with sw.Session() as session:
        spark = session.spark
        for case, asker in _askers(length).items():
            answers = asked_on_spark(spark, rows, replace(QUERY, early=asker.early), asker)
            finals.append(answers.finals.drop("final_at").sort("window_start"))
            _asked(bench, case, answers)
    same = all(frame.equals(finals[0]) for frame in finals)
    bench.add(_NAME, "all", "final answers the same", None, "yes" if same else "no")


_NAME = "who asks: 30 s / 10 s"


def _askers(length: int) -> dict[str, Asker]:
    ends = [_SLIDE * n for n in range(1, length // _SLIDE + 3)]
    # A prod that arrives during a page is sent at its end.
    control = [{"asked": _stamp(e - _SLIDE + _AT) - timedelta(seconds=0.5), "until": _stamp(e)} for e in ends]

    def next_window(results: DataFrame, commit_id: int) -> object:
        """A final answer asks for the next window."""
        last = max((r["window_end"] for r in results.where("kind = 'final'").collect()), default=None)
        return None if last is None else sw.prod(until=last + timedelta(seconds=_SLIDE))

    def refresh(run: sw.Run, clock: int) -> None:
        if clock % (_SLIDE * SECOND) == _AT * SECOND:
            run.prod(until=_stamp(clock // SECOND - _AT + _SLIDE))

    return {
        f"the clock, at {_AT} s": Asker(sw.early(at=f"{_AT} seconds")),
        f"a control stream, at {_AT} s": Asker(Early(), control=control),
        f"a user, at {_AT} s": Asker(Early(), user=refresh),
        "the sink, for the next window": Asker(Early(), sink=next_window),
    }


def _stamp(second: int) -> datetime:
    return datetime.fromtimestamp(second, tz=UTC)


def _asked(bench: Bench, case: str, answers: Answers) -> None:
    pairs = answers.pairs.filter("inner")
    bench.add(_NAME, case, "early answers", None, float(len(pairs)))
    bench.add(_NAME, case, "accuracy of the maximum", None, accuracy(pairs, "max")["mean"])
    more = {"corrected": accuracy(pairs, "sum", "sum")["mean"]}
    bench.add(_NAME, case, "accuracy of the sum", None, accuracy(pairs, "sum")["mean"], **more)
    bench.add(_NAME, case, "seconds earlier", None, gain(pairs)["seconds"])


# --- what is held


def targets(bench: Bench) -> None:
    """`sw.early(accuracy=…)`: what it holds in the second half of a stream, and how early that is."""
    windows = 200 if bench.quick else 1_000
    even = make.steady(windows * _SLIDE, rate=20, delay=none(), seed=bench.seed)
    dense = make.dense(windows * _SLIDE, seed=bench.seed)
    for stream, rows, wanted in (("even", even, (0.97, 0.98, 0.99)), ("dense", dense, (0.90, 0.95, 0.98))):
        rows = make.punctuated(rows, _SLIDE * SECOND)
        query = replace(QUERY, aggregates={"sum": "sum(value)"})
        for target in wanted:
            _target(bench, f"{stream}, sum", rows, query, "sum", target)
    flights = next(real(bench.data))
    query = Query(
        flights.range,
        flights.slide,
        {"count": "count(*)"},
        Early(),
        sw.bounded(flights.slack),
        flights.page,
    )
    rows = flights.rows().head(20_000) if bench.quick else flights.rows()
    for target in (0.8, 0.9, 0.95):
        _target(bench, "flights, count", rows, query, "count", target)


def _target(bench: Bench, stream: str, rows: pl.DataFrame, query: Query, name: str, target: float) -> None:
    answers = bench.play(rows, replace(query, early=sw.early(accuracy=target)))
    pairs = answers.pairs.filter("inner")
    pairs = pairs.tail(len(pairs) // 2)
    held = accuracies(pairs, name, name)
    experiment, case = "an accuracy to hold", f"{stream}, {100 * target:g} %"
    bench.add(experiment, case, "accuracy, corrected", 100 * target, float(held.mean()), windows=len(pairs))
    ages = (pairs["early_at"] - pairs["window_end"]).to_numpy() / SECOND
    bench.add(experiment, case, "prodded, s after the end: mean", None, float(ages.mean()))
    low, high = np.quantile(ages, [0.05, 0.95])
    bench.add(experiment, case, "the same, 5 and 95 %", None, f"{low:.1f}, {high:.1f}")
    bench.add(experiment, case, "seconds earlier", None, gain(pairs)["seconds"])
    bench.add(experiment, case, "within reach", None, "yes" if answers.metrics["target_reachable"] else "no")
