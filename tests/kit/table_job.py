"""A query that fills a table: python -m tests.kit.table_job FOLDER SINK POINT N kills itself, Spark and all.

It does so before or after the n-th time that rows are written to the table. SINK is what stands behind INSERT INTO.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.spark.sinks.table_sink import TableSink
from slackwater.spark.storage.embedded import embedded

ROOT = Path(__file__).parents[2]
#: A life is too short for Spark to write code for its jobs and have it compiled.
_INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
Row = tuple[int, str | None, float]


def write_rows(folder: Path, seed: int, files: int = 8) -> list[Row]:
    """Rows, a file for each page; none is late."""
    source, rows = random.Random(seed), list[Row]()
    (folder / "rows").mkdir(parents=True)
    for n in range(files):
        page = [
            (20 * n + source.randrange(20), source.choice(["a", "b", None]), source.random()) for _ in range(30)
        ]
        columns = {name: [row[at] for row in page] for at, name in enumerate("tkv")}
        pq.write_table(pa.table(columns), folder / f"rows/{n}.parquet")
        os.utime(folder / f"rows/{n}.parquet", (n, n))
        rows += page
    return rows


def recomputed(rows: list[Row]) -> list[tuple[Any, ...]]:
    """The windows of the job, from its rows."""
    windows: dict[tuple[int, str | None], int] = {}
    for t, k, _ in rows:
        for start in range(t // 10 * 10 - 10, t + 1, 10):
            windows[start, k] = windows.get((start, k), 0) + 1
    return sorted(((start, k, n) for (start, k), n in windows.items()), key=str)


def work(spark: SparkSession, root: Path, sink: str) -> None:
    """The whole job, or what is left of it."""
    with sw.Session(spark, journal=root / "journal") as session:
        session.sql(
            f"""
            CREATE STREAM rows (t BIGINT, k STRING, v DOUBLE) FROM 'parquet'
              OPTIONS (path = '{root}/rows', maxFilesPerTrigger = 1) TIME t DISORDER BOUNDED 20;
            INSERT INTO {sink} AS counts SELECT k, count(*) AS n, max(v) AS most FROM rows [RANGE 20, SLIDE 10]
              GROUP BY k;
            RUN
            """
        )


def die(root: Path, sink: str, point: str, turn: int) -> None:
    """Have the job killed in a process of its own."""
    command = [sys.executable, "-m", "tests.kit.table_job", str(root), sink, point, str(turn)]
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {_INTERPRETED}"
    killed = subprocess.run(
        command,
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=200,
        cwd=ROOT,
        env={**os.environ, "SPARK_SUBMIT_OPTS": options},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]


def main(root: str, sink: str, point: str, turn: str) -> None:
    """Work, and die at a point."""
    begin, turns = TableSink.__init__, 0

    def mortal(self: TableSink, table: Any, *args: Any, **kwargs: Any) -> None:
        put = table.put

        def putting(*rows: Any) -> None:
            nonlocal turns
            turns += 1
            for moment in ("before", "after"):
                if (moment, turns) == (point, int(turn)):
                    os.killpg(os.getpgid(0), signal.SIGKILL)
                if moment == "before":
                    put(*rows)

        table.put = putting
        begin(self, table, *args, **kwargs)

    TableSink.__init__ = mortal  # type: ignore[method-assign]
    work(embedded("local[2]", driver_memory="1g"), Path(root), sink)


if __name__ == "__main__":
    main(*sys.argv[1:])
