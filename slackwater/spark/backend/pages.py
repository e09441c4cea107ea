"""SparkPages: makes pages on Spark, finds saved ones again, and spills what does not fit into the driver."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from slackwater.engine.build import source_label
from slackwater.errors import JournalError, RunError
from slackwater.operators.page import Page, ResultsOf
from slackwater.operators.payload import MaterializedRows, Payload, Recipe
from slackwater.operators.prod import Prod
from slackwater.operators.stores import Stores
from slackwater.plan.steps import JoinTable, Step
from slackwater.progress.arrival import Arrival
from slackwater.spark.backend.layout import TaskLayout
from slackwater.spark.backend.locations.files import MOST_FILES
from slackwater.spark.backend.locations.registry import is_reference
from slackwater.spark.backend.memory_budget import MemoryBudget
from slackwater.spark.backend.one_task import MOST_PARTS, SideBySide, reader_of
from slackwater.spark.backend.relation import NUMBER, numbers_of_rows
from slackwater.spark.backend.repeatable import rows_made
from slackwater.spark.backend.scan import can_join, joined, load, of_results, of_rows
from slackwater.spark.backend.spark_page import SparkPage
from slackwater.spark.backend.staging import few
from slackwater.spark.backend.tables import RELATIONS, Copies
from slackwater.spark.backend.wide_fold import WideFold
from slackwater.spark.storage.disk import Disk, io_errors_explained
from slackwater.spark.storage.spark_errors import spark_errors_explained
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.windows.kernel import PaneKernel

#: Folder of the rows of replays, in the order of their arrival.
SORTED = "sorted"
#: Folder of the pages that are safe before they are taken; see `Spool`.
SPOOL = "spool"
#: Pages are taken together up to so many bytes of partials.
_MOST_PARTIALS = 256 << 20
#: So many sets of queries over the same rows are remembered.
_MOST_WIDE = 64


class SparkPages:
    """Saved pages, found again as Spark pages."""

    def __init__(
        self,
        spark: SparkSession,
        root: StorageDir,
        sync: bool = False,
        user: SparkSession | None = None,
        stores: Callable[[SparkPages], Stores] | None = None,
    ) -> None:
        """`sync` says whether what is saved must outlive a power cut; `user` is whose files are read.

        `stores` makes what keeps the rows of operators, which writes by these pages.
        """
        self.spark = spark
        self.root = root
        self.disk = Disk(root.files, sync)
        self.readers: dict[str, SparkSession] = {}
        """Copies of the users' sessions, which read streams by reference, by their settings."""
        self.streams: Callable[[str], DataFrame] = self._no_stream
        """Finds declared streams."""
        self._user = user or spark
        self._shapes: dict[str, TaskLayout] = {}
        self._wide: dict[tuple[object, ...], WideFold] = {}
        self.tables: Callable[[str], DataFrame] = lambda name: self.spark.table(name)
        """Finds stored relations."""
        self._stored: dict[str, DataFrame] = {}
        self.copies = Copies(self)
        self.room = MemoryBudget()
        self.side_by_side = SideBySide()
        self.counts_pairs = False
        """Whether to count what joins give: heartbeats and strategies that go by selectivities need it."""
        self._counting = threading.Lock()
        """Spark's batch threads and the user's run jobs beside the executor's."""
        self._stores = None if stores is None else stores(self)
        self.jobs = 0
        self.spark_seconds = 0.0

    @property
    def stores(self) -> Stores:
        """What keeps the rows and partials of operators."""
        assert self._stores is not None, "these pages are for no operators"
        return self._stores

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

    def matching(self, groups: pl.DataFrame, where: str) -> pl.Series:
        """As Spark answers it, in the driver alone: rows of the driver are filtered without a job."""
        rows = self.spark.createDataFrame(groups.with_columns(pl.int_range(pl.len()).alias(NUMBER)).to_arrow())
        return pl.Series(numbers_of_rows(rows, where), dtype=pl.UInt32)

    def new(self, kind: str) -> StorageDir:
        """A place for one page or one set of rows."""
        return self.root.child(f"{kind}/{uuid.uuid4().hex}")

    @contextmanager
    def writing(self, place: StorageDir) -> Iterator[None]:
        """Inside, Spark writes rows to a place; at the end they are on the disk. Faults of storage are told."""
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

    def note(
        self,
        place: StorageDir,
        number: int,
        arrival: Arrival,
        hidden: Mapping[str, str],
        prod: Prod | None,
        size: int | None,
    ) -> dict[str, Any]:
        """What finds a page again that lies in a place, as JSON values; `hidden` is what its files lack."""
        return {
            "number": number,
            "folder": place.path.removeprefix(self.root.path + "/"),
            "arrival": arrival.saved(),
            "hidden": dict(hidden),
            "prod": None if prod is None else prod.saved(),
            "bytes": size,
        }

    def wide(self, kernels: tuple[PaneKernel, ...], like: tuple[object, ...]) -> WideFold:
        """What folds pages for these kernels at once, if the pages are alike: those of a union may not be."""
        key = kernels, like
        if key not in self._wide:
            if len(self._wide) >= _MOST_WIDE:
                self._wide.clear()
            self._wide[key] = WideFold(kernels)
        return self._wide[key]

    @staticmethod
    def _no_stream(name: str) -> DataFrame:
        raise RunError(f"there is no stream {name!r}, but rows of it wait; declare it as it was")

    def reader(self, stream: str) -> SparkSession:
        """What reads the rows of a stream by reference."""
        if stream not in self.readers:
            self.readers[stream] = reader_of(self._user, MOST_FILES)
        return self.readers[stream]

    def shape(self, stream: str) -> TaskLayout:
        """What is known of the size of a stream's pages."""
        return self._shapes.setdefault(source_label(stream), TaskLayout())

    def of_results(self, payload: Payload, node: ResultsOf, number: int, at: int, prod: Prod | None) -> Page:
        """A page of window results."""
        shape = self._shapes.setdefault(repr(node.kernel.spec), TaskLayout())
        return of_results(payload, node, number, at, prod, self, shape)

    def extended(self, page: Any, step: Step) -> Page:
        """A page with one more step."""
        extended: Page = page.with_step(step)
        return extended

    def of_rows(self, payload: Payload, number: int, at: int) -> Page:
        """A page of rows that only a sink will take."""
        return of_rows(payload, number, at, self)

    def made(self, recipe: Recipe) -> DataFrame:
        """The rows of a recipe, lazily."""
        page = recipe.of
        if page is None:
            page = load(self, recipe.page)
            # Time has moved by it already: a filter may really drop rows.
            page.origin.arrival = Arrival(recipe.rows, 0, None, None, page.origin.at)
        return rows_made(page, recipe.steps)

    def brought(self, recipe: Recipe) -> MaterializedRows:
        """The same for a sink that takes no recipe; it may come to one where another stood before a crash."""
        return few(self.made(recipe), self)

    def load(self, saved: dict[str, Any]) -> Any:
        """The page that `SparkPage.save` spoke of."""
        place = self.root.child(saved["folder"])
        if not is_reference(saved) and not place.names():
            raise JournalError(
                f"the rows of a page that the journal has saved in {place.path!r} are missing: restore that "
                "folder, or start again with an empty folder and empty sinks: all answers then come again"
            )
        return load(self, saved)

    def joins(self, group: Sequence[Page], following: Any) -> bool:
        """Rows that can be read in one go, if what they come down to is likely to fit into the driver."""
        page = group[0]
        if not (isinstance(page, SparkPage) and isinstance(following, SparkPage) and can_join(page, following)):
            return False
        files = following.files + sum(other.files for other in group if isinstance(other, SparkPage))
        return files * page.origin.shape.partials_a_file <= self._most_partials

    @cached_property
    def cores(self) -> int:
        """In so many parts the files of a page are read side by side."""
        return min(self.spark.sparkContext.defaultParallelism, MOST_PARTS)

    @cached_property
    def _most_partials(self) -> int:
        """Bytes that one fold may bring to the driver, which may be told to take less."""
        conf: Any = self.spark.sparkContext._jsc.sc().conf()
        allowed = conf.getSizeAsBytes("spark.driver.maxResultSize", "1g")
        return min(allowed // 2, _MOST_PARTIALS) if allowed else _MOST_PARTIALS

    def together(self, pages: Sequence[Page]) -> SparkPage:
        """One page of all their rows."""
        return joined([page for page in pages if isinstance(page, SparkPage)])

    def drop(self, saved: dict[str, Any]) -> None:
        """Delete its rows, or the note of where they are."""
        self.root.child(saved["folder"]).delete()
        kind, _, rest = saved["folder"].partition("/")
        if kind == SPOOL:
            stream, _, number = rest.rpartition("/")
            self.room.take(stream, int(number))

    def sweep(
        self, queues: Collection[Sequence[dict[str, Any]]], staged: Sequence[str], taken: Mapping[str, int]
    ) -> None:
        """Delete what a crash has left and nobody speaks of."""
        keep = {e["page"]["folder"] for entries in queues for e in entries if "page" in e} | set(staged)
        kinds = ("pages", "staged", SORTED, RELATIONS)
        left = [f"{kind}/{name}" for kind in kinds for name in self.root.child(kind).names()]
        for stream in self.root.child(SPOOL).names():
            # What the spool holds behind the last page that was taken is still to come.
            last = taken.get(source_label(stream), -1)
            numbers = self.root.child(f"{SPOOL}/{stream}").names()
            left += [f"{SPOOL}/{stream}/{number}" for number in numbers if int(number) <= last]
        for name in left:
            if name not in keep:
                self.root.child(name).delete()

    def stored(self, step: JoinTable) -> DataFrame:
        """The table that a step joins, or the journal's copy of it."""
        if step.copy is not None:
            return self.copies.table(step.copy)
        if step.table not in self._stored:
            self._stored[step.table] = self.tables(step.table)
        return self._stored[step.table]
