"""A job on Spark that dies in the middle: python -m tests.kit.mortal_job FOLDER ACT N kills itself, Spark and all.

`dies_here` is a death without an end of the process: at that point all stands still, and the folder as it is then
is what the next life finds. What the life does behind that point is lost.

One session reads two live streams into Parquet sinks. It has a window with resident panes and one with spilled
panes, a window over both streams, which waits for the slower of them, and a join, which keeps rows of both. A query
without a window gives its rows to a function, which has them made when it is called.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.operators import sink as sink_operator
from slackwater.spark.backend import work as work_module
from slackwater.spark.ingest import streams as ingest
from slackwater.spark.sinks import sinks
from slackwater.spark.state import cell_files, join_cells, spilled_panes
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.embedded import embedded
from slackwater.spark.storage.journal_files import FileJournal

#: What the job does to the outside, or what the outside has it do.
ACTS: tuple[tuple[Any, str], ...] = (
    (Disk, "write"),
    (FileJournal, "commit"),
    (sinks.TableSink, "write"),
    (sinks.TableSink, "_show"),
    (sinks.CallableSink, "write"),
    (ingest.Ingest, "_batch"),
    (work_module.PageJobs, "fold"),
    (work_module.PageJobs, "spill"),
    (spilled_panes.SpilledPanes, "results"),
    (spilled_panes.SpilledPanes, "settle"),
    (join_cells.JoinCells, "add"),
    (cell_files.CellFiles, "settle"),
)
#: Windows, and whether late rows are kept.
QUERIES = {"resident": True, "spilled": True, "union": False, "join": False, "straight": False}


@contextmanager
def watched(point: Callable[[str], None]) -> Iterator[None]:
    """Inside, `point` is told before and after each act."""
    real = {(owner, name): getattr(owner, name) for owner, name in ACTS}
    for (owner, name), act in real.items():
        setattr(owner, name, _with_points(act, f"{owner.__name__}.{name}", point))
    try:
        yield
    finally:
        for (owner, name), act in real.items():
            setattr(owner, name, act)


def _with_points(act: Callable[..., Any], name: str, point: Callable[[str], None]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        point(f"before {name}")
        result = act(*args, **kwargs)
        point(f"after {name}")
        return result

    return wrapped


def work(spark: SparkSession, root: str) -> None:
    """The whole job, or what is left of it."""
    with (
        # However few the rows, they do not go by the driver.
        mock.patch.object(sink_operator, "FEW", 0),
        # Which rows are late goes by the pages: so all lives must have the same.
        sw.Session(spark, journal=f"{root}/journal", batch_pages=False) as s,
    ):
        frames = [
            spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{root}/{name}")
            for name, schema in (("rows", "t BIGINT, k STRING, v DOUBLE"), ("others", "t BIGINT, k STRING"))
        ]
        rows, others = (
            # Nothing is late in the union and the join: what would be goes by how the pages of both streams mix.
            s.stream(name, df, time="t", disorder=sw.bounded(60))
            for name, df in zip(("rows", "others"), frames, strict=True)
        )
        aggregates = {"n": "count(*)", "total": "sum(v)", "sd": "stddev(v)", "d": "approx_count_distinct(v)"}
        keyed = rows.window(20, slide=5, disorder=sw.bounded(15)).group_by("k")
        both = rows.select("t", "k").union(others)
        pairs = rows.rolling(range=9).join(others.select(u="t", l="k").rolling(range=4), on="k = l", how="full")
        queries = {
            "resident": keyed.agg(**aggregates, f="first(v)"),
            "union": both.window(20, slide=5).group_by("k").agg(n="count(*)"),
            "join": pairs.select("t", "u", "v"),
            "straight": rows.where("v > 1").select("t", "k", twice="2 * v"),
            "spilled": keyed.agg(**aggregates, f="first(v)"),
        }
        for name, query in queries.items():
            if name == "spilled":
                s._running._settings = replace(s._running._settings, resident_limit=0)
            late = f"{root}/late-{name}" if QUERIES[name] else None
            sink = _files_of(f"{root}/out-{name}") if name == "straight" else f"{root}/out-{name}"
            sink = [sink, f"{root}/out-union-again"] if name == "union" else sink
            query.start(sink=sink, late=late, name=name, hold=True)
        s.run_available(drain=True)


def _files_of(folder: str) -> Callable[[DataFrame, int], None]:
    """A function that writes a file for each commit; one that comes again replaces itself."""

    def write(rows: DataFrame, commit_id: int) -> None:
        os.makedirs(folder, exist_ok=True)
        pq.write_table(rows.toArrow(), f"{folder}/half")
        os.replace(f"{folder}/half", f"{folder}/part-{commit_id}.parquet")

    return write


class Died(Exception):
    """Nothing more comes of this life."""


def dies_here(spark: SparkSession, root: Path, fatal: str, times: int) -> bool:
    """Live in this process; whether death came before the job was done."""
    moment, turn = root.with_name("moment"), threading.Lock()

    def point(name: str) -> None:
        nonlocal times
        with turn:
            if times:
                times -= name == fatal
                if times:
                    return
                _copy_while_all_stands_still(spark, root, moment)
        raise Died

    with watched(point):
        try:
            work(spark, str(root))
        except Exception:
            if times:
                raise
    if times:
        return False
    shutil.rmtree(root)
    moment.rename(root)
    return True


def _copy_while_all_stands_still(spark: SparkSession, root: Path, moment: Path) -> None:
    """As a SIGKILL would leave it: Java is stopped, and no other thread of Python gets its turn (PyDLL)."""
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    os.kill(java, signal.SIGSTOP)
    try:
        assert ctypes.PyDLL(None).system(shlex.join(["cp", "-a", str(root), str(moment)]).encode()) == 0
    finally:
        os.kill(java, signal.SIGCONT)


def main(root: str, fatal: str, times: int) -> None:
    """Work, and die at this point when it is reached for the n-th time."""

    def point(name: str) -> None:
        nonlocal times
        times -= name == fatal
        if not times:
            os.killpg(os.getpgid(0), signal.SIGKILL)

    with watched(point):
        work(embedded("local[2]", driver_memory="1g"), root)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
