"""S5 section 4.2, Table 4.1: do prods delay the final results? On Spark, on a clock that runs during the work.

The three streams of S5's table are replayed at some speed, with prods and without them, in turns. Latency is S5's:
from the arrival of a window's first row to its final result, in seconds of the stream. So work weighs more, the
faster the replay is.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

import polars as pl
import thesis
from bench import Bench
from bursts import COST, LONGER, QUERY, SPEED
from play import SECOND, Answers, Query, final_latency, paced

import slackwater as sw
from experiments.lab import prodded as make
from slackwater.spark.storage.embedded import embedded

UNIFORM = Query(
    "30 seconds", "10 seconds", {"max": "max(value)"}, sw.early(at="7 seconds"), sw.punctuated("upto"), "5 seconds"
)


def overhead(bench: Bench) -> None:
    """Final results of each stream with prods and without, in turns."""
    if bench.fast:
        bench.notes.append("Table 4.1 is about a running clock: it needs Spark")
        return
    spark = embedded("local[1]")
    # Quick: an eighth of each stream; bursts begin 20 and 62 seconds from the start.
    share, repeats = (8, 1) if bench.quick else (1, 3)
    steady = make.punctuated(make.steady(1_500 // share, seed=bench.seed), 10 * SECOND)
    streams: dict[str, tuple[pl.DataFrame, Query, int, float]] = {"Uniform_1500": (steady, UNIFORM, 0, 2.0)}
    for times in (2, 4):
        bursty = make.bursty(160 * times // share, values=make.rising_values(), seed=bench.seed)
        rows = make.punctuated(bursty, SECOND)
        streams[f"Burst_{times}"] = (rows, replace(QUERY, page=LONGER), COST, SPEED)
    warm = steady.filter(pl.col("arrival") < 30 * SECOND)
    paced(spark, warm, UNIFORM, 0, None, 10.0)
    for name, (rows, query, cost, pace) in streams.items():
        found: dict[str, list[Answers]] = {"with prods": [], "without": []}
        for repeat in range(repeats):
            for side in sorted(found, reverse=repeat % 2 == 0):
                asked = query if side == "with prods" else replace(query, early=None)
                found[side].append(paced(spark, rows, asked, cost, None, pace))
        for side, ran in found.items():
            latencies = [final_latency(rows, answers) for answers in ran]
            bench.add(
                "Table 4.1: final latency on a running clock, on Spark",
                f"{name}, {len(rows):,} rows at {pace:g} times its speed",
                f"{side}, mean s",
                thesis.OVERHEAD[name],
                mean(latencies),
                least=min(latencies),
                most=max(latencies),
                windows=len(ran[0].finals),
                early=len(ran[0].pairs),
            )
    spark.stop()
