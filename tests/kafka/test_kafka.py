"""Rows of Kafka: pages are offsets, nothing is copied, and every row counts once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.errors import RunError
from slackwater.operators.page import Page
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.locations.location import RowLocation
from slackwater.spark.backend.locations.registry import Direct
from slackwater.spark.backend.opened import reference_of
from slackwater.spark.backend.work import PageJobs
from tests.kit import kafka_job
from tests.kit.kafka import Kafka
from tests.kit.kafka_job import rows_of, work

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
#: A life is too short for Spark to write code for its jobs and have it compiled.
INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"

Rows = list[dict[str, Any]]


def some_rows(count: int, partitions: int, seed: int, begin: int = 0) -> Rows:
    """Out of order, in each partition and between them."""
    source = random.Random(seed)
    return [
        {
            "t": begin + n + source.randrange(-60, 60),
            "k": source.choice(["a", "b", "c", "dropped"]),
            "v": source.randrange(-2, 10),
            "partition": source.randrange(partitions),
        }
        for n in range(count)
    ]


def recomputed(rows: Rows) -> list[tuple[Any, ...]]:
    """The windows of the job, from the rows as they were written."""
    windows: dict[tuple[int, str], list[int]] = {}
    for row in rows:
        if row["k"] != "dropped" and row["v"] >= 0:
            last = row["t"] // 20 * 20
            for start in (last - 20, last):
                windows.setdefault((start, row["k"]), []).append(row["v"])
    return sorted((start, k, len(values), sum(values)) for (start, k), values in windows.items())


def given(root: Path) -> list[tuple[Any, ...]]:
    files = sorted((root / "out").glob("part-*.parquet"))
    return sorted(pl.concat(map(pl.read_parquet, files)).select("window_start", "k", "n", "total").rows())


def notes(root: Path) -> list[dict[str, Any]]:
    """The notes that wait; there must be nothing but notes."""
    files = [path for path in (root / "journal" / "spool").rglob("*") if path.is_file()]
    assert {path.name for path in files} <= {"_page.json"}, "rows have been copied"
    assert not list((root / "journal").rglob("pages/**/*.parquet"))
    return sorted((json.loads(path.read_text()) for path in files), key=lambda note: note["origin"][1])


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[list[RowLocation]]:
    """The pages of each group that was taken as one, and in the end what came of them."""
    noted: list[list[RowLocation]] = []
    real = SparkBackend.merge

    def noting(self: SparkBackend, pages: Sequence[Page]) -> Page | None:
        made = real(self, pages)
        if made is not None:
            found = [reference_of(page.location) for page in (*pages, made)]
            noted.append([reference for reference in found if reference is not None])
        return made

    monkeypatch.setattr(SparkBackend, "merge", noting)
    return noted


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[RowLocation | None]:
    """What was found of each batch."""
    noted: list[RowLocation | None] = []
    real = Direct.of

    def noting(self: Direct, batch: DataFrame) -> RowLocation | None:
        noted.append(real(self, batch))
        return noted[-1]

    monkeypatch.setattr(Direct, "of", noting)
    return noted


def test_killed_in_mid_backlog_each_row_counts_once(
    kafka: Kafka, tmp_path: Path, groups: list[list[RowLocation]]
) -> None:
    topic, rows = kafka.topic(3), some_rows(600, 3, seed=1)
    kafka.write(topic, rows)
    env = {**os.environ, "SPARK_SUBMIT_OPTS": f"{os.environ['SPARK_SUBMIT_OPTS']} {INTERPRETED}"}
    command = [sys.executable, "-m", "tests.kit.kafka_job", str(tmp_path), kafka.address, topic]
    killed = subprocess.run(
        command, start_new_session=True, capture_output=True, text=True, timeout=200, cwd=ROOT, env=env, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    left = notes(tmp_path)
    # The first job takes one page, the second at most four.
    assert kafka_job.NOTED - 5 <= len(left) < 30
    assert kafka.address not in json.dumps(left)
    ranges = [tuple(part) for note in left for part in json.loads(note["location"]["where"])["ranges"]]
    assert {(of, partition) for of, partition, _, _ in ranges} == {(topic, p) for p in range(3)}
    figures = work(kafka.spark, str(tmp_path), rows_of(kafka.spark, kafka.address, topic))
    assert given(tmp_path) == recomputed(rows)
    assert notes(tmp_path) == []
    assert figures["late_rows"] == 0
    # What had waited was taken together, and what follows each other became one.
    *pages, whole = max(groups, key=lambda group: sum(e - s for _, _, s, e in group[-1].saved()["ranges"]))
    assert len(pages) > 1
    starts, ends = ([part[at] for page in pages for part in page.saved()["ranges"]] for at in (2, 3))
    assert sum(e - s for _, _, s, e in whole.saved()["ranges"]) == sum(ends) - sum(starts)
    assert len(whole.saved()["ranges"]) == 3


def test_lost_offsets_are_told(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, rows = kafka.topic(2), some_rows(120, 2, seed=2)
    kafka.write(topic, rows)
    with monkeypatch.context() as broken:

        def gone(self: PageJobs, kernel: Any) -> Any:
            raise RuntimeError("the machine is gone")

        broken.setattr(PageJobs, "fold", gone)
        with pytest.raises(RunError, match="the machine is gone"):
            work(kafka.spark, str(tmp_path), rows_of(kafka.spark, kafka.address, topic))
    assert notes(tmp_path)
    kafka.lose(topic, 1, before=7)
    lost = (
        rf"no longer has rows.*topic '{topic}', partition 1, offsets 0 to \d+\..*retention.*failOnDataLoss = false"
    )
    with pytest.raises(RunError, match=lost):
        work(kafka.spark, str(tmp_path), rows_of(kafka.spark, kafka.address, topic))
    # The user may go on without them.
    work(kafka.spark, str(tmp_path), rows_of(kafka.spark, kafka.address, topic, failOnDataLoss="false"))
    second = [row for row in rows if row["partition"] == 1]
    assert given(tmp_path) == recomputed([row for row in rows if row not in second[:7]])


def test_a_new_partition_is_read_from_its_beginning(
    kafka: Kafka, tmp_path: Path, found: list[RowLocation | None]
) -> None:
    topic, first = kafka.topic(1), some_rows(60, 1, seed=3)
    kafka.write(topic, first)
    frame = rows_of(kafka.spark, kafka.address, topic, limit=1000)
    work(kafka.spark, str(tmp_path), frame, drain=False)
    kafka.widen(topic, 3)
    more = [{**row, "partition": row["partition"] + 1} for row in some_rows(60, 2, seed=4, begin=60)]
    kafka.write(topic, more)
    work(kafka.spark, str(tmp_path), frame)
    assert given(tmp_path) == recomputed([*first, *more])
    ranges = [part for reference in found if reference is not None for part in reference.saved()["ranges"]]
    lengths = [sum(row["partition"] == p for row in more) for p in (1, 2)]
    assert ranges == [[topic, 0, 0, 60], [topic, 1, 0, lengths[0]], [topic, 2, 0, lengths[1]]]


def counts(spark: SparkSession, frame: DataFrame, time: str, by: str) -> dict[Any, int]:
    with sw.Session(spark) as s:
        rows = s.stream("rows", frame, time=time, disorder=sw.bounded("1 day" if time == "timestamp" else 500))
        whole = "10000 days" if time == "timestamp" else 100_000
        query = rows.window(whole).group_by(f"{by} AS g").agg(n="count(*)")
        run = query.start(hold=True)
        s.run_available()
        return {row["g"]: row["n"] for row in run.results().to_pylist()}


def test_the_options_of_a_reader_are_kept(kafka: Kafka, found: list[RowLocation | None]) -> None:
    """A pattern of topics, headers, Kafka's own time, and no step before the stream."""
    topics = [kafka.topic(2), kafka.topic(1)]
    for topic, partitions in zip(topics, (2, 1), strict=True):
        kafka.write(topic, some_rows(50, partitions, seed=5))
    read = kafka.spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.address)
    read = read.option("startingOffsets", "earliest").option("includeHeaders", "true")
    by_pattern = read.option("subscribePattern", "|".join(topics)).load()
    by = "concat(topic, ' ', size(headers) IS NULL OR size(headers) <= 0)"
    assert counts(kafka.spark, by_pattern, "timestamp", by) == {f"{topic} true": 50 for topic in topics}
    assert len(found) == 1 and found[0] is not None


def test_steps_that_would_not_give_the_same_again_are_left_to_spark(
    kafka: Kafka, found: list[RowLocation | None]
) -> None:
    topic = kafka.topic(1)
    rows = some_rows(20, 1, seed=6, begin=100)
    kafka.write(topic, rows)
    frame = rows_of(kafka.spark, kafka.address, topic).withColumn("r", F.rand())
    assert counts(kafka.spark, frame, "t", "r < 2") == {True: sum(row["k"] != "dropped" for row in rows)}
    assert found == [None]
