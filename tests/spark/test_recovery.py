"""Killed with SIGKILL anywhere and started again, a job ends with the results of an undisturbed run, each once.

A child process streams files into a Parquet sink, once with resident and once with spilled panes; it kills
itself, Spark and all, at the n-th of many points: file operations of the journal, sink writes, page jobs, batches.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import polars.selectors as cs
import pytest

pytestmark = pytest.mark.spark

CHILD = """
import os, signal, sys
import slackwater as sw
from slackwater.spark.storage.disk import Disk
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.spark.ingest import streams as ingest
from slackwater.spark.pages import spark_page as page, spilled_panes as spill
from slackwater.spark.storage import sinks
from slackwater.spark.embedded import embedded

root, fatal = sys.argv[1], int(sys.argv[2])
points = 0

def point():
    global points
    points += 1
    if points == fatal:
        os.killpg(os.getpgid(0), signal.SIGKILL)

def deadly(owner, name):
    real = getattr(owner, name)
    def wrapped(*args, **kwargs):
        point()
        result = real(*args, **kwargs)
        point()
        return result
    setattr(owner, name, wrapped)

deadly(Disk, "write")
deadly(FileJournal, "commit")
deadly(sinks.ParquetSink, "write")
deadly(sinks.ParquetSink, "_show")
deadly(ingest.Ingest, "_batch")
deadly(page.SparkPage, "fold")
deadly(page.SparkPage, "spill")
deadly(spill.SpilledPanes, "results")
deadly(spill.SpilledPanes, "settle")

spark = embedded("local[2]", driver_memory="1g")
for kind, limit in (("resident", 2**30), ("spilled", 0)):
    with sw.Session(spark, journal=f"{root}/journal-{kind}", resident_limit=limit) as s:
        df = spark.readStream.schema("t BIGINT, k STRING, v DOUBLE").option("maxFilesPerTrigger", 1)
        rows = s.stream("rows", df.parquet(f"{root}/in"), time="t", disorder=sw.bounded(15))
        query = rows.window(range=20, slide=5).group_by("k").agg(
            n="count(*)", total="sum(v)", sd="stddev(v)", d="approx_count_distinct(v)", f="first(v)")
        run = query.start(sink=f"{root}/out-{kind}", late=f"{root}/late-{kind}", name="q", hold=True)
        s.run_available(drain=True)
        print(kind, run.metrics())
print("points", points)
"""


def make_input(folder: Path) -> None:
    folder.mkdir(parents=True)
    source = random.Random(7)
    for f in range(8):
        times = [f * 12 + source.randrange(-25, 12) for _ in range(60)]
        rows = pl.DataFrame({"t": times, "k": [f"k{t % 4}" for t in times], "v": [float(t % 7) for t in times]})
        rows.write_parquet(folder / f"{f}.parquet")
        os.utime(folder / f"{f}.parquet", (1_000_000 + f, 1_000_000 + f))


def run_child(root: Path, fatal: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHILD, str(root), str(fatal)]
    return subprocess.run(command, start_new_session=True, capture_output=True, text=True, timeout=200, check=False)


def results(root: Path, what: str) -> list[tuple[object, ...]]:
    files = sorted((root / what).glob("part-*.parquet"))
    frame = pl.concat([pl.read_parquet(f) for f in files])
    # Partials may be merged in another order after a restart: floats agree up to rounding.
    same = frame.select(cs.exclude("emitted_at") - cs.float(), cs.float().round_sig_figs(9))
    return sorted(same.rows(), key=str)


@pytest.mark.timeout(600)
def test_sigkill_anywhere_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    calm, stormy = tmp_path / "calm", tmp_path / "stormy"
    make_input(calm / "in")
    make_input(stormy / "in")
    done = run_child(calm, fatal=-1)
    assert done.returncode == 0, done.stderr[-3000:]
    points = int(done.stdout.rsplit("points", 1)[1])
    assert points > 100

    kills = 0
    source = random.Random(os.environ.get("SLACKWATER_SEED", "11"))
    while (done := run_child(stormy, fatal=source.randrange(5, points // 3))).returncode != 0:
        assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
        kills += 1
        assert kills < 40
    assert kills >= 3
    for kind in ("resident", "spilled"):
        assert results(stormy, f"out-{kind}") == results(calm, f"out-{kind}")
        assert results(stormy, f"late-{kind}") == results(calm, f"late-{kind}")
    assert results(calm, "out-resident") == results(calm, "out-spilled")
    assert results(calm, "late-resident") == results(calm, "late-spilled")
