"""Replay: a static DataFrame comes again in pages of its arrival time, on a clock that follows the data.

The clock stands while a page is worked on, so that a replay always gives the same answers; or it goes on at some
speed, so that work takes time and a backlog can grow.

Rows are sorted by arrival once, by Spark, into Parquet files; pages are cut from these one after another, so the
driver holds one piece of a file at a time.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, TimestampNTZType, TimestampType

from slackwater.engine.build import source_label
from slackwater.engine.executor import Executor
from slackwater.engine.loop import Loop
from slackwater.errors import QueryError, RunError
from slackwater.operators.page import Page
from slackwater.plan.nodes import StreamNode
from slackwater.progress.clock import ReplayClock
from slackwater.progress.time import MIN_TICK, microseconds
from slackwater.spark.backend.backend import SORTED, SparkBackend
from slackwater.spark.backend.relation import columns_of, time_in_ticks
from slackwater.spark.backend.scan import arrived
from slackwater.spark.ingest.interrupts import Interrupts
from slackwater.spark.storage.spark_errors import spark_errors_explained
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.windows.spec import floor_division

_CUT = "__cut"


@dataclass(frozen=True)
class Replay:
    """A static stream to be replayed."""

    node: StreamNode
    frame: DataFrame
    arrival: str
    """Spark SQL that gives the arrival in microseconds."""
    page: int
    """Length of a page in microseconds of arrival time."""
    last: int | None = None
    """The number of the last page, if a live stream follows; -1 if there is no page."""

    def cuts(self, backend: SparkBackend) -> Iterator[tuple[int, pa.Table]]:
        """Page numbers and rows, in the order of arrival; rows without an arrival come with the first page."""
        place, started = backend.new(SORTED), time.perf_counter()
        numbered = self.frame.withColumn(_CUT, F.expr(floor_division(self.arrival, self.page)))
        try:
            with spark_errors_explained("write", place):
                numbered.sort(F.col(_CUT).asc_nulls_first()).write.parquet(place.address)
            backend.spent(time.perf_counter() - started)
            yield from _read_cuts(place)
        finally:
            place.delete()  # also when nobody wants the rest

    @property
    def arriving(self) -> StreamNode:
        """The stream whose pages come: a row without an arrival counts as one without a time."""
        punctuation = self.node.punctuation
        return replace(
            self.node,
            time=f"CASE WHEN {self.arrival} IS NOT NULL THEN {self.node.time} END",
            punctuation=punctuation and f"CASE WHEN {self.arrival} IS NOT NULL THEN {punctuation} END",
        )


def _read_cuts(place: StorageDir) -> Iterator[tuple[int, pa.Table]]:
    """The pages of sorted files."""
    held: list[pa.Table] = []
    current: int | None = None
    for name in place.names():
        if not name.endswith(".parquet"):
            continue
        with pq.ParquetFile(place.files.open_input_file(f"{place.path}/{name}")) as file:
            for batch in file.iter_batches(batch_size=1 << 18):
                for number, rows in _runs(pa.Table.from_batches([batch])):
                    if current is not None and number != current:
                        yield current, pa.concat_tables(held)
                        held = []
                    current = number
                    held.append(rows)
    if held:
        yield current or 0, pa.concat_tables(held)


def _runs(table: pa.Table) -> Iterator[tuple[int | None, pa.Table]]:
    """Stretches of equal page numbers in a sorted table; None where rows have no arrival."""
    numbers = table[_CUT]
    rows = table.drop_columns([_CUT])
    start = 0
    encoded = pc.run_end_encode(numbers.combine_chunks())
    for number, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        yield number, rows.slice(start, end - start)
        start = end


def read_replay(node: StreamNode, df: DataFrame, arrival: str | None, page: str) -> Replay | None:
    """How a declared stream is replayed; None where its rows arrive by themselves."""
    if df.isStreaming:
        if arrival is not None:
            raise QueryError(
                f"stream {node.name!r} is a streaming DataFrame: its rows arrive when they come; leave out arrival="
            )
        return None
    if arrival is None:
        raise QueryError(
            f"stream {node.name!r} is a static DataFrame: give the column of its arrival to replay it, as in "
            "arrival='received', or read it with spark.readStream"
        )
    ((_, kind),) = columns_of(df, [arrival], "arrival")
    if isinstance(kind, NumericType):
        arrival = f"timestamp_seconds({arrival})"
    elif not isinstance(kind, (TimestampType, TimestampNTZType)):
        raise QueryError(
            f"arrival={arrival!r} is of type {kind.simpleString()}; arrival is a timestamp, or a number of seconds"
        )
    instant, _ = time_in_ticks(df, arrival, "arrival")
    length = microseconds(page)
    if length <= 0:
        raise QueryError(f"page={page!r} must be positive, as in page='10 seconds'")
    return Replay(node, df, instant, length)


@dataclass(frozen=True)
class Due:
    """Rows that are to come as a page, and when."""

    at: int
    replay: Replay
    number: int
    rows: pa.Table

    @property
    def label(self) -> str:
        """That of the source they go to."""
        return source_label(self.replay.node.name)


def interleaved(replays: Iterable[Replay], backend: SparkBackend) -> Generator[tuple[int, list[Due]]]:
    """The pages of some replays by the instant at which they are due."""
    streams = (_of(replay, backend) for replay in replays)
    for at, dues in groupby(heapq.merge(*streams, key=lambda due: due.at), key=lambda due: due.at):
        yield at, list(dues)


def _of(replay: Replay, backend: SparkBackend) -> Iterator[Due]:
    for number, rows in replay.cuts(backend):
        yield Due((number + 1) * replay.page, replay, number, rows)


def come_to(replays: Iterable[Replay], executor: Executor) -> int:
    """When the last pages came that a journal knows of."""
    taken = ((r, number) for r in replays if (number := executor.consumed(source_label(r.node.name))) is not None)
    # Pages of a live stream that follows a history are numbered on.
    pages = ((number if r.last is None else min(number, r.last), r.page) for r, number in taken)
    return max(((number + 1) * page for number, page in pages), default=MIN_TICK)


class Replayer:
    """Hands replayed pages to the executor's thread, each when the last one is done; no time passes meanwhile."""

    def __init__(self, loop: Loop, clock: ReplayClock, backend: SparkBackend, interrupts: Interrupts) -> None:
        self.loop = loop
        self.clock = clock
        self.backend = backend
        self.interrupts = interrupts

    def run(
        self,
        streams: Sequence[Replay],
        controls: Sequence[Replay] = (),
        on_page: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """Replay all there is, as long as a query reads it; pages that have been taken before are passed over.

        Prods of an instant come when its rows have been worked on.
        """
        both = [interleaved(replays, self.backend) for replays in (streams, controls)]
        labels = [source_label(replay.node.name) for replay in streams]
        for at, dues in heapq.merge(*both, key=lambda instant: instant[0]):
            if self.interrupts.wished or not any(label in self.loop.executor.graph for label in labels):
                for left in both:
                    left.close()
                break
            self.come(at, [due for due in dues if self._wanted(due)])
            for due in dues:
                told = {"stream": due.replay.node.declared, "page": due.number, "rows": due.rows.num_rows}
                if on_page is not None and not self.interrupts.wished:
                    on_page({**told, "clock": self.clock.now()})
        self.end()

    def _wanted(self, due: Due) -> bool:
        seen = self.loop.executor.consumed(due.label)
        return due.label in self.loop.executor.graph and (seen is None or due.number > seen)

    def come(self, at: int, dues: list[Due]) -> None:
        """Move the clock, stopping where a timeout runs out on the way, and let the pages of an instant in."""
        executor = self.loop.executor
        while (wake := self.loop.call(lambda: executor.wake_at(self.clock))) is not None and wake < at:
            self.clock.set(wake)
            self.loop.call(executor.run_until_idle)
        self.clock.set(at)
        if dues:
            self.admit(dues)
            self.loop.call(lambda: None)  # an expensive operator may still be at it, though the pages are safe

    def admit(self, dues: list[Due]) -> None:
        """Let pages in; the last query that reads them may have gone in this moment, and with it the source."""
        try:
            self.loop.admit([(due.label, self.page(due)) for due in dues])
        except RunError:
            if all(due.label in self.loop.executor.graph for due in dues):
                raise

    def end(self) -> None:
        """All pages have come, and each was worked off before the next."""

    def page(self, due: Due) -> Page:
        """Its rows as Spark's."""
        frame = self.backend.given(due.rows, due.replay.frame.schema)
        return arrived(frame, due.replay.arriving, due.number, due.at, size=due.rows.nbytes)


class PacedReplayer(Replayer):
    """Lets pages come at the speed at which they came, or a multiple of it, whatever is still being worked on."""

    def __init__(
        self, loop: Loop, clock: ReplayClock, backend: SparkBackend, interrupts: Interrupts, speed: float
    ) -> None:
        super().__init__(loop, clock, backend, interrupts)
        self._speed = speed
        self._unsafe: deque[Future[None]] = deque()

    def end(self) -> None:
        """Wait until all is worked off."""
        wait(self._unsafe)
        self.loop.call(lambda: None)
        self.clock.stand()

    def come(self, at: int, dues: list[Due]) -> None:
        """Wait until the pages of an instant are due, and let them in."""
        if not dues:
            return
        left = self.clock.until(at)
        if left is None:
            length = max(due.replay.page for due in dues)
            self.clock.set(at - length)
            self.clock.go(self._speed)
            self.loop.call(lambda: None)  # it may sleep, as if the clock stood
            left = length / 1e6 / self._speed
        self.interrupts.wait(left, self.loop.pause)
        if self.interrupts.wished:
            return
        self._unsafe += [self.loop.offer(due.label, self.page(due)) for due in dues]
        while self._unsafe and self._unsafe[0].done():
            self._unsafe.popleft()


def check_speed(speed: float | None, replay: bool) -> None:
    """Refuse a speed that is none, or for streams that have their own."""
    if speed is None:
        return
    if isinstance(speed, bool) or not isinstance(speed, (int, float)) or not 0 < speed < math.inf:
        raise QueryError(f"speed={speed!r}: write seconds of the replay for a real second, as in speed=60")
    if not replay:
        raise QueryError("speed= is for replays; the rows of a streaming DataFrame arrive when they come")


def replayer(
    loop: Loop, clock: ReplayClock, backend: SparkBackend, speed: float | None, interrupts: Interrupts
) -> Replayer:
    """For this speed, or for none."""
    if speed is None:
        return Replayer(loop, clock, backend, interrupts)
    return PacedReplayer(loop, clock, backend, interrupts, speed)
