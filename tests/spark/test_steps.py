"""Steps before a stream are taken again over other rows, if they give the same for each row at any time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.spark.backend.locations.batch_plan import steps_of
from slackwater.spark.storage.embedded import private_copy

pytestmark = pytest.mark.spark


def stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


def test_steps_are_taken_again_over_other_rows(spark: SparkSession) -> None:
    frame = stream(spark).withColumn("pair", F.array("value", F.expr("value * 10"))).where("value <> 2")
    frame.createOrReplaceTempView("made")
    made = spark.sql("SELECT explode(m.pair) AS v, upper('x') AS x FROM made m")
    steps = steps_of(made)
    assert steps is not None
    other = spark.sql("SELECT current_timestamp() AS timestamp, id AS value FROM range(1, 4)")
    again = steps.over(other, private_copy(spark))
    assert again.columns == ["v", "x"] and not again.isStreaming
    assert sorted(row.v for row in again.collect()) == [1, 3, 10, 30]
    assert sorted(row.v for row in again.union(again).collect()) == [1, 1, 3, 3, 10, 10, 30, 30]


@pytest.mark.parametrize(
    "step",
    [
        lambda df: df.withColumn("r", F.rand()),
        lambda df: df.withColumn("now", F.current_timestamp()),
        lambda df: df.where("value > (SELECT max(id) FROM range(2))"),
        lambda df: df.where("value IN (SELECT id FROM range(2))"),
        lambda df: df.union(df),
        lambda df: df.withWatermark("timestamp", "1 second"),
        lambda df: df.dropDuplicates(["value"]),
        lambda df: df.repartition(2),
        lambda df: df.join(df.sparkSession.range(3), F.expr("id = value")),
    ],
)
def test_steps_that_may_give_something_else_are_not(
    spark: SparkSession, step: Callable[[DataFrame], DataFrame]
) -> None:
    assert steps_of(step(stream(spark))) is None
