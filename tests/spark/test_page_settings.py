"""What pages run under, and the keys of their hash table: choices that only speed shows, so they are named here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from py4j.java_gateway import JavaPackage, JVMView
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater.aggregates.parse import parse_aggregate
from slackwater.columns import PANE, SOURCE, TIME
from slackwater.spark.backend.fold import kernel_columns
from slackwater.spark.storage.embedded import private_copy
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.spec import WindowSpec

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("whole_stages")]


def test_row_groups_of_a_file_are_shared_out_evenly(spark: SparkSession, tmp_path: Path) -> None:
    group, file = 1 << 17, tmp_path / "rows.parquet"
    frame = pl.DataFrame({"v": np.random.default_rng(1).normal(size=4 * group)})
    frame.write_parquet(file, row_group_size=group, compression="uncompressed")
    ours = private_copy(spark)
    ours.conf.set("spark.sql.files.minPartitionNum", 2)
    counted = ours.read.parquet(str(file)).groupBy(F.spark_partition_id()).count().collect()
    assert sorted(row["count"] for row in counted) == [2 * group, 2 * group]


def test_settings_of_ours_do_not_touch_the_users_session(spark: SparkSession) -> None:
    name = "spark.sql.files.openCostInBytes"
    before = spark.conf.get(name)
    assert private_copy(spark).conf.get(name) != before
    assert spark.conf.get(name) == before


def test_java_is_asked_once_where_its_classes_are(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, asked = private_copy(spark), list[str]()
    for kind in (JVMView, JavaPackage):
        monkeypatch.setattr(kind, "__getattr__", lambda _, name: asked.append(name))
    numbers = ours.range(9).select("id", F.expr("id % 3").alias("k")).where(F.col("id") > 1)
    assert numbers.groupBy("k").agg(F.sum("id").alias("n")).columns == ["k", "n"]
    assert asked == []


def test_one_task_uses_the_fast_hash_map_too(spark: SparkSession) -> None:
    ours = private_copy(spark)
    one = ours.range(10).coalesce(1).selectExpr("id % 3 AS k", "id").groupBy("k").agg(F.sum("id"))
    utils = spark.sparkContext._jvm.PythonSQLUtils  # type: ignore[union-attr]
    assert "FastHashMap" in utils.explainString(one._jdf.queryExecution(), "codegen")


def test_the_pane_is_the_last_key_of_the_hash_table(spark: SparkSession) -> None:
    kernel = PaneKernel(
        WindowSpec(10, 5),
        (Group("k", "k"), Group("w", "w")),
        (parse_aggregate("n", "count(*)", lambda sql: pa.int64()),),
    )
    keys, _ = kernel_columns(kernel, True, False, None)
    rows = spark.createDataFrame([(1, "a", "b", "c")], f"{TIME} BIGINT, k STRING, w STRING, {SOURCE} STRING")
    assert rows.select(*keys).columns == ["k", "w", SOURCE, PANE]
