"""The plans that a cluster must answer: python -m tests.kit.cluster_job MASTER SHARED RESULTS [JOURNAL].

It runs them on a cluster with the folder SHARED, and writes the results of each plan as Parquet files. The rows
are those of `rows_of`; the answers recomputed from them are in `tests/cluster/test_cluster.py`.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.engine.journal import Record
from slackwater.spark.storage.journal_files import FileJournal

ROWS, FILES = 3_600, 6


def rows_of(name: str) -> pl.DataFrame:
    """Rows of one stream, in the order of their arrival: their times are up to 20 out of order."""
    source = random.Random(name)
    times = [n + source.randrange(20) for n in range(ROWS)]
    keys, values = [f"k{t % 5}" for t in times], [float(t % 7) for t in times]
    return pl.DataFrame({"n": range(ROWS), "t": times, "k": keys, "v": values})


def write_files(shared: Path) -> None:
    """The rows as files of two live streams."""
    for name in ("left", "right"):
        rows, folder = rows_of(name), shared / name
        folder.mkdir()
        for number, part in enumerate(rows.iter_slices(ROWS // FILES)):
            part.write_parquet(path := folder / f"{number}.parquet")
            os.utime(path, (1_000_000 + number, 1_000_000 + number))  # Spark reads the oldest file first


def cluster_session(master: str) -> SparkSession:
    """A driver of the cluster, with a session as its user would make it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master(master)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.cores.max", "2")
        .config("spark.shuffle.readHostLocalDisk", "false")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )


def queries(s: sw.Session, shared: Path) -> dict[str, sw.Query]:
    """Windows, an ordered stream, joins and plain rows over live streams of files."""
    schema = "n BIGINT, t BIGINT, k STRING, v DOUBLE"

    def stream(name: str) -> sw.Stream:
        frame = s.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(shared / name))
        return s.stream(name, frame, time="t", disorder=sw.bounded(20))

    left, right = stream("left"), stream("right")
    pairs = left.select("t", "k", "v").join(right.select(u="t", l="k", w="v"), on="k = l", within=3)
    return {
        "windows": left.window(60, slide=20).group_by("k").agg(n="count(*)", total="sum(v)", first="first(v)"),
        "union": left.select("t", "k").union(right.select("t", "k")).window(60).group_by("k").agg(n="count(*)"),
        "rolling": left.rolling(range=5).agg(n="count(*)"),
        "pairs": pairs,
        "mapped": left.map(doubled, "n BIGINT, v DOUBLE"),
        "rows": left.where("v > 3").select("n", "t"),
    }


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A Python function that workers run."""
    rows = pl.from_arrow(batch)
    assert isinstance(rows, pl.DataFrame)
    (out,) = rows.select("n", pl.col("v") * 2).to_arrow().to_batches()
    return out


def run(s: sw.Session, shared: Path, results: Path) -> None:
    """Start all, one of them spilled and one in the order of time, and write what comes of them."""
    for name, query in queries(s, shared).items():
        limit = 0 if name == "windows" else 2**28
        s._running._settings = replace(s._running._settings, resident_limit=limit)
        query.start(sink=_appending(results / name), name=name, hold=True, ordered=name == "pairs")
    s.run_available()


def _appending(folder: Path) -> object:
    def write(rows: DataFrame, commit_id: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows.toArrow(), folder / f"half-{commit_id}")
        (folder / f"half-{commit_id}").rename(folder / f"{commit_id}.parquet")

    return write


def results_of(results: Path, name: str) -> pl.DataFrame:
    """The rows that a plan has given."""
    return pl.concat([pl.read_parquet(file) for file in sorted((results / name).glob("*.parquet"))], how="vertical")


def _die_at(commit: int) -> None:
    """End the process, Spark and all, before the n-th commit."""
    real, left = FileJournal.commit, [commit]

    def dies(journal: FileJournal, record: Record) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.killpg(os.getpgid(0), signal.SIGKILL)
        real(journal, record)

    FileJournal.commit = dies  # type: ignore[method-assign]


def main(arguments: Iterable[str]) -> None:
    """Run the job once; SLACKWATER_DIE_AT says before which commit it is killed."""
    if "SLACKWATER_DIE_AT" in os.environ:
        os.setpgid(0, 0)
        _die_at(int(os.environ["SLACKWATER_DIE_AT"]))
    master, shared, results, *journal = arguments
    where = {"journal": f"{shared}/{journal[0]}"} if journal else {"storage": f"{shared}/storage"}
    with sw.Session(cluster_session(master), **where) as s:  # type: ignore[arg-type]
        run(s, Path(shared), Path(results))


if __name__ == "__main__":
    main(sys.argv[1:])
