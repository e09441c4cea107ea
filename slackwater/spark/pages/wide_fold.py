"""One Spark job a page for many window aggregates of a stream, whatever they group by.

Each row is copied inside the generated code, once for each kernel, and all copies go into one hash table: the page
is decoded once, and planned and scheduled once (measured with six kernels: 25–32 % less processor time than jobs of
their own; with ten queries that share these six, less than half). The plan is the same for every page (D2).
Statistics of the arrival come with a kernel that sees all rows, else from a small branch of the same job.

What must not share a hash table, as sketches, is folded by a job of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

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
from slackwater.columns import PANE, PUNCTUATION, ROWS, SOURCE, TIME
from slackwater.operators.page import Folded, PartialsTooLarge
from slackwater.spark.pages.fold import KEEP
from slackwater.spark.pages.shape import Shape
from slackwater.spark.pages.spark_page import SparkPage
from slackwater.spark.pages.staging import too_large
from slackwater.spark.pages.statistics import ALL, COLUMNS, MISSING, page_statistics, time_statistics
from slackwater.windows.frames import frame_of
from slackwater.windows.kernel import Group, PaneKernel, floor_division, source_text

_FIXED = (NumericType, BooleanType, DateType, TimestampType, TimestampNTZType)
_KEYS = (*_FIXED, StringType, BinaryType)
_PLACE = "__place"
_KEPT = "__kept"


@dataclass
class _Part:
    """What one kernel has in the job."""

    kernel: PaneKernel
    groups: tuple[Group, ...]
    keys: dict[str, str] = field(default_factory=dict)
    """Name of a group: its column in the job."""
    arguments: dict[str, str] = field(default_factory=dict)
    """Argument of a partial: its column in the job."""

    def source_of(self) -> pl.Expr | None:
        """The source of its partials, if it keeps sources apart."""
        if SOURCE in self.keys:
            return pl.col(self.keys[SOURCE])
        name = self.kernel.source
        return None if name is None else source_text(pl.col(self.keys[name]))


class WideFold:
    """Folds the pages of one arc for the same kernels; learns how its job is best cut.

    Large pages with one piece of rows (one row group) keep all cores busy only if the kernels are cut, the others
    if the rows are.
    """

    def __init__(self, kernels: Sequence[PaneKernel]) -> None:
        self.kernels = tuple(kernels)
        self.shape = Shape()
        self._parts: list[_Part] | None = None
        self._partials: dict[Partial, tuple[str, ...]] = {}
        self._carrier: int | None = None
        """The kernel that takes the statistics of the arrival along: one that sees every row, and its source."""

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
            place = _Part(kernel, groups)
            self._parts.append(place)
            _assign(place.keys, keys, [g.name for g in groups], types, "k")
            _assign(place.arguments, arguments, list(taken), types[len(groups) :], "a")
        if len(self._parts) <= 1:
            self._parts = []  # one kernel has its own job, which marks rows instead of reading them twice
            return
        for s in self._parts:
            for partial in s.kernel.columns:
                here = _moved(partial, s)
                self._partials.setdefault(here, tuple(f"__w{len(self._partials)}{f}" for f in here.fields))
        if not page.marked:
            sees_all = range(len(self._parts))
            kept_apart = (n for n in sees_all if not by_source or self._parts[n].source_of() is not None)
            self._carrier = next(kept_apart, None)
        self._null_keys = {slot: t.simpleString() for slot, t in keys.items()}
        self._null_arguments = {slot: t.simpleString() for slot, t in arguments.items()}

    # --- every page

    def _run(self, page: SparkPage) -> dict[PaneKernel, Folded]:
        assert self._parts is not None
        started, whole = time.perf_counter(), self.shape.one_task()
        origin = page.origin
        unknown, sketch = origin.arrival is None, None
        small = whole and not self.shape.large
        cores = page.frame.sparkSession.sparkContext.defaultParallelism
        parts = min(cores, len(self._parts)) if whole and not small else 1
        frame = page.frame.coalesce(1) if small else page.frame
        carrier = self._carrier if unknown else None
        branches = []
        for n in range(parts):
            places, rows = range(n, len(self._parts), parts), frame
            if carrier in places:
                rows, sketch = origin.sketched(frame)
            branches.append(self._branch(page, rows, places, carrier))
        if unknown and carrier is None:
            statistics, sketch = _statistics(page, small)
            branches.append(statistics)
        job = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), branches)
        try:
            table = frame_of(job.toArrow())
        except (PySparkException, Py4JJavaError) as error:
            if not too_large(error):
                raise
            if unknown:
                origin.measure()
            raise PartialsTooLarge("more partials than spark.driver.maxResultSize") from error
        seconds = time.perf_counter() - started
        origin.pages.spent(seconds)
        if unknown:
            origin.arrived(self._seen(table, carrier, origin.many_sources), sketch)
        assert origin.arrival is not None
        self.shape.ran(whole, origin.arrival.rows, seconds)
        return dict(self._folded(table.filter(pl.col(PANE).is_not_null()), origin.many_sources))

    def _seen(self, table: pl.DataFrame, carrier: int | None, many_sources: bool) -> pl.DataFrame:
        """The statistics of the arrival, by source if there are sources."""
        assert self._parts is not None
        if carrier is None:
            seen = table.filter(pl.col(_PLACE).is_null())
            return seen.select(c for c in (*COLUMNS, SOURCE) if c in seen.columns)
        # Only the carrier keeps rows without a time: they have no pane, nor a place that is made of it.
        seen = table.filter(pl.col(PANE).is_null() | (pl.col(_PLACE) == carrier))
        missing = pl.when(pl.col(PANE).is_null()).then(pl.col(ROWS)).otherwise(0)
        source = self._parts[carrier].source_of() if many_sources else None
        return seen.select(
            pl.col(ROWS).alias(ALL),
            missing.alias(MISSING),
            *(c for c in COLUMNS if c in seen.columns),
            *([] if source is None else [source.alias(SOURCE)]),
        )

    def _branch(self, page: SparkPage, frame: DataFrame, places: range, carrier: int | None) -> DataFrame:
        """Partials of some kernels; the kernel's number goes into the pane where it can, to hash a key less."""
        assert self._parts is not None
        every, many = [], len(self._parts)
        # Their product must not leave 64 bits.
        packed = all(s.kernel.spec.pane > many for s in self._parts)
        # Columns of the rows that are copied, by their Spark SQL; panes before those that are made of them.
        panes: dict[str, str] = {}
        made: dict[str, str] = {}
        carries = carrier in places
        filtered = carries or page.marked
        hidden = [c for c in (TIME, PUNCTUATION) if c in page.origin.hidden] if carries else []

        def column(sql: str) -> str:
            return made.setdefault(sql, f"__x{len(made)}")

        for n in places:
            s = self._parts[n]
            pane = panes.setdefault(s.kernel.pane_sql(), f"__q{len(panes)}")
            sqls = {g.name: g.sql for g in s.groups}
            by_key = {slot: sqls[name] for name, slot in s.keys.items()}
            by_argument = {slot: sql for sql, slot in s.arguments.items()}
            timed = [f"{TIME} IS NOT NULL"] if carries and n != carrier else []
            keep = " AND ".join([*timed, *([KEEP] if page.marked else [])])
            row = [f"CASE WHEN {keep} THEN true ELSE false END" if keep else "true"] if filtered else []
            row += [f"{pane} * {many}L + {n}L" if packed else pane, f"{n}"]
            row += [by_key.get(slot, f"CAST(NULL AS {t})") for slot, t in self._null_keys.items()]
            row += [by_argument.get(slot, f"CAST(NULL AS {t})") for slot, t in self._null_arguments.items()]
            row += [c if n == carrier else "CAST(NULL AS BIGINT)" for c in hidden]
            every.append(f"({', '.join(column(sql) for sql in row)})")
        keys = [PANE, _PLACE, *self._null_keys]
        names = ", ".join([*([_KEPT] if filtered else []), *keys, *self._null_arguments, *hidden])
        timed_only = frame if carries else frame.where(f"{TIME} IS NOT NULL")
        timed_only = timed_only.select("*", *(F.expr(sql).alias(name) for sql, name in panes.items()))
        rows = timed_only.select(*(F.expr(sql).alias(name) for sql, name in made.items()))
        by = [k for k in keys if not (packed and k == _PLACE)]
        copies = frame.sparkSession.sql(
            f"SELECT {names} FROM {{rows}} UNPIVOT INCLUDE NULLS (({names}) FOR __kernel IN ({', '.join(every)}))"
            + (f" WHERE {_KEPT}" if filtered else ""),
            rows=rows,
        )
        aggregates = [F.expr("count(*)").alias(ROWS), *self._aggregates()]
        if carries:
            aggregates += time_statistics(*page.origin.asked)
        folded = copies.groupBy(*by).agg(*aggregates)
        if not packed:
            return folded
        number = F.expr(f"CAST(pmod({PANE}, {many}L) AS INT)").alias(_PLACE)
        rest = [c for c in folded.columns if c != PANE]
        return folded.select(F.expr(floor_division(PANE, many)).alias(PANE), number, *rest)

    def _aggregates(self) -> Iterator[Column]:
        for partial, names in self._partials.items():
            for name, sql in zip(names, partial.make_sql(), strict=True):
                yield F.expr(sql).alias(name)

    def _folded(self, table: pl.DataFrame, many_sources: bool) -> Iterator[tuple[PaneKernel, Folded]]:
        assert self._parts is not None
        cut = {key[0]: part for key, part in table.partition_by(_PLACE, as_dict=True).items()}
        for n, s in enumerate(self._parts):
            here = cut.get(n, table.clear())
            yield s.kernel, self._own(here, s, many_sources)

    def _own(self, here: pl.DataFrame, s: _Part, many_sources: bool) -> Folded:
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


def _moved(partial: Partial, s: _Part) -> Partial:
    """A partial over the column that its argument has in the job."""
    return partial if partial.argument == "*" else replace(partial, argument=s.arguments[partial.argument])
