"""Replay: a static DataFrame comes again in pages of its arrival time, on a clock that follows the data.

Rows are sorted by arrival once, by Spark, into a spool of Parquet files; pages are cut from it one after
another, so the driver holds one piece of a file at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.engine.build import source_label
from slackwater.engine.loop import Loop
from slackwater.plan.nodes import StreamNode
from slackwater.progress.clock import ManualClock
from slackwater.spark.page import SparkPage
from slackwater.spark.shape import Shape
from slackwater.spark.store import SparkPages

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

    def cuts(self, pages: SparkPages) -> Iterator[tuple[int, pa.Table]]:
        """Page numbers and rows, in the order of arrival; a row without arrival has never arrived."""
        place, started = pages.new("spool"), time.perf_counter()
        numbered = self.frame.withColumn(
            _CUT,
            F.expr(f"CAST(floor(({self.arrival} - pmod({self.arrival}, {self.page}L)) / {self.page}) AS BIGINT)"),
        )
        numbered.where(f"{_CUT} IS NOT NULL").sort(_CUT).write.parquet(place.address)
        pages.spent(time.perf_counter() - started)
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
        if current is not None:
            yield current, pa.concat_tables(held)
        place.delete()


def _runs(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Stretches of equal page numbers in a sorted table."""
    numbers = table[_CUT]
    rows = table.drop_columns([_CUT])
    start = 0
    encoded = pc.run_end_encode(numbers.combine_chunks())
    for number, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        yield number, rows.slice(start, end - start)
        start = end


@dataclass
class Replayer:
    """Interleaves replayed streams by arrival and hands their pages to the executor's thread."""

    loop: Loop
    clock: ManualClock
    pages: SparkPages
    on_page: Callable[[dict[str, Any]], None] | None = None

    def run(self, replays: list[Replay]) -> None:
        """Replay all there is; pages that the journal has seen are passed over."""
        feeds = [(replay, Shape(), replay.cuts(self.pages)) for replay in replays]
        heads = [next(cuts, None) for _, _, cuts in feeds]
        while any(head is not None for head in heads):
            ends = [
                (head[0] + 1) * feed[0].page for feed, head in zip(feeds, heads, strict=True) if head is not None
            ]
            now = min(ends)
            self._wait_until(now)
            for n, (replay, shape, cuts) in enumerate(feeds):
                head = heads[n]
                if head is not None and (head[0] + 1) * replay.page == now:
                    self._admit(replay, shape, *head)
                    heads[n] = next(cuts, None)

    def _wait_until(self, instant: int) -> None:
        """Move the clock, stopping where a timeout runs out on the way."""
        executor = self.loop.executor
        while True:
            wake = self.loop.call(executor.wake_at)
            if wake is None or wake >= instant or wake <= self.clock.now():
                break
            self.clock.set(wake)
            self.loop.call(executor.run_until_idle)
        self.clock.set(instant)

    def _admit(self, replay: Replay, shape: Shape, number: int, rows: pa.Table) -> None:
        label = source_label(replay.node.name)
        seen = self.loop.executor.consumed(label)
        if seen is None or number > seen:
            frame = self.pages.spark.createDataFrame(rows, schema=replay.frame.schema)
            page = SparkPage.arrive(frame, replay.node, number, self.clock.now(), shape, self.pages)
            self.loop.admit(label, page)
            self.loop.call(lambda: None)  # an expensive operator may still be at it, though the page is safe
        if self.on_page is not None:
            self.on_page(
                {"stream": replay.node.name, "page": number, "rows": rows.num_rows, "clock": self.clock.now()}
            )
