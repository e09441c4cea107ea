"""A page's job in one task, which spares the shuffle.

Rows that Spark hands over are brought into one partition by `coalesce`. That cuts the generated code in two, and
each row is written and read between its halves. A scan of files can be told to be one task by itself (since Spark
4.3), if nothing but filters, projections and copies of rows lies between it and the aggregate; else Spark shuffles.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

_SINGLE = "spark.sql.optimizer.singleTaskExecution."
_ENABLED = f"{_SINGLE}enabled"


def can_scan_in_one(spark: SparkSession) -> bool:
    """Whether this Spark knows how."""
    return spark.conf.isModifiable(_ENABLED)


def reader_of(spark: SparkSession, files: int) -> SparkSession:
    """A copy of a session that may scan so many files in one task; Spark asks the session that reads them."""
    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    if can_scan_in_one(copy):
        copy.conf.set(f"{_SINGLE}maxNumFiles", files)
    return copy


@contextmanager
def in_one_task(frame: DataFrame, scanned: bool) -> Iterator[DataFrame]:
    """The same rows; inside, a job over them is one task. `scanned` says that Spark can be told so."""
    if not scanned:
        yield frame.coalesce(1)
        return
    spark = frame.sparkSession
    for kind in ("aggregation", "expand"):
        spark.conf.set(f"{_SINGLE}{kind}", True)
    spark.conf.set(_ENABLED, True)
    try:
        yield frame
    finally:
        spark.conf.set(_ENABLED, False)
