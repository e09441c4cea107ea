"""Reading Kafka: rows a second, processor time and latency, for Slackwater and for native streaming.

Small JSON messages in 4 partitions, RANGE 5 × SLIDE, counted and summed by key. Both read the same topic from its
beginning, one after the other, several times, in one process and warm. `make test-kafka` fetches what it needs.

    python benchmarks/kafka.py --rows 2000000 --rounds 3
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.spark.ingest.topics import FAST_READER
from slackwater.spark.storage.embedded import embedded
from tests.kit.kafka import Broker, Kafka, with_connector

FIELDS = "sent TIMESTAMP, tower STRING, seconds INT, kind STRING, note STRING"
#: Messages a second of application time: 2 M are some seven minutes.
RATE, TOWERS, SLIDE = 5_000, 50, 20
RANGE = 5 * SLIDE
SLACK = "10 seconds"


@dataclass(frozen=True)
class Measured:
    """One run over all messages."""

    seconds: float
    processor: float
    answers: int


def write(kafka: Kafka, topic: str, first: int, rows: int, partitions: int = 4) -> None:
    """Write messages `first` to `first + rows`, in the order of their times, to all partitions in turn."""
    numbered = kafka.spark.range(first, first + rows, 1, partitions)
    message = numbered.select(
        F.timestamp_micros(F.lit(1_772_000_000_000_000) + F.col("id") * (1_000_000 // RATE)).alias("sent"),
        F.concat(F.lit("tower"), F.col("id") % TOWERS).alias("tower"),
        (F.col("id") % 97).cast("int").alias("seconds"),
        F.lit("call").alias("kind"),
        F.lit("nothing to say").alias("note"),
        (F.col("id") % partitions).cast("int").alias("partition"),
    )
    made = message.selectExpr("to_json(struct(sent, tower, seconds, kind, note)) AS value", "partition")
    made.write.format("kafka").option("kafka.bootstrap.servers", kafka.address).option("topic", topic).save()


def native_rows(kafka: Kafka, topic: str, fast: bool) -> DataFrame:
    """As a user writes it for Structured Streaming."""
    reader = kafka.spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.address)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    rows = reader.options(**(FAST_READER if fast else {})).load()
    return rows.select(F.from_json(F.col("value").cast("string"), FIELDS).alias("m")).select("m.*")


def native(kafka: Kafka, topic: str, fast: bool) -> int:
    """Structured Streaming's windows, in append mode; gives the number of answers."""
    found: list[int] = []
    windows = native_rows(kafka, topic, fast).withWatermark("sent", SLACK)
    windows = windows.groupBy(F.window("sent", f"{RANGE} seconds", f"{SLIDE} seconds"), "tower")
    answers = windows.agg(F.count("*").alias("n"), F.sum("seconds").alias("total"))
    with tempfile.TemporaryDirectory() as place:
        writer = answers.writeStream.outputMode("append").option("checkpointLocation", place)
        query = writer.foreachBatch(lambda rows, _: found.append(rows.count())).trigger(availableNow=True).start()
        query.awaitTermination()
    return sum(found)


def ours(kafka: Kafka, topic: str, fast: bool) -> int:
    """The same by `read_kafka`."""
    with tempfile.TemporaryDirectory() as place, sw.Session(kafka.spark, journal=Path(place) / "journal") as s:
        calls = s.read_kafka(
            "calls",
            kafka.address,
            topic,
            FIELDS,
            time="sent",
            disorder=sw.bounded(SLACK),
            options={} if fast else {name: default for name, default in DEFAULTS.items()},
        )
        windows = calls.window(f"{RANGE} seconds", slide=f"{SLIDE} seconds").group_by("tower")
        run = windows.agg(n="count(*)", total="sum(seconds)").start(hold=True)
        s.run_available()
        return run.results().num_rows


#: Kafka's own.
DEFAULTS = {
    "kafka.max.poll.records": "500",
    "kafka.max.partition.fetch.bytes": "1048576",
    "kafka.fetch.max.bytes": "52428800",
}


def processor_seconds(broker: int) -> float:
    """What this process and Java have taken; not the broker."""
    ours, ticks = os.getpid(), 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        number, parent = int(stat.parent.name), int(fields[1])
        if number == ours or (parent == ours and number != broker):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(run: Callable[[], int], broker: int) -> Measured:
    """What a run takes."""
    before, began = processor_seconds(broker), time.perf_counter()
    answers = run()
    return Measured(time.perf_counter() - began, processor_seconds(broker) - before, answers)


def latencies(kafka: Kafka, start: Callable[[str, Callable[[], None]], Any], pages: int) -> list[float]:
    """Seconds from writing some messages until the answer that they make final is there, one after another."""
    topic, came = kafka.topic(4), list[float]()
    write(kafka, topic, 0, 4 * RATE)
    stop = start(topic, lambda: came.append(time.perf_counter()))
    found, number = list[float](), 4 * RATE
    try:
        time.sleep(8)
        for _ in range(pages):
            seen, began = len(came), time.perf_counter()
            write(kafka, topic, number, SLIDE * RATE // 4)
            number += SLIDE * RATE // 4
            until = began + 30
            while len(came) == seen and time.perf_counter() < until:
                time.sleep(0.005)
            if len(came) > seen:
                found.append(came[-1] - began)
    finally:
        stop()
    return found


def ours_live(kafka: Kafka, topic: str, came: Callable[[], None]) -> Any:
    """A running query of ours; gives what stops it."""
    s = sw.Session(kafka.spark)
    calls = s.read_kafka("calls", kafka.address, topic, FIELDS, time="sent", disorder=sw.bounded("0 seconds"))
    windows = calls.window("5 seconds").group_by("tower").agg(n="count(*)")
    windows.start(sink=lambda rows, _: came() if rows.count() else None)
    return s.stop


def native_live(kafka: Kafka, topic: str, came: Callable[[], None]) -> Any:
    """The same by Structured Streaming."""
    windows = native_rows(kafka, topic, True).withWatermark("sent", "0 seconds")
    windows = windows.groupBy(F.window("sent", "5 seconds"), "tower").count()
    place = tempfile.mkdtemp()
    writer = windows.writeStream.outputMode("append").option("checkpointLocation", place)
    return writer.foreachBatch(lambda rows, _: came() if rows.count() else None).start().stop


def main() -> None:
    """Measure, and print a table."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--rows", type=int, default=2_000_000)
    reader.add_argument("--rounds", type=int, default=3)
    reader.add_argument("--pages", type=int, default=10, help="messages whose latency is measured")
    given = reader.parse_args()
    with_connector()
    spark: SparkSession = embedded("local[2]")
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder) / f"broker-{uuid.uuid4().hex[:6]}")
        try:
            _compare(Kafka(spark, broker), broker.process_id, given)
        finally:
            spark.stop()
            broker.stop()


def _compare(kafka: Kafka, broker: int, given: argparse.Namespace) -> None:
    topic = kafka.topic(4)
    write(kafka, topic, 0, given.rows)
    kinds = {
        "Slackwater": lambda: ours(kafka, topic, True),
        "Slackwater, Kafka's defaults": lambda: ours(kafka, topic, False),
        "native": lambda: native(kafka, topic, True),
        "native, Kafka's defaults": lambda: native(kafka, topic, False),
    }
    found: dict[str, list[Measured]] = {name: [] for name in kinds}
    for turn in range(given.rounds + 1):
        for name, run in kinds.items():
            once = measured(run, broker)
            if turn:  # the first one warms up
                found[name].append(once)
    print(f"{'':30} {'M rows/s':>9} {'processor s':>12} {'answers':>8}")
    for name, runs in found.items():
        seconds = statistics.median(run.seconds for run in runs)
        processor = statistics.median(run.processor for run in runs)
        print(f"{name:30} {given.rows / seconds / 1e6:9.2f} {processor:12.1f} {runs[-1].answers:8}")
    for name, start in (("Slackwater", ours_live), ("native", native_live)):
        waits = latencies(kafka, lambda topic, came, start=start: start(kafka, topic, came), given.pages)  # type: ignore[misc]
        if waits:
            print(f"{name}: {len(waits)} answers, median {statistics.median(waits):.2f} s after the write began")


if __name__ == "__main__":
    main()
