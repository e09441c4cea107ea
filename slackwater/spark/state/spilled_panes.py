"""Panes too large for the driver: partials stay Parquet files, Spark merges them when their windows close."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StructField, StructType

from slackwater.columns import CLOSED, PANE, ROWS, SOURCE, WINDOW
from slackwater.operators.backend import PartialsTooLarge
from slackwater.operators.operator import State
from slackwater.operators.page import Page
from slackwater.operators.pages import Pages
from slackwater.operators.pane_store import Absorbed, ResidentPanes, Results, TakesLate
from slackwater.progress.time import MIN_TICK, TimeDomain
from slackwater.spark.backend.kept_rows import closed as closed_rows
from slackwater.spark.backend.staging import stage, too_large
from slackwater.spark.state.partitioned_files import FilesValues, PartFile, PartitionedFiles
from slackwater.spark.storage.storage_dir import file_name
from slackwater.spark.storage.types import spark_of, spark_schema
from slackwater.windows.closed import Closed
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import PaneKernel, source_text
from slackwater.windows.results import COMMIT, EMITTED_AT, early_schema, result_sql

if TYPE_CHECKING:
    from slackwater.spark.backend.pages import SparkPages

_BEFORE, _AFTER, _FROM, _TO = "__before", "__after", "__from", "__to"
#: Before all windows.
_NONE = MIN_TICK
_PIECE = "__piece"
_SOURCES = {_PIECE: pl.Int64, PANE: pl.Int64, SOURCE: pl.String}
_NO_COUNTS = pl.DataFrame(schema={**_SOURCES, ROWS: pl.Int64})


class SpilledPanes:
    """Panes on the journal's file system. The driver knows only which page gave something to which pane."""

    kind = "spilled"
    keeps_late: ClassVar[bool] = True

    def __init__(self, label: str, resident: ResidentPanes, domain: TimeDomain, pages: SparkPages) -> None:
        self._kernel: PaneKernel = resident.kernel
        self._schema = resident.schema
        self._domain = domain
        self._backend = pages.spark
        self._pages = pages
        place = self._backend.root.child("spill").child(file_name(label))
        self._files = PartitionedFiles(place, self._backend, PANE)
        self._sources = pl.DataFrame(schema=_SOURCES)
        """By source: which source has rows in which pane of which piece."""
        self._columns: StructType | None = None
        table = resident.ring.all()
        if table is not None:
            rows = self._backend.spark.createDataFrame(table, spark_schema(table.schema))
            self._add(self._files.write_frame(rows))

    def absorb(self, pages: Pages, page: Page, closed: Closed, late: TakesLate | None = None) -> Absorbed:
        """One Spark job writes the page's partials; their rows are counted from the files."""
        for work in self._pages.works(page):
            _, place = self._files.new_piece()
            work.spill(self._kernel.panes, place)
        files = self._files.written(place)
        end = None if late is None else closed.end(self._kernel.spec)
        passed = [file for file in files if end is not None and file.key < end]
        if late is not None and passed:
            late(map(self._partials, passed))
        return Absorbed(self._add(files))

    def _partials(self, file: PartFile) -> pl.DataFrame:
        """The partials of a file, in the driver."""
        root = self._files.root
        rows = frame_of(pq.read_table(f"{root.path}/{file.name}", filesystem=root.files, partitioning=None))
        return rows.with_columns(pl.lit(file.key, pl.Int64).alias(PANE))

    def partials_between(self, low: int, high: int) -> Iterator[pl.DataFrame]:
        """File by file."""
        return (self._partials(file) for file in self._files.files if low <= file.key < high)

    def closed_partials(self, closed: Closed) -> Iterator[pl.DataFrame]:
        """File by file."""
        needed = self._needed(closed)
        return (self._partials(file) for file in self._files.files if (file.piece, file.key) not in needed)

    def _add(self, files: list[PartFile]) -> pl.DataFrame:
        """Files count from now on; gives their rows by pane, and by source, which is noted."""
        self._files.add(files)
        counts = [self._count(file) for file in files]
        counted = pl.concat([_NO_COUNTS, *counts]).group_by([_PIECE, PANE, SOURCE]).agg(pl.col(ROWS).sum())
        if self._kernel.source is None:
            return counted.select(PANE, ROWS)
        self._sources = pl.concat([self._sources, counted.select(_PIECE, PANE, SOURCE)])
        return counted.select(PANE, ROWS, SOURCE)

    def _count(self, file: PartFile) -> pl.DataFrame:
        """Rows of a file's pane, by source if the files tell."""
        source, root = self._kernel.source, self._files.root
        path, columns = f"{root.path}/{file.name}", [ROWS] if source is None else [ROWS, source]
        rows = frame_of(pq.read_table(path, filesystem=root.files, columns=columns, partitioning=None))
        name = pl.lit(None, pl.String) if source is None else source_text(pl.col(source))
        by = rows.group_by(name.alias(SOURCE)).agg(pl.col(ROWS).sum())
        numbers = pl.lit(file.piece, pl.Int64).alias(_PIECE), pl.lit(file.key, pl.Int64).alias(PANE)
        return by.select(*numbers, SOURCE, ROWS)

    def results(
        self, pages: Pages, before: Closed, after: Closed, emitted_at: int, commit: int | None
    ) -> Results | None:
        """One Spark job merges the panes of these windows into staged result rows."""
        held = self._held(before, after)
        given = None if self._kernel.source is None else self._given(held, before, after)
        if not held or (given is not None and given.height == 0):
            return None
        started = time.perf_counter()
        merged = closed_rows(self._windows(held, before, after), self._kernel)
        merged = merged.withColumn(EMITTED_AT, F.lit(emitted_at))
        # Sinks want the columns of early results too, so that all files have the same.
        sql, kinds = result_sql(self._kernel, self._domain), _spark_types(early_schema(self._schema, self._kernel))
        if commit is not None:
            sql[COMMIT] = f"{commit}L"
        columns = [F.expr(sql.get(name, "NULL")).cast(kind).alias(name) for name, kind in kinds.items()]
        staged = stage(merged.select(*columns), self._backend)
        self._backend.spent(time.perf_counter() - started)
        spec = self._kernel.spec
        first, last = spec.first_window(min(held)), spec.last_window(max(held))
        if before.emitted_through is not None and before.named is None:
            first = max(first, before.emitted_through + 1)
        return Results(staged, min(last, after.highest_closed() or last) - first + 1, given=given)

    def merged(self, before: Closed, after: Closed) -> pl.DataFrame | None:
        """One Spark job merges the panes of these windows and brings them to the driver, if it can hold them."""
        held = self._held(before, after)
        if not held:
            return None
        started = time.perf_counter()
        try:
            table = self._windows(held, before, after).toArrow()
        except (PySparkException, Py4JJavaError) as error:
            if not too_large(error):
                raise
            raise PartialsTooLarge("more windows and groups than spark.driver.maxResultSize") from error
        self._backend.spent(time.perf_counter() - started)
        merged = frame_of(table)
        return merged if merged.height else None

    def span(self) -> tuple[int, int] | None:
        """Smallest and largest pane held."""
        panes = [file.key for file in self._files.files]
        return (min(panes), max(panes)) if panes else None

    @property
    def empty(self) -> bool:
        """Whether no pane is held."""
        return not self._files.files

    def _held(self, before: Closed, after: Closed) -> set[int]:
        """The panes of the windows that `after` has closed and `before` had not; by source, all that are held."""
        spec = self._kernel.spec
        low = None if self._kernel.source is not None else before.lowest_open_pane(spec)
        highest = after.highest_closed()
        held = {file.key for file in self._files.files if low is None or file.key >= low}
        return {p for p in held if highest is not None and p < spec.panes(highest)[1]}

    def _given(self, held: set[int], before: Closed, after: Closed) -> pl.DataFrame:
        """The windows of these panes that are given now, by source."""
        spec, source = self._kernel.spec, pl.col(SOURCE)
        panes = self._sources.filter(pl.col(PANE).is_in(list(held))).select(PANE, SOURCE).unique()
        first, last = spec.windows_of(panes[PANE].to_numpy())
        panes = panes.with_columns(pl.int_ranges(pl.Series(first), pl.Series(last) + 1).alias(WINDOW))
        windows = panes.explode(WINDOW).select(SOURCE, WINDOW).unique()
        windows = after.beside(before.beside(windows, source, _BEFORE), source, _AFTER)
        newly = pl.col(_BEFORE).is_null() | (pl.col(WINDOW) > pl.col(_BEFORE))
        closed = windows.filter(pl.col(WINDOW) <= pl.col(_AFTER))
        if before.given is None:
            return closed.filter(newly).select(SOURCE, WINDOW)
        number = closed[WINDOW].to_numpy()
        lost = before.given.count(closed[SOURCE].to_list(), number, number)
        return closed.filter(pl.Series(lost == 0)).select(SOURCE, WINDOW)

    def _windows(self, held: set[int], before: Closed, after: Closed) -> DataFrame:
        """Merged partials by window and group."""
        partials = self._read(self._files.addresses(file for file in self._files.files if file.key in held))
        first_of, last_of = self._kernel.spec.windows_sql(PANE)
        limited = self._limited(partials, before, after)
        begin = first_of if before.given is not None else f"greatest({first_of}, {_BEFORE} + 1)"
        ends = limited.withColumn(_FROM, F.expr(begin)).withColumn(_TO, F.expr(f"least({last_of}, {_AFTER})"))
        keys = [F.col(WINDOW), *(F.col(f"`{k}`") for k in self._kernel.panes.keys)]
        windows = ends.where(f"{_FROM} <= {_TO}").withColumn(WINDOW, F.explode(F.expr(f"sequence({_FROM}, {_TO})")))
        if before.given is not None:
            wanted = self._backend.spark.createDataFrame(self._given(held, before, after).to_arrow())
            named = windows.withColumn(SOURCE, F.expr(self._kernel.source_sql))
            windows = named.join(F.broadcast(wanted), on=[SOURCE, WINDOW], how="left_semi")
        return windows.groupBy(*keys).agg(
            *(F.expr(sql).alias(name) for name, sql in self._kernel.panes.merge_sql().items())
        )

    def _read(self, paths: Sequence[str]) -> DataFrame:
        """Partials from files, with the panes that their folders name."""
        reader = self._backend.spark.read.option("basePath", self._files.root.address)
        if self._columns is None:
            # All files have the same columns. To find them Spark runs a job: once is enough.
            found = reader.parquet(*paths).schema
            pane = StructField(PANE, LongType())  # Spark guesses a type from the names of folders
            self._columns = StructType([pane if field.name == PANE else field for field in found.fields])
        return reader.schema(self._columns).parquet(*paths)

    def _limited(self, partials: DataFrame, before: Closed, after: Closed) -> DataFrame:
        """Partials with the last window emitted for their source, before and after."""
        for name, closed in ((_BEFORE, before), (_AFTER, after)):
            rest = F.lit(_NONE if closed.emitted_through is None else closed.emitted_through).cast("bigint")
            if closed.named is None:
                partials = partials.withColumn(name, rest)
                continue
            mine = self._backend.spark.createDataFrame(closed.named.rename({CLOSED: name}).to_arrow())
            joined = partials.withColumn(SOURCE, F.expr(self._kernel.source_sql)).join(
                F.broadcast(mine), on=SOURCE, how="left"
            )
            partials = joined.drop(SOURCE).withColumn(name, F.coalesce(F.col(name), rest))
        return partials

    def purge(self, closed: Closed) -> None:
        """Forget the panes that nobody needs; their files go once nothing can ask for them again."""
        needed = self._needed(closed)
        self._files.drop([file for file in self._files.files if (file.piece, file.key) not in needed])

    def _needed(self, closed: Closed) -> set[tuple[int, int]]:
        """The panes, with their pieces, that count for a window which is not closed."""
        spec = self._kernel.spec
        if self._kernel.source is not None:
            self._sources = closed.open_panes(self._sources, spec, PANE, pl.col(SOURCE))
            return set(self._sources.select(_PIECE, PANE).unique().iter_rows())
        low = closed.lowest_open_pane(spec)
        return {(file.piece, file.key) for file in self._files.files if low is None or file.key >= low}

    def state(self, whole: bool) -> State:
        """Which files there are."""
        return State(self._files.state(), whole=whole)

    def restore(self, states: Sequence[State], closed: Closed) -> None:
        """Continue with the journaled files."""
        self._files.restore(states[-1].read(FilesValues))
        files, self._files.files = self._files.files, []
        self._add(files)

    def settle(self) -> None:
        """Delete the files of purged panes."""
        self._files.settle()

    @property
    def bytes(self) -> int:
        """Next to nothing in the driver."""
        return 0

    @property
    def size(self) -> dict[str, int]:
        """Panes and bytes on the file system; how many partials that is, the driver does not know."""
        panes = {file.key for file in self._files.files}
        return {"panes": len(panes), "state_bytes": self.bytes, "spilled_bytes": self._files.bytes}


def _spark_types(schema: pa.Schema) -> dict[str, DataType]:
    return {f.name: spark_of(f.type) for f in schema}
