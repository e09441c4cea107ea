"""Rows on their way out of Spark: few to the driver, many to files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from slackwater.operators.payload import MaterializedRows, Staged

if TYPE_CHECKING:
    from slackwater.spark.backend.backend import SparkBackend


def few(rows: DataFrame, pages: SparkBackend) -> MaterializedRows:
    """Rows in the driver; as files if that refuses them."""
    try:
        return rows.toArrow()
    except (PySparkException, Py4JJavaError) as error:
        if not too_large(error):
            raise
        return stage(rows, pages)


def stage(rows: DataFrame, pages: SparkBackend) -> Staged:
    """Write rows to the journal's file system, for a sink to take from there."""
    place = pages.new("staged")
    seen = Observation()
    with pages.writing(place):
        rows.observe(seen, F.count(F.lit(1)).alias("rows")).write.parquet(place.address)
    return Staged(place.path.removeprefix(pages.root.path + "/"), int(seen.get["rows"]))


def too_large(error: Exception) -> bool:
    """Whether Spark refused to bring a result to the driver for its size."""
    return "spark.driver.maxResultSize" in str(error)
