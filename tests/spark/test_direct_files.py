"""Batches of plain file sources are read from their files; all others as Spark hands them over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.spark.backend.locations.files import MOST_FILES
from slackwater.spark.backend.locations.location import RowLocation
from slackwater.spark.backend.locations.registry import Direct
from slackwater.spark.backend.one_task import can_scan_in_one, in_one_task, reader_of
from slackwater.spark.storage.embedded import moved_to, private_copy

pytestmark = pytest.mark.spark

SCHEMA = "t BIGINT, k STRING, unused STRING"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each page was read from its files is noted."""
    noted: list[bool] = []
    real = Direct.of

    def noting(self: Direct, batch: DataFrame) -> RowLocation | None:
        made = real(self, batch)
        noted.append(made is not None)
        return made

    monkeypatch.setattr(Direct, "of", noting)
    return noted


def rows(file: int) -> pl.DataFrame:
    times = [file * 10 + i for i in range(10)]
    return pl.DataFrame({"t": times, "k": ["a", "b"] * 5, "unused": ["x"] * 10})


def counts(spark: SparkSession, df: DataFrame) -> dict[tuple[int, str], int]:
    with sw.Session(spark) as s:
        stream = s.stream("rows", df, time="t", disorder=sw.bounded(100))
        run = stream.where("t <> 3").window(20).group_by("k").agg(n="count(*)").start(hold=True)
        s.run_available()
        return {(r["window_start"], r["k"]): r["n"] for r in run.results().to_pylist()}


EXPECTED = {(0, "a"): 10, (0, "b"): 9, (20, "a"): 5, (20, "b"): 5}


def stream(spark: SparkSession, kind: str, folder: Path, **options: Any) -> DataFrame:
    return spark.readStream.format(kind).schema(SCHEMA).options(**options).load(str(folder))


@pytest.mark.parametrize("limit", [1, 3])
def test_parquet_files_are_read_directly(spark: SparkSession, tmp_path: Path, read: list[bool], limit: int) -> None:
    for f in range(3):
        rows(f).write_parquet(tmp_path / f"{f}.parquet", row_group_size=4)
    assert counts(spark, stream(spark, "parquet", tmp_path, maxFilesPerTrigger=limit)) == EXPECTED
    assert read == [True] * (3 // limit)


def test_a_readers_options_are_kept(spark: SparkSession, tmp_path: Path, read: list[bool]) -> None:
    for f in range(3):
        rows(f).write_csv(tmp_path / f"{f}.csv", separator=";")
    assert counts(spark, stream(spark, "csv", tmp_path, header=True, sep=";")) == EXPECTED
    assert read == [True]


def test_folders_with_columns_are_left_to_spark(spark: SparkSession, tmp_path: Path, read: list[bool]) -> None:
    for f in range(3):
        (tmp_path / f"k={'ab'[f % 2]}").mkdir(exist_ok=True)
        rows(f).drop("k").write_parquet(tmp_path / f"k={'ab'[f % 2]}" / f"{f}.parquet")
    got = counts(spark, stream(spark, "parquet", tmp_path))
    assert got == {(0, "a"): 9, (0, "b"): 10, (20, "a"): 10}
    assert read == [False]


def test_a_transformed_source_is_left_to_spark(spark: SparkSession, tmp_path: Path, read: list[bool]) -> None:
    for f in range(3):
        rows(f).write_parquet(tmp_path / f"{f}.parquet")
    assert counts(spark, stream(spark, "parquet", tmp_path).where("k = 'a'")) == {(0, "a"): 10, (20, "a"): 5}
    assert read == [False]


def test_names_with_globs_are_left_to_spark(spark: SparkSession, tmp_path: Path, read: list[bool]) -> None:
    rows(0).write_parquet(tmp_path / "a[1] b.parquet")
    assert counts(spark, stream(spark, "parquet", tmp_path)) == {(0, "a"): 5, (0, "b"): 4}
    assert read == [False]


@pytest.mark.parametrize("files", [1, 3])
def test_a_page_in_one_task_is_one_scan_without_a_shuffle(spark: SparkSession, tmp_path: Path, files: int) -> None:
    for f in range(files):
        rows(f).write_parquet(tmp_path / f"{f}.parquet", row_group_size=4)
    reader = reader_of(spark, MOST_FILES)
    if not can_scan_in_one(reader):
        pytest.skip("this Spark cannot scan files in one task")
    scan = reader.read.schema(SCHEMA).parquet(*(str(tmp_path / f"{f}.parquet") for f in range(files)))
    ours = moved_to(private_copy(spark), scan)

    def plan() -> str:
        return str(grouped(ours)._jdf.queryExecution().executedPlan())

    def grouped(frame: DataFrame) -> DataFrame:
        return frame.where("t <> 3").groupBy("k").count()

    assert "Exchange" in plan()
    with in_one_task(ours.sparkSession, scanned=True) as narrow:
        one = grouped(narrow(ours))
        assert "Exchange" not in plan() and "Coalesce" not in plan()
        assert one.rdd.getNumPartitions() == 1
        assert sorted((r["k"], r["count"]) for r in one.collect()) == [("a", 5 * files), ("b", 5 * files - 1)]
    assert "Exchange" in plan()
