"""Jobs of one task each, which spares the shuffle.

Rows that Spark hands over are brought into one partition by `coalesce`. That cuts the generated code in two, and
each row is written and read between its halves. A scan of files can be made one task by a setting (since Spark
4.3), if nothing but filters, projections and copies of rows lies between it and the aggregate; else Spark shuffles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from slackwater.spark.backend.layout import Layout
from slackwater.spark.backend.locations.location import source_errors_explained

if TYPE_CHECKING:
    from slackwater.spark.backend.work import PageJobs

T = TypeVar("T")
#: Gives rows when a job is planned.
Rows = Callable[[], DataFrame]

_SINGLE = "spark.sql.optimizer.singleTaskExecution."
_ENABLED = f"{_SINGLE}enabled"
#: Of more parts than this, planning them in the driver would take longer than the shuffle that they spare.
MOST_PARTS = 8
_can_scan: WeakKeyDictionary[SparkContext, bool] = WeakKeyDictionary()


def can_scan_in_one(spark: SparkSession) -> bool:
    """Whether this Spark knows how. It is asked for each page, and Spark once."""
    context = spark.sparkContext
    if context not in _can_scan:
        _can_scan[context] = spark.conf.isModifiable(_ENABLED)
    return _can_scan[context]


def reader_of(spark: SparkSession, files: int) -> SparkSession:
    """A copy of a session that may scan this many files in one task; Spark asks the session that reads them."""
    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    if can_scan_in_one(copy):
        copy.conf.set(f"{_SINGLE}maxNumFiles", files)
    return copy


@contextmanager
def in_one_task(spark: SparkSession, scanned: bool) -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Inside, a job over what this makes of some rows is one task. `scanned`: the scan itself can be one task."""
    if not scanned:
        yield lambda rows: rows.coalesce(1)
        return
    for kind in ("aggregation", "expand"):
        spark.conf.set(f"{_SINGLE}{kind}", True)
    spark.conf.set(_ENABLED, True)
    try:
        yield lambda rows: rows
    finally:
        spark.conf.set(_ENABLED, False)


class SideBySide:
    """Runs jobs at the same time."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    def run(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """What each job gives, after the last has ended; if one fails, its error."""
        if len(jobs) == 1:
            return [jobs[0]()]
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MOST_PARTS, "slackwater-part")
        try:
            running = [self._threads.submit(job) for job in jobs]
        except RuntimeError:
            # At the end of a program no thread is started any more, but what is under way is finished.
            return [job() for job in jobs]
        # No job is left behind at work: what follows a failure may read the same files.
        errors = [error for done in running if (error := done.exception()) is not None]
        if errors:
            raise errors[0]
        return [done.result() for done in running]


@contextmanager
def cut(work: PageJobs, way: Layout) -> Iterator[list[Rows]]:
    """What gives the rows of a page as a way wants them; inside, the job over each part is cut like that."""
    rows = work.rows
    if way is Layout.MANY:
        with source_errors_explained(rows.reference):
            yield [lambda: work.frame]
        return
    with source_errors_explained(rows.reference), in_one_task(work.backend.spark, rows.scanned) as narrow:
        parts = rows.parts(min(work.files, work.backend.cores)) if way is Layout.PARTS else None
        if parts is None:
            yield [lambda: narrow(work.frame)]
            return
        yield [lambda part=part: narrow(work.part(part())) for part in parts]  # type: ignore[misc]
