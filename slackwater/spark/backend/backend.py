"""SparkBackend: the verbs on Spark, and what pages and stores need of the session's storage."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from slackwater.aggregates.kept import Kept
from slackwater.columns import GROUP
from slackwater.engine.build import source_label
from slackwater.errors import JournalError, RunError
from slackwater.operators.backend import Done, Folded, LateTimes, PartialsTooLarge
from slackwater.operators.page import CachedRows, JoinOutput, Location, Origin, Page, SourceRows
from slackwater.operators.payload import MaterializedRows, Payload, Recipe
from slackwater.operators.prod import Prod
from slackwater.plan.nodes import AggregateNode
from slackwater.plan.steps import JoinTable
from slackwater.progress.arrival import Arrival
from slackwater.spark.backend.kept_rows import values
from slackwater.spark.backend.layout import ManyTasks, TaskLayout
from slackwater.spark.backend.locations.files import MOST_FILES
from slackwater.spark.backend.memory_budget import MemoryBudget, let_go
from slackwater.spark.backend.one_task import MOST_PARTS, SideBySide, reader_of
from slackwater.spark.backend.opened import LocationRows, open_rows, reference_of
from slackwater.spark.backend.relation import NUMBER, numbers_of_rows
from slackwater.spark.backend.scan import of_payload, results_hidden, times_of
from slackwater.spark.backend.staging import few
from slackwater.spark.backend.stored_tables import StoredTables
from slackwater.spark.backend.tables import RELATIONS, Copies
from slackwater.spark.backend.wide_fold import FEW_KERNELS, WideFold
from slackwater.spark.backend.work import PageJobs
from slackwater.spark.storage.disk import Disk, io_errors_explained
from slackwater.spark.storage.spark_errors import spark_errors_explained
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.spark.storage.types import spark_schema
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import PaneKernel

T = TypeVar("T")

#: Folder of the rows of replays, in the order of their arrival.
SORTED = "sorted"
#: Folder of the pages that are safe before they are taken; see `Spool`.
SPOOL = "spool"
#: Bytes of partials up to which pages are taken together.
_MOST_PARTIALS = 256 << 20
#: How many sets of queries over the same rows are remembered.
_MOST_WIDE = 64


class SparkBackend:
    """Runs on rows that Spark reads. What is open of a location is let go when no page is there any more."""

    def __init__(
        self, spark: SparkSession, root: StorageDir, sync: bool = False, user: SparkSession | None = None
    ) -> None:
        """`sync` says whether what is saved must outlive a power cut; `user` is whose files are read."""
        self.spark = spark
        self.root = root
        self.disk = Disk(root.files, sync)
        self.readers: dict[str, SparkSession] = {}
        """Copies of the users' sessions, which read streams by reference, by their settings."""
        self.streams: Callable[[str, Sequence[str]], DataFrame] = self._no_stream
        """Finds declared streams, with at least the columns that are named."""
        self._user = user or spark
        self._shapes: dict[str, TaskLayout] = {}
        self._wide: dict[tuple[object, ...], WideFold] = {}
        self.tables = StoredTables(self)
        self.copies = Copies(self)
        self.room = MemoryBudget()
        self.side_by_side = SideBySide()
        self.counts_pairs = False
        """Whether to count what joins give: heartbeats and strategies that go by selectivities need it."""
        self._counting = threading.Lock()
        """Spark's batch threads and the user's run jobs beside the executor's."""
        self._opened: dict[Location, LocationRows] = {}
        self._held: dict[Location, tuple[DataFrame, int]] = {}
        """Rows in Spark's memory, and how many bytes they take."""
        self._lazy = set[Location]()
        """Rows that are still to be made of files."""
        self.jobs = 0
        self.spark_seconds = 0.0

    def spent(self, seconds: float, jobs: int = 1) -> None:
        """Count a Spark job that was run for a page or a window, or some at the same time."""
        with self._counting:
            self.jobs += jobs
            self.spark_seconds += seconds
        self.room.free()

    def given(self, rows: pa.Table, schema: StructType) -> DataFrame:
        """Rows of the driver as Spark's."""
        self.room.lend(rows.nbytes)
        return self.spark.createDataFrame(rows, schema)

    def new(self, kind: str) -> StorageDir:
        """A place for one page or one set of rows."""
        return self.root.child(f"{kind}/{uuid.uuid4().hex}")

    @contextmanager
    def writing(self, place: StorageDir) -> Iterator[None]:
        """Inside, Spark writes rows to a place; at the end they are on the disk. It explains faults of storage."""
        with spark_errors_explained("write", place):
            yield
        self.disk.force_tree(place.path, self.root.path)

    def write_table(self, table: pa.Table, place: StorageDir, name: str) -> None:
        """Write rows of the driver as a Parquet file in a place; the same holds."""
        path = f"{place.path}/{name}"
        with io_errors_explained("write", path):
            place.files.create_dir(place.path, recursive=True)
            with place.files.open_output_stream(path) as stream:
                pq.write_table(table, stream)
        self.disk.force_tree(place.path, self.root.path, [name])

    def wide(self, kernels: tuple[PaneKernel, ...], like: tuple[object, ...]) -> WideFold:
        """What folds pages for these kernels at once, if the pages are alike: those of a union may not be."""
        key = kernels, like
        if key not in self._wide:
            if len(self._wide) >= _MOST_WIDE:
                self._wide.clear()
            self._wide[key] = WideFold(kernels)
        return self._wide[key]

    @staticmethod
    def _no_stream(name: str, columns: Sequence[str]) -> DataFrame:
        raise RunError(f"there is no stream {name!r}, but rows of it wait; declare it as it was")

    def reader(self, stream: str) -> SparkSession:
        """What reads the rows of a stream by reference."""
        if stream not in self.readers:
            self.readers[stream] = reader_of(self._user, MOST_FILES)
        return self.readers[stream]

    @property
    def sessions(self) -> list[SparkSession]:
        """The user's session and all its copies: a setting or function for one is given to all."""
        return [self._user, self.spark, *self.readers.values()]

    # --- pages at work

    def work(self, page: Page) -> PageJobs:
        """What runs on a page."""
        if page.location not in self._opened:
            self._opened[page.location] = open_rows(page.location, self)
        return PageJobs(page, self._opened[page.location], self._shape(page), self)

    def _shape(self, page: Page) -> TaskLayout:
        """How tasks are laid out for pages of this stream, or of this operator."""
        lazy = isinstance(page.location, JoinOutput)
        if page.origin.stream not in self._shapes:
            self._shapes[page.origin.stream] = ManyTasks() if lazy else TaskLayout()
        return self._shapes[page.origin.stream]

    def hold(self, location: CachedRows, rows: DataFrame, size: int) -> None:
        """Rows are in Spark's memory until nobody has a page of them."""
        self.room.hold(size)
        self._held[location] = rows, size

    def lazy(self, location: JoinOutput) -> None:
        """Files must stay until this has been released."""
        self._lazy.add(location)

    def is_lazy(self, location: JoinOutput) -> bool:
        """Whether they must stay."""
        return location in self._lazy

    # --- the verbs

    def fold(self, page: Page, kernels: Sequence[PaneKernel]) -> Done[Mapping[PaneKernel, Folded]]:
        """One job for all kernels that can share it; the others are left out.

        A wide job pays only for many kernels (measured: for six, not for two, on pages of 1,000 and of 1 M rows).
        """
        with self._working(page) as work:
            if len(kernels) == 1:
                return _done(work, {kernels[0]: work.fold(kernels[0])})
            if len(kernels) < FEW_KERNELS:
                return _done(work, {})
            like = tuple(work.frame.dtypes), work.marked
            return _done(work, self.wide(tuple(kernels), like).fold(work))

    def collect(
        self, page: Page, columns: Mapping[str, str] | None = None, limit: int | None = None
    ) -> Done[pa.Table]:
        """One job."""
        with self._working(page) as work:
            return _done(work, work.collect(columns, limit))

    def payload(self, page: Page, about: int | None = None) -> Done[MaterializedRows]:
        """One job, if the rows are not there already."""
        work = self.work(page)
        return _done(work, work.payload(about))

    def repeatable(self, page: Page) -> Done[Recipe | None]:
        """At most one job, of the columns that it takes to count the rows."""
        if not isinstance(page.location, SourceRows):
            return Done(None)
        work = self.work(page)
        return _done(work, work.recipe())

    def count(self, page: Page, heartbeat: int, by_source: pl.DataFrame | None = None) -> Done[int]:
        """One job."""
        work = self.work(page)
        return _done(work, work.behind(heartbeat, by_source))

    def late(self, page: Page, times: LateTimes) -> Done[Page | None]:
        """One job."""
        work = self.work(page)
        return _done(work, work.late(times))

    def measure(self, page: Page) -> Done[None]:
        """One job."""
        work = self.work(page)
        work.measure()
        return _done(work, None)

    def materialize(self, page: Page) -> Done[Page]:
        """One job."""
        work = self.work(page)
        return _done(work, work.materialize())

    def write(self, page: Page) -> Done[Page]:
        """One job."""
        work = self.work(page)
        return _done(work, work.write())

    @contextmanager
    def _working(self, page: Page) -> Iterator[PageJobs]:
        work = self.work(page)
        try:
            yield work
        except PartialsTooLarge as error:
            error.arrival = work.arrival
            raise

    def results(self, origin: Origin, payload: Payload, node: AggregateNode, at: int, prod: Prod | None) -> Page:
        """A page of window results."""
        page, times = of_payload(origin, payload, at, results_hidden(node), prod), times_of(payload, node)
        if page.arrival is None or times is None:
            return page
        return replace(page, arrival=replace(page.arrival, lowest=times[0], highest=times[1]))

    def matching(self, groups: pl.DataFrame, where: str) -> pl.Series:
        """As Spark answers it, in the driver alone: rows of the driver are filtered without a job."""
        rows = self.spark.createDataFrame(groups.with_columns(pl.int_range(pl.len()).alias(NUMBER)).to_arrow())
        return pl.Series(numbers_of_rows(rows, where), dtype=pl.UInt32)

    def close(self, rows: pl.DataFrame, kernel: PaneKernel, aggregates: Sequence[Kept]) -> pl.DataFrame:
        """One Spark job."""
        started, table = time.perf_counter(), rows.to_arrow()
        frame = self.given(table, spark_schema(table.schema))
        made = frame_of(values(frame, kernel, [GROUP], aggregates).toArrow())
        self.spent(time.perf_counter() - started)
        return made

    def made(self, recipe: Recipe) -> DataFrame:
        """The rows of a recipe, lazily."""
        page = recipe.page
        # Time has moved by it already: a filter may really drop rows.
        page = replace(page, arrival=Arrival(recipe.rows, 0, None, None, page.at))
        rows = self._opened.get(page.location) or open_rows(page.location, self)
        work = PageJobs(page, rows, self._shape(page), self)
        return work.compiled.passed().drop(*rows.hidden)

    def brought(self, recipe: Recipe) -> MaterializedRows:
        """The rows of a recipe, for a sink that takes none: before a crash the query may have had another sink."""
        return few(self.made(recipe), self)

    def merge(self, pages: Sequence[Page]) -> Page | None:
        """Rows that can be read in one go, if what they come down to is likely to fit into the driver."""
        references = [found for page in pages if (found := reference_of(page.location)) is not None]
        first, last = pages[0].location, pages[-1].location
        if len(references) < len(pages) or not (isinstance(first, SourceRows) and isinstance(last, SourceRows)):
            return None
        like = {(_like(page.location), page.steps) for page in pages}
        one, *others = references
        if len(like) > 1 or not all(one.alike(other) for other in others):
            return None
        if sum(each.pieces for each in references) * self._shape(pages[0]).partials_a_file > self._most_partials:
            return None
        whole = one.together(others)
        location = replace(last, where=json.dumps(whole.saved()))
        needs = frozenset[str]().union(*(page.needs for page in pages))
        return replace(pages[-1], location=location, needs=needs, arrival=None, size=whole.bytes)

    def check(self, page: Page) -> None:
        """The folder of a saved page must be there."""
        if page.folder is None or isinstance(page.location, SourceRows):
            return
        place = self.root.child(page.folder)
        if not place.names():
            raise JournalError(
                f"the rows of a page that the journal has saved in {place.path!r} are missing: restore that "
                "folder, or start again with an empty folder and empty sinks: all answers then come again"
            )

    def release(self, location: Location) -> None:
        """Plans, kept rows and files that only this page needed may go."""
        opened, held = self._opened.pop(location, None), self._held.pop(location, None)
        if opened is not None:
            opened.release()
        if held is not None:
            self.room.hold(-held[1])
            let_go(held[0])
        self._lazy.discard(location)

    @cached_property
    def cores(self) -> int:
        """How many parts of a page's files are read side by side."""
        return min(self.spark.sparkContext.defaultParallelism, MOST_PARTS)

    @cached_property
    def _most_partials(self) -> int:
        """Bytes that one fold may bring to the driver; `spark.driver.maxResultSize` may allow less."""
        conf: Any = self.spark.sparkContext._jsc.sc().conf()
        allowed = conf.getSizeAsBytes("spark.driver.maxResultSize", "1g")
        return min(allowed // 2, _MOST_PARTIALS) if allowed else _MOST_PARTIALS

    def delete(self, folder: str) -> None:
        """Delete its rows, or the note of where they are."""
        self.root.child(folder).delete()
        kind, _, name = folder.partition("/")
        if kind == SPOOL:
            stream, _, number = name.rpartition("/")
            self.room.take(stream, int(number))

    def sweep(self, live: Collection[str], taken: Mapping[str, int]) -> None:
        """Delete what a crash has left and nobody speaks of."""
        kinds = ("pages", "staged", SORTED, RELATIONS)
        left = [f"{kind}/{name}" for kind in kinds for name in self.root.child(kind).names()]
        for stream in self.root.child(SPOOL).names():
            # What the spool holds behind the last page that was taken is still to come.
            last = taken.get(source_label(stream), -1)
            numbers = self.root.child(f"{SPOOL}/{stream}").names()
            left += [f"{SPOOL}/{stream}/{number}" for number in numbers if int(number) <= last]
        for name in left:
            if name not in live:
                self.root.child(name).delete()

    def stored(self, step: JoinTable) -> DataFrame:
        """The table that a step joins, or the journal's copy of it."""
        if step.copy is not None:
            return self.copies.table(step.copy)
        return self.tables.now(step.table)

    def copy_of(self, step: JoinTable) -> str | None:
        """Where the journal has a copy of that table; None if the table may change."""
        return self.copies.place(self.stored(step)) if self.tables.stays(step.table) else None


def _done(work: PageJobs, value: T) -> Done[T]:
    """The result of a verb, with the statistics that its job brought along."""
    return Done(value, None if work.arrival is work.page.arrival else work.arrival)


def _like(location: Location) -> tuple[object, ...]:
    """What pages that are read in one go have in common."""
    assert isinstance(location, SourceRows)
    return location.stream, location.source, location.columns, location.hidden
