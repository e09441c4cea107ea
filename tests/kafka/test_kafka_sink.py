"""Results in a topic of Kafka: whoever reads what is committed sees each row once, whatever crashes."""

from __future__ import annotations

import json
import random
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import slackwater as sw
from slackwater.errors import QueryError, SinkError
from slackwater.spark.sinks.result_rows import ResultColumns
from tests.kit import table_job
from tests.kit.faults import Fate
from tests.kit.kafka import Broker, Kafka
from tests.kit.tables import TableWorld

pytestmark = pytest.mark.kafka

AT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("k", pa.string()), ("x", pa.float64()), ("at", AT), ("n_seen", pa.int64())])
COLUMNS = ResultColumns(SCHEMA, frozenset({"n_seen"}))
MORTAL = ("put", "_send", "_note")


def rows(*values: tuple[str | None, float, int]) -> pa.Table:
    arrays = [pa.array([v[n] for v in values], SCHEMA.field(n).type) for n in range(3)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(SCHEMA)[:3]))


def topic(broker: Broker, partitions: int = 2) -> str:
    name = f"out-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
    return name


def messages(broker: Broker, name: str, partitions: int = 2) -> list[Any]:
    """What a reader of committed messages finds."""
    settings = {"bootstrap.servers": broker.address, "group.id": "r", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(name, n, 0) for n in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            ended += 1
        else:
            found.append(message)
    consumer.close()
    return found


def read(broker: Broker, name: str) -> list[tuple[Any, ...]]:
    values = [json.loads(message.value()) for message in messages(broker, name)]
    return sorted([(v["k"], v["x"], datetime.fromisoformat(v["at"]).microsecond) for v in values], key=str)


def commits() -> list[Any]:
    """Small ones and files of Spark."""
    small = [rows((f"a{n}", n, n), ("b", n, 10 + n)) for n in range(4)]
    small[2:2] = [[rows(("staged", 1, 101), (None, 2, 102)), rows(("staged", 3, 103))]]
    return small


def test_a_crash_at_any_point_leaves_each_row_once(broker: Broker, tmp_path: Path) -> None:
    def world() -> tuple[TableWorld, str]:
        name = topic(broker)
        sink = sw.sinks.kafka(broker.address, name, key="k", every="6 seconds")
        return TableWorld(sink, COLUMNS, tmp_path / name, commits(), MORTAL, name), name

    (calm, name), fate = world(), Fate()
    assert calm.live(fate)
    wanted = read(broker, name)
    assert len(wanted) == len(set(wanted)) == 11
    assert fate.count > 30
    # A life takes a second here: the points of the journal's files are tried out for Parquet.
    for at in range(1, fate.count + 1, 3):
        stormy, name = world()
        assert not stormy.live(Fate(at))
        stormy.live(Fate(random.Random(at).randrange(2, 12)))
        assert stormy.live(Fate())
        assert read(broker, name) == wanted, at


def test_a_message_is_json_with_a_key_and_the_commit(broker: Broker, tmp_path: Path) -> None:
    name = topic(broker)
    schema = pa.schema(
        [("k", pa.string()), ("d", pa.decimal128(5, 2)), ("raw", pa.binary()), ("many", pa.list_(AT))]
    )
    values = {"k": "a", "d": Decimal("1.50"), "raw": b"\x00", "many": [datetime(2026, 3, 1, tzinfo=UTC)]}
    many = pa.Table.from_pylist([values, {**values, "k": None}], schema)
    world = TableWorld(sw.sinks.kafka(broker.address, name, key="k"), ResultColumns(schema), tmp_path, [many])
    assert world.live(Fate())
    first, second = sorted(messages(broker, name), key=lambda message: message.key() is None)
    assert (first.key(), second.key()) == (b"a", None)
    assert json.loads(first.value()) == {
        "k": "a",
        "d": "1.50",
        "raw": "AA==",
        "many": ["2026-03-01T00:00:00+00:00"],
    }
    assert dict(first.headers()) == {"slackwater.run": b"run", "slackwater.commit": b"0"}
    two = TableWorld(
        sw.sinks.kafka(broker.address, name, key=("k", "d")), ResultColumns(schema), tmp_path, [many], run="b"
    )
    assert two.live(Fate())
    assert {m.key() for m in messages(broker, name)} == {b"a", None, b'["a","1.50"]', b'[null,"1.50"]'}


def test_a_second_process_fences_the_first(broker: Broker, tmp_path: Path) -> None:
    name = topic(broker)
    world = TableWorld(sw.sinks.kafka(broker.address, name), COLUMNS, tmp_path, [])
    first, second = world.sink(), world.sink()
    second.write(rows(("a", 1, 1)), 0)
    with pytest.raises(KafkaException, match=r"fenced|epoch"):
        first.write(rows(("a", 1, 1)), 0)
    assert read(broker, name) == [("a", 1.0, 1)]


def test_what_cannot_be_is_said_at_the_start(broker: Broker, tmp_path: Path) -> None:
    def opened(*where: str, **settings: Any) -> None:
        TableWorld(sw.sinks.kafka(*where, **settings), COLUMNS, tmp_path, []).sink()

    with pytest.raises(QueryError, match=r"kafka\(key=\('kk',\)\): the results have no column 'kk'"):
        opened(broker.address, "x", key="kk")
    with pytest.raises(SinkError, match=r"cannot open the topic 'x' of Kafka at .*no_such_setting") as told:
        opened(broker.address, "x", options={"no_such_setting": "1", "sasl.password": "tiger"})
    assert "tiger" not in str(told.value)


@pytest.mark.spark
def test_killed_before_and_after_its_transaction_a_query_writes_each_row_once(
    kafka: Kafka, broker: Broker, tmp_path: Path
) -> None:
    name = topic(broker)
    wanted = table_job.recomputed(table_job.write_rows(tmp_path, seed=3))
    sink = f"kafka('{broker.address}', '{name}', key = 'k')"
    for point in ("after", "before"):
        table_job.die(tmp_path, sink, point, 2)
        assert 0 < len(messages(broker, name)) < len(wanted)
    table_job.work(kafka.spark, tmp_path, sink)
    found = [json.loads(message.value()) for message in messages(broker, name)]
    assert sorted([(v["window_start"], v["k"], v["n"]) for v in found], key=str) == wanted
