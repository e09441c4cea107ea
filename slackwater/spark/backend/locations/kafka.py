"""Kafka: a page is a range of offsets for each partition. The broker keeps the rows, a note the offsets.

**Where the offsets of a batch come from.** The batch itself is asked. At the bottom of its lineage Spark has the
offsets that it has planned to read, for each partition. Spark's other notes say less. The log in the checkpoint
(`offsets/<batch>`) has only ends. A start is the end of the batch before, but not always: the start of a new
partition is in no log, because Spark asks the broker for it when it plans the batch. It also moves a start, if
`failOnDataLoss` is false and rows are gone. `StreamingQueryProgress` comes when the batch is over: too late.
If the batch does not look as expected, as with another connector, its rows are taken as Spark hands them over.

**What the note has.** Topics, partitions and offsets, and nothing else. The addresses of the brokers, passwords and
the select before the stream come from the stream, as it is declared when the page is read. So no secret gets into
the journal, and brokers and passwords may change over a restart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import RunError
from slackwater.events import decision
from slackwater.spark.backend.locations.batch_plan import Steps, steps_of

_NAMES = {"kafka", "org.apache.spark.sql.kafka010.kafkasourceprovider"}
#: Options that say what of Kafka is read, and how fast: a page says that itself.
_STREAMING = {
    "assign",
    "subscribe",
    "subscribepattern",
    "startingoffsets",
    "startingoffsetsbytimestamp",
    "startingoffsetsbytimestampstrategy",
    "startingtimestamp",
    "endingoffsets",
    "endingoffsetsbytimestamp",
    "endingtimestamp",
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxtriggerdelay",
}
#: Sources that Spark reads in its old way, which makes an object of each row and takes it apart again.
_OLD_WAY = "spark.sql.sources.useV1SourceList"
#: The least rows that are worth a job of their own.
_PIECE = 100_000
_LOST = re.compile(
    r"KAFKA_DATA_LOSS|OffsetOutOfRange|UnknownTopicOrPartition|UnknownTopicId|data may have been lost|"
    r"Cannot fetch (?:offset|record)|does not host this topic|is not assigned|must contain all TopicPartitions"
)
#: Ranges that a message names.
_SHOWN = 5


class Range(NamedTuple):
    """Some rows of a partition: from `start` up to, but without, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}, offsets {self.start} to {self.end - 1}"


@dataclass(frozen=True)
class Offsets:
    """Some rows of Kafka.

    >>> first = Offsets.over([Range("calls", 0, 0, 10), Range("calls", 1, 0, 4)])
    >>> both = first.together([Offsets.over([Range("calls", 0, 10, 30)])])
    >>> both.saved()["ranges"]
    [['calls', 0, 0, 30], ['calls', 1, 0, 4]]
    >>> [part.saved()["ranges"] for part in both.cut(2)]
    [[['calls', 0, 0, 17]], [['calls', 0, 17, 30], ['calls', 1, 0, 4]]]
    """

    kind: ClassVar[str] = "kafka"
    scanned: ClassVar[bool] = False
    bytes: ClassVar[None] = None

    ranges: tuple[Range, ...]
    """Sorted; none begins where another ends."""
    pieces: int

    @staticmethod
    def over(ranges: Iterable[Range]) -> Offsets:
        """The rows of some ranges."""
        merged = tuple(_merged(ranges))
        return Offsets(merged, max(len(merged), -(-_rows(merged) // _PIECE)))

    def alike(self, other: Offsets) -> bool:
        """Offsets of one stream always are."""
        return True

    def together(self, others: Sequence[Offsets]) -> Offsets:
        """All of their rows; ranges that follow each other become one."""
        every = (self, *others)
        ranges = tuple(_merged(part for some in every for part in some.ranges))
        return Offsets(ranges, sum(some.pieces for some in every))

    def cut(self, parts: int) -> list[Offsets]:
        """The same rows in at most `parts` parts, each of about as many offsets."""
        share = -(-_rows(self.ranges) // parts)
        made, room = [list[Range]()], share
        for topic, partition, start, end in self.ranges:
            while start < end:
                if not room:
                    made.append([])
                    room = share
                upto = min(end, start + room)
                made[-1].append(Range(topic, partition, start, upto))
                room -= upto - start
                start = upto
        return [Offsets(tuple(part), 1) for part in made]

    def read(self, stream: Callable[[], DataFrame], reader: SparkSession, spark: SparkSession) -> DataFrame:
        """Their rows, after the steps of the stream, in a session of ours."""
        source = _source(stream())
        if source is None:
            raise RunError(
                f"rows of Kafka are still to be processed ({self._shown()}), but the stream is no longer declared "
                "in a way that can read them again. Declare it as it was, or start again with an empty journal"
            )
        old = (reader.conf.get(_OLD_WAY, "") or "").split(",")
        if "kafka" in old:
            reader.conf.set(_OLD_WAY, ",".join(name for name in old if name != "kafka"))
        rows = [source.steps.over(source.read(some, reader), spark) for some in self._rounds()]
        return reduce(DataFrame.union, rows)

    def fault(self, error: Exception) -> str | None:
        """Offsets that the broker no longer has."""
        text = str(error)
        if not _LOST.search(text):
            return None
        return (
            f"Kafka no longer has rows of the stream that Slackwater has not processed yet: {self._shown(text)}. "
            "Give the topic a longer retention (retention.ms, retention.bytes). To go on without the lost rows, "
            "read with option failOnDataLoss = false; else start again with an empty journal"
        )

    def saved(self) -> dict[str, Any]:
        """As JSON values."""
        return {"ranges": [list(part) for part in self.ranges], "pieces": self.pieces}

    @staticmethod
    def load(saved: dict[str, Any]) -> Offsets:
        """From what `saved` gave."""
        return Offsets(tuple(Range(*part) for part in saved["ranges"]), saved["pieces"])

    def _rounds(self) -> Iterator[list[Range]]:
        """The ranges, at most one of each partition at a time: Spark reads no more in one go."""
        left = [list(some) for _, some in groupby(self.ranges, lambda part: part[:2])]
        while left:
            yield [some.pop(0) for some in left]
            left = [some for some in left if some]

    def _shown(self, error: str = "") -> str:
        """The ranges that an error names, else all."""
        named = [part for part in self.ranges if re.search(rf"\b{re.escape(part.topic)}-{part.partition}\b", error)]
        shown = named or list(self.ranges)
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        return "; ".join(map(str, shown[:_SHOWN])) + more


def _rows(ranges: Iterable[Range]) -> int:
    return sum(part.end - part.start for part in ranges)


def _merged(ranges: Iterable[Range]) -> Iterator[Range]:
    """In order, those that follow each other as one."""
    last: Range | None = None
    for part in sorted(ranges):
        if last is not None and (last.topic, last.partition, last.end) == part[:3]:
            last = last._replace(end=part.end)
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


@dataclass(frozen=True)
class KafkaSource:
    """The settings of Kafka in a declared stream."""

    steps: Steps
    options: dict[str, str] = field(repr=False)
    """Those that a page is read with."""
    written: dict[str, str] = field(repr=False)
    """Those of the stream."""

    def read(self, ranges: Sequence[Range], reader: SparkSession) -> DataFrame:
        """The rows of one range of each partition, as Kafka gives them."""
        starts, ends = dict[str, dict[str, int]](), dict[str, dict[str, int]]()
        for topic, partition, start, end in ranges:
            starts.setdefault(topic, {})[str(partition)] = start
            ends.setdefault(topic, {})[str(partition)] = end
        assigned = {topic: [int(partition) for partition in of] for topic, of in starts.items()}
        asked = {"assign": assigned, "startingOffsets": starts, "endingOffsets": ends}
        said = {name: json.dumps(value) for name, value in asked.items()}
        return reader.read.format("kafka").options(**self.options, **said).load()


def options_of(stream: DataFrame) -> dict[str, str] | None:
    """All options of a declared stream of Kafka; None if it is none."""
    source = _source(stream)
    return None if source is None else source.written


_known: WeakKeyDictionary[DataFrame, KafkaSource | None] = WeakKeyDictionary()


def _source(stream: DataFrame) -> KafkaSource | None:
    """The settings of Kafka in a declared stream; None if it is not Kafka, or has steps that cannot be repeated."""
    if stream not in _known:
        _known[stream] = _learn(stream)
    return _known[stream]


def _learn(stream: DataFrame) -> KafkaSource | None:
    steps = steps_of(stream)
    if steps is None or steps.source.getClass().getSimpleName() != "StreamingRelationV2":
        return None
    try:
        if steps.source.sourceName().lower() not in _NAMES:
            return None
        options = dict(steps.source.extraOptions().asCaseSensitiveMap())
    except (Py4JError, AttributeError) as error:
        decision("stream.offsets_unknown", error=error)
        return None
    kept = {name: value for name, value in options.items() if name.lower() not in _STREAMING}
    return KafkaSource(steps, kept, options)


class OffsetsOfBatches:
    """Finds the offsets of a stream's batches."""

    def __init__(self, stream: DataFrame) -> None:
        self._reads_kafka = _source(stream) is not None

    def of(self, batch: DataFrame) -> Offsets | None:
        """The offsets of a batch; None if it is not known to be just these."""
        if not self._reads_kafka:
            return None
        try:
            ranges = _planned(batch)
        except (Py4JError, AttributeError, TypeError) as error:
            decision("batch.offsets_unknown", error=error)
            return None
        return Offsets.over(ranges) if ranges else None


def _planned(batch: DataFrame) -> list[Range] | None:
    """What Spark would read for a batch; asked of the bottom of its lineage."""
    rdd: Any = batch._jdf.queryExecution().logical().rdd()
    while rdd.getClass().getSimpleName() != "DataSourceRDD":
        behind = rdd.dependencies()
        if behind.size() != 1:
            return None
        rdd = behind.head().rdd()
    ranges = []
    for partition in rdd.partitions():
        inputs = _inputs(partition).iterator()
        while inputs.hasNext():
            of = inputs.next().offsetRange()
            ranges.append(Range(of.topic(), of.partition(), of.fromOffset(), of.untilOffset()))
    return ranges


def _inputs(partition: Any) -> Any:
    """What a task reads: since Spark 4.2 one thing or nothing, before that several things."""
    try:
        return partition.inputPartition()
    except Py4JError:
        return partition.inputPartitions()
