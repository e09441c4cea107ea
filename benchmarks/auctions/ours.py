"""Runs Nexmark's queries in Slackwater: over files as a live stream, or as a replay by their arrival."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.spark.sinks.sinks import SinkLike

from .events import SCHEMAS, House
from .queries import QUERIES, Streams
from .truth import side_input


@contextmanager
def ran(
    spark: SparkSession,
    house: House,
    names: Sequence[str],
    folder: Path,
    work: Path | None = None,
    page: str | None = None,
    sink: SinkLike = None,
) -> Iterator[tuple[list[sw.Run], float]]:
    """Queries over a folder of events, in one session, run to the end; with the seconds that it took.

    `work` gets the journal. With `page` the events are replayed in pages of so much arrival time. Results stay in
    memory, unless there is a sink for them.
    """

    def read(name: str) -> DataFrame:
        path = str(folder / name)
        if page is not None:
            return spark.read.schema(SCHEMAS[name]).parquet(path)
        return spark.readStream.schema(SCHEMAS[name]).option("maxFilesPerTrigger", 1).parquet(path)

    side = spark.createDataFrame(side_input().to_arrow()) if "q13" in names else spark.range(0)
    with sw.Session(spark, journal=None if work is None else work / "journal") as session:
        streams = Streams(session, house, read, side, page)
        made = [QUERIES[name](streams) for name in names]
        begun = time.monotonic()
        runs = [query.start(sink, name=name, hold=True) for name, query in zip(names, made, strict=True)]
        session.run_available()
        yield runs, time.monotonic() - begun


def answers(
    spark: SparkSession, house: House, names: Sequence[str], folder: Path, page: str | None = None
) -> dict[str, pl.DataFrame]:
    """What each query says. No row may be late for any of them, so that all rows are in the answers."""
    with ran(spark, house, names, folder, page=page) as (runs, _):
        if late := {run.name: n for run in runs if (n := run.metrics().get("late_rows", 0))}:
            raise RuntimeError(f"rows were late: {late}")
        return {run.name: pl.DataFrame(run.results()) for run in runs}


def run(spark: SparkSession, house: House, name: str, folder: Path, work: Path) -> float:
    """Run a query over files as a live stream, with results that are made and thrown away; gives the seconds."""
    with ran(spark, house, [name], folder, work, sink=_throw_away) as (_, seconds):
        return seconds


def _throw_away(results: DataFrame, commit_id: int) -> None:
    results.write.format("noop").mode("overwrite").save()
