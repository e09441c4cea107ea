"""Ingest: one Structured Streaming query a stream. Spark keeps the offsets; each batch is handed over as a page."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.engine.build import source_label
from slackwater.engine.loop import Loop
from slackwater.errors import RunError
from slackwater.events import decision
from slackwater.operators.page import Page
from slackwater.operators.source import Source
from slackwater.plan.nodes import StreamNode
from slackwater.progress.log_ends import LogEnds
from slackwater.spark.backend.backend import SparkBackend
from slackwater.spark.backend.locations.files import MOST_FILES
from slackwater.spark.backend.locations.kafka import options_of
from slackwater.spark.backend.locations.registry import Direct
from slackwater.spark.backend.one_task import reader_of
from slackwater.spark.backend.scan import arrived, by_reference
from slackwater.spark.ingest.broker_ends import BrokerEnds
from slackwater.spark.ingest.checkpoint import Checkpoint
from slackwater.spark.ingest.fast_checkpoints import fast_checkpoints, own_files
from slackwater.spark.ingest.spool import Spool
from slackwater.spark.storage.embedded import tune_for_pages
from slackwater.spark.storage.spark_errors import JAVA_ERRORS, spark_errors_explained
from slackwater.spark.storage.storage_dir import StorageDir

#: How often to look whether the user has waited enough.
_LOOK_SECONDS = 0.2


class ReadNoMore(RunError):
    """Ends a batch because the stream has been stopped, or goes on in another way: nothing has gone wrong."""


def _worth_telling(record: logging.LogRecord) -> bool:
    """Whether py4j, which logs every error of a Python function that Java calls, has something to say."""
    return not (record.exc_info and isinstance(record.exc_info[1], ReadNoMore))


logging.getLogger("py4j.clientserver").addFilter(_worth_telling)


class Ingest:
    """Feeds one stream's batches to the executor's thread; a batch is done when its page is safe.

    That is, however busy the executor is, when a note says where its rows are, and with `spooling` when they lie in
    the spool. All others wait until they have been worked on.
    """

    def __init__(
        self,
        node: StreamNode,
        frame: DataFrame,
        loop: Loop,
        backend: SparkBackend,
        checkpoint: StorageDir,
        trigger: str | None,
        first: int = 0,
    ) -> None:
        """`first` is the number of the page of Spark's first batch: pages of a history come before it."""
        self.node = node
        self._frame = frame
        self._loop = loop
        self._backend = backend
        self._checkpoint = Checkpoint(node.name, checkpoint, backend.root)
        self._trigger = trigger
        self._first = first
        self._direct: Direct | None = None
        self._tuned = False
        self._fast: dict[str, str] = {}
        """Settings of ours that Spark's copy of the session was made with."""
        self._spool = Spool(node.name, backend)
        self._offered: int | None = None
        """Number of the last page that went by the spool."""
        self.spooling = False
        self._stopping = False
        self.columns: set[str] = set()
        self._visible: list[str] = []
        """The same as Spark SQL, in the order of the stream."""
        self.query: StreamingQuery | None = None
        self._ends: BrokerEnds | None = None
        """What asks the broker how far the stream has been read; None if it is not read from Kafka."""

    def start(self, columns: set[str], available_now: bool = False) -> None:
        """Start, or go on in another way, from where the checkpoint stands.

        Only these columns are read: Spark hands a batch over as finished rows, so what is not left out here is
        read from the source even if no query looks at it.
        """
        self.stop()
        self.columns, self._tuned, self._stopping = columns, False, False
        self._offer_spooled()
        self._checkpoint.tidy()
        self._checkpoint.check(self._checkpoint.next_batch(), self._done)
        self._direct = Direct(self._frame)
        self._ask_broker()
        # A copy of the user's session, as the stream itself has: its settings say how the user's rows are read.
        self._backend.readers[self.node.name] = reader_of(self._frame.sparkSession, MOST_FILES)
        self._visible = [f"`{c}`" for c in self._frame.columns if c in columns]
        frame = self._frame.select(*self._visible)
        writer = frame.writeStream.foreachBatch(self._batch)
        place = self._checkpoint.place
        writer = writer.option("checkpointLocation", place.address)
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif self._trigger is not None:
            writer = writer.trigger(processingTime=self._trigger)
        with (
            fast_checkpoints(self._frame.sparkSession, place) as self._fast,
            spark_errors_explained("note the batches of a stream in", place),
        ):
            self.query = writer.start()
            # Sources make their own logs a little later, in the stream's thread: the setting must still be there.
            try:
                self.query._jsq.streamingQuery().awaitInitialization(20_000)
            except Py4JError as error:  # a stream that fails at its start says so itself
                decision("stream.not_awaited", error=error)

    def _ask_broker(self) -> None:
        """Let the source ask how far it has read, where a broker knows."""
        options, offsets = options_of(self._frame), self._checkpoint.place.child("offsets")
        if options is not None:
            self._ends = BrokerEnds(self._frame.sparkSession, options, offsets, self._tell, self._first)
            self._loop.executor.pages.logs[source_label(self.node.name)] = self._ends

    def _tell(self, ends: LogEnds) -> None:
        def tell() -> None:
            node = self._loop.executor.graph.nodes.get(source_label(self.node.name))
            if node is not None and isinstance(node.operator, Source):
                node.operator.read_to(ends)

        self._loop.soon(tell)

    @property
    def active(self) -> bool:
        """Whether the stream is being read."""
        try:
            return self.query is not None and self.query.isActive
        except JAVA_ERRORS:  # `error` says what has happened
            return False

    def wait(self, enough: Callable[[], bool]) -> bool:
        """Wait until the query ends by itself, whether it does before it is enough; its error is raised."""
        with spark_errors_explained("note the batches of a stream in", self._checkpoint.place):
            query = self.query
            while query is not None and not query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type]
                if enough():
                    return False
        return True

    def error(self) -> Exception | None:
        """The error that ended the query, if one did."""
        try:
            return None if self.query is None or self.query.isActive else self.query.exception()
        except JAVA_ERRORS as error:
            return error

    def stop(self) -> None:
        """Stop after the batch that is under way."""
        if self._ends is not None:
            self._ends.stop()
        if self.query is not None:
            self._stopping = True
            try:
                self.query.stop()
            except JAVA_ERRORS as error:  # Spark itself may have been stopped before
                decision("stream.not_stopped", error=error)
            self.query = None

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        try:
            self._take(frame, batch_id)
        except RunError as error:
            if self._stopping or not self._loop.works:
                # Spark must not take the batch for done.
                raise ReadNoMore(str(error)) from error
            raise

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        if not self._tuned:
            # Spark runs all batches of a start in a copy of the session that is its alone.
            own_files(frame.sparkSession, self._fast)
            tune_for_pages(frame.sparkSession)
            self._tuned = True
        self._checkpoint.check(batch_id, self._done)
        self._checkpoint.force(batch_id, self._backend.disk)
        number = self._first + batch_id
        assert self._direct is not None
        now, reference = self._now(), self._direct.of(frame)
        if reference is not None:
            folder = self._spool.folder(number)
            self._put(by_reference(reference, self.node, number, now, folder, self._visible))
            return
        page = arrived(frame, self.node, number, now, self._visible)
        if self.spooling:
            self._put(page)
        else:
            self._loop.admit([(source_label(self.node.name), page)])

    def _now(self) -> int:
        """The time of the source's clock: after a history it is a clock of its own."""
        node = self._loop.executor.graph.nodes.get(source_label(self.node.name))
        return (self._loop.executor.clock if node is None else node.clock).now()

    # --- the spool

    def _put(self, page: Page) -> None:
        if self._taken is not None and page.number <= self._taken:
            return
        self._backend.room.wait(self.node.name, lambda: self._stopping or not self._loop.works)
        if self._stopping:
            raise RunError(f"stream {self.node.name!r} is read no more")
        asked = self._loop.executor.asked(source_label(self.node.name), page.number)
        if asked is None:
            raise RunError(f"no query reads stream {self.node.name!r} any more")
        self._offer(self._spool.put(replace(page, needs=asked)))

    def _offer(self, page: Page) -> None:
        self._offered = page.number
        self._loop.offer(source_label(self.node.name), page)

    def _offer_spooled(self) -> None:
        """Offer the pages that an earlier process left in the spool, or an earlier start of this one."""
        for page in self._spool.waiting(after=self._taken):
            self._checkpoint.check(page.number - self._first, self._done)
            self._backend.check(page)
            self._offer(page)

    @property
    def _done(self) -> int | None:
        """Number of the last batch among these, as Spark counts; None if there was none."""
        return None if self._taken is None or self._taken < self._first else self._taken - self._first

    @property
    def _taken(self) -> int | None:
        """Number of the last page that the executor or the spool has; None if there was none."""
        numbers = (self._loop.executor.consumed(source_label(self.node.name)), self._offered)
        return max((n for n in numbers if n is not None), default=None)
