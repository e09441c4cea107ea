"""One Spark job a page for many window aggregates of a stream, whatever they group by.

Each row is copied inside the generated code, once for each kernel, and all copies go into one hash table: the page
is decoded once, and planned and scheduled once (measured with six kernels: 25–32 % less processor time than jobs of
their own; with ten queries that share these six, less than half). The plan is the same for every page (D2).
Statistics of the arrival come with a kernel that sees all rows, else from a small branch of the same job.

What must not share a hash table, as sketches, is folded by a job of its own.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
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
from slackwater.operators.page import Folded, PartialsTooLarge
from slackwater.spark.pages.fold import KEEP
from slackwater.spark.pages.shape import Shape
from slackwater.spark.pages.spark_page import SparkPage
from slackwater.spark.pages.staging import too_large
from slackwater.spark.pages.statistics import ALL, COLUMNS, MISSING, page_statistics
from slackwater.spark.pages.wide_sql import PLACE, Part, WideSql
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import Group, PaneKernel, source_text

_FIXED = (NumericType, BooleanType, DateType, TimestampType, TimestampNTZType)
_KEYS = (*_FIXED, StringType, BinaryType)


class WideFold:
    """Folds the pages of one arc for the same kernels; learns how its job is best cut.

    Large pages with one piece of rows (one row group) keep all cores busy only if the kernels are cut, the others
    if the rows are.
    """

    def __init__(self, kernels: Sequence[PaneKernel]) -> None:
        self.kernels = tuple(kernels)
        self.shape = Shape()
        self._parts: list[Part] | None = None
        self._partials: dict[Partial, tuple[str, ...]] = {}
        self._carrier: int | None = None
        """The kernel that takes the statistics of the arrival along: one that sees every row, and its source."""
        self._view = f"__wide_{uuid.uuid4().hex}"
        """Name under which the job's text finds the rows of a page."""

    def fold(self, page: SparkPage) -> dict[PaneKernel, Folded]:
        """One job: what `SparkPage.fold` gives for each kernel; those are left out that need a job of their own.

        The statistics of the page's arrival are known afterwards. Raises PartialsTooLarge if all together are too
        many for the driver.
        """
        if self._parts is None:
            self._prepare(page)
        return self._run(page) if self._parts else {}

    # --- once

    def _prepare(self, page: SparkPage) -> None:
        """Find the kernels that can share a job, and columns of it for their groups and arguments, by type."""
        by_source = page.origin.many_sources
        self._parts = []
        keys: dict[str, DataType] = {}
        arguments: dict[str, DataType] = {}
        for kernel in self.kernels:
            groups = kernel.groups
            if by_source and kernel.source is None:
                groups = (*groups, Group(SOURCE, SOURCE))
            taken = dict.fromkeys(p.argument for p in kernel.columns if p.argument != "*")
            types = _types(page.frame, [*(g.sql for g in groups), *taken])
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
        if not page.marked:
            sees_all = range(len(self._parts))
            kept_apart = (n for n in sees_all if not by_source or _source_of(self._parts[n]) is not None)
            self._carrier = next(kept_apart, None)
        written = dict.fromkeys(sql for part in self._parts for sql in part.given().values())
        inputs = {sql: f"__x{n}" for n, sql in enumerate(written)}
        hidden = [c for c in page.origin.hidden if c != SOURCE]
        columns = [*(F.expr(sql).alias(name) for sql, name in inputs.items()), *map(F.col, hidden)]
        self._inputs = [*columns, *([F.col(KEEP)] if page.marked else [])]
        kinds = [{slot: t.simpleString() for slot, t in slots.items()} for slots in (keys, arguments)]
        self._sql = WideSql(self._parts, kinds[0], kinds[1], self._partials, inputs)

    # --- every page

    def _run(self, page: SparkPage) -> dict[PaneKernel, Folded]:
        started, whole = time.perf_counter(), self.shape.one_task()
        origin = page.origin
        unknown = origin.arrival is None
        carrier = self._carrier if unknown else None
        job, sketch = self._job(page, whole, carrier)
        try:
            table = frame_of(job.toArrow())
        except (PySparkException, Py4JJavaError) as error:
            if not too_large(error):
                raise
            if unknown:
                origin.measure()
            raise PartialsTooLarge("more partials than spark.driver.maxResultSize") from error
        seconds = time.perf_counter() - started
        origin.ran(seconds)
        table = self._unpacked(table)
        if unknown:
            origin.arrived(self._seen(table, carrier, origin.many_sources), sketch)
        assert origin.arrival is not None
        self.shape.ran(whole, origin.arrival.rows, seconds)
        return dict(self._folded(table.filter(pl.col(PANE).is_not_null()), origin.many_sources))

    def _job(self, page: SparkPage, whole: bool, carrier: int | None) -> tuple[DataFrame, Observation | None]:
        """The job of a page, and the sketch that it observes."""
        assert self._parts is not None
        spark, origin = page.frame.sparkSession, page.origin
        small = whole and not self.shape.large
        cores = spark.sparkContext.defaultParallelism
        count = min(cores, len(self._parts)) if whole and not small else 1
        frame = page.frame.coalesce(1) if small else page.frame
        views = {self._view: frame}
        branches = [(self._view, range(n, len(self._parts), count)) for n in range(count)]
        sketch = None
        if carrier is not None and "sketch" in origin.needs:
            # Only the branch of the carrier may observe: the same rows are read by the others too.
            observed, sketch = origin.sketched(frame)
            views[f"{self._view}_observed"] = observed
            branches = [(f"{v}_observed" if carrier in places else v, places) for v, places in branches]
        asked = None if origin.arrival is not None else origin.asked
        text = self._sql.job(branches, carrier, page.marked, origin.hidden, asked)
        job = _over(views, self._inputs, text, spark)
        if sketch is not None:
            # Spark looks for what is observed in the plan as it was given, and a text has only names there.
            job = job.select("*")
        if asked is not None and carrier is None:
            statistics, sketch = _statistics(page, small)
            job = job.unionByName(statistics, allowMissingColumns=True)
        return job, sketch

    def _unpacked(self, table: pl.DataFrame) -> pl.DataFrame:
        """Panes and the kernels that they belong to; rows without a time, and statistics, have neither."""
        assert self._parts is not None
        if not self._sql.packed:
            return table
        many = len(self._parts)
        pane = pl.col(PANE)
        return table.with_columns(pane.floordiv(many), pane.mod(many).cast(pl.Int32).alias(PLACE))

    def _seen(self, table: pl.DataFrame, carrier: int | None, many_sources: bool) -> pl.DataFrame:
        """The statistics of the arrival, by source if there are sources."""
        assert self._parts is not None
        if carrier is None:
            seen = table.filter(pl.col(PLACE).is_null())
            return seen.select(c for c in (*COLUMNS, SOURCE) if c in seen.columns)
        # Only the carrier keeps rows without a time: they have no pane, nor a place that is made of it.
        seen = table.filter(pl.col(PANE).is_null() | (pl.col(PLACE) == carrier))
        missing = pl.when(pl.col(PANE).is_null()).then(pl.col(ROWS)).otherwise(0)
        source = _source_of(self._parts[carrier]) if many_sources else None
        return seen.select(
            pl.col(ROWS).alias(ALL),
            missing.alias(MISSING),
            *(c for c in COLUMNS if c in seen.columns),
            *([] if source is None else [source.alias(SOURCE)]),
        )

    def _folded(self, table: pl.DataFrame, many_sources: bool) -> Iterator[tuple[PaneKernel, Folded]]:
        assert self._parts is not None
        cut = {key[0]: part for key, part in table.partition_by(PLACE, as_dict=True).items()}
        for n, s in enumerate(self._parts):
            here = cut.get(n, table.clear())
            yield s.kernel, self._own(here, s, many_sources)

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
        counts = partials.group_by([PANE, *sources]).agg(pl.col(ROWS).sum())
        partials = partials.drop(sources)
        if by_source and partials.height:
            order = partials.columns
            partials = kernel.merge(partials.group_by([PANE, *kernel.keys])).select(order)
        return Folded(partials, counts)


def _over(views: dict[str, DataFrame], inputs: Sequence[Column], text: str, spark: SparkSession) -> DataFrame:
    """What a text says of some rows, each under a name that only the text knows."""
    for name, frame in views.items():
        frame.select(*inputs).createOrReplaceTempView(name)
    try:
        return spark.sql(text)
    finally:
        for name in views:
            spark.catalog.dropTempView(name)


def _source_of(part: Part) -> pl.Expr | None:
    """The source of a kernel's partials, if it keeps sources apart."""
    if SOURCE in part.keys:
        return pl.col(part.keys[SOURCE])
    name = part.kernel.source
    return None if name is None else source_text(pl.col(part.keys[name]))


def _statistics(page: SparkPage, small: bool) -> tuple[DataFrame, Observation | None]:
    """The branch that measures the arrival."""
    origin = page.origin
    frame, sketch = origin.sketched(origin.source.coalesce(1) if small else origin.source)
    made = frame.groupBy(*([SOURCE] if origin.many_sources else [])).agg(*page_statistics(*origin.asked))
    return made, sketch


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
