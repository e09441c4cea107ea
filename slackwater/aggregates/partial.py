"""What a mergeable partial aggregate of a pane can do (S5 section 2.3): Spark makes it, the driver merges it.

Each kind says how Spark SQL makes it of rows (`make_sql`), and how partials are merged in polars (`merge`) and in
Spark SQL (`merge_sql`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

#: Applies an expression within segments of equal groups and blocks.
Within = Callable[[pl.Expr], pl.Expr]
#: The fields of a partial, as columns, and their types.
Exprs = Sequence[pl.Expr]
Kinds = Sequence[pl.DataType]
#: The fields of a merged partial.
Merged = tuple[pl.Expr, ...]


@dataclass(frozen=True)
class Partial(ABC):
    """One kind of partial over one argument; equal ones are computed once for all aggregates of a query."""

    argument: str

    #: Suffixes of the columns that hold it.
    fields: tuple[str, ...] = ("",)

    #: Whether Spark keeps it in a buffer of fixed size: only such ones leave it its fast hash table.
    fixed_size: ClassVar[bool] = False

    @abstractmethod
    def make_sql(self, kept: str | None = None) -> tuple[str, ...]:
        """Spark SQL aggregate expressions over rows, one a field; over those only that are `kept`, if it is given.

        A row that a filter has dropped still moves time, so it is in the job and must count for nothing here.
        """

    @abstractmethod
    def merge(self, *columns: str) -> tuple[pl.Expr, ...]:
        """Polars aggregates over the fields of many partials; for sketches, lists that `unite` joins."""

    @abstractmethod
    def merge_sql(self, *columns: str) -> tuple[str, ...]:
        """The same merge as Spark SQL."""

    def unite(self, *columns: str) -> tuple[pl.Expr, ...] | None:
        """A step after `merge`, where polars alone cannot do it (sketches)."""
        return None

    @property
    def row_sql(self) -> str:
        """Spark SQL of what a row brings along for it: one column."""
        return self.argument


class PairedPartial(Partial):
    """A partial that windows for each row can have, too: cheap to make of one row and to merge with another one.

    Nothing is ever subtracted, so floats are as good as in a merge from scratch.
    """

    @abstractmethod
    def lift(self, argument: pl.Expr, kind: pl.DataType) -> tuple[pl.Expr, ...]:
        """The partial of each single row, given its `row_sql` and the type of that; one expression a field."""

    @abstractmethod
    def pair(self, old: Exprs, new: Exprs, kinds: Kinds, by_value: bool) -> Merged:
        """Two partials side by side merged; nulls have nothing to give.

        Of simultaneous first (or last) values the smaller (larger) is taken, if they go `by_value`.
        """


class RunningPartial(PairedPartial):
    """A partial that polars can merge from row to row: then the block method needs no pairs."""

    @abstractmethod
    def running(self, fields: Exprs, kinds: Kinds, within: Within, reverse: bool) -> Merged:
        """Each row's partial merged with all before it in its segment.

        With `reverse` the rows lie in the reverse order of time.
        """


def given(sql: str, kept: str | None) -> str:
    """Spark SQL of an argument that is null for rows which are not kept."""
    return sql if kept is None else f"CASE WHEN {kept} THEN {'1' if sql == '*' else sql} END"
