"""Killed with SIGKILL anywhere and started again, a job ends with the results of an undisturbed run, each once.

The job (`tests/kit/mortal_job.py`) dies before or after one of its acts: file operations of the journal, sink
writes, page jobs, batches, files of a join. Each life dies at another kind of act. The first is a process that
kills itself, Spark and all: the second finds what a process has left that is no more. Each of the others finds what
lay in the folder when the one before died. That is all a kill leaves, and it needs no Java of its own. In the long
run the second life is such a process too.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import polars.selectors as cs
import pytest
from pyspark.sql import SparkSession

from tests.kit.mortal_job import QUERIES, dies_here, watched, work

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
#: A life is too short for Spark to have even expressions compiled. What it dies of is not in there.
INTERPRETED = "-Dspark.sql.codegen.factoryMode=NO_CODEGEN"

ARRIVAL, WORK = "Ingest._batch", ("Work.fold", "Work.spill", "JoinCells.add")


def make_input(root: Path) -> None:
    """Both streams overlap in time; the second one ends earlier."""
    for seed, name, files, columns in ((7, "rows", 4, ["t", "k", "v"]), (8, "others", 3, ["t", "k"])):
        (root / name).mkdir(parents=True)
        source = random.Random(seed)
        for f in range(files):
            times = [f * 12 + source.randrange(-25, 12) for _ in range(60)]
            rows = {"t": times, "k": [f"k{t % 4}" for t in times], "v": [float(t % 7) for t in times]}
            path = root / name / f"{f}.parquet"
            pl.DataFrame(rows).select(columns).write_parquet(path)
            os.utime(path, (1_000_000 + f, 1_000_000 + f))


def is_killed(root: Path, fatal: str, times: int) -> bool:
    """Live in a process of its own; whether it was killed before the job was done."""
    command = [sys.executable, "-m", "tests.kit.mortal_job", str(root), fatal, str(times)]
    env = {**os.environ, "SPARK_SUBMIT_OPTS": f"{os.environ['SPARK_SUBMIT_OPTS']} {INTERPRETED}"}
    done = subprocess.run(
        command, start_new_session=True, capture_output=True, text=True, timeout=200, cwd=ROOT, env=env, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    return done.returncode != 0


def results(root: Path, what: str) -> list[tuple[object, ...]]:
    files = sorted((root / what).glob("part-*.parquet"))
    frame = pl.concat([pl.read_parquet(f) for f in files])
    # Partials may be merged in another order after a restart: floats agree up to rounding.
    same = frame.select(cs.exclude("emitted_at") - cs.float(), cs.float().round_sig_figs(9))
    return sorted(same.rows(), key=str)


def deaths(acts: Counter[str], source: random.Random) -> list[tuple[str, int]]:
    """At which act each life ends, and at the how-manieth.

    What one life has done the next one need not do. So the first ones end at their first pages, and the others
    early in what commits do.
    """
    shuffled = source.sample(sorted(acts), len(acts))
    first = next(act for act in shuffled if act.endswith((ARRIVAL, *WORK)))
    second = next(act for act in shuffled if act.endswith(WORK) and act != first)
    late = [act for act in shuffled if not act.endswith((ARRIVAL, *WORK))]
    return [(first, 1), (second, 1), *((act, source.randint(1, 1 + acts[act] // 8)) for act in late)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("seed", "lives", "processes"),
    [("16", 3, 1), *(pytest.param(*more, marks=pytest.mark.long) for more in (("16", 4, 1), ("7", 8, 2)))],
)
def test_sigkill_anywhere_loses_nothing_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path, seed: str, lives: int, processes: int
) -> None:
    calm, stormy = tmp_path / "calm", tmp_path / "stormy"
    make_input(calm)
    make_input(stormy)
    acts: Counter[str] = Counter()
    with watched(lambda act: acts.update([act])):
        work(spark, str(calm))
    assert acts.total() > 100

    points = deaths(acts, random.Random(os.environ.get("SLACKWATER_SEED", seed)))
    assert all(is_killed(stormy, *point) for point in points[:processes]), points[:processes]
    kills = processes
    while kills < lives and dies_here(spark, stormy, *points[kills]):
        kills += 1
    assert kills > 2, points
    work(spark, str(stormy))
    for name, late in QUERIES.items():
        assert results(stormy, f"out-{name}") == results(calm, f"out-{name}"), name
        if late:
            assert results(stormy, f"late-{name}") == results(calm, f"late-{name}"), name
    assert results(stormy, "out-union-again") == results(calm, "out-union")
    assert results(calm, "out-resident") == results(calm, "out-spilled")
    assert results(calm, "late-resident") == results(calm, "late-spilled")
