"""`read_kafka`: messages as rows, partitions as sources, and a broker that says how far it has been read."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import slackwater as sw
from slackwater.errors import QueryError, SqlError
from slackwater.spark.ingest.topics import FAST_READER, Topics
from tests.kafka.test_kafka import some_rows
from tests.kit.kafka import Kafka

pytestmark = pytest.mark.kafka

FIELDS = "t LONG, k STRING, v LONG"
WIDTH, SLACK = 20, 25


def written(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    windows: dict[tuple[int, str], list[int]] = {}
    for row in rows:
        windows.setdefault((row["t"] // WIDTH * WIDTH, row["k"]), []).append(row["v"])
    return sorted((start, k, len(values), sum(values)) for (start, k), values in windows.items())


def counted(stream: Any) -> Any:
    return stream.window(WIDTH).group_by("k").agg(n="count(*)", total="sum(v)")


def answers(run: Any) -> list[tuple[Any, ...]]:
    return sorted((row["window_start"], row["k"], row["n"], row["total"]) for row in run.results().to_pylist())


def soon(true: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether it becomes true in a while: a broker answers when it does."""
    until = time.monotonic() + seconds
    waiting = threading.Event()
    while not true() and time.monotonic() < until:
        waiting.wait(0.1)
    return true()


def test_partitions_that_are_read_unevenly_lose_nothing(kafka: Kafka, tmp_path: Path) -> None:
    """Each partition is in order, and one of them is read long after the others; restarted in the middle."""
    topic, source = kafka.topic(3), random.Random(7)
    rows = [
        {"t": n, "k": source.choice("ab"), "v": n, "partition": source.choice((0, 0, 0, 0, 1, 2))}
        for n in range(400)
    ]
    kafka.write(topic, rows)

    def life(limit: int) -> Any:
        with sw.Session(kafka.spark, journal=tmp_path / "journal") as s:
            stream = s.read_kafka(
                *("calls", kafka.address, topic, FIELDS),
                time="t",
                disorder=sw.bounded(0),
                options={"maxOffsetsPerTrigger": limit},
            )
            run = counted(stream).start(sink=tmp_path / "out", name="q", hold=True)
            s.run_available(drain=False)
            return run.metrics()

    assert life(40)["late_rows"] == 0
    more = [{"t": 400 + n, "k": "a", "v": n, "partition": 0} for n in range(40)]
    kafka.write(topic, more)
    assert life(7)["late_rows"] == 0
    with sw.Session(kafka.spark, journal=tmp_path / "journal") as s:
        stream = s.read_kafka("calls", kafka.address, topic, FIELDS, time="t", disorder=sw.bounded(0))
        counted(stream).start(sink=tmp_path / "out", name="q", hold=True)
        s.run_available()
    out = kafka.spark.read.parquet(str(tmp_path / "out")).select("window_start", "k", "n", "total").collect()
    assert sorted(map(tuple, out)) == written([*rows, *more])


def test_a_partition_that_has_been_read_holds_no_other_and_an_empty_topic_no_union(kafka: Kafka) -> None:
    """Live: the broker says so, and no timeout has passed (the default is ten minutes)."""
    topic, silent = kafka.topic(4), kafka.topic(2)
    rows = [{"t": n, "k": "a", "v": 1, "partition": 0 if n > 30 else 1} for n in range(100)]
    kafka.write(topic, rows)
    with sw.Session(kafka.spark) as s:
        calls = s.read_kafka("calls", kafka.address, topic, FIELDS, time="t", disorder=sw.bounded(0))
        empty = s.read_kafka("silent", kafka.address, silent, FIELDS, time="t", disorder=sw.bounded(0))
        run = counted(calls).start(hold=True)
        by = calls.window(WIDTH).group_by("kafka_partition").agg(n="count(*)").start(hold=True)
        both = calls.union(empty).window(WIDTH).agg(n="count(*)").start()
        wanted = written([row for row in rows if row["t"] < 80])
        assert soon(lambda: answers(run) == wanted), (answers(run), s.history.latest)
        assert soon(lambda: both.results().num_rows == 4)
        assert soon(lambda: by.results().num_rows == 5)
        found = {(r["kafka_partition"], r["window_start"], r["n"]) for r in by.results().to_pylist()}
        assert found == {(1, 0, 20), (1, 20, 11), (0, 20, 9), (0, 40, 20), (0, 60, 20)}


def test_messages_that_cannot_be_read_are_counted(kafka: Kafka) -> None:
    topic = kafka.topic(1)
    rows = some_rows(20, 1, seed=6, begin=100)
    kafka.write(topic, rows)
    bad = kafka.spark.createDataFrame([("{",), ("[1]",), (None,), ('{"t": "x", "k": "a"}',)], "value STRING")
    bad.write.format("kafka").option("kafka.bootstrap.servers", kafka.address).option("topic", topic).save()
    with sw.Session(kafka.spark) as s:
        stream = s.read_kafka("calls", kafka.address, topic, FIELDS, time="t", disorder=sw.bounded(500))
        run = counted(stream).start(hold=True)
        s.run_available()
        assert run.metrics()["missing_time"] == 4
        assert answers(run) == written(rows)


def test_only_the_fields_that_are_asked_for_are_parsed(kafka: Kafka) -> None:
    topics = Topics(kafka.spark, kafka.address, "calls", FIELDS, "json", "earliest", {})
    plan = topics.frame(["t", "kafka_partition"])._jdf.queryExecution().analyzed().toString()
    assert "StructField(t,LongType" in plan and "StructField(k" not in plan
    assert topics.frame(["t", "kafka_partition"]).columns == ["t", "kafka_partition"]
    options = dict(topics._rows._jdf.queryExecution().analyzed().extraOptions().asCaseSensitiveMap())
    assert options.items() >= FAST_READER.items()
    own = Topics(kafka.spark, kafka.address, "calls", FIELDS, "json", "earliest", {"kafka.max.poll.records": 7})
    options = dict(own._rows._jdf.queryExecution().analyzed().extraOptions().asCaseSensitiveMap())
    assert options["kafka.max.poll.records"] == "7"


def test_in_sql_columns_are_the_fields_of_messages(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    rows = some_rows(50, 2, seed=9)
    kafka.write(topic, rows)
    create = (
        f"CREATE STREAM calls (t LONG, k STRING, v LONG) FROM 'kafka' "
        f"OPTIONS (servers = '{kafka.address}', topic = '{topic}') TIME t DISORDER BOUNDED 500"
    )
    with sw.Session(kafka.spark) as s:
        s.sql(create)
        text = f"SELECT k, COUNT(*) AS n, SUM(v) AS total FROM calls [RANGE {WIDTH}, SLIDE {WIDTH}] GROUP BY k"
        run = s.sql(text).start(hold=True)
        s.run_available()
        assert answers(run) == written(rows)
    with sw.Session(kafka.spark) as s:
        with pytest.raises(SqlError, match=r"needs OPTIONS \(topic = 'calls'\)"):
            s.sql(create.replace(f", topic = '{topic}'", ""))
        with pytest.raises(SqlError, match="the formats are json, avro, columns"):
            s.sql(create.replace("OPTIONS (", "OPTIONS (format = 'jsn', "))


def test_what_cannot_be_is_refused(kafka: Kafka) -> None:
    with sw.Session(kafka.spark) as s:

        def read(schema: Any = FIELDS, time: Any = "t", **how: Any) -> None:
            s.read_kafka("x", how.pop("servers", "h:1"), how.pop("topic", "x"), schema, time=time, **how)

        policy = sw.bounded(0)
        for match, how in {
            "say which fields": {"schema": None},
            "there is no schema|leave out schema": {"format": "columns"},
            "write servers= instead": {"options": {"kafka.bootstrap.servers": "x"}},
            "write topic=": {"topic": ""},
            "Spark cannot read it": {"schema": "t LNG"},
            "is taken by Kafka's own": {"schema": "t LONG, kafka_key STRING"},
            "package for Avro is missing": {"schema": "{}", "format": "avro"},
            "an option is a text": {"options": {"a": [1]}},
            "say how late rows may come": {"disorder": None},
        }.items():
            with pytest.raises(QueryError, match=match):
                read(**{"disorder": policy, **how})
        plain = s.read_kafka("plain", "h:1", "x", time="timestamp", format="columns", disorder=sw.bounded("1 s"))
        assert "kafka_partition" in repr(plain)
