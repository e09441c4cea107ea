"""The pane kernel: what one job makes of a page, and the columns of its partials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl
import pyarrow as pa
from polars.dataframe.group_by import DynamicGroupBy, GroupBy

from slackwater.aggregates.aggregate import AggregateFunction
from slackwater.aggregates.kept import Kept
from slackwater.aggregates.partial import Partial
from slackwater.columns import NO_SOURCE, ROWS, TIME
from slackwater.errors import RunError
from slackwater.windows.spec import WindowSpec, floor_division

#: Before a kept column, where a journal names what its tables have.
_KEPT = "kept "


def source_text(source: pl.Expr) -> pl.Expr:
    """A source as text; rows that name none are together one source."""
    return source.cast(pl.String).fill_null(NO_SOURCE)


@dataclass(frozen=True)
class Group:
    """A group column: its name and the Spark SQL that gives it."""

    name: str
    sql: str


class Kernel:
    """What all kernels share: groups, aggregates, and the columns of the partials that these are made of."""

    groups: tuple[Group, ...]
    aggregates: tuple[AggregateFunction, ...]
    source: str | None

    @cached_property
    def source_of(self) -> pl.Expr:
        """The source of a row with group columns, as the text that heartbeats name it by."""
        return pl.lit(None, pl.String) if self.source is None else source_text(pl.col(self.source))

    @property
    def source_sql(self) -> str:
        """The same as Spark SQL."""
        return f"coalesce(CAST(`{self.source}` AS STRING), '{NO_SOURCE}')"

    @cached_property
    def columns(self) -> dict[Partial, tuple[str, ...]]:
        """Every distinct partial with the names of its columns."""
        wanted = dict.fromkeys(p for a in self.aggregates for p in a.partials())
        return {p: tuple(f"__p{i}{f}" for f in p.fields) for i, p in enumerate(wanted)}

    @cached_property
    def kept(self) -> dict[str, str]:
        """What aggregates keep of a row, as Spark SQL, with the name of its column."""
        wanted = dict.fromkeys(sql for a in self.closed for sql in a.columns)
        return {sql: f"__k{n}" for n, sql in enumerate(wanted)}

    def kept_of(self, aggregate: Kept) -> list[str]:
        """The columns of what one aggregate keeps."""
        return [self.kept[sql] for sql in aggregate.columns]

    @cached_property
    def closed(self) -> dict[Kept, str]:
        """The aggregates that are computed at the close, with the names of their columns then."""
        kept = dict.fromkeys(a for a in self.aggregates if isinstance(a, Kept))
        return {a: f"__v{n}" for n, a in enumerate(kept)}

    def saved_columns(self) -> list[list[str]]:
        """The tables of a journal: partials and kept columns, each with the names of its columns."""
        partials = [[repr(partial), *names] for partial, names in self.columns.items()]
        return partials + [[f"{_KEPT}{sql}", name] for sql, name in self.kept.items()]

    def adopt(self, table: pa.Table, saved: Sequence[Sequence[str]]) -> pa.Table:
        """A table of a journal with the columns of these partials: nulls for those that it has not got."""
        if [n for n in saved if n[0].startswith(_KEPT)] != [[f"{_KEPT}{s}", n] for s, n in self.kept.items()]:
            raise RunError(
                "its windows keep rows: aggregates that need rows can neither begin nor end in open windows"
            )
        had = {partial: names for partial, *names in saved if not partial.startswith(_KEPT)}
        gone = {name for names in had.values() for name in names}
        columns = {name: table[name] for name in table.column_names if name not in gone}
        for partial, names in self.columns.items():
            old = had.get(repr(partial))
            if old is None and not partial.fixed_size:  # it is a struct or a sketch: a null has not its type
                raise RunError(f"an aggregate of {partial.argument} of this kind cannot begin in open windows")
            for n, name in enumerate(names):
                columns[name] = pa.nulls(table.num_rows) if old is None else table[old[n]]
        return pa.table(columns)

    @property
    def keys(self) -> list[str]:
        """Names of the group columns."""
        return [g.name for g in self.groups]

    def values(self, merged: pl.DataFrame) -> pl.DataFrame:
        """The aggregates' values over merged partials, beside all columns that are not partials."""
        hidden = {n for names in self.columns.values() for n in names} | {*self.closed.values()}
        keep = [c for c in merged.columns if c not in hidden]
        return merged.select(*keep, *(a.value(*self._fields(a)).alias(a.name) for a in self.aggregates))

    def _fields(self, aggregate: AggregateFunction) -> list[str]:
        if isinstance(aggregate, Kept):
            return [self.closed[aggregate]]
        return [n for p in aggregate.partials() for n in self.columns[p]]


@dataclass(frozen=True)
class PaneKernel(Kernel):
    """Folds rows into (pane, group) partials and merges partials; equal partials are kept once."""

    spec: WindowSpec
    groups: tuple[Group, ...]
    aggregates: tuple[AggregateFunction, ...]
    source: str | None = None
    """The group column that holds the stream's source, if one does: its groups close on their own heartbeats."""

    @cached_property
    def panes(self) -> PaneKernel:
        """What pages are folded by: distinct kept rows are groups of their own until the close."""
        if not self.closed:
            return self
        kept = (Group(name, sql) for sql, name in self.kept.items())
        folded = tuple(a for a in self.aggregates if not isinstance(a, Kept))
        return PaneKernel(self.spec, (*self.groups, *kept), folded, self.source)

    def pane_sql(self) -> str:
        """The pane of a row."""
        since = f"({TIME} - {self.spec.offset}L)" if self.spec.offset else TIME
        return floor_division(since, self.spec.pane)

    def make_sql(self, kept: str | None = None) -> dict[str, str]:
        """Spark SQL of all partials, by column; over the kept rows only, if a column says which these are."""
        made = {ROWS: "count(*)" if kept is None else f"count_if({kept})"}
        for partial, names in self.columns.items():
            made.update(zip(names, partial.make_sql(kept), strict=True))
        return made

    def merge_sql(self) -> dict[str, str]:
        """Spark SQL that merges partials, by column."""
        merged = {ROWS: f"sum({ROWS})"}
        for partial, names in self.columns.items():
            merged.update(zip(names, partial.merge_sql(*names), strict=True))
        return merged

    def value_sql(self) -> dict[str, str]:
        """Spark SQL of the results over merged partials, by output name."""
        return {a.name: a.value_sql(*self._fields(a)) for a in self.aggregates}

    def merge(self, grouped: GroupBy | DynamicGroupBy) -> pl.DataFrame:
        """Merge the partials of each group."""
        exprs, after = [pl.col(ROWS).sum()], []
        for partial, names in self.columns.items():
            exprs += [e.alias(n) for n, e in zip(names, partial.merge(*names), strict=True)]
            united = partial.unite(*names)
            if united is not None:
                after += [e.alias(n) for n, e in zip(names, united, strict=True)]
        merged = grouped.agg(exprs)
        return merged.with_columns(after) if after else merged
