"""Slackwater: the same windows over the same files, with a journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl
from cases import RANGE_SECONDS, SLACK, Case
from data import SCHEMA, offer
from measure import Figures, read_progress
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import slackwater as sw

_STREAM = "events"


def measure(spark: SparkSession, case: Case, files: Sequence[Path], work: Path) -> Figures:
    """Run a case over some files to their end; windows that are then open stay open."""
    with _ran(spark, case, files, work) as (session, run):
        more = run.metrics()
        figures = read_progress(_ingest(session), more["rows"])
        figures.more = more
    return figures


def results(spark: SparkSession, case: Case, files: Sequence[Path], work: Path) -> pl.DataFrame:
    """The results themselves, for comparing."""
    with _ran(spark, case, files, work) as (_, run):
        frame = pl.DataFrame(run.results())
    return frame.select("key", "total", "n", "top", "window_start")


@contextmanager
def _ran(spark: SparkSession, case: Case, files: Sequence[Path], work: Path) -> Iterator[tuple[sw.Session, sw.Run]]:
    """A query that was held until `run_available`, so that no batch is outside the measured run."""
    source = str(offer(files, work / "source"))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", case.files_per_page).parquet(source)
    with sw.Session(spark=spark, journal=work / "journal") as session:
        events = session.stream(_STREAM, stream, time="ts", disorder=sw.bounded(SLACK))
        windows = events.window(f"{RANGE_SECONDS} seconds", f"{case.slide_seconds} seconds").group_by("key")
        run = windows.agg(total="sum(v)", n="count(v)", top="max(v)").start(name="bench", hold=True)
        session.run_available(drain=False)
        yield session, run


def _ingest(session: sw.Session) -> StreamingQuery:
    query = session._ingests[_STREAM].query
    if query is None:
        raise RuntimeError("the stream is not being read")
    return query
