"""Native Structured Streaming: the same windows by Spark's own stateful aggregation."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from cases import RANGE_SECONDS, SLACK, Case
from data import SCHEMA
from measure import Figures, read_progress
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.spark.ingest.streams import _fast_manager

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def measure(spark: SparkSession, case: Case, source: Path, work: Path, fast_checkpoints: bool = False) -> Figures:
    """Run a case over a folder to its end, with results that are made and thrown away."""
    writer = _windows(spark, case, source).writeStream.format("noop").outputMode("append")
    with _checkpoints(spark, fast_checkpoints):
        query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
    return read_progress(query)


def results(spark: SparkSession, case: Case, source: Path, work: Path) -> pl.DataFrame:
    """The results themselves, for comparing."""
    name = f"native_{uuid.uuid4().hex}"
    writer = _windows(spark, case, source).writeStream.format("memory").queryName(name).outputMode("append")
    writer.option("checkpointLocation", str(work / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    table = spark.table(name).select("key", "total", "n", "top", F.col("window.start").alias("window_start"))
    frame = pl.DataFrame(table.toArrow())
    spark.catalog.dropTempView(name)
    return frame


def _windows(spark: SparkSession, case: Case, source: Path) -> DataFrame:
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", case.files_per_page).parquet(str(source))
    length, slide = f"{RANGE_SECONDS} seconds", f"{case.slide_seconds} seconds"
    window = F.window("ts", length) if case.windows_per_row == 1 else F.window("ts", length, slide)
    made = F.sum("v").alias("total"), F.count("v").alias("n"), F.max("v").alias("top")
    return stream.withWatermark("ts", SLACK).groupBy(window, "key").agg(*made)


@contextlib.contextmanager
def _checkpoints(spark: SparkSession, fast: bool) -> Iterator[None]:
    """With `fast`, the way of writing checkpoints that Slackwater gives its own ingest.

    It holds for the whole run, because a file source makes its own log only after the query has started.
    """
    manager = _fast_manager(spark) if fast else None
    if manager is None:
        yield
        return
    spark.conf.set(_MANAGER, manager)
    try:
        yield
    finally:
        spark.conf.unset(_MANAGER)
