"""Slackwater: the same windows over the same files, with a journal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl
from cases import COLD, SLACK, WHOLE, Case, Query
from data import offer
from measure import Figures
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.engine.build import source_label
from slackwater.engine.records import Snapshot

_STREAM = "events"


def measure(
    spark: SparkSession,
    case: Case,
    queries: Sequence[Query],
    files: Sequence[Path],
    work: Path,
    together: bool = True,
) -> Figures:
    """Run queries of a case in one session to the end of the files.

    Windows that are then open stay open, except where the whole run is measured. Spark's reports say when batches
    were handed over, not when they were worked on: so the time is taken from what the session publishes.
    """
    drain = case.figure == WHOLE
    with _ran(spark, case, queries, files, work, drain, together) as (_, runs, seconds, watch):
        figures = watch.figures()
        figures.more, figures.whole_seconds = runs[0].metrics(), seconds
    return figures


class Watch:
    """When how many rows had been worked on."""

    def __init__(self, session: sw.Session) -> None:
        self._history = session._running.loop.history
        self._publish = self._history.publish
        self._seen: list[tuple[float, int, int]] = []
        self._history.publish = self._note  # type: ignore[method-assign]

    def _note(self, snapshot: Snapshot, seconds: float) -> None:
        self._publish(snapshot, seconds)
        source = snapshot.of(source_label(_STREAM))
        self._seen.append((time.monotonic(), source.get("pages", 0), source.get("rows", 0)))

    def figures(self) -> Figures:
        """Of the rows after the first pages."""
        _, pages, rows = self._seen[-1]
        cold = min(COLD, pages // 2) * rows // pages
        before = max(seen[2] for seen in self._seen if seen[2] <= cold)
        begun = next(seen for seen in self._seen if seen[2] == before)
        end = next(seen for seen in self._seen if seen[2] == rows)
        first = next(seen for seen in self._seen if seen[1])
        seconds, warm = end[0] - begun[0], rows - begun[2]
        each = 1e3 * seconds * rows / (warm * pages)
        return Figures(
            batches=pages,
            warm_batches=round(pages * warm / rows),
            warm_rows=warm,
            rows=rows,
            seconds=seconds,
            wall_seconds=seconds,
            total_seconds=end[0] - first[0],
            median_ms=each,
            mean_ms=each,
            phases_ms={},
        )


def results(spark: SparkSession, case: Case, files: Sequence[Path], work: Path) -> list[pl.DataFrame]:
    """The results themselves, of each query, for comparing."""
    with _ran(spark, case, case.queries, files, work) as (_, runs, _seconds, _watch):
        frames = [pl.DataFrame(run.results()) for run in runs]
    return [
        frame.select(query.key, "total", "n", "top", "window_start")
        for frame, query in zip(frames, case.queries, strict=True)
    ]


@contextmanager
def _ran(
    spark: SparkSession,
    case: Case,
    queries: Sequence[Query],
    files: Sequence[Path],
    work: Path,
    drain: bool = False,
    together: bool = True,
) -> Iterator[tuple[sw.Session, list[sw.Run], float, Watch]]:
    """Queries that were held until `run_available`, so that no batch is outside the measured run.

    The seconds are those from the first `start()` to the end.
    """
    source = str(offer(files, work / "source"))
    reader = spark.readStream.schema(case.layout.schema).option("maxFilesPerTrigger", case.files_per_page)
    with sw.Session(spark=spark, journal=work / "journal", together=together) as session:
        events = session.stream(_STREAM, reader.parquet(source), time="ts", disorder=sw.bounded(SLACK))
        begun = time.monotonic()
        runs = []
        for n, query in enumerate(queries):
            windows = events.window(f"{query.range_seconds} seconds", f"{query.slide_seconds} seconds")
            made = windows.group_by(query.key).agg(total="sum(v)", n="count(v)", top="max(v)")
            runs.append(made.start(name=f"bench{n}", hold=True))
        watch = Watch(session)
        session.run_available(drain=drain)
        yield session, runs, time.monotonic() - begun, watch
