"""The embedded Spark session, and the settings that pages run under on any session."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

_QUIET = Path(__file__).with_name("log4j2.properties")

#: Measured choices for many small jobs; docs/rooms/spark.md says what each is worth.
PAGE_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Results lie beside files that pyarrow has written.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def embedded(master: str = "local[*]", driver_memory: str = "2g") -> SparkSession:
    """A local Spark session with defaults for streams; the running one, if there is one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(master)
        .appName("slackwater")
        .config("spark.driver.memory", driver_memory)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.maxResultSize", "256m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_QUIET.as_uri()}")
        # A row that does not fit must not end the stream: a bad cast is null, not an exception.
        .config("spark.sql.ansi.enabled", "false")
        .config("spark.sql.streaming.stopTimeout", "60s")
    )
    for key, value in PAGE_SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    return spark


def tune_for_pages(spark: SparkSession) -> None:
    """Set what pages run under, on a session that nobody else uses."""
    for key, value in PAGE_SETTINGS.items():
        spark.conf.set(key, value)
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)


def private_copy(spark: SparkSession) -> SparkSession:
    """A session with the same functions, views and settings, so that ours do not touch the user's."""
    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    tune_for_pages(copy)
    return copy
