"""Slackwater: the same windows over the same files, with a journal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from cases import CLOSED, SLACK, Case, Query
from data import offer
from measure import Figures
from pyspark.sql import SparkSession

import slackwater as sw

_STREAM = "events"


def measure(
    spark: SparkSession,
    case: Case,
    queries: Sequence[Query],
    files: Sequence[Path],
    work: Path,
    **settings: Any,
) -> Figures:
    """Run queries of a case in one session, with settings of the session, to the end of the files.

    Windows that are then open stay open, except where their closing is measured too.
    """
    with _ran(spark, case, queries, files, work, case.figure == CLOSED, **settings) as (runs, seconds):
        more = runs[0].metrics()
    return Figures(more["pages"], more["rows"], seconds, more=dict(more))


def results(spark: SparkSession, case: Case, files: Sequence[Path], work: Path) -> list[pl.DataFrame]:
    """The results themselves, of each query, for comparing."""
    with _ran(spark, case, case.queries, files, work) as (runs, _):
        frames = [pl.DataFrame(run.results()) for run in runs]
    return [
        frame.select(query.key, "total", "n", "top", "window_start")
        for frame, query in zip(frames, case.queries, strict=True)
    ]


@contextmanager
def _ran(
    spark: SparkSession,
    case: Case,
    queries: Sequence[Query],
    files: Sequence[Path],
    work: Path,
    drain: bool = False,
    **settings: Any,
) -> Iterator[tuple[list[sw.Run], float]]:
    """Queries that were held until `run_available`, so that no batch is outside the measured run.

    The seconds are those from the first `start()` to the end.
    """
    source = str(offer(files, work / "source"))
    reader = spark.readStream.schema(case.layout.schema).option("maxFilesPerTrigger", case.files_per_page)
    with sw.Session(spark=spark, journal=work / "journal", **settings) as session:
        events = session.stream(_STREAM, reader.parquet(source), time="ts", disorder=sw.bounded(SLACK))
        begun = time.monotonic()
        runs = []
        for n, query in enumerate(queries):
            windows = events.window(f"{query.range_seconds} seconds", slide=f"{query.slide_seconds} seconds")
            made = windows.group_by(query.key).agg(total="sum(v)", n="count(v)", top="max(v)")
            runs.append(made.start(name=f"bench{n}", hold=True))
        session.run_available(drain=drain)
        yield runs, time.monotonic() - begun
