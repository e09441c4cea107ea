"""A live stream before an expensive operator: its pages wait on disk, where a crash leaves them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater as sw

pytestmark = pytest.mark.spark

PAGES = 4


def give(folder: Path, first: int = 0, last: int = PAGES) -> None:
    """A file for each page: a row in each of the seconds from 10 × its number."""
    folder.mkdir(exist_ok=True)
    for n in range(first, last):
        times = [datetime.fromtimestamp(10 * n + s, tz=UTC) for s in range(10)]
        pl.DataFrame({"t": times, "v": [n] * 10}).write_parquet(folder / f"{n}.parquet")
        os.utime(folder / f"{n}.parquet", (n, n))  # Spark reads the oldest first


class Gate:
    """Lets the first page that is worked on wait until the test says how to go on; none after it waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        os.mkfifo(path)

    def work(self) -> Any:
        path = str(self._path)

        def wait(rows: pa.RecordBatch) -> pa.RecordBatch:
            if os.path.exists(path):
                with open(path) as gate:
                    if gate.read() == "fail":
                        raise RuntimeError("the machine is gone")
            return rows

        return wait

    def open(self, how: str = "go") -> None:
        with open(self._path, "w") as gate:  # waits until somebody waits there
            self._path.rename(self._path.with_suffix(".opened"))
            gate.write(how)


def start(s: sw.Session, folder: Path, sink: Path, gate: Gate, hold: bool = False) -> sw.Run:
    frame = s.spark.readStream.schema("t TIMESTAMP, v BIGINT").option("maxFilesPerTrigger", 1).parquet(str(folder))
    rows = s.stream("rows", frame, time="t", disorder=sw.bounded("5 seconds"))
    mapped = rows.map(gate.work(), schema="t TIMESTAMP, v BIGINT")
    query = mapped.window("20 seconds").agg(n="count(*)", total="sum(v)")
    return query.start(sink=str(sink), name="q", hold=hold)


def finals(spark: SparkSession, sink: Path) -> list[tuple[int, int]]:
    rows = spark.read.parquet(str(sink)).where("kind = 'final'").sort("window_start").collect()
    return [(r["n"], r["total"]) for r in rows]


def handed_over(s: sw.Session) -> None:
    """Wait until Spark has handed over all batches, though the first is still being worked on."""
    query = s._running.readers._ingests["rows"].query
    assert query is not None
    query.processAllAvailable()


@pytest.mark.parametrize("journal", [False, True], ids=["no journal", "journal"])
def test_batches_are_done_while_the_first_is_worked_on(spark: SparkSession, tmp_path: Path, journal: bool) -> None:
    give(tmp_path / "in")
    gate = Gate(tmp_path / "gate")
    with sw.Session(spark, journal=tmp_path / "journal" if journal else None) as s:
        run = start(s, tmp_path / "in", tmp_path / "out", gate)
        handed_over(s)
        gate.open()
        s.run_available()
        assert run.metrics()["rows"] == 10 * PAGES
        assert not list(Path(s._place.path).glob("spool/rows/*")), "what is worked off is gone"
    assert finals(spark, tmp_path / "out") == [(20, 10), (20, 50)]


def test_pages_in_the_spool_outlive_the_process(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in")
    gate = Gate(tmp_path / "gate")
    with sw.Session(spark, journal=tmp_path / "journal") as s:
        start(s, tmp_path / "in", tmp_path / "out", gate)
        handed_over(s)
        gate.open("fail")
        with pytest.raises(sw.RunError, match="the machine is gone"):
            s.run_available()
    assert len(list((tmp_path / "journal" / "spool" / "rows").iterdir())) == PAGES
    give(tmp_path / "in", PAGES, PAGES + 1)
    with sw.Session(spark, journal=tmp_path / "journal") as s:
        run = start(s, tmp_path / "in", tmp_path / "out", gate, hold=True)
        s.run_available()
        assert (run.metrics()["rows"], run.metrics()["late_rows"]) == (10 * (PAGES + 1), 0)
    assert finals(spark, tmp_path / "out") == [(20, 10), (20, 50), (10, 40)]
