"""A journal or a checkpoint that has lost files is refused: no page vanishes without a word.

Every file of rows is a batch; a tumbling window of ten counts exactly the rows of one file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import JournalError, RunError
from slackwater.spark.storage.spark_errors import spark_errors_explained
from slackwater.spark.storage.storage_dir import StorageDir
from tests.kit.faulty_files import newest

pytestmark = pytest.mark.spark

BATCHES = 4


def give(folder: Path, first: int, last: int) -> None:
    folder.mkdir(exist_ok=True, parents=True)
    for n in range(first, last):
        pl.DataFrame({"t": range(10 * n, 10 * n + 10)}).write_parquet(folder / f"{n}.parquet")
        os.utime(folder / f"{n}.parquet", (n, n))  # Spark reads the oldest first


def copying(root: Path) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    broken = str(root / "broken")

    def copied(rows: pa.RecordBatch) -> pa.RecordBatch:
        if os.path.exists(broken):
            raise RuntimeError("the machine is gone")
        return rows

    return copied


def run(
    spark: SparkSession,
    root: Path,
    spooled: bool = False,
    resident_limit: int = 2**30,
    by_reference: bool = False,
) -> None:
    """Take what there is; nothing is drained, so that the next run can go on."""
    with sw.Session(spark, journal=root / "journal", resident_limit=resident_limit) as s:
        frame = spark.readStream.schema("t BIGINT").option("maxFilesPerTrigger", 1).parquet(str(root / "in"))
        if not by_reference:
            frame = frame.where("true")  # then it is not known to be just files
        rows: sw.Query = s.stream("rows", frame, time="t", disorder=sw.bounded(0))
        rows = rows.map(copying(root), schema="t BIGINT") if spooled else rows
        rows.window(10).agg(n="count(*)").start(sink=str(root / "out"), name="q", hold=True)
        s.run_available(drain=False)


def counted(root: Path) -> list[tuple[int, int]]:
    rows = pl.concat([pl.read_parquet(f) for f in (root / "out").glob("*.parquet")])
    return sorted(rows.select("window_start", "n").rows())


def lose_newest(journal: Path) -> None:
    newest(journal / "steps").unlink()


def lose_newest_and_its_mark(journal: Path) -> None:
    lose_newest(journal)
    newest(journal / "commits").unlink()
    (journal / "commits" / newest(journal / "steps").name.partition("-")[0]).touch()


def lose_all_records(journal: Path) -> None:
    shutil.rmtree(journal / "steps")


def lose_all_but_the_checkpoint(journal: Path) -> None:
    for name in ("steps", "commits", "owner.json", *(path.name for path in journal.glob("journal*.json"))):
        path = journal / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def lose_the_checkpoint(journal: Path) -> None:
    shutil.rmtree(journal / "checkpoints")


def lose_a_part_of_the_checkpoint(journal: Path) -> None:
    for folder in ("offsets", "commits"):
        for path in (journal / "checkpoints" / "rows" / folder).iterdir():
            if path.name.strip(".").partition(".")[0] in ("2", "3"):
                path.unlink()


LOST = [
    (lose_newest, "has lost its newest records"),
    (
        lose_newest_and_its_mark,
        # A page that waits in the record before was worked off since.
        rf"Spark goes on with batch {BATCHES}.* up to {BATCHES - 2}|saved in .*spool/rows/\d' are missing",
    ),
    (lose_all_records, r"the records 1 to \d are missing"),
    (
        lose_all_but_the_checkpoint,
        rf"Spark goes on with batch {BATCHES}.*holds none yet.*batches 0 to {BATCHES - 1}",
    ),
    (lose_the_checkpoint, f"Spark goes on with batch 0.*holds batches up to {BATCHES - 1}.*checkpoints/rows"),
    (lose_a_part_of_the_checkpoint, f"Spark goes on with batch 2.*holds batches up to {BATCHES - 1}"),
]


@pytest.mark.parametrize("spooled", [False, True], ids=["straight", "spooled"])
def test_what_is_lost_is_told_and_comes_back_with_a_copy(
    spark: SparkSession, tmp_path: Path, spooled: bool
) -> None:
    give(tmp_path / "in", 0, BATCHES)
    run(spark, tmp_path, spooled)
    journal, copy = tmp_path / "journal", tmp_path / "copy"
    shutil.copytree(journal, copy)
    give(tmp_path / "in", BATCHES, BATCHES + 1)
    for lose, told in LOST:
        lose(journal)
        with pytest.raises(JournalError, match=told):
            run(spark, tmp_path, spooled)
        shutil.rmtree(journal)
        shutil.copytree(copy, journal)
    run(spark, tmp_path, spooled)
    assert counted(tmp_path) == [(10 * n, 10) for n in range(BATCHES)]


def test_a_lost_record_of_pages_by_reference_is_told(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in", 0, BATCHES)
    run(spark, tmp_path, by_reference=True)
    give(tmp_path / "in", BATCHES, BATCHES + 1)
    lose_newest(tmp_path / "journal")
    with pytest.raises(JournalError, match="has lost its newest records"):
        run(spark, tmp_path, by_reference=True)


def test_files_that_go_before_they_are_worked_on_are_told_of(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in", 0, BATCHES)
    (tmp_path / "broken").touch()
    with pytest.raises(RunError, match="the machine is gone"):
        run(spark, tmp_path, spooled=True, by_reference=True)
    (tmp_path / "broken").unlink()
    kept = tmp_path / "kept"
    (tmp_path / "in").rename(kept)
    (tmp_path / "in").mkdir()
    with pytest.raises(RunError, match=r"has not processed yet are gone.*Keep files until their rows are in the"):
        run(spark, tmp_path, spooled=True, by_reference=True)
    (tmp_path / "in").rmdir()
    kept.rename(tmp_path / "in")
    run(spark, tmp_path, spooled=True, by_reference=True)
    assert counted(tmp_path) == [(10 * n, 10) for n in range(BATCHES - 1)]


def test_a_spool_that_is_lost_is_told(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in", 0, BATCHES)
    (tmp_path / "broken").touch()
    with pytest.raises(RunError, match="the machine is gone"):
        run(spark, tmp_path, spooled=True)
    (tmp_path / "broken").unlink()
    spooled = sorted((tmp_path / "journal" / "spool" / "rows").iterdir())
    assert spooled
    give(tmp_path / "in", BATCHES, BATCHES + 1)
    for path in spooled:
        shutil.rmtree(path)
    with pytest.raises(JournalError, match=r"pages of its spool are missing|spool/rows/\d+' .* missing"):
        run(spark, tmp_path, spooled=True)


def test_a_replay_misses_its_newest_record(spark: SparkSession, tmp_path: Path) -> None:
    times = [datetime.fromtimestamp(n, tz=UTC) for n in range(40)]
    frame = spark.createDataFrame([(t,) for t in times], "t TIMESTAMP")

    def replay() -> None:
        with sw.Session(spark, journal=tmp_path / "journal") as s:
            rows = s.stream(
                "rows", frame, time="t", arrival="t", page="10 seconds", disorder=sw.bounded("0 seconds")
            )
            rows.window("10 seconds").agg(n="count(*)").start(sink=str(tmp_path / "out"), name="q")
            s.run_available()

    replay()
    lose_newest(tmp_path / "journal")
    with pytest.raises(JournalError, match="has lost its newest records"):
        replay()


def test_two_sessions_of_one_process_do_not_share_a_journal(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in", 0, 1)
    session = sw.Session(spark, journal=tmp_path / "journal")
    with pytest.raises(JournalError, match="is in use by a session of this process, since"):
        run(spark, tmp_path)
    session.stop()
    run(spark, tmp_path)


def test_a_checkpoint_that_cannot_be_written_is_told(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in", 0, 1)
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "checkpoints").write_text("a file")
    with pytest.raises(
        RunError, match=r"Spark cannot note the batches of a stream in .*checkpoints/rows.*the right"
    ):
        run(spark, tmp_path)


def test_a_spool_that_cannot_be_read_is_told(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in", 0, 1)
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "spool").write_text("a file")
    with pytest.raises(JournalError, match=r"cannot read the folder .*journal/spool.*mend that and start again"):
        run(spark, tmp_path, spooled=True)


def test_state_that_cannot_be_spilled_is_told(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in", 0, 1)
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "spill").write_text("a file")
    with pytest.raises(RunError, match=r"Spark cannot write .*journal/spill/.*the right to write there"):
        run(spark, tmp_path, resident_limit=0)


def test_a_checkpoint_that_another_query_of_spark_reads_is_told(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in", 0, 1)
    run(spark, tmp_path)
    frame = spark.readStream.schema("t BIGINT").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    checkpoint = str(tmp_path / "journal" / "checkpoints" / "rows")
    setting = "spark.sql.streaming.stopActiveRunOnRestart"
    spark.conf.set(setting, "false")
    other = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    try:
        with pytest.raises(RunError, match=r"checkpoints/rows.*another session reads this stream.*stop it"):
            run(spark, tmp_path)
    finally:
        other.stop()
        spark.conf.unset(setting)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "Job aborted.\njava.io.IOException: No space left on device\n\tat java.io.F",
            "the disk is full: make room",
        ),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.", "another session reads this stream"),
        ("java.io.FileNotFoundException: /j/pages/7/part-0 (Permission denied)", "give Spark the right to write"),
    ],
)
def test_faults_of_storage_are_said_in_our_words(text: str, told: str) -> None:
    with pytest.raises(RunError, match=told) as error, spark_errors_explained("write", StorageDir.of("/j/pages/7")):
        raise PySparkException(text)
    assert isinstance(error.value.__cause__, PySparkException)


def test_other_errors_of_spark_pass_as_they_are() -> None:
    elsewhere = "java.io.FileNotFoundException: /data/secret (Permission denied)"
    with pytest.raises(PySparkException), spark_errors_explained("write", StorageDir.of("/j/pages/7")):
        raise PySparkException(elsewhere)
