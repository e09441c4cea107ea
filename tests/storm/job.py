"""A job with all kinds of plans and sinks on live streams: python -m tests.storm.job FOLDER SETTING.

It goes on from its journal wherever it was killed. It says when it has started, and when all is done.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.spark.storage.embedded import embedded

FILES, ROWS = 10, 120
#: What sessions of a storm are like, beside the defaults.
SETTINGS: dict[str, dict[str, Any]] = {
    "fifo": {},
    "chain": {"strategy": sw.chain(max_wait="2 seconds")},
    "spilled": {"resident_limit": 0},
    "memory-aware": {"heartbeat_scope": sw.memory_aware()},
    "batched": {"batch_pages": True, "strategy": sw.chain()},
    "round-robin": {"strategy": sw.papers.round_robin(), "resident_limit": 0},
}


def make_input(root: Path) -> None:
    """Two streams in files. No row is more than 40 late, and the policies wait for 60."""
    for name, columns in (("rows", ["n", "t", "k", "v"]), ("others", ["t", "k"])):
        source = random.Random(name)
        (root / name).mkdir(parents=True)
        for f in range(FILES):
            times = [f * 15 + source.randrange(-25, 15) for _ in range(ROWS)]
            rows = {"n": range(f * ROWS, (f + 1) * ROWS), "t": times, "k": [f"k{t % 4}" for t in times]}
            rows["v"] = [t % 7 / 2 for t in times]
            path = root / name / f"{f:03d}.parquet"
            pl.DataFrame(rows).select(columns).write_parquet(path)
            os.utime(path, (1_000_000 + f, 1_000_000 + f))


def queries(rows: sw.Stream, others: sw.Stream) -> dict[str, sw.Query]:
    """One of each kind of plan."""
    keyed = rows.window(20, slide=5).group_by("k")
    right = others.select(u="t", l="k")
    return {
        "window": keyed.agg(n="count(*)", total="sum(v)", sd="stddev(v)", d="approx_count_distinct(v)"),
        "kept": rows.window(30).group_by("k").agg(middle="median(v)", all="count(DISTINCT v)"),
        "nested": keyed.agg(n="count(*)").window(40).agg(most="max(n)"),
        "rolling": rows.rolling(range=9).group_by("k").agg(n="count(*)", total="sum(v)"),
        "last": rows.rolling(rows=5).agg(total="sum(v)"),
        "sessions": rows.where("v > 2").sessions(gap=2).group_by("k").agg(n="count(*)"),
        "union": rows.select("t", "k").union(others).window(20).group_by("k").agg(n="count(*)"),
        "near": rows.where("v = 3").join(right.where("u % 5 = 0"), on="k = l", within=3).select("n", "t", "u"),
        "alone": rows.rolling(range=4)
        .join(right.rolling(range=2), on="k = l AND t = u", how="full")
        .select("n", "u"),
        "straight": rows.where("v > 1").select("n", "t", twice="2 * v"),
    }


def _files_of(folder: str) -> Callable[[DataFrame, int], None]:
    """A function that writes a file for each commit. A commit that comes again replaces its file."""

    def write(rows: DataFrame, commit_id: int) -> None:
        os.makedirs(folder, exist_ok=True)
        pq.write_table(rows.toArrow(), f"{folder}/half")
        os.replace(f"{folder}/half", f"{folder}/part-{commit_id}.parquet")

    return write


def run(spark: SparkSession, root: str, setting: str, started: Callable[[], None] = lambda: None) -> None:
    """The whole job, or what is left of it."""
    with sw.Session(spark, journal=f"{root}/journal", **SETTINGS[setting]) as s:
        rows, others = (
            s.stream(
                name,
                spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{root}/{name}"),
                time="t",
                disorder=sw.bounded(60),
            )
            for name, schema in (
                ("rows", "n BIGINT, t BIGINT, k STRING, v DOUBLE"),
                ("others", "t BIGINT, k STRING"),
            )
        )
        for place, (name, query) in enumerate(queries(rows, others).items()):
            out = f"{root}/out-{name}"
            sinks = (out, _files_of(out), sw.sinks.delta(out), [out, _files_of(f"{root}/again-{name}")])
            query.start(sink=sinks[place % len(sinks)], name=name, hold=True)
        started()
        s.run_available(drain=True)


def main(root: str, setting: str) -> None:
    """Say how long it took to start, and when it is done."""
    spark = embedded("local[2]", driver_memory="1g")
    began = time.monotonic()
    run(spark, root, setting, lambda: print(f"started {time.monotonic() - began:.2f}", flush=True))
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
