"""One Spark job a page for many window aggregates of a stream, whatever they group by.

Each row is copied inside the generated code, once for each kernel, and all copies go into one hash table: the page
is decoded once, and planned and scheduled once (measured with six kernels: 25–32 % less processor time than jobs of
their own; with ten queries that share these six, less than half). The plan is the same for every page (D2).
Statistics of the arrival come with a kernel that sees all rows, else from a small branch of the same job. Of large
pages this kernel, the one with the most groups, has a job of its own: the copies of the others need not carry what
is null for them, and its groups do not push theirs out of the processor's cache.

What must not share a hash table, as sketches, is folded by a job of its own.
"""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import polars as pl
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from slackwater.aggregates.partial import Partial
from slackwater.columns import PANE, ROWS, SOURCE
from slackwater.operators.backend import Folded, PartialsTooLarge
from slackwater.spark.backend.arrival_statistics import ALL, COLUMNS, MISSING, page_statistics
from slackwater.spark.backend.compile import KEEP
from slackwater.spark.backend.layout import Layout, TaskLayout
from slackwater.spark.backend.one_task import Rows, cut
from slackwater.spark.backend.staging import too_large
from slackwater.spark.backend.wide_sql import KERNEL, Part, WideSql
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import Group, PaneKernel, source_text
from slackwater.windows.panes import in_several, rows_by_pane
from slackwater.windows.sliding import united

if TYPE_CHECKING:
    from slackwater.spark.backend.work import PageJobs

#: Fewer kernels than this have jobs of their own.
FEW_KERNELS = 4
Done = tuple[pl.DataFrame, Observation | None]
"""What a job gave, and the sketch that it observed."""
Job = Callable[[], Done]

_FIXED = (NumericType, BooleanType, DateType, TimestampType, TimestampNTZType)
_KEYS = (*_FIXED, StringType, BinaryType)


class WideFold:
    """Folds the pages of one arc for the same kernels; learns how its job is best cut.

    Large pages of one file with one piece of rows (one row group) keep all cores busy only if the kernels are cut,
    the others if the rows are.
    """

    def __init__(self, kernels: Sequence[PaneKernel]) -> None:
        self.kernels = tuple(kernels)
        self.shape = TaskLayout()
        self._parts: list[Part] | None = None
        self._partials: dict[Partial, tuple[str, ...]] = {}
        self._carrier: int | None = None
        """The kernel that takes the statistics of the arrival along."""
        self._carriers: list[int] = []
        """Those that could: they see every row, and its source."""
        self._chosen = False
        self._view = f"__wide_{uuid.uuid4().hex}"
        """Name under which the job's text finds the rows of a page."""

    def fold(self, work: PageJobs) -> dict[PaneKernel, Folded]:
        """One job: what `OperatorWork.fold` gives for each kernel; those are left out that need a job of their own.

        The statistics of the page's arrival are known afterwards. Raises PartialsTooLarge if all together are too
        many for the driver.
        """
        if self._parts is None:
            self._prepare(work)
        return self._run(work) if self._parts else {}

    # --- once

    def _prepare(self, work: PageJobs) -> None:
        """Find the kernels that can share a job, and columns of it for their groups and arguments, by type."""
        by_source = work.many_sources
        self._parts = []
        keys: dict[str, DataType] = {}
        arguments: dict[str, DataType] = {}
        for kernel in self.kernels:
            groups = kernel.groups
            if by_source and kernel.source is None:
                groups = (*groups, Group(SOURCE, SOURCE))
            taken = dict.fromkeys(p.argument for p in kernel.columns if p.argument != "*")
            types = _types(work.frame, [*(g.sql for g in groups), *taken])
            plain = all(p.fixed_size for p in kernel.columns)
            plain &= all(_plain_key(t) for t in types[: len(groups)])
            if not plain or not all(isinstance(t, _FIXED) for t in types[len(groups) :]):
                continue
            part = Part(kernel, groups)
            self._parts.append(part)
            _assign(part.keys, keys, [g.name for g in groups], types, "k")
            _assign(part.arguments, arguments, list(taken), types[len(groups) :], "a")
        if len(self._parts) <= 1:
            self._parts = []  # one kernel has its own job, which marks rows instead of reading them twice
            return
        for part in self._parts:
            for partial in part.kernel.columns:
                here = _moved(partial, part)
                self._partials.setdefault(here, tuple(f"__w{len(self._partials)}{f}" for f in here.fields))
        if not work.marked:
            self._carriers = [n for n, p in enumerate(self._parts) if not by_source or _source_of(p) is not None]
            self._carrier = next(iter(self._carriers), None)
        written = dict.fromkeys(sql for part in self._parts for sql in part.given().values())
        inputs = {sql: f"__x{n}" for n, sql in enumerate(written)}
        hidden = [c for c in work.rows.hidden if c != SOURCE]
        columns = [*(F.expr(sql).alias(name) for sql, name in inputs.items()), *map(F.col, hidden)]
        self._inputs = [*columns, *([F.col(KEEP)] if work.marked else [])]
        kinds = [{slot: t.simpleString() for slot, t in slots.items()} for slots in (keys, arguments)]
        self._sql = WideSql(self._parts, kinds[0], kinds[1], self._partials, inputs)

    # --- every page

    def _run(self, work: PageJobs) -> dict[PaneKernel, Folded]:
        started, way = time.perf_counter(), self.shape.way(work.files)
        unknown = work.unknown
        carrier = self._carrier if unknown else None
        try:
            with cut(work, way) as parts:
                done = work.backend.side_by_side.run(list(self._jobs(work, parts, way, carrier)))
        except (PySparkException, Py4JJavaError) as error:
            if not too_large(error):
                raise
            raise PartialsTooLarge("more partials than spark.driver.maxResultSize") from error
        seconds = time.perf_counter() - started
        work.ran(seconds, len(done))
        work.shape.folded(work.rows.files, sum(table.estimated_size() for table, _ in done))
        tables = [self._unpacked(table) for table, _ in done]
        if unknown:
            measured = [table for table in tables if not set(COLUMNS).isdisjoint(table.columns)]
            seen = [self._seen(table, carrier, work.many_sources) for table in measured]
            work.arrived(pl.concat(seen), *(sketch for _, sketch in done))
        assert work.arrival is not None and self._parts is not None
        self.shape.ran(way, work.files, work.arrival.rows, seconds)
        cuts = [table.filter(pl.col(PANE).is_not_null()) for table in tables if PANE in table.columns]
        folded = dict(self._folded(cuts, work.many_sources))
        if self.shape.large and not self._chosen and self._carriers:
            # Once, because other jobs are other code (D2).
            sizes = [folded[part.kernel].partials.height for part in self._parts]
            self._carrier, self._chosen = max(self._carriers, key=lambda n: sizes[n]), True
        return folded

    def _jobs(self, work: PageJobs, parts: list[Rows], way: Layout, carrier: int | None) -> Iterator[Job]:
        """All kernels over each part of the rows; of a large page, some kernels in each job."""
        bunches = self._bunches(work, way, carrier)
        apart = work.arrival is None and carrier is None
        together = apart and not self.shape.large
        if apart and not together:
            yield functools.partial(_measured, work)
        for n, (places, rows) in enumerate(product(bunches, parts)):
            yield functools.partial(self._job, work, rows, places, carrier, n, together)

    def _bunches(self, work: PageJobs, way: Layout, carrier: int | None) -> list[list[int]]:
        """The kernels of each job, the longest first; one part of the rows has as many jobs as there are cores."""
        assert self._parts is not None
        rest = list(range(len(self._parts)))
        if not self.shape.large:
            return [rest]
        alone = [[carrier]] if carrier is not None and self._chosen else []
        rest = [n for n in rest if [n] not in alone]
        cores = work.frame.sparkSession.sparkContext.defaultParallelism if way is Layout.ONE else 1
        count = max(1, min(cores - len(alone), len(rest)))
        return [*(rest[n::count] for n in range(count)), *alone]

    def _job(
        self, work: PageJobs, rows: Rows, places: list[int], carrier: int | None, n: int, together: bool
    ) -> Done:
        """Some kernels over some rows, and the sketch that was observed; `together` with the statistics."""
        view, sketch = f"{self._view}_{n}", None
        # Small pages of which nothing but the aggregates is one scan go through one task too.
        frame = work.frame.coalesce(1) if together else rows()
        if carrier is not None and carrier in places:
            frame, sketch = work.sketched(frame)
        asked = None if work.arrival is not None else work.asked
        text = self._sql.job(view, places, carrier, work.marked, work.rows.hidden, asked)
        job = _over(view, frame, self._inputs, text)
        if sketch is not None:
            # Spark looks for what is observed in the plan as it was given, and a text has only names there.
            job = job.select("*")
        if together:
            statistics, sketch = _statistics(work, work.source.coalesce(1))
            job = job.unionByName(statistics, allowMissingColumns=True)
        return frame_of(job.toArrow()), sketch

    def _unpacked(self, table: pl.DataFrame) -> pl.DataFrame:
        """Panes and the kernels that they belong to; rows without a time, and statistics, have neither."""
        assert self._parts is not None
        if not self._sql.packed or PANE not in table.columns:
            return table
        many = len(self._parts)
        pane = pl.col(PANE).floordiv(self._sql.spread)
        return table.with_columns(pane.floordiv(many), pane.mod(many).cast(pl.Int32).alias(KERNEL))

    def _seen(self, table: pl.DataFrame, carrier: int | None, many_sources: bool) -> pl.DataFrame:
        """The statistics of the arrival, by source if there are sources."""
        assert self._parts is not None
        if carrier is None:
            seen = table.filter(pl.col(KERNEL).is_null()) if KERNEL in table.columns else table
            return seen.select(c for c in (*COLUMNS, SOURCE) if c in seen.columns)
        # Only the carrier keeps rows without a time: they have no pane, nor a place that is made of it.
        seen = table.filter(pl.col(PANE).is_null() | (pl.col(KERNEL) == carrier))
        missing = pl.when(pl.col(PANE).is_null()).then(pl.col(ROWS)).otherwise(0)
        source = _source_of(self._parts[carrier]) if many_sources else None
        return seen.select(
            pl.col(ROWS).alias(ALL),
            missing.alias(MISSING),
            *(c for c in COLUMNS if c in seen.columns),
            *([] if source is None else [source.alias(SOURCE)]),
        )

    def _folded(self, tables: Sequence[pl.DataFrame], many_sources: bool) -> Iterator[tuple[PaneKernel, Folded]]:
        assert self._parts is not None
        cuts = [table.partition_by(KERNEL, as_dict=True) for table in tables]
        for n, part in enumerate(self._parts):
            # In the order of the parts of the rows, which other kernels' tables have none of.
            here = [mine for by in cuts if (mine := by.get((n,))) is not None]
            own = self._own(pl.concat(here) if here else tables[0].clear(), part, many_sources)
            if len(here) > 1 and SOURCE not in part.keys:
                panes = in_several([mine[PANE] for mine in here])
                own = replace(own, partials=united(part.kernel, own.partials, panes))
            yield part.kernel, own

    def _own(self, here: pl.DataFrame, s: Part, many_sources: bool) -> Folded:
        """A kernel's own partials, under its own names."""
        kernel = s.kernel
        columns: list[pl.Expr] = [pl.col(ROWS)]
        for partial, names in kernel.columns.items():
            there = self._partials[_moved(partial, s)]
            columns += [pl.col(t).alias(name) for t, name in zip(there, names, strict=True)]
        keys = [pl.col(slot).alias(name) for name, slot in s.keys.items()]
        partials = here.select(PANE, *keys, *columns)
        by_source = SOURCE in s.keys
        if many_sources and not by_source:
            partials = partials.with_columns(kernel.source_of.alias(SOURCE))
        sources = [SOURCE] if many_sources else []
        counts = partials.group_by([PANE, SOURCE]).agg(pl.col(ROWS).sum()) if sources else rows_by_pane(partials)
        partials = partials.drop(sources)
        if by_source and partials.height:
            order = partials.columns
            partials = kernel.merge(partials.group_by([PANE, *kernel.keys])).select(order)
        return Folded(partials, counts)


def _over(view: str, frame: DataFrame, inputs: Sequence[Column], text: str) -> DataFrame:
    """The rows of a SQL text over some rows, which have a name that only the text knows."""
    frame.select(*inputs).createOrReplaceTempView(view)
    try:
        return frame.sparkSession.sql(text)
    finally:
        frame.sparkSession.catalog.dropTempView(view)


def _source_of(part: Part) -> pl.Expr | None:
    """The source of a kernel's partials, if it keeps sources apart."""
    if SOURCE in part.keys:
        return pl.col(part.keys[SOURCE])
    name = part.kernel.source
    return None if name is None else source_text(pl.col(part.keys[name]))


def _statistics(work: PageJobs, rows: DataFrame) -> tuple[DataFrame, Observation | None]:
    """The statistics of the arrival, over the rows as they came."""
    frame, sketch = work.sketched(rows)
    made = frame.groupBy(*([SOURCE] if work.many_sources else [])).agg(*page_statistics(*work.asked))
    return made, sketch


def _measured(work: PageJobs) -> Done:
    """One job: the statistics alone."""
    statistics, sketch = _statistics(work, work.source)
    return frame_of(statistics.toArrow()), sketch


def _types(frame: DataFrame, sqls: Sequence[str]) -> list[DataType]:
    made = frame.select(*(F.expr(sql).alias(f"c{n}") for n, sql in enumerate(sqls)))
    return [f.dataType for f in made.schema.fields]


def _plain_key(kind: DataType) -> bool:
    if isinstance(kind, StringType):
        return kind == StringType()  # another collation has other equal values
    return isinstance(kind, _KEYS)


def _assign(
    mine: dict[str, str], slots: dict[str, DataType], names: Sequence[str], types: Sequence[DataType], prefix: str
) -> None:
    """Give each name a column of its type: one that others have too, but no two names of a set the same."""
    for name, kind in zip(names, types, strict=False):
        if name in mine:
            continue
        free = (slot for slot, t in slots.items() if t == kind and slot not in mine.values())
        slot = next(free, None)
        if slot is None:
            slot = f"__{prefix}{len(slots)}"
            slots[slot] = kind
        mine[name] = slot


def _moved(partial: Partial, s: Part) -> Partial:
    """A partial over the column that its argument has in the job."""
    return partial if partial.argument == "*" else replace(partial, argument=s.arguments[partial.argument])
