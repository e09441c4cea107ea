"""The methods of a session that declare streams: rows of a DataFrame, or messages of Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from slackwater.calls import called
from slackwater.errors import QueryError
from slackwater.plan import logical as L
from slackwater.progress.disorder import Disorder
from slackwater.progress.time_kinds import Internal, Latent
from slackwater.spark.api import counterparts as words
from slackwater.spark.api.catalogue import Declaration
from slackwater.spark.api.column_sql import unwrapped
from slackwater.spark.api.declare import check_frame, stream_node
from slackwater.spark.api.prod_streams import check_role, read_control
from slackwater.spark.api.query import Stream
from slackwater.spark.ingest.history import check_history, join_history
from slackwater.spark.ingest.replay import read_replay
from slackwater.spark.ingest.topics import PARTITION, Topics
from slackwater.spark.storage.embedded import moved_to

if TYPE_CHECKING:
    from slackwater.spark.api.session import Session


@dataclass(frozen=True)
class StreamOptions:
    """What a user says of a stream beside its rows."""

    time: str | Column | Internal | Latent
    source: str | Column | None = None
    disorder: Disorder | None = None
    arrival: str | Column | None = None
    page: str = "10 seconds"
    trigger: str | None = None
    role: str | None = None
    ahead: str | None = None
    history: DataFrame | None = None
    seam: str | Column | None = None
    prods: str | Column | None = None


class DeclaresStreams:
    """Session.stream and its kin."""

    @called(words.STREAM_ARGUMENTS, disorder=words.POLICY, page=words.LENGTH, trigger=words.LENGTH)
    def stream(
        self,
        name: str,
        df: DataFrame,
        *,
        time: str | Column | Internal | Latent,
        source: str | Column | None = None,
        disorder: Disorder | None = None,
        arrival: str | Column | None = None,
        page: str = "10 seconds",
        trigger: str | None = None,
        role: str | None = None,
        ahead: str | None = None,
        history: DataFrame | None = None,
        seam: str | Column | None = None,
        prods: str | Column | None = None,
    ) -> Stream:
        """A declared stream, on which queries are written.

        A streaming DataFrame is read live. A static one is *replayed*: its rows come again in the order of the
        column `arrival`.

        Args:
            name: the stream's name, for SQL and for the journal.
            df: the rows: a streaming DataFrame, or a static one together with `arrival`.
            time: the column of application time, as Spark SQL or a Column: a timestamp, a date, or a number of at
                most 18 digits; of a double, millionths count. Or sw.internal(): the clock's when a page is let in.
                Or sw.latent(): the clock's when a window takes it.
            source: the column that says who sent a row, where many send into one stream.
            disorder: the policy that says how late rows may come. Rows that the session stamps are never late.
            arrival: of a replay, or of a history: the column that says when each row came.
            history: of a live stream: a static DataFrame with the same columns, whose rows come first. It is
                replayed in the order of `arrival`, as fast as it can be; then `df` is read where the history ends.
            seam: the column that says where the history ends; `arrival` if left out. A row of `df` is left out if
                its value is at most the largest one that the history has for its source. So the value must grow
                with every row of a source, as an offset does.
            page: of a replay: how much arrival time comes at once, as a micro-batch.
            trigger: of a live stream: how often it is read, as in "5 seconds".
            ahead: how far ahead of the clock the time of a row is believed, as in "5 minutes"; "never" to believe
                all. One day if left out. A row beyond that makes nobody late: it counts as one without a time, in
                `far_ahead` of the metrics, and goes where `late=` says. Where the stream itself is ahead of the
                clock, its recent rows stand for the clock.
            role: with "prods" each row asks for early answers (S5 section 3.2) of the windows that end by the
                column `until`, or by the row's time if there is no such column. Where `until` is null, it asks for
                all open windows. If there is a column `at` (other than the time or arrival column), it asks for
                the windows that contain it. A column `where` restricts it to groups, a column `query` to one
                query. In a replay a prod comes after the pages that have arrived by the end of its own.
            prods: a condition. Rows that meet it are prods: they do not count as rows, and do not move the
                heartbeat. Each asks all queries of the stream for early answers of the windows that end by its
                time; of all open windows if it has no time. The answer has the rows up to its own micro-batch.
        """
        how = StreamOptions(time, source, disorder, arrival, page, trigger, role, ahead, history, seam, prods)
        return declare_stream(cast("Session", self), name, df, how)

    @called(words.STREAM_ARGUMENTS, disorder=words.POLICY, trigger=words.LENGTH)
    def read_kafka(
        self,
        name: str,
        servers: str | Sequence[str],
        topic: str | Sequence[str],
        schema: str | StructType | None = None,
        *,
        time: str | Column | Internal | Latent,
        disorder: Disorder | None = None,
        source: str | Column | None = None,
        format: str = "json",
        start: str = "earliest",
        options: Mapping[str, Any] | None = None,
        trigger: str | None = None,
        ahead: str | None = None,
        prods: str | Column | None = None,
    ) -> Stream:
        """A stream of the messages of a topic of Kafka.

        Its columns are the fields of the messages, and `kafka_partition`, `kafka_offset`, `kafka_key`,
        `kafka_timestamp` and `kafka_topic`. The partitions are its sources. A bound counts from the newest message
        written to any of them, and a partition that has been read to its end does not hold the others back. A
        message that cannot be decoded counts as a row without a time.

        Args:
            name: the stream's name, for SQL and for the journal.
            servers: addresses of brokers, as in "localhost:9092"; a list, or one text with commas.
            topic: the topic, or several.
            schema: the fields of a message with their types, as in "sent TIMESTAMP, tower STRING"; for
                format="avro" the schema of Avro, as JSON.
            time: as in `stream`, from these columns.
            disorder: as in `stream`.
            source: a column that says who sent a message, instead of the partition. Then `sw.bounded` counts from
                the newest message that was read, from any partition.
            format: "json", "avro", or "columns" for Kafka's own columns, of which `value` is bytes.
            start: where reading begins when there is no journal yet: "earliest" or "latest", or offsets as Spark
                takes them.
            options: options of Spark's reader, as in {"maxOffsetsPerTrigger": 1000000}.
            trigger: as in `stream`.
            ahead: as in `stream`.
            prods: as in `stream`.
        """
        session = cast("Session", self)
        topics = Topics(session.spark, servers, topic, schema, format, start, options or {})
        key = PARTITION if source is None else source
        how = StreamOptions(time, key, disorder, trigger=trigger, ahead=ahead, prods=prods)
        return declare_stream(session, name, topics.frame(), how, topics, partitioned=source is None)


def declare_stream(
    session: Session,
    name: str,
    df: DataFrame,
    how: StreamOptions,
    topics: Topics | None = None,
    partitioned: bool = False,
) -> Stream:
    """Declare a stream, or say what is wrong with it."""
    catalogue, running = session._catalogue, session._running
    check_frame(name, df)
    if name in catalogue:
        raise QueryError(f"there is already a stream {name!r}; declare each stream once")
    clock: str | Internal | Latent = unwrapped("time", how.time)
    source, arrival = unwrapped("source", how.source), unwrapped("arrival", how.arrival)
    rows = moved_to(running.pages.spark, df)
    prods: str | None = unwrapped("prods", how.prods)
    given: dict[str, object] = {"disorder": how.disorder, "source": source, "ahead": how.ahead, "prods": prods}
    if check_role(name, how.role, given):
        control = read_control(name, rows, clock, arrival)
        replay = read_replay(control.node, rows, arrival, how.page)
        declared = Declaration(control.node, df, replay, how.trigger)
        catalogue.declare(declared)
        running.control(control, declared)
    else:
        node = stream_node(
            name, rows, clock, source, how.disorder, ahead=how.ahead, partitioned=partitioned, prods=prods
        )
        if how.history is None:
            if how.seam is not None:
                raise QueryError(f"stream {name!r}: seam= is for a stream with history=; leave it out")
            replay = read_replay(node, rows, arrival, how.page)
        else:
            past = moved_to(running.pages.spark, check_history(name, df, how.history))
            place, seam = session._place.child("history"), unwrapped("seam", how.seam)
            replay, df = join_history(node, df, past, arrival, how.page, seam, place)
        catalogue.declare(Declaration(node, df, replay, how.trigger, topics))
    return Stream(session, L.Scan(name))
