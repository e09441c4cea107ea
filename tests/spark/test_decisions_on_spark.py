"""Decisions that only Spark's pages and stores make are logged."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.plan.steps import Where
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.memory_budget import MemoryBudget
from slackwater.spark.backend.pages import SparkPages
from slackwater.spark.backend.scan import arrived
from slackwater.spark.state import cell_files
from slackwater.spark.storage.storage_dir import StorageDir
from tests.kit.decisions import decisions, logged
from tests.kit.streams_of_samples import A, plan

pytestmark = pytest.mark.spark


def test_a_page_is_held_in_memory_or_saved(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows, pages = (
        pl.DataFrame({"i": range(100), "t": range(100)}).to_arrow(),
        SparkPages(SparkBackend(spark, StorageDir.of(tmp_path))),
    )
    node = plan(A, {"a": sw.bounded(0)})
    whole = arrived(spark.createDataFrame(rows), node, 3, 0, size=rows.nbytes)  # type: ignore[arg-type]
    with logged(caplog):
        held = pages.materialize(whole.with_step(Where("i % 5 = 0")))
        pages.spark.room = MemoryBudget(memory=10)
        pages.materialize(whole.with_step(Where("i % 5 = 0")))
    assert decisions(caplog, "page.held") == [{"page": 3, "rows": 20, "bytes": held.size}]
    (saved,) = decisions(caplog, "page.saved")
    assert saved["page"] == 3


def test_the_rows_of_a_join_are_written_by_spark_once_pages_are_large(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_files, "SMALL", 3)
    cells = cell_files.CellFiles(StorageDir.of(tmp_path), SparkBackend(spark, StorageDir.of(tmp_path)), 10)
    rows = spark.range(5).selectExpr("id", "id AS __time")
    with logged(caplog):
        assert sum(file.rows for file in cells.write(rows)) == 5
        assert not decisions(caplog, "cells.written_by_spark"), "the first page comes through the driver"
        cells.write(rows)
    (by_spark,) = decisions(caplog, "cells.written_by_spark")
    assert by_spark["large_before"] is True and by_spark["level"] == 0
