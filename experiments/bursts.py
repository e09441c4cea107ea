"""Section 4.3.2 and 6.2: bursts behind an expensive operator, which prods overtake; and the sideline.

In this process its cost is time on a clock that is moved by hand. On Spark it is real: a function sleeps in Spark's
Python worker, and the stream is replayed at a fraction of its speed, so that a job's own time weighs little.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import thesis
from bench import Bench
from play import SECOND, Answers, Query, accuracy, behind_map, gain, paced

import slackwater as sw
from experiments.lab import prodded as make
from slackwater.spark.storage.embedded import embedded
from slackwater.windows.sideline import Sideline

#: Microseconds that the expensive operator takes for a row.
COST = 10_000
#: Seconds of the stream in a real one, on Spark.
SPEED = 0.4
QUERY = Query(
    "5 seconds", "1 second", {"max": "max(value)"}, sw.early(at="1.2 seconds"), sw.punctuated("upto"), "0.1 seconds"
)
TUMBLING = replace(QUERY, slide=QUERY.range, early=sw.early(at="5.2 seconds"))
#: On Spark a page is a job, or two.
LONGER = "0.5 seconds"


def bursts(bench: Bench) -> None:
    """Q4-2 (Table 4.3), then a large burst with a sideline and without."""
    for times, said in thesis.BURSTS.items():
        if bench.quick and times > 1:
            continue
        rows = _rising(bench, 160 * times)
        answers = behind_map(rows, QUERY, COST, None)
        _burst(bench, f"{len(rows):,} rows, in process", answers, said)
        if times == 1:
            bench.series("Q4-2", answers)
            seen = accuracy(answers.pairs, "max")["mean"]
            bench.add(
                "Q4-2: MAX, 5 s / 1 s, bursts", "in process", "accuracy (Figure 4.5)", thesis.FIGURE_4_5, seen
            )
    _sidelined(bench)
    if not bench.fast:
        _on_spark(bench)


def _rising(bench: Bench, seconds: int, **how: object) -> pl.DataFrame:
    made = make.bursty(seconds, values=make.rising_values(), seed=bench.seed, **how)  # type: ignore[arg-type]
    return make.punctuated(made, SECOND)


def _sidelined(bench: Bench) -> None:
    """A large burst; pages of a burst as large as others, and larger."""
    # A page is set aside when all its windows have been prodded: one that waits for less than that is not.
    rows = _rising(bench, 160, rate=60, bursts=((20, 25, 400),))
    for windows, query in (
        ("sliding", replace(QUERY, most=6)),
        ("tumbling", replace(TUMBLING, most=6)),
        ("tumbling, large pages", TUMBLING),
    ):
        for kind, sideline in _SIDELINES.items():
            answers = behind_map(rows, query, COST, sideline)
            _burst(bench, f"large, {windows}, {kind}", answers, (None, None))
            bench.series(f"{windows}, {kind}", answers)


_SIDELINES: dict[str, Sideline | None] = {"no sideline": None, "sideline(ratio=4)": sw.sideline(ratio=4)}


def _on_spark(bench: Bench) -> None:
    """The same with real work; beside it the same pages in process, whose jobs take no time of their own."""
    # S5's operator works on one row at a time: one core.
    spark = embedded("local[1]")
    speed = 2.0 if bench.quick else SPEED
    rows = _rising(bench, 40 if bench.quick else 160)
    query = replace(QUERY, page=LONGER)
    large = _rising(bench, 60, rate=50, bursts=((10, 15, 240),))
    paced(spark, rows.filter(pl.col("arrival") < 3 * SECOND), query, 0, None, 2.0)  # warms Spark up
    cases: list[tuple[str, str, pl.DataFrame, Query, Sideline | None]] = [
        ("Q4-2", f"{len(rows):,} rows, pages of {LONGER}", rows, query, None)
    ]
    for kind, sideline in _SIDELINES.items():
        case = f"burst of 5 s, tumbling, {kind}"
        cases.append((f"tumbling, {kind}", case, large, replace(TUMBLING, page=LONGER), sideline))
    for curve, case, stream, asked, sideline in cases:
        said = thesis.BURSTS[1] if stream is rows else (None, None)
        answers = paced(spark, stream, asked, COST, sideline, speed)
        bench.series(f"{curve}, on Spark", answers)
        _burst(bench, f"{case}, on Spark", answers, said)
        _burst(bench, f"{case}, in process", behind_map(stream, asked, COST, sideline), said)
    spark.stop()


def _burst(bench: Bench, case: str, answers: Answers, said: tuple[float | None, float | None]) -> None:
    name, pairs, finals = "Q4-2: MAX, 5 s / 1 s, bursts", answers.pairs, answers.finals
    waits = (finals["final_at"] - finals["window_end"]).to_numpy() / SECOND
    waits = waits[waits >= 0]
    bench.add(name, case, "accuracy", said[0], accuracy(pairs, "max")["mean"], windows=len(pairs))
    bench.add(name, case, "the same, worst", None, accuracy(pairs, "max")["worst"])
    bench.add(name, case, "seconds earlier", said[1], gain(pairs)["seconds"])
    bench.add(name, case, "windows with an early answer, %", None, 100 * len(pairs) / len(finals))
    bench.add(name, case, "final answers after the end, mean s", None, float(waits.mean()))
    bench.add(name, case, "the same, longest s", None, float(waits.max()))
    bench.add(name, case, "final answers within 0.5 s, %", None, float(100 * (waits <= 0.5).mean()))
