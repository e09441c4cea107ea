"""A query as it was written: logical nodes that the fluent API, SQL and tests build alike.

They hold the user's words. `analyse` checks them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.errors import QueryError
from slackwater.plan.step import Function
from slackwater.progress.disorder import Disorder
from slackwater.progress.time import Span

#: The range of a window of a single instant, for every kind of time.
NOW = "now"
#: The range of no window at all: totals since the beginning.
UNBOUNDED = "unbounded"
#: Windows without rows have no answer.
NO_FILL = "none"
#: A column: its name, None if the expression gives one, and its Spark SQL.
Column = tuple[str | None, str]


class Logical:
    """What every kind of logical node answers. Kinds compare by value."""

    if TYPE_CHECKING:

        @property
        def inputs(self) -> tuple[Logical, ...]: ...

    def written_names(self) -> list[str] | None:
        """The names that the user has given the columns, in small letters; None for a star or a function."""
        return None

    def limited(self, limit: int) -> Sort:
        """The first results of each window, by their columns or by the order that they are in."""
        return Sort((self,), (), limit)


@dataclass(frozen=True)
class Scan(Logical):
    """The rows of a declared stream."""

    stream: str

    @property
    def inputs(self) -> tuple[Logical, ...]:
        """None."""
        return ()


@dataclass(frozen=True)
class Where(Logical):
    """The rows that meet a condition."""

    inputs: tuple[Logical, ...]
    condition: str

    def written_names(self) -> list[str] | None:
        """Those of the rows."""
        return self.inputs[0].written_names()


@dataclass(frozen=True)
class Select(Logical):
    """The rows with other columns; `*` stands for all there are."""

    inputs: tuple[Logical, ...]
    columns: tuple[Column, ...]

    def written_names(self) -> list[str] | None:
        """Those of the columns."""
        names = _names(self.columns)
        return None if "*" in names else names


@dataclass(frozen=True)
class Sort(Logical):
    """The results of each window in order, or the first of them; see `Query.order_by`."""

    inputs: tuple[Logical, ...]
    order: tuple[str, ...]
    """Spark SQL each, perhaps with ASC, DESC, NULLS FIRST or NULLS LAST."""
    limit: int | None = None
    """How many results of each window are kept."""

    def limited(self, limit: int) -> Sort:
        """The first in this order."""
        return replace(self, limit=limit) if self.limit is None else super().limited(limit)

    def written_names(self) -> list[str] | None:
        """Those of the results."""
        return self.inputs[0].written_names()


@dataclass(frozen=True, eq=False)
class Map(Logical):
    """What a Python function makes of each row."""

    inputs: tuple[Logical, ...]
    function: Function
    schema: str | pa.Schema
    """The columns that it gives."""


@dataclass(frozen=True)
class DropDuplicates(Logical):
    """The rows without duplicates; see `Query.drop_duplicates`."""

    inputs: tuple[Logical, ...]
    keys: tuple[str, ...]
    """Names of columns; none stands for all."""
    within: Span

    def written_names(self) -> list[str] | None:
        """Those of the rows."""
        return self.inputs[0].written_names()


@dataclass(frozen=True)
class Union(Logical):
    """The rows of two inputs or more, columns by name."""

    inputs: tuple[Logical, ...]
    ordered: bool = False
    """Whether rows go on in the order of time (S3's union)."""

    def written_names(self) -> list[str] | None:
        """Those of the first input."""
        return self.inputs[0].written_names()


@dataclass(frozen=True)
class Window:
    """How rows are cut into windows; see `Query.window`."""

    range: Span | None = None
    slide: Span | None = None
    offset: Span | None = None
    rows: int | None = None
    wattr: str | None = None
    disorder: Disorder | None = None
    gap: Span | None = None
    """Of sessions: instead of all lengths."""
    step: Span | None = None
    """Of windows that grow to their range: by how much, instead of a slide."""
    fill: int | str | None = NO_FILL
    """The answers of windows in which a known group had no row; see `Query.window`."""
    forget: Span | None = None
    """For how long after its last row a group is known, by `fill` or by totals."""


@dataclass(frozen=True)
class InWindows(Logical):
    """The rows, each once in each of its windows, with `window_start` and `window_end`."""

    inputs: tuple[Logical, ...]
    window: Window


@dataclass(frozen=True)
class Aggregate(Logical):
    """The groups of each window, and what is computed of each."""

    inputs: tuple[Logical, ...]
    window: Window
    groups: tuple[Column, ...]
    aggregates: tuple[tuple[str, Any], ...]
    """Names and Spark SQL: an aggregate, or an expression over aggregates."""
    sets: tuple[tuple[int, ...], ...] | None = None
    """The grouping sets, each as places of its groups; None: one set of all groups."""

    def written_names(self) -> list[str] | None:
        """Those of the groups, then those of the aggregates."""
        return _names((*self.groups, *self.aggregates))


@dataclass(frozen=True)
class Join(Logical):
    """The pairs of rows of two inputs that meet within their windows; see `Query.join`."""

    inputs: tuple[Logical, ...]
    windows: tuple[Window | None, Window | None]
    """For how long rows of a side find partners. Windows with a slide or a step pair rows of the same one."""
    on: str | tuple[str, ...] | None
    """A condition over the columns of both sides, or columns that both have; None for every pair."""
    how: str = "inner"
    within: tuple[Span, Span] | None = None
    """Instead of windows: how far the right row may be before and after the left one, both ends included."""


@dataclass(frozen=True)
class JoinAsof(Logical):
    """Each row of the first input with the row of the second that is valid at its time; see `Query.join_asof`."""

    inputs: tuple[Logical, ...]
    on: str | tuple[str, ...] | None
    """Columns of both, or a condition of equalities, which may compare the times of both too."""
    how: str = "left"
    within: Span | None = None
    """How far apart both rows may be, the end included."""
    direction: str = "backward"
    at: str | None = None
    """The time that SQL's FOR SYSTEM_TIME AS OF names."""


@dataclass(frozen=True)
class JoinStored(Logical):
    """The rows together with those of a stored relation."""

    inputs: tuple[Logical, ...]
    table: str
    """Name of the relation."""
    on: str | tuple[str, ...] | None
    how: str = "inner"
    columns: tuple[Column, ...] = ()
    """The columns of the relation that take part, with their names here; all of them if this is empty."""


def _names(columns: Iterable[Column]) -> list[str]:
    given = [[text] if name is None else name.strip("()").split(",") for name, text in columns]
    return [name.strip(" `").lower() for names in given for name in names]


def checked(query: Logical) -> Logical:
    """The node, or an error that names a setting that is a list or another thing that changes."""
    try:
        hash(query)
    except TypeError:
        for setting in fields(query):  # type: ignore[arg-type]
            value = getattr(query, setting.name)
            try:
                hash(value)
            except TypeError:
                raise QueryError(f"{setting.name}={value!r} is no text and no number; write one") from None
        raise
    return query
