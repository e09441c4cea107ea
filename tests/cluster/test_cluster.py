"""On a cluster whose machines share one folder every plan gives what a recomputation gives, whoever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import polars as pl
import pyspark
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.spark.backend.work import PageJobs
from tests.kit.cluster import Cluster
from tests.kit.cluster_job import results_of, rows_of, run

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
T, U = pl.col("t"), pl.col("u")


def expected() -> dict[str, pl.DataFrame]:
    """All answers, from all rows: nothing is late."""
    left, right = rows_of("left"), rows_of("right")
    both = pl.concat([left, right])
    ends = left.with_columns(end=pl.int_ranges(T // 20 * 20 + 20, T // 20 * 20 + 80, 20)).explode("end")
    first = pl.col("v").sort_by(T, "v").first()
    pairs = left.join(right.select(u="t", l="k", w="v"), left_on="k", right_on="l")
    ranges = left.select(row="n", end="t").join(left.select("t"), how="cross")
    return {
        "windows": ends.group_by("k", "end").agg(n=pl.len(), total=pl.col("v").sum(), first=first).drop("end"),
        "union": both.group_by("k", T // 60).agg(n=pl.len()).drop("t"),
        "rolling": ranges.filter((pl.col("end") - T).is_between(0, 4)).group_by("row").agg(n=pl.len()).drop("row"),
        "pairs": pairs.filter((U - T).abs() <= 3).select("t", "v", "u", "w"),
        "mapped": left.select("n", v=pl.col("v") * 2),
        "rows": left.filter(pl.col("v") > 3).select("n", "t"),
    }


def check(results: Path) -> None:
    for name, frame in expected().items():
        got = results_of(results, name).select(frame.columns)
        same = [
            sorted(rows.cast(dict.fromkeys(rows.columns, pl.String)).rows())
            for rows in (got.cast(frame.schema), frame)
        ]
        assert same[0] == same[1], f"{name}: {len(same[0])} rows and not {len(same[1])}"


def test_a_session_without_shared_storage_refuses_to_start(spark: SparkSession, cluster: Cluster) -> None:
    with pytest.raises(
        sw.RunError, match=r"has no storage that the driver and the workers share: write .*storage="
    ):
        sw.Session(spark)
    with pytest.raises(sw.RunError, match=r"journal=.* is not a folder that .* share"):
        sw.Session(spark, journal=cluster.private / "journal")


def test_every_plan_gives_what_a_recomputation_gives(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    with sw.Session(spark, storage=cluster.shared / "storage") as s:
        run(s, cluster.shared, tmp_path)
    check(tmp_path)


def test_a_replay_reads_what_workers_have_written(spark: SparkSession, cluster: Cluster) -> None:
    frame = spark.read.parquet(str(cluster.shared / "left")).selectExpr("*", "timestamp_seconds(n) AS came")
    with sw.Session(spark, storage=cluster.shared / "storage", resident_limit=0) as s:
        rows = s.stream("past", frame, time="t", arrival="came", page="10 minutes", disorder=sw.bounded(20))
        answer = rows.window(60).agg(n="count(*)").start()
        s.run_available()
        assert sum(answer.results()["n"].to_pylist()) == 3_600


def test_a_worker_that_is_killed_in_the_middle_of_a_page_loses_nothing(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    folded, real = [], PageJobs.fold

    def fold(self: PageJobs, *args: object) -> object:
        folded.append(args)
        if len(folded) == 2:
            cluster.kill_worker(1)
        return real(self, *args)  # type: ignore[arg-type]

    try:
        with mock.patch.object(PageJobs, "fold", fold), sw.Session(spark, journal=cluster.shared / "killed") as s:
            run(s, cluster.shared, tmp_path)
    finally:
        if len(folded) >= 2:
            cluster.start_worker(1)
    assert len(folded) >= 2
    check(tmp_path)


def test_a_driver_that_is_lost_goes_on_elsewhere_from_the_journal(cluster: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kit.cluster_job", cluster.master, str(cluster.shared), str(tmp_path)]
    environment = {**os.environ, "SLACKWATER_DIE_AT": "5"}
    lost = subprocess.run(
        [*command, "moved"], cwd=ROOT, env=environment, check=False, capture_output=True, timeout=300
    )
    assert lost.returncode == -signal.SIGKILL, lost.stderr[-3000:]
    subprocess.run([*command, "moved"], cwd=ROOT, check=True, capture_output=True, timeout=300)
    check(tmp_path)


JOB = """
import sys
import slackwater as sw

with sw.Session(storage=sys.argv[1]) as s:
    frame = s.spark.range(1_000).selectExpr("id AS t", "timestamp_seconds(id) AS came")
    rows = s.stream("rows", frame, time="t", arrival="came", disorder=sw.bounded(0))
    run = rows.window(100).agg(n="count(*)").start()
    s.run_available()
    print(s.spark.sparkContext.master, run.results()["n"].to_pylist())
"""


def test_a_submitted_job_runs_on_the_master_that_spark_submit_names(cluster: Cluster, tmp_path: Path) -> None:
    (job := tmp_path / "job.py").write_text(JOB)
    home = Path(pyspark.__file__).parent
    settings = ("spark.driver.host=127.0.0.1", "spark.cores.max=2", "spark.executor.memory=512m")
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [home / "bin" / "spark-submit", "--master", cluster.master]
        + [part for setting in settings for part in ("--conf", setting)]
        + [job, cluster.shared / "storage"],
        env={**environment, "PYSPARK_PYTHON": sys.executable},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert f"{cluster.master} {[100] * 10}" in done.stdout, done.stderr[-3000:]
