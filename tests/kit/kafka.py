"""A Kafka broker of one node for tests, and what Spark needs to reach it. `scripts/fetch_kafka.py` fetches both.

The broker listens on the loopback alone. Topics are made, and rows written, by Spark and the client that comes with
its connector.
"""

from __future__ import annotations

import os
import socket
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

JARS = Path(__file__).parents[2] / "build" / "kafka"
_CLIENT = "org.apache.kafka.clients.admin"

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
"""
#: As `kafka-storage.sh format` would write it, by a Java of its own.
_FORMAT = """\
version=1
cluster.id=slackwater-cluster-00A
node.id=1
directory.id=slackwater-directory-A
"""
_LOGGING = """\
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=info
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%p %c{1}: %m%n
"""
_STARTED = "Kafka Server started"


def with_connector() -> None:
    """Have the next Java that Spark starts know Kafka."""
    jars = sorted(map(str, (JARS / "connector").glob("*.jar")))
    assert jars, "run scripts/fetch_kafka.py first, or make test-kafka"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(jars)} pyspark-shell"


class Broker:
    """A broker in a process of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as one, socket.socket() as two:
            for free in (one, two):
                free.bind(("127.0.0.1", 0))
            port, controller = one.getsockname()[1], two.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        (folder / "log").mkdir(parents=True)
        (folder / "log" / "meta.properties").write_text(_FORMAT)
        (folder / "server.properties").write_text(_SETTINGS.format(port=port, controller=controller, folder=folder))
        (folder / "log4j2.properties").write_text(_LOGGING)
        home = os.environ.get("JAVA_HOME")
        command = [
            f"{home}/bin/java" if home else "java",
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}",
            *("-cp", f"{JARS}/broker/*", "kafka.Kafka", str(folder / "server.properties")),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        said: list[str] = []
        for line in self._process.stdout:
            said.append(line)
            if _STARTED in line:
                return
        self.stop()
        raise RuntimeError(f"the broker does not start: {''.join(said)[-3000:]}")

    @property
    def process_id(self) -> int:
        """Of its process."""
        return self._process.pid

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Kafka:
    """A broker, reached through Spark."""

    def __init__(self, spark: SparkSession, broker: Broker) -> None:
        self.spark = spark
        self.address = broker.address
        self._jvm: Any = spark.sparkContext._jvm
        settings = self._jvm.java.util.Properties()
        settings.put("bootstrap.servers", broker.address)
        self._admin = getattr(self._jvm, f"{_CLIENT}.Admin").create(settings)

    def close(self) -> None:
        """Let go of the broker."""
        self._admin.close()

    def topic(self, partitions: int) -> str:
        """A new topic."""
        name = f"rows-{uuid.uuid4().hex[:8]}"
        new = getattr(self._jvm, f"{_CLIENT}.NewTopic")(name, partitions, 1)
        self._admin.createTopics([new]).all().get()
        return name

    def widen(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        wanted = getattr(self._jvm, f"{_CLIENT}.NewPartitions").increaseTo(partitions)
        self._admin.createPartitions({topic: wanted}).all().get()

    def lose(self, topic: str, partition: int, before: int) -> None:
        """Have the broker delete the oldest rows of a partition, as its retention does."""
        # By reflection: there are two methods of that name, and py4j finds the other.
        gateway: Any = self.spark.sparkContext._gateway
        kinds, values = gateway.new_array(self._jvm.Class, 1), gateway.new_array(self._jvm.Object, 1)
        kinds[0], values[0] = self._jvm.Long.TYPE, self._jvm.Long.valueOf(str(before))
        loader = self._jvm.Thread.currentThread().getContextClassLoader()
        of = loader.loadClass(f"{_CLIENT}.RecordsToDelete").getMethod("beforeOffset", kinds)
        place = getattr(self._jvm, "org.apache.kafka.common.TopicPartition")(topic, partition)
        self._admin.deleteRecords({place: of.invoke(None, values)}).all().get()

    def write(self, topic: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows as JSON, each to the partition that it names, in their order."""
        given = list(rows)
        frame = self.spark.createDataFrame(given, "t LONG, k STRING, v LONG, partition INT").coalesce(1)
        made = frame.selectExpr("k AS key", "to_json(struct(t, k, v)) AS value", "partition")
        made.write.format("kafka").option("kafka.bootstrap.servers", self.address).option("topic", topic).save()
