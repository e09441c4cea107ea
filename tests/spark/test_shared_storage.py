"""What Spark's workers write lies where the driver sees it: on a cluster a session proves that before it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import polars as pl
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.spark.storage.shared import prove_shared, shared_place
from slackwater.spark.storage.storage_dir import StorageDir

ROOT = Path(__file__).parents[2]


def written(visible: int) -> object:
    """Workers that write to the same path, each on its machine: some of them on the driver's."""

    def write(place: StorageDir, tasks: int) -> None:
        Path(place.path).mkdir(parents=True)
        (Path(place.path) / "_SUCCESS").touch()
        for task in range(min(visible, tasks)):
            pl.DataFrame({"id": [task]}).write_parquet(f"{place.path}/part-{task}.parquet")

    return write


def prove(folder: Path, write: object) -> None:
    prove_shared(StorageDir.of(folder), f"storage={str(folder)!r}", "spark://host:7077", 4, write)  # type: ignore[arg-type]


def test_a_folder_of_which_the_driver_sees_all_files_is_shared(tmp_path: Path) -> None:
    prove(tmp_path, written(4))
    assert not list(tmp_path.iterdir()), "the proof is deleted"


@pytest.mark.parametrize("visible", [0, 3])
def test_a_folder_of_which_the_driver_misses_files_is_refused(tmp_path: Path, visible: int) -> None:
    with pytest.raises(sw.RunError) as refusal:
        prove(tmp_path, written(visible))
    message = str(refusal.value)
    assert f"storage={str(tmp_path)!r} is not a folder that the driver and Spark's workers share" in message
    assert f"of 4 files that the workers wrote there, the driver sees {visible}" in message
    assert "'spark://host:7077'; write storage= with a folder that is mounted on all machines" in message
    assert not list(tmp_path.iterdir())


def test_a_folder_to_which_the_workers_cannot_write_is_refused(tmp_path: Path) -> None:
    def write(place: StorageDir, tasks: int) -> None:
        raise PySparkException("Mkdirs failed to create file:/data")

    with pytest.raises(sw.RunError, match=r"the workers cannot write there .*Mkdirs failed.*write storage="):
        prove(tmp_path, write)


def counted(s: sw.Session, seconds: list[int]) -> sw.Query:
    times = [datetime.fromtimestamp(second, tz=UTC) for second in seconds]
    frame = s.spark.createDataFrame(pl.DataFrame({"t": times}).to_arrow())
    rows = s.stream("past", frame, time="t", arrival="t", page="5 seconds", disorder=sw.bounded("0 seconds"))
    return rows.window("10 seconds").agg(n="count(*)")


@pytest.mark.spark
def test_without_a_journal_rows_lie_in_the_storage_until_the_session_stops(
    spark: SparkSession, tmp_path: Path
) -> None:
    with sw.Session(spark, storage=tmp_path, resident_limit=0) as s:
        run = counted(s, [1, 4, 12]).start()
        s.run_available(drain=False)
        (own,) = tmp_path.iterdir()
        assert list((own / "spill").rglob("*.parquet"))
        s.run_available()
        assert run.results()["n"].to_pylist() == [2, 1]
    assert not list(tmp_path.iterdir())


@pytest.mark.spark
def test_with_a_journal_rows_lie_in_the_storage_and_are_found_again(spark: SparkSession, tmp_path: Path) -> None:
    seconds = [1, 4, 12, 23]
    for last in (3, 4):
        with sw.Session(spark, tmp_path / "journal", resident_limit=0, storage=tmp_path / "storage") as s:
            run = counted(s, seconds[:last]).start(name="q")
            s.run_available(drain=last == 4)
            found = run.results()["n"].to_pylist()
    assert found == [1, 1], "the first window was emitted before the restart"
    (own,) = (tmp_path / "storage").iterdir()
    assert (own / "spill").is_dir() and not (tmp_path / "journal" / "spill").exists()


CLUSTER = """
import sys
from pyspark.sql import SparkSession
import slackwater as sw
from tests.spark.test_shared_storage import counted

spark = SparkSession.builder.master("local-cluster[2,1,512]").config("spark.executor.memory", "512m")
spark = spark.config("spark.ui.enabled", "false").getOrCreate()
try:
    sw.Session(spark)
except sw.RunError as refusal:
    print(refusal)
with sw.Session(spark, storage=sys.argv[1], resident_limit=0) as s:
    run = counted(s, [1, 4, 12]).start()
    s.run_available()
    print(run.results()["n"].to_pylist())
spark.stop()
"""


def test_a_cluster_without_storage_is_refused() -> None:
    context = SimpleNamespace(master="local-cluster[2,1,512]", defaultParallelism=2)
    wanted = r"master is 'local-cluster\[2,1,512\]', and this session has no storage .*write sw.Session\(storage=…"
    with pytest.raises(sw.RunError, match=wanted):
        shared_place(cast(SparkSession, SimpleNamespace(sparkContext=context)), None, None)


@pytest.mark.spark
@pytest.mark.long
def test_a_session_on_a_cluster_needs_storage(tmp_path: Path) -> None:
    """Spark's executors are processes of their own here."""
    assert pyspark.__file__ is not None
    home = tmp_path / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)  # workers write into Spark's home
    env = {**os.environ, "SPARK_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", CLUSTER, str(tmp_path / "storage")],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=ROOT,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    refusal, results = done.stdout.strip().splitlines()[-2:]
    assert "Spark's master is 'local-cluster[2,1,512]', and this session has no storage" in refusal
    assert "write sw.Session(storage=…), or journal=…" in refusal
    assert results == "[2, 1]"


@pytest.mark.spark
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_an_address_that_spark_has_no_library_for_names_the_library(spark: SparkSession, scheme: str) -> None:
    address = f"{scheme}://bucket/journal?endpoint_override=127.0.0.1:9&scheme=http&region=us-east-1"
    wanted = r"no library for s3a://; start it with --packages org.apache.hadoop:hadoop-aws:3\.\d+\.\d+, and set"
    with pytest.raises(sw.RunError, match=wanted):
        sw.Session(spark, journal=address)
