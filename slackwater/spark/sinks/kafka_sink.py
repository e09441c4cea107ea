"""The sink for topics of Kafka: each write is one transaction, which carries the last commit id.

The transaction also commits an offset for a group of consumers that nobody is in: its name is that of the run, the
offset is the next commit id. So the broker knows which commits are in the topic, and one that comes again is left
out. The transactional id is that of the run, too: a second process fences the first.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from slackwater.errors import SinkError
from slackwater.masking import masked
from slackwater.progress.time import Span
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.sinks.result_rows import ResultColumns, batches, imported, read_key
from slackwater.spark.sinks.table_sink import Table, TableSettings, read_every
from slackwater.spark.storage.storage_dir import StorageDir

#: Seconds for which the broker may not answer.
_PATIENCE = 30


@dataclass(frozen=True)
class Kafka(TableSettings):
    """A topic of Kafka; see `kafka`."""

    servers: str
    topic: str
    key: tuple[str, ...] = ()
    every: int = 0
    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    def table(self, run: str, pages: SparkBackend, columns: ResultColumns) -> Table:
        """The topic."""
        columns.check_names("kafka", self.key)
        return KafkaTopic(self, run, columns)


def kafka(
    servers: str,
    topic: str,
    key: str | Sequence[str] = (),
    every: Span = "0 seconds",
    options: Mapping[str, str] | None = None,
) -> Kafka:
    """Results in a topic of Kafka, as JSON, each exactly once, as a sink for `start(sink=…)`.

    A reader must read with `isolation.level=read_committed`; then it never sees a row of an unfinished commit.

    Args:
        servers: of the cluster, as in "host:9092".
        topic: its name. It must be there, unless the brokers make topics.
        key: columns that become the key of a message: of one column its text, of several a JSON array. Messages of
            one key go to one partition, in their order.
        every: rows wait for others, so that there is at most one transaction in this time.
        options: further settings of librdkafka, such as security.protocol and sasl.password.

    >>> kafka("host:9092", "late", key="carrier", options={"sasl.password": "secret"})
    Kafka(servers='host:9092', topic='late', key=('carrier',), every=0)

    Needs the package confluent-kafka: pip install 'slackwater[kafka]'.
    """
    imported("confluent_kafka", "kafka")
    return Kafka(servers, topic, read_key(key), read_every("kafka", every), dict(options or {}))


class KafkaTopic:
    """Writes the rows of one run to a topic."""

    advice = "see that the brokers can be reached, and that no other process writes for this query"

    def __init__(self, settings: Kafka, run: str, columns: ResultColumns) -> None:
        self.about = f"the topic {settings.topic!r} of Kafka at {settings.servers}"
        self._client = imported("confluent_kafka", "kafka")
        self._topic = settings.topic
        self._key = settings.key
        self._run = run
        self._columns = columns
        reached = {"bootstrap.servers": settings.servers, **settings.options}
        # Java's clients choose partitions by this rule.
        writes = {"partitioner": "murmur2_random", "linger.ms": 5, **reached}
        self._to = {**writes, "transactional.id": f"slackwater-{run}"}
        self._group = {**reached, "group.id": f"slackwater-{run}", "isolation.level": "read_committed"}
        self._producer: Any = None
        self._members: Any = None

    def open(self) -> int:
        """Fence other processes, end what they have left unfinished, and ask for the last commit."""
        try:
            self._producer = self._client.Producer(self._to)
            there = self._producer.list_topics(self._topic, timeout=_PATIENCE).topics[self._topic]
            if there.error is not None:
                raise SinkError(f"{self.about} cannot be written: {there.error}; make it, or correct its name")
            self._producer.init_transactions(_PATIENCE)
            consumer = self._client.Consumer(self._group)
            self._members = consumer.consumer_group_metadata()
            (taken,) = consumer.committed([self._client.TopicPartition(self._topic, 0)], timeout=_PATIENCE)
            consumer.close()
        except self._client.KafkaException as error:
            raise SinkError(f"cannot open {self.about}: {masked(str(error))}; {self.advice}") from error
        return max(int(taken.offset) - 1, -1)

    def put(self, rows: pa.Table | StorageDir, first: int, last: int) -> None:
        """Send the rows in one transaction."""
        self._producer.begin_transaction()
        try:
            headers = {"slackwater.run": self._run, "slackwater.commit": str(last)}
            for part in batches(rows, self._columns.schema):
                self._send(part, list(headers.items()))
            self._note(last)
            self._producer.commit_transaction(_PATIENCE)
        except self._client.KafkaException as error:
            if error.args[0].txn_requires_abort():
                self._producer.abort_transaction(_PATIENCE)
            raise

    def _send(self, rows: pa.Table, headers: list[tuple[str, str]]) -> None:
        for row in rows.to_pylist():
            message = {"value": _json(row), "key": self._key_of(row), "headers": headers}
            while True:
                try:
                    self._producer.produce(self._topic, **message)
                    break
                except BufferError:
                    # The client's queue is full.
                    self._producer.poll(1)
        self._producer.poll(0)

    def _key_of(self, row: Mapping[str, Any]) -> bytes | None:
        values = [row[name] for name in self._key]
        if len(values) != 1:
            return _json(values) if values else None
        return values[0].encode() if isinstance(values[0], str) else None if values[0] is None else _json(values[0])

    def _note(self, last: int) -> None:
        """Have the commit id become durable with the rows."""
        done = self._client.TopicPartition(self._topic, 0, last + 1)
        self._producer.send_offsets_to_transaction([done], self._members, _PATIENCE)


def _json(value: object) -> bytes:
    """JSON; times are ISO 8601, decimals are texts, bytes are in base 64."""
    return orjson.dumps(value, default=lambda v: base64.b64encode(v).decode() if isinstance(v, bytes) else str(v))
