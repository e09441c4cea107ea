"""Native Structured Streaming: the same windows by Spark's own stateful aggregation."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from cases import SLACK, Case, Query
from measure import Figures, read_progress
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.spark.ingest.fast_checkpoints import fast_settings


def measure(spark: SparkSession, case: Case, source: Path, work: Path, fast_checkpoints: bool = False) -> Figures:
    """Run a case over a folder to its end, with results that are made and thrown away.

    Several queries run at the same time, until the last has ended.
    """
    with _checkpoints(spark, fast_checkpoints):
        begun = time.monotonic()
        queries = [
            _windows(spark, case, query, source)
            .writeStream.format("noop")
            .outputMode("append")
            .option("checkpointLocation", str(work / f"checkpoint{n}"))
            .trigger(availableNow=True)
            .start()
            for n, query in enumerate(case.queries)
        ]
        for query in queries:
            query.awaitTermination()
        whole = time.monotonic() - begun
    return read_progress(queries[0], whole)


def results(spark: SparkSession, case: Case, source: Path, work: Path) -> list[pl.DataFrame]:
    """The results themselves, of each query, for comparing."""
    names = [f"native_{uuid.uuid4().hex}" for _ in case.queries]
    queries = [
        _windows(spark, case, query, source)
        .writeStream.format("memory")
        .queryName(name)
        .outputMode("append")
        .option("checkpointLocation", str(work / name))
        .trigger(availableNow=True)
        .start()
        for name, query in zip(names, case.queries, strict=True)
    ]
    for query in queries:
        query.awaitTermination()
    frames = []
    for name, query in zip(names, case.queries, strict=True):
        table = spark.table(name).select(
            query.key, "total", "n", "top", F.col("window.start").alias("window_start")
        )
        frames.append(pl.DataFrame(table.toArrow()))
        spark.catalog.dropTempView(name)
    return frames


def _windows(spark: SparkSession, case: Case, query: Query, source: Path) -> DataFrame:
    reader = spark.readStream.schema(case.layout.schema).option("maxFilesPerTrigger", case.files_per_page)
    length, slide = f"{query.range_seconds} seconds", f"{query.slide_seconds} seconds"
    window = F.window("ts", length) if length == slide else F.window("ts", length, slide)
    made = F.sum("v").alias("total"), F.count("v").alias("n"), F.max("v").alias("top")
    return reader.parquet(str(source)).withWatermark("ts", SLACK).groupBy(window, query.key).agg(*made)


@contextlib.contextmanager
def _checkpoints(spark: SparkSession, fast: bool) -> Iterator[None]:
    """With `fast`, the way of writing checkpoints that Slackwater gives its own ingest.

    It holds for the whole run, because a file source makes its own log only after the query has started.
    """
    settings = fast_settings(spark) if fast else {}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)
