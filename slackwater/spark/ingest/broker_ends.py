"""Asks a Kafka broker for the ends of a stream's partitions, and compares them with the offsets read by Spark.

It asks in a thread of its own, at most once for a page, and only when an operator waits for the stream.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from slackwater.errors import SlackwaterError
from slackwater.events import decision
from slackwater.progress.log_ends import LogEnds
from slackwater.spark.storage.storage_dir import StorageDir

_CLIENTS = "org.apache.kafka.clients.admin"
#: Seconds that a broker may take to answer. A broker that runs answers within milliseconds.
_ANSWER_SECONDS = 10
#: Seconds after an error until we ask again: a broker that restarts is back within some seconds.
_AGAIN_SECONDS = 5.0
#: Seconds that `stop` waits for a running request. After that, the thread ends by itself.
_LAST_SECONDS = 1.0


class BrokerEnds:
    """The ends of the partitions that a stream reads."""

    def __init__(
        self,
        spark: SparkSession,
        options: Mapping[str, str],
        offsets: StorageDir,
        tell: Callable[[LogEnds], None],
        first: int = 0,
    ) -> None:
        """`offsets` is the folder in which Spark saves the end offsets of each batch.

        `tell` is called with each answer, in the thread of this object. `first` is the page of Spark's first batch.
        """
        self._jvm: Any = spark.sparkContext._jvm
        self._options = options
        self._offsets = offsets
        self._several = "," in next((v for k, v in options.items() if k.lower() == "subscribe"), "")
        self._tell = tell
        self._first = first
        self._changed = threading.Condition()
        self._wanted: int | None = None
        self._answered: int | None = None
        self._stopping = False
        self._thread: threading.Thread | None = None

    def ask(self, page: int) -> None:
        """Ask the broker after this page, unless that is done or under way. Returns at once."""
        with self._changed:
            if self._stopping or page < self._first or page in (self._wanted, self._answered):
                return
            self._wanted = page
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="slackwater-broker", daemon=True)
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_LAST_SECONDS)

    def _work(self) -> None:
        client = None
        try:
            while (page := self._next()) is not None:
                try:
                    client = client or self._client()
                    ends = self._ends(client, page)
                except (Py4JError, SlackwaterError, OSError, ValueError) as error:
                    decision("broker.not_asked", page=page, error=error)
                    with self._changed:
                        self._changed.wait_for(lambda: self._stopping, _AGAIN_SECONDS)
                    continue
                with self._changed:
                    self._answered = page
                self._tell(ends)
        finally:
            if client is not None:
                with suppress(Py4JError, OSError):  # Java may have ended before
                    client.close()

    def _next(self) -> int | None:
        """Wait for the next page to ask about; None after `stop`."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._wanted not in (None, self._answered))
            return None if self._stopping else self._wanted

    def _client(self) -> Any:
        settings = self._jvm.java.util.Properties()
        for name, value in self._options.items():
            if name.lower().startswith("kafka."):
                settings.put(name[len("kafka.") :], value)
        return getattr(self._jvm, f"{_CLIENTS}.Admin").create(settings)

    def _ends(self, client: Any, page: int) -> LogEnds:
        """The partitions that had been read to their present end with this page, and the others."""
        positions = self._positions(page)
        partition = getattr(self._jvm, "org.apache.kafka.common.TopicPartition")
        latest = getattr(self._jvm, f"{_CLIENTS}.OffsetSpec").latest()
        asked = self._jvm.java.util.HashMap()
        for topic, number in positions:
            asked.put(partition(topic, number), latest)
        unit = getattr(self._jvm, "java.util.concurrent.TimeUnit").SECONDS
        ends = client.listOffsets(asked, self._level()).all().get(_ANSWER_SECONDS, unit)
        read, unread = set[str](), set[str]()
        for (topic, number), position in positions.items():
            end = ends.get(partition(topic, number)).offset()
            (read if position >= end else unread).add(f"{topic}-{number}" if self._several else str(number))
        return LogEnds(page, frozenset(read), frozenset(unread))

    def _level(self) -> Any:
        """The isolation level of Spark's reader: one of committed rows stops before open transactions."""
        given = {name.lower(): value for name, value in self._options.items()}
        level = getattr(self._jvm, "org.apache.kafka.common.IsolationLevel")
        committed = given.get("kafka.isolation.level", "").lower() == "read_committed"
        kind = level.READ_COMMITTED if committed else level.READ_UNCOMMITTED
        return getattr(self._jvm, f"{_CLIENTS}.ListOffsetsOptions")(kind)

    def _positions(self, page: int) -> dict[tuple[str, int], int]:
        """The end offset of each partition in the batch of this page, as Spark saved it; empty ones included."""
        with self._offsets.files.open_input_file(f"{self._offsets.path}/{page - self._first}") as note:
            *_, last = note.read().decode().splitlines()
        return {
            (topic, int(number)): end
            for topic, partitions in json.loads(last).items()
            for number, end in partitions.items()
        }
