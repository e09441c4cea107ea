"""Spark's notes of a stream are plain files on a local disk; what the user has set stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.spark.ingest.fast_checkpoints import fast_settings, own_files

pytestmark = pytest.mark.spark

FILES = "fs.file.impl"
PLAIN, CHECKED = "org.apache.hadoop.fs.RawLocalFileSystem", "org.apache.hadoop.fs.LocalFileSystem"


@pytest.fixture
def user(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of the test's own."""
    yield (mine := spark.newSession())
    mine.conf.unset(FILES)


def notes_after_a_run(user: SparkSession, folder: Path) -> tuple[list[Path], list[Path]]:
    """Spark's notes of two batches, and the checksums among them."""
    source, journal = folder / "source", folder / "journal"
    source.mkdir()
    for n in range(2):
        pl.DataFrame({"t": [10 * n, 10 * n + 1]}).write_parquet(source / f"{n}.parquet")
    for _ in range(2):  # the second start goes on from the notes of the first
        rows = user.readStream.schema("t BIGINT").option("maxFilesPerTrigger", 1).parquet(str(source))
        with sw.Session(user, journal=journal) as s:
            stream = s.stream("rows", rows, time="t", disorder=sw.bounded(5))
            run = stream.window(10).agg(n="count(*)").start(name="counts", hold=True)
            s.run_available()
            assert run.metrics()["rows"] == 4
    notes = [path for path in journal.rglob("offsets/*") if path.name.isdigit()]
    return notes, list(journal.rglob(".*.crc"))


def test_notes_have_no_checksums_beside_them(user: SparkSession, tmp_path: Path) -> None:
    before = dict(user.conf.getAll)
    notes, checksums = notes_after_a_run(user, tmp_path)
    assert len(notes) == 2 and not checksums
    assert dict(user.conf.getAll) == before


def test_a_file_system_that_the_user_has_chosen_stays(user: SparkSession, tmp_path: Path) -> None:
    user.conf.set(FILES, CHECKED)
    notes, checksums = notes_after_a_run(user, tmp_path)
    assert len(notes) == 2 and checksums
    assert user.conf.get(FILES) == CHECKED


@pytest.mark.parametrize("chosen", [None, CHECKED, PLAIN])
def test_rows_are_read_as_the_user_does(user: SparkSession, chosen: str | None) -> None:
    if chosen is not None:
        user.conf.set(FILES, chosen)
    settings = fast_settings(user)
    assert (FILES in settings) == (chosen is None)
    for name, value in settings.items():
        user.conf.set(name, value)
    own_files(user, settings)
    assert user.conf.get(FILES, None) == chosen
